"""manykernels: learn which kernels to trust."""
