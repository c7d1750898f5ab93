"""Terms of regularizers, and what follows from their sum.

A term sees the norms of some blocks (or, for sparse group lasso, the entries of
explicit blocks); it has a value and a proximity operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.hot.prox import TERM_KINDS, TermCodes
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

    @property
    def prunes(self) -> bool:
        """Whether the proximal step sets whole blocks to zero."""
        if self.kind in ("squared_p", "power"):
            return self.exponent == 1.0
        if self.kind == "elastic_net":
            return self.exponent < 1.0
        return self.kind in ("group_lasso", "sparse_mkl", "joint")

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


def term_codes(terms: Sequence[Term], n_blocks: int) -> TermCodes:
    """Terms as arrays for compiled loops.

    Examples
    --------
    >>> from manykernels.norms import SparseMKL
    >>> term_codes(SparseMKL().terms(), 2).members.tolist()
    [[True, True]]
    """
    members = np.zeros((len(terms), n_blocks), np.bool_)
    for j, term in enumerate(terms):
        members[j] = term.members(n_blocks)
    return TermCodes(
        np.array([TERM_KINDS.index(term.kind) for term in terms], np.int64),
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
    >>> from manykernels.norms import SparseMKL
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
    >>> from manykernels.norms import SparseMKL, SquaredL2
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
    >>> from manykernels.norms import ElasticNetMKL, SparseMKL
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
    >>> from manykernels.norms import GroupLasso
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


def _no_entries(term: Term) -> str:
    return (
        f"a term on {term.kind} needs blocks of explicit features, got block norms "
        "only; use successive_prox on the blocks themselves."
    )
