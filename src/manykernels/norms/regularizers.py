r"""Regularizers made of terms, each with a value and a proximity operator.

:math:`\Omega(w) = \sum_j \Omega_j(w)`, where a term sees the norms of some blocks (or,
for sparse group lasso, the entries of explicit blocks). The online proximal method
applies the terms' proximity operators one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.hot.prox import KINDS, TermCodes
from manykernels.norms.group import p_norm
from manykernels.norms.prox import (
    prox_elastic_net,
    prox_entries,
    prox_group_lasso,
    prox_joint,
    prox_power,
    prox_sparse_mkl,
    prox_squared_l2,
    prox_squared_p,
)


@dataclass(frozen=True)
class Term:
    """weight * kind(norms of `blocks`); all blocks if None.

    Examples
    --------
    >>> Term("group_lasso", 2.0).value(np.array([3.0, 4.0]))
    14.0
    >>> Term("joint", 1.0, blocks=(0,)).prox(np.array([3.0, 4.0]), 1.0).tolist()
    [2.0, 4.0]
    """

    kind: str
    weight: float = 1.0
    exponent: float = 0.0  # q of "power", p of "squared_p", the share of "elastic_net"
    blocks: tuple[int, ...] | None = None

    def members(self, n_blocks: int) -> NDArray[np.bool_]:
        """Mask of the blocks that the term speaks of."""
        mask = np.zeros(n_blocks, dtype=np.bool_)
        mask[slice(None) if self.blocks is None else list(self.blocks)] = True
        return mask

    def value(self, block_norms: Array, entry_norms: Array | None = None) -> float:
        """The term from the blocks' l2 norms (and l1 norms, for "entries")."""
        inside = self.members(len(block_norms))
        if self.kind == "entries":
            if entry_norms is None:
                raise ValueError(_no_entries(self))
            return self.weight * float(entry_norms[inside].sum())
        return self.weight * self._value(block_norms[inside])

    def prox(self, block_norms: Array, step: float) -> Array:
        """argmin over a of 1/2 ||a - block_norms||^2 + step * value(a)."""
        inside = self.members(len(block_norms))
        result = block_norms.copy()
        result[inside] = self._prox(block_norms[inside], step * self.weight)
        return result

    def slopes(self, block_norms: Array) -> Array:
        """d value / d (norm_f^2 / 2), infinite where the norm is zero and matters.

        Zero for blocks that the term does not speak of, and for "entries", which is no
        function of block norms.
        """
        inside = self.members(len(block_norms))
        slopes = np.zeros(len(block_norms))
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes[inside] = self.weight * self._slopes(block_norms[inside])
        return slopes

    @property
    def strong_convexity(self) -> float:
        """The largest sigma for which value - sigma / 2 ||w||^2 is known to be convex.

        Of the blocks it speaks of; 0 if the term is not strongly convex.
        """
        known = {
            "squared_l2": 1.0,
            "squared_p": self.exponent - 1.0,
            "elastic_net": self.exponent,
            "power": 2.0 * (self.exponent == 2.0),
        }
        return self.weight * known.get(self.kind, 0.0)

    def _slopes(self, norms: Array) -> Array:
        if self.kind == "entries":
            return np.zeros(len(norms))
        if self.kind == "squared_l2":
            return np.ones(len(norms))
        if self.kind == "joint":
            return np.full(len(norms), 1.0 / np.linalg.norm(norms))
        if self.kind == "group_lasso":
            return np.asarray(1.0 / norms)
        if self.kind == "power":
            return np.asarray(self.exponent * norms ** (self.exponent - 2.0))
        if self.kind == "squared_p":
            p = self.exponent
            return np.asarray(p_norm(norms, p) ** (2.0 - p) * norms ** (p - 2.0))
        share = self.exponent if self.kind == "elastic_net" else 0.0
        return np.asarray(share + (1.0 - share) * norms.sum() / norms)

    def _value(self, norms: Array) -> float:
        if self.kind == "group_lasso":
            return float(norms.sum())
        if self.kind == "power":
            return float(np.sum(norms**self.exponent))
        if self.kind == "joint":
            return float(np.linalg.norm(norms))
        spread = 0.5 * float(norms @ norms)
        if self.kind == "squared_l2":
            return spread
        if self.kind == "squared_p":
            return 0.5 * p_norm(norms, self.exponent) ** 2
        share = self.exponent if self.kind == "elastic_net" else 0.0
        return share * spread + (1.0 - share) * 0.5 * float(norms.sum()) ** 2

    def _prox(self, norms: Array, step: float) -> Array:
        if self.kind == "group_lasso":
            return prox_group_lasso(norms, step)
        if self.kind == "sparse_mkl":
            return prox_sparse_mkl(norms, step)
        if self.kind == "squared_l2":
            return prox_squared_l2(norms, step)
        if self.kind == "power":
            return prox_power(norms, step, self.exponent)
        if self.kind == "joint":
            return prox_joint(norms, step)
        if self.kind == "squared_p":
            return prox_squared_p(norms, step, self.exponent)
        if self.kind == "elastic_net":
            return prox_elastic_net(norms, step, self.exponent)
        raise ValueError(_no_entries(self))


class Regularizer(Protocol):
    """Anything that is a sum of terms."""

    def terms(self) -> tuple[Term, ...]:
        """The terms, in the order in which their proximal steps are taken."""


@dataclass(frozen=True)
class SquaredL2:
    r""":math:`\frac12 \sum_f \|w_f\|^2`: all blocks alike, as in a plain SVM."""

    def terms(self) -> tuple[Term, ...]:
        """One term."""
        return (Term("squared_l2"),)


@dataclass(frozen=True)
class GroupLasso:
    r""":math:`\sum_f \|w_f\|`: blocks below a threshold vanish."""

    def terms(self) -> tuple[Term, ...]:
        """One term."""
        return (Term("group_lasso"),)


@dataclass(frozen=True)
class SparseMKL:
    r""":math:`\frac12 (\sum_f \|w_f\|)^2`: few of many kernels."""

    def terms(self) -> tuple[Term, ...]:
        """One term."""
        return (Term("sparse_mkl"),)


@dataclass(frozen=True)
class SquaredPNorm:
    r""":math:`\frac12 \|w\|_{2,p}^2`, between sparse MKL (1) and squared l2 (2)."""

    p: float = 1.1

    def __post_init__(self) -> None:
        _require("p", self.p, 1.0, 2.0)

    def terms(self) -> tuple[Term, ...]:
        """One term."""
        return (Term("squared_p", exponent=self.p),)


@dataclass(frozen=True)
class PowerNorm:
    r""":math:`\sum_f \|w_f\|^q` for any q >= 1: non-sparse MKL, block by block."""

    q: float = 1.5

    def __post_init__(self) -> None:
        _require("q", self.q, 1.0, np.inf)

    def terms(self) -> tuple[Term, ...]:
        """One term."""
        return (Term("power", exponent=self.q),)


@dataclass(frozen=True)
class ElasticNetMKL:
    r""":math:`\frac\sigma2 \sum_f \|w_f\|^2 + \frac{1-\sigma}2 (\sum_f \|w_f\|)^2`."""

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


def term_codes(terms: Sequence[Term], n_blocks: int) -> TermCodes:
    """Terms as arrays for compiled loops.

    Examples
    --------
    >>> term_codes(SparseMKL().terms(), 2).members.tolist()
    [[True, True]]
    """
    members = np.zeros((len(terms), n_blocks), np.bool_)
    for j, term in enumerate(terms):
        members[j] = term.members(n_blocks)
    return TermCodes(
        np.array([KINDS.index(term.kind) for term in terms], np.int64),
        np.array([term.weight for term in terms], np.float64),
        np.array([term.exponent for term in terms], np.float64),
        members,
    )


def regularizer_value(
    terms: Sequence[Term], block_norms: Array, entry_norms: Array | None = None
) -> float:
    """The sum of the terms.

    Examples
    --------
    >>> regularizer_value(SparseMKL().terms(), np.array([3.0, 1.0]))
    8.0
    """
    return float(sum(term.value(block_norms, entry_norms) for term in terms))


def kernel_weights(terms: Sequence[Term], block_norms: Array) -> Array:
    r"""beta_f such that w also solves the plain problem of the kernel sum_f beta_f K_f.

    :math:`\beta_f = 1 / \frac{d\Omega}{d(\|w_f\|^2 / 2)}`. For a q-norm this is
    :math:`\|w_f\|^{2-q}` times a number that all blocks share: the norm itself for
    sparse MKL, ones for squared l2. Where the terms leave a block without a penalty,
    no such kernel exists, and the norms are returned.

    Examples
    --------
    >>> kernel_weights(SparseMKL().terms(), np.array([3.0, 1.0, 0.0])).tolist()
    [0.75, 0.25, 0.0]
    >>> kernel_weights(SquaredL2().terms(), np.array([3.0, 1.0, 0.0])).tolist()
    [1.0, 1.0, 1.0]
    """
    if not np.any(block_norms):
        return np.zeros(len(block_norms))
    slopes = np.sum([term.slopes(block_norms) for term in terms], axis=0)
    if np.any((slopes == 0.0) & (block_norms > 0.0)):
        return block_norms
    defined = slopes > 0.0  # neither 0 nor 0 / 0, which only blocks at zero have
    found: Array = np.divide(1.0, slopes, out=np.zeros(len(slopes)), where=defined)
    return found


def strong_convexity(terms: Sequence[Term], n_blocks: int) -> float:
    """The largest known sigma for which the sum of the terms is strongly convex; or 0.

    Examples
    --------
    >>> strong_convexity(SparseMKL().terms(), 2), strong_convexity(
    ...     ElasticNetMKL(0.25).terms(), 2
    ... )
    (0.0, 0.25)
    """
    total = sum(t.strong_convexity * t.members(n_blocks) for t in terms)
    return float(np.min(np.zeros(n_blocks) + total))


def successive_prox(
    terms: Sequence[Term], blocks: Sequence[Array], step: float
) -> list[Array]:
    """The terms' proximal steps on explicit blocks, one after the other.

    This is what compiled loops do with scales and caches, written plainly.

    Examples
    --------
    >>> blocks = [np.array([3.0, 4.0]), np.array([0.5])]
    >>> [block.tolist() for block in successive_prox(GroupLasso().terms(), blocks, 1.0)]
    [[2.4, 3.2], [0.0]]
    """
    current = [np.array(block, dtype=np.float64) for block in blocks]
    for term in terms:
        if term.kind == "entries":
            for f in np.flatnonzero(term.members(len(current))):
                current[f] = prox_entries(current[f], step * term.weight)
            continue
        norms = np.array([np.linalg.norm(block) for block in current])
        wanted = term.prox(norms, step)
        ratios = np.divide(wanted, norms, out=np.zeros_like(norms), where=norms > 0.0)
        current = [r * block for r, block in zip(ratios, current, strict=True)]
    return current


def _require(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high or not np.isfinite(value):
        ends = f"between {low:g} and {high:g}" if np.isfinite(high) else f">= {low:g}"
        raise ValueError(
            f"{name} must be a number {ends}, got {value!r}; choose one in that range."
        )


def _no_entries(term: Term) -> str:
    return (
        f"a term on {term.kind} needs blocks of explicit features, got block norms "
        "only; use successive_prox on the blocks themselves."
    )
