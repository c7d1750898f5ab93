"""Approximate kernels: explicit features of few columns, and what they rest on."""
