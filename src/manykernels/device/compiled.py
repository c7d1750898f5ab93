"""CUDA kernels that stand beside the plain code, compiled when first needed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

import torch
from torch.utils import cpp_extension

logger = logging.getLogger(__name__)


@contextmanager
def _no_tools_needed() -> Iterator[None]:
    """PyTorch asks where CUDA's headers are, which sources without any do not need."""
    home, cpp_extension.CUDA_HOME = cpp_extension.CUDA_HOME, "/"
    try:
        yield
    finally:
        cpp_extension.CUDA_HOME = home


@cache
def cuda_kernel(file: str, name: str, place: Any, **constants: int) -> Any | None:
    """A kernel of one of the files in this folder; None where it cannot be compiled.

    PyTorch brings NVIDIA's run-time compiler along: no other tools are needed.
    """
    compile_kernel = getattr(torch.cuda, "_compile_kernel", None)
    if compile_kernel is None or torch.version.hip:
        return None
    source = (files("manykernels.device") / file).read_text()
    lines = [f"#define {key} {value}" for key, value in constants.items()]
    try:
        with torch.cuda.device(place), _no_tools_needed():
            return compile_kernel("\n".join([*lines, source]), name)
    except (OSError, RuntimeError) as error:
        logger.info(
            "%s is not compiled here (%s): plain code runs instead", name, error
        )
        return None
