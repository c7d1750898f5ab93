"""What pytest collects in the whole project."""

from importlib.util import find_spec

# Modules that need PyTorch have their examples run by `make test-torch`.
NEED_TORCH = ("cuda", "torch_device")
collect_ignore = [
    f"src/manykernels/device/{name}.py"
    for name in NEED_TORCH
    if find_spec("torch") is None or find_spec("array_api_compat") is None
]
