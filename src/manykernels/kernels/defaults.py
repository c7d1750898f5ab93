"""Kernels when none are given, and every accepted way to give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from manykernels.kernels.base import (
    Kernel,
    require_approximation,
    require_rank,
)
from manykernels.kernels.functions import RBF, Linear, Polynomial
from manykernels.kernels.grammar import parse_kernel
from manykernels.kernels.outside import Custom


def default_kernels() -> list[Kernel]:
    """A multi-scale set: linear, quadratic, and Gaussians at 0.1, 1, 10 times scale.

    >>> [kernel.label for kernel in default_kernels()][:2]
    ['linear', 'polynomial(degree=2, gamma=scale)']
    """
    return [
        Linear(),
        Polynomial(2, gamma="scale"),
        RBF("0.1*scale"),
        RBF("scale"),
        RBF("10*scale"),
    ]


def as_kernels(spec: Any = None) -> list[Kernel]:
    """A list of kernels from any accepted description.

    Parameters
    ----------
    spec : None, Kernel, str, callable or sequence of these
        None for :func:`default_kernels`; a string holds one kernel or several
        separated by ";" (see :func:`parse_kernel`); a callable k(X, Y) is wrapped in
        Custom; "precomputed" stands for every matrix of a given stack.

    Examples
    --------
    >>> as_kernels("linear; rbf:gamma=0.5@0-13")[0]
    Linear()
    >>> as_kernels("precomputed")
    [Precomputed()]
    """
    if spec is None:
        return default_kernels()
    if isinstance(spec, Sequence) and not isinstance(spec, str):
        kernels = [kernel for item in spec for kernel in _one_or_more(item)]
    else:
        kernels = _one_or_more(spec)
    if not kernels:
        raise ValueError(
            "expected at least one kernel, got an empty list; name one, or pass None "
            "for the default kernels."
        )
    return kernels


def approximate_kernels(
    kernels: Sequence[Kernel], approximate: Any, rank: int | None = None
) -> list[Kernel]:
    """Every kernel approximated, where it has no approximation or features of its own.

    Parameters
    ----------
    kernels : sequence of Kernel
    approximate : {"nystroem", "random_features", None}
    rank : int, optional

    Examples
    --------
    >>> approximate_kernels([Linear(), RBF(0.5)], "nystroem", 100)
    [Linear(), RBF(gamma=0.5, approximate='nystroem', rank=100)]
    """
    require_approximation(approximate, "all kernels")
    require_rank(rank, "all kernels")
    if approximate is None:
        return list(kernels)
    return [
        kernel
        if kernel.has_features
        else replace(kernel, approximate=approximate, rank=rank)
        for kernel in kernels
    ]


def _one_or_more(item: Any) -> list[Kernel]:
    if isinstance(item, Kernel):
        return [item]
    if isinstance(item, str):
        return [parse_kernel(text) for text in item.split(";") if text.strip()]
    if isinstance(item, type) and issubclass(item, Kernel):
        raise TypeError(
            f"expected a kernel, got the class {item.__name__}; write "
            f"{item.__name__}() with brackets."
        )
    if callable(item):
        return [Custom(item)]
    raise TypeError(
        f"expected a kernel, a string or a callable, got {item!r}; see "
        f"manykernels.kernels for what there is."
    )
