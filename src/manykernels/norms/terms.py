"""Terms of regularizers, and what follows from their sum.

A term sees the norms of some blocks (or, for sparse group lasso, the entries of
explicit blocks); it has a value and a proximity operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.hot.prox import TERM_KINDS, TermCodes
from manykernels.norms.group import p_norm
from manykernels.norms.proximity import (
    prox_elastic_net,
    prox_entries,
    prox_group_lasso,
    prox_joint,
    prox_power,
    prox_sparse_mkl,
    prox_squared_l2,
    prox_squared_p,
)


class TermKind(NamedTuple):
    """A function of block norms; `exponent` is q of "power", p of "squared_p" and the
    share of "elastic_net".
    """

    value: Callable[[Array, float], float]
    # d value / d (norm^2 / 2) of every block; infinite or no number at a norm of zero.
    slopes: Callable[[Array, float], Any]
    # From norms, step and exponent to the norms after the proximal step.
    prox: Callable[[Array, float, float], Array]
    # The largest sigma for which value - sigma / 2 ||norms||^2 is known to be convex.
    strong_convexity: Callable[[float], float] = lambda exponent: 0.0
    # Whether the proximal step sets whole blocks to zero.
    prunes: Callable[[float], bool] = lambda exponent: False


def _elastic_value(norms: Array, share: float) -> float:
    total, square = float(norms.sum()), float(norms @ norms)
    return share * (0.5 * square) + (1.0 - share) * 0.5 * total**2


def _elastic_slopes(norms: Array, share: float) -> Any:
    return share + (1.0 - share) * norms.sum() / norms


TERM_FUNCTIONS = {
    "group_lasso": TermKind(
        lambda norms, _: float(norms.sum()),
        lambda norms, _: 1.0 / norms,
        lambda norms, step, _: prox_group_lasso(norms, step),
        prunes=lambda _: True,
    ),
    "sparse_mkl": TermKind(
        lambda norms, _: _elastic_value(norms, 0.0),
        lambda norms, _: _elastic_slopes(norms, 0.0),
        lambda norms, step, _: prox_sparse_mkl(norms, step),
        prunes=lambda _: True,
    ),
    "elastic_net": TermKind(
        _elastic_value,
        _elastic_slopes,
        prox_elastic_net,
        strong_convexity=lambda share: share,
        prunes=lambda share: share < 1.0,
    ),
    "squared_l2": TermKind(
        lambda norms, _: 0.5 * float(norms @ norms),
        lambda norms, _: 1.0,
        lambda norms, step, _: prox_squared_l2(norms, step),
        strong_convexity=lambda _: 1.0,
    ),
    "squared_p": TermKind(
        lambda norms, p: 0.5 * p_norm(norms, p) ** 2,
        lambda norms, p: p_norm(norms, p) ** (2.0 - p) * norms ** (p - 2.0),
        prox_squared_p,
        strong_convexity=lambda p: p - 1.0,
        prunes=lambda p: p == 1.0,
    ),
    "power": TermKind(
        lambda norms, q: float(np.sum(norms**q)),
        lambda norms, q: q * norms ** (q - 2.0),
        prox_power,
        strong_convexity=lambda q: 2.0 * (q == 2.0),
        prunes=lambda q: q == 1.0,
    ),
    "joint": TermKind(
        lambda norms, _: float(np.linalg.norm(norms)),
        lambda norms, _: 1.0 / np.linalg.norm(norms),
        lambda norms, step, _: prox_joint(norms, step),
        prunes=lambda _: True,
    ),
}


@dataclass(frozen=True)
class Term:
    """weight * kind(norms of `blocks`); all blocks if None.

    Kinds are those of `TERM_FUNCTIONS`, and "entries" for the l1 norm of blocks.

    Examples
    --------
    >>> Term("group_lasso", 2.0).value(np.array([3.0, 4.0]))
    14.0
    >>> Term("joint", 1.0, blocks=(0,)).prox(np.array([3.0, 4.0]), 1.0).tolist()
    [2.0, 4.0]
    """

    kind: str
    weight: float = 1.0
    exponent: float = 0.0
    blocks: tuple[int, ...] | None = None

    def members(self, n_blocks: int) -> NDArray[np.bool_]:
        """Mask of the blocks in the term."""
        mask = np.zeros(n_blocks, dtype=np.bool_)
        mask[slice(None) if self.blocks is None else list(self.blocks)] = True
        return mask

    def value(self, block_norms: Array, entry_norms: Array | None = None) -> float:
        """The term from the blocks' l2 norms (and l1 norms, for "entries")."""
        inside = self.members(len(block_norms))
        if self.kind == "entries" and entry_norms is not None:
            return self.weight * float(entry_norms[inside].sum())
        return self.weight * self._kind.value(block_norms[inside], self.exponent)

    def prox(self, block_norms: Array, step: float) -> Array:
        """argmin over a of 1/2 ||a - block_norms||^2 + step * value(a)."""
        inside = self.members(len(block_norms))
        result = block_norms.copy()
        length = step * self.weight
        result[inside] = self._kind.prox(block_norms[inside], length, self.exponent)
        return result

    def slopes(self, block_norms: Array) -> Array:
        """d value / d (norm_f^2 / 2), infinite where the norm is zero and matters.

        Zero for blocks outside the term, and for "entries", which is no function of
        block norms.
        """
        inside = self.members(len(block_norms))
        slopes = np.zeros(len(block_norms))
        if self.kind != "entries":
            with np.errstate(divide="ignore", invalid="ignore"):
                found = self._kind.slopes(block_norms[inside], self.exponent)
                slopes[inside] = self.weight * found
        return slopes

    @property
    def strong_convexity(self) -> float:
        """The largest sigma for which value - sigma / 2 ||w||^2 is known to be convex.

        Of the blocks in the term; 0 if it is not strongly convex.
        """
        if self.kind == "entries":
            return 0.0
        return self.weight * self._kind.strong_convexity(self.exponent)

    @property
    def prunes(self) -> bool:
        """Whether the proximal step sets whole blocks to zero."""
        return self.kind != "entries" and self._kind.prunes(self.exponent)

    @property
    def _kind(self) -> TermKind:
        if self.kind not in TERM_FUNCTIONS:
            raise ValueError(
                f"a term on {self.kind} needs blocks of explicit features, got block "
                "norms only; use successive_prox on the blocks themselves."
            )
        return TERM_FUNCTIONS[self.kind]


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
    weights: Array = np.divide(1.0, slopes, out=np.zeros(len(slopes)), where=defined)
    return weights


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
