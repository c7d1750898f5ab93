r"""Regularizers made of terms, by the names of the literature.

:math:`\Omega(w) = \sum_j \Omega_j(w)`, see :mod:`manykernels.norms.terms`. The online
proximal method applies the terms' proximity operators one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np

from manykernels.norms.terms import Term


class Regularizer(Protocol):
    """Anything that is a sum of terms.

    Examples
    --------
    >>> def value(regularizer: Regularizer, norms: list[float]) -> float:
    ...     return sum(term.value(np.array(norms)) for term in regularizer.terms())
    >>> value(GroupLasso(), [3.0, 4.0]), value(SquaredL2(), [3.0, 4.0])
    (7.0, 12.5)
    """

    def terms(self) -> tuple[Term, ...]:
        """The terms, in the order in which their proximal steps are taken."""


@dataclass(frozen=True)
class SquaredL2:
    r""":math:`\frac12 \sum_f \|w_f\|^2`: all blocks alike, as in a plain SVM.

    Examples
    --------
    >>> from manykernels.norms.terms import regularizer_value
    >>> regularizer_value(SquaredL2().terms(), np.array([3.0, 4.0]))
    12.5
    """

    def terms(self) -> tuple[Term, ...]:
        """One term."""
        return (Term("squared_l2"),)


@dataclass(frozen=True)
class GroupLasso:
    r""":math:`\sum_f \|w_f\|`: blocks below a threshold vanish.

    Examples
    --------
    >>> from manykernels.norms.terms import regularizer_value
    >>> regularizer_value(GroupLasso().terms(), np.array([3.0, 4.0]))
    7.0
    """

    def terms(self) -> tuple[Term, ...]:
        """One term."""
        return (Term("group_lasso"),)


@dataclass(frozen=True)
class SparseMKL:
    r""":math:`\frac12 (\sum_f \|w_f\|)^2`: few of many kernels.

    Examples
    --------
    >>> from manykernels.norms.terms import regularizer_value
    >>> regularizer_value(SparseMKL().terms(), np.array([3.0, 4.0]))
    24.5
    """

    def terms(self) -> tuple[Term, ...]:
        """One term."""
        return (Term("sparse_mkl"),)


@dataclass(frozen=True)
class SquaredPNorm:
    r""":math:`\frac12 \|w\|_{2,p}^2`, between sparse MKL (1) and squared l2 (2).

    Examples
    --------
    >>> from manykernels.norms.terms import regularizer_value
    >>> norms = np.array([3.0, 4.0])
    >>> [regularizer_value(SquaredPNorm(p).terms(), norms) for p in (1.0, 2.0)]
    [24.5, 12.5]
    """

    p: float = 1.1

    def __post_init__(self) -> None:
        _require("p", self.p, 1.0, 2.0)

    def terms(self) -> tuple[Term, ...]:
        """One term."""
        return (Term("squared_p", exponent=self.p),)


@dataclass(frozen=True)
class PowerNorm:
    r""":math:`\sum_f \|w_f\|^q` for any q >= 1: non-sparse MKL, block by block.

    Examples
    --------
    >>> from manykernels.norms.terms import regularizer_value
    >>> regularizer_value(PowerNorm(2.0).terms(), np.array([3.0, 4.0]))
    25.0
    """

    q: float = 1.5

    def __post_init__(self) -> None:
        _require("q", self.q, 1.0, np.inf)

    def terms(self) -> tuple[Term, ...]:
        """One term."""
        return (Term("power", exponent=self.q),)


@dataclass(frozen=True)
class ElasticNetMKL:
    r""":math:`\frac\sigma2 \sum_f \|w_f\|^2 + \frac{1-\sigma}2 (\sum_f \|w_f\|)^2`.

    Examples
    --------
    >>> from manykernels.norms.terms import regularizer_value
    >>> regularizer_value(ElasticNetMKL(0.5).terms(), np.array([3.0, 4.0]))
    18.5
    """

    sigma: float = 0.5

    def __post_init__(self) -> None:
        _require("sigma", self.sigma, 0.0, 1.0)

    def terms(self) -> tuple[Term, ...]:
        """One term: the exact operator of the sum costs no more than its parts."""
        return (Term("elastic_net", exponent=self.sigma),)


@dataclass(frozen=True)
class SparseGroupLasso:
    r""":math:`\sigma \sum_f \|w_f\| + (1 - \sigma) \sum |w|`; explicit features only.

    Entries first, then blocks: in this order the two steps are the operator of the sum.

    Examples
    --------
    >>> from manykernels.norms.terms import regularizer_value
    >>> norms, sums = np.array([5.0, 0.0]), np.array([7.0, 0.0])  # l2 and l1 of blocks
    >>> regularizer_value(SparseGroupLasso(0.5).terms(), norms, sums)
    6.0
    """

    sigma: float = 0.5

    def __post_init__(self) -> None:
        _require("sigma", self.sigma, 0.0, 1.0)

    def terms(self) -> tuple[Term, ...]:
        """Entries, then blocks."""
        return (
            Term("entries", 1.0 - self.sigma),
            Term("group_lasso", self.sigma),
        )


@dataclass(frozen=True)
class OverlappingGroups:
    r""":math:`\sum_G c_G \|w_G\|` over sets of blocks that may share members.

    The proximal steps are taken set by set. Where the sets form a hierarchy (any two
    are nested or disjoint), smaller sets come first, and the steps together are the
    operator of the sum.

    Parameters
    ----------
    groups : sequence of sequences of int
        Positions of blocks.
    weights : sequence of float, optional
        One factor per set; 1 if not given.

    Examples
    --------
    >>> tree = OverlappingGroups([(0, 1, 2), (2,)])
    >>> tree.is_hierarchy, [term.blocks for term in tree.terms()]
    (True, [(2,), (0, 1, 2)])
    """

    groups: Sequence[Sequence[int]]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if not self.groups or not all(len(group) for group in self.groups):
            raise ValueError(
                "groups must be a non-empty list of non-empty lists of block positions,"
                f" got {self.groups!r}; name the blocks of every group."
            )
        if self.weights is not None and len(self.weights) != len(self.groups):
            raise ValueError(
                f"weights must have one number per group, got {len(self.weights)} for "
                f"{len(self.groups)} groups; leave them out for ones."
            )

    @property
    def is_hierarchy(self) -> bool:
        """Whether any two groups are nested or disjoint."""
        sets = [set(group) for group in self.groups]
        return all(a <= b or b <= a or not a & b for a, b in combinations(sets, 2))

    def terms(self) -> tuple[Term, ...]:
        """One term per group, small groups first."""
        weights = [1.0] * len(self.groups) if self.weights is None else self.weights
        made = [
            Term("joint", float(weight), blocks=tuple(int(f) for f in group))
            for group, weight in zip(self.groups, weights, strict=True)
        ]
        return tuple(sorted(made, key=lambda term: len(term.blocks or ())))


@dataclass(frozen=True)
class SumOf:
    """The sum of several regularizers, each with a factor.

    Examples
    --------
    >>> both = SumOf([GroupLasso(), SquaredL2()], [0.5, 2.0])
    >>> [(term.kind, term.weight) for term in both.terms()]
    [('group_lasso', 0.5), ('squared_l2', 2.0)]
    """

    parts: Sequence[Regularizer]
    factors: Sequence[float] | None = None

    def terms(self) -> tuple[Term, ...]:
        """All terms in order."""
        factors = [1.0] * len(self.parts) if self.factors is None else self.factors
        return tuple(
            Term(term.kind, factor * term.weight, term.exponent, term.blocks)
            for part, factor in zip(self.parts, factors, strict=True)
            for term in part.terms()
        )


# Regularizers with their default settings, by the names that estimators take.
REGULARIZERS: dict[str, type[Regularizer]] = {
    "sparse_mkl": SparseMKL,
    "group_lasso": GroupLasso,
    "squared_l2": SquaredL2,
    "elastic_net": ElasticNetMKL,
    "squared_p": SquaredPNorm,
    "power": PowerNorm,
    "sparse_group_lasso": SparseGroupLasso,
}


def named_regularizer(choice: str | Regularizer) -> Regularizer:
    """A regularizer by its name, with its default settings, or as it is.

    Examples
    --------
    >>> named_regularizer("elastic_net")
    ElasticNetMKL(sigma=0.5)
    """
    return REGULARIZERS[choice]() if isinstance(choice, str) else choice


def _require(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high or not np.isfinite(value):
        ends = f"between {low:g} and {high:g}" if np.isfinite(high) else f">= {low:g}"
        raise ValueError(
            f"{name} must be a number {ends}, got {value!r}; choose one in that range."
        )
