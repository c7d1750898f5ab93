"""OBSCURE's online stage on rows that come and go, with bounded memory.

Whatever one does, a row needs its kernel values with the S support rows: S F values.
Here they are computed once, for the prediction and the update alike. Rows are learned
a tile at a time: an update costs one kernel row of its tile, and each row one value
per kernel for every update of the earlier tiles. A `Budget` bounds the support.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from manykernels.banks.base import support_of
from manykernels.banks.ondemand import OnDemandBank
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.machine import in_slices
from manykernels.base.quoted import quoted
from manykernels.base.stored import storable
from manykernels.hot.mirror_passes import MirrorRule, MirrorState
from manykernels.kernels.kernel_set import KernelSet
from manykernels.norms.group import LpGroupNorm, p_norm
from manykernels.solvers.mirror import MirrorDescent, Obscure
from manykernels.solvers.problem import Expansion, Problem

ONLINE_TILE = 1024  # rows learned together
AHEAD_BYTES = 64 << 20  # of scores that are kept from prediction to learning
CROSS_VALUES = 1 << 18  # kernel values at a time, so that they stay in cache
RIDGE_SHARE = 1e-3  # of the mean diagonal, added to it: kept rows may be nearly alike
POLICIES = ("smallest", "oldest", "project")


@storable
@dataclass(frozen=True)
class Budget:
    """At most `size` support rows, theta = sum_i coef_i phi(x_i) over these.

    Parameters
    ----------
    size : int
        Support rows to keep.
    policy : {"project", "smallest", "oldest"}
        "oldest" removes the rows that came first; "smallest" those with the smallest
        part ||coef_i|| sqrt(k(x_i, x_i)) of the norm, among equals the oldest;
        "project" removes the same and puts their projection in their place.

    References
    ----------
    Crammer, Kandola, Singer: Online classification on a budget, NIPS 2003 (removal by
    a criterion). Dekel, Shalev-Shwartz, Singer: The forgetron, SIAM J. Comput. 2008
    (the oldest go). Orabona, Keshet, Caputo: Bounded kernel-based online learning,
    JMLR 2009 (projection; the projectron). Wang, Crammer, Vucetic: Breaking the curse
    of kernelization, JMLR 2012 (removal and projection compared).

    Examples
    --------
    >>> coef = np.array([[2.0, -2.0], [1.0, -1.0], [3.0, -3.0]])
    >>> Budget(2, "smallest").kept(coef, np.ones(3)).tolist()
    [0, 2]
    >>> Budget(2, "oldest").kept(coef, np.ones(3)).tolist()
    [1, 2]
    """

    size: int
    policy: str = "project"

    def __post_init__(self) -> None:
        """Validate both."""
        whole = isinstance(self.size, Integral) and not isinstance(self.size, bool)
        if not (whole and self.size >= 1):
            raise ValueError(
                "budget must be a positive whole number or None, got "
                f"{quoted(self.size)}; choose for instance 2000."
            )
        if self.policy not in POLICIES:
            raise ValueError(
                f"policy of a budget must be one of {', '.join(map(repr, POLICIES))}, "
                f"got {quoted(self.policy)}; choose one of these."
            )

    @classmethod
    def of(cls, value: Any) -> Budget | None:
        """From a number of rows, or as it is; None for no bound."""
        return value if value is None or isinstance(value, Budget) else cls(value)

    @property
    def projects(self) -> bool:
        """Whether the removed part is replaced by its projection."""
        return self.policy == "project"

    @property
    def limit(self) -> int:
        """Support rows beyond which a pass pauses to remove some.

        Removal does the less harm the fewer rows go at a time. Projection loses little
        whenever it comes, and a factorization costs a third of size^3.
        """
        return 2 * self.size if self.projects else self.size

    @property
    def patience(self) -> int:
        """Rows that a pass may learn between two looks at the budget."""
        return max(self.size // 2, 32)

    def kept(self, coef: Array, diagonal: Array) -> Index:
        """Rows to keep, in order of arrival as they come.

        Parameters
        ----------
        coef : array of shape (rows, outputs)
        diagonal : array of shape (rows,)
            k(x_i, x_i) of the combined kernel.
        """
        excess = max(len(coef) - self.size, 0)
        if self.policy == "oldest":
            return np.arange(excess, len(coef))
        parts = np.linalg.norm(coef, axis=1) * np.sqrt(np.maximum(diagonal, 0.0))
        # Rounding must not decide between equals, and the steps of one pass are equal.
        parts = np.round(parts / max(parts.max(), np.finfo(float).tiny), 9)
        return np.sort(np.argsort(parts, kind="stable")[excess:])


def projection(among: Array, across: Array, removed: Array) -> Array:
    """argmin over b of ||sum_r removed_r phi_r - sum_k b_k phi_k||^2 + ridge ||b||^2.

    b = (K_kk + ridge I)^-1 K_kr removed, with the ridge a small share of the diagonal.

    Parameters
    ----------
    among : array of shape (kept, kept)
        Combined kernel of the kept rows.
    across : array of shape (kept, removed)
    removed : array of shape (removed, outputs)

    Examples
    --------
    >>> twin = np.ones((1, 1))
    >>> projection(twin, twin, np.array([[2.0, -2.0]])).round(1).tolist()
    [[2.0, -2.0]]
    """
    matrix = among.astype(np.float64)
    diagonal = np.einsum("ii->i", matrix)
    diagonal += RIDGE_SHARE * max(float(diagonal.mean()), np.finfo(float).tiny)
    factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    right = across.astype(np.float64) @ removed
    return np.asarray(cho_solve(factor, right, check_finite=False))


class Stream:
    """theta_f = sum_i theta_i phi_f(x_i) over the support, and w_f its mirror image.

    Parameters
    ----------
    kernels : KernelSet
        The rows of one call: earlier support rows, then new rows.
    norm : LpGroupNorm
    theta : array of shape (support rows, outputs)
        Coefficients of the first reference rows; the others have none yet.
    square_norms : array of shape (blocks,), optional
        ||theta_f||^2 where it is known.

    Attributes
    ----------
    support : array of int
        Positions of the support rows, in order of arrival; `theta` goes with it.
    """

    def __init__(
        self,
        kernels: KernelSet,
        norm: LpGroupNorm,
        theta: Array,
        square_norms: Array | None = None,
    ) -> None:
        self.kernels = kernels
        self.norm = norm
        self.theta = theta
        self.support: Index = np.arange(len(theta))
        if square_norms is None:
            square_norms = self._norms(self.support, theta)
        self.square_norms = square_norms
        # Scores of the new rows under the first `_known` support rows, once predicted.
        self._ahead: Values | None = None
        self._known = 0

    @property
    def weights(self) -> Array:
        """Kernel weights with ||d||_r = 1; w_f = weights_f theta_f / q."""
        if not np.any(self.square_norms > 0.0):
            return self.norm.uniform_weights(len(self.square_norms))
        return self.norm.mirror_scale(np.sqrt(self.square_norms))

    def model(self) -> Expansion:
        """The model on its support rows."""
        return Expansion(self.theta / self.norm.q, self.weights)

    def scores(self, rows: Index) -> Array:
        """Scores of some rows, shape (rows, outputs)."""
        return self._combined(self._block_scores(rows))

    def predict(self, rows: Index) -> NDArray[np.intp]:
        """Outputs with the highest scores; `learn` goes on from the same values."""
        itemsize = self.kernels.dtype.itemsize
        row_bytes = self.theta.shape[1] * self.kernels.n_kernels * itemsize
        size = max(ONLINE_TILE, AHEAD_BYTES // row_bytes)
        labels = []
        for start in range(0, len(rows), size):
            parts = self._block_scores(rows[start : start + size])
            labels.append(np.argmax(self._combined(parts), axis=1))
        if len(labels) == 1:
            self._ahead, self._known = parts, len(self.support)
        return np.concatenate(labels)

    def learn(
        self,
        rows: Index,
        problem_of: Callable[[Index], Problem],
        importance: Array,
        budget: Budget | None = None,
    ) -> Iterator[tuple[int, int]]:
        """Visit these rows in order; yields the rows and updates of every tile.

        A tile is learned or not at all, so an interrupted pass leaves a model.

        Parameters
        ----------
        rows : array of int
            The rows that were predicted, if any were.
        problem_of : callable
            The problem on some of the reference rows.
        importance : array of shape (reference rows,)
            Multiplies the steps.
        budget : Budget, optional
            Kept to as the support grows; call `trim` at the end.
        """
        size = ONLINE_TILE if budget is None else min(ONLINE_TILE, budget.patience)
        for start in range(0, len(rows), size):
            if budget is not None and len(self.support) > budget.limit:
                self.trim(budget)
            part = slice(start, start + size)
            tile = rows[part]
            scores = self._tile_scores(tile, part)
            updates = self._visit(tile, problem_of(tile), importance[tile], scores)
            yield len(tile), updates

    def trim(self, budget: Budget) -> None:
        """Keep to the budget; norms and weights follow from the kept rows."""
        if len(self.support) <= budget.size:
            return
        weights = self.weights
        among = self.kernels.take(self.support)
        kept = budget.kept(self.theta, weights @ among.diagonals())
        theta = self.theta[kept]
        if budget.projects:
            theta = theta + _projected(among, weights, self.theta, kept)
        support = self.support[kept]
        square_norms = self._norms(support, theta)
        self._become(support, theta, square_norms)
        self._ahead = None

    def _become(self, support: Index, theta: Array, square_norms: Array) -> None:
        """All at once, because Ctrl-C may come at any time."""
        self.support, self.theta, self.square_norms = support, theta, square_norms

    def _norms(self, support: Index, theta: Array) -> Array:
        """||theta_f||^2 from the kernels: S^2 F / 2 values."""
        bank = OnDemandBank(self.kernels.take(support))
        return np.maximum(bank.square_norms(theta), 0.0)

    def _block_scores(self, rows: Index, begin: int = 0) -> Values:
        """Scores of theta by block, from the support rows `begin` onwards."""
        support, theta = self.support[begin:], self.theta[begin:]
        return cross_scores(self.kernels, rows, support, theta)

    def _combined(self, parts: Values) -> Array:
        scale = self.weights / self.norm.q
        return np.asarray(np.einsum("f,kfi->ik", scale, parts))

    def _tile_scores(self, tile: Index, part: slice) -> Values:
        if self._ahead is None:
            return self._block_scores(tile)
        return self._ahead[:, :, part] + self._block_scores(tile, self._known)

    def _visit(
        self, tile: Index, problem: Problem, importance: Array, scores: Values
    ) -> int:
        """One online pass over a tile; only its own rows get coefficients."""
        descent = MirrorDescent(problem)
        descent.importance = importance
        norms = np.sqrt(self.square_norms)
        q = self.norm.q
        descent.state = MirrorState(
            np.zeros((len(tile), problem.n_outputs)),
            np.ascontiguousarray(scores),
            self.square_norms.copy(),
            (self.norm.mirror_scale(norms) / q).astype(scores.dtype),
            np.array([1.0, 0.0, 0.0, p_norm(norms, q)]),
        )
        # A converged start needs corrections, not the large steps of an empty model.
        rule = MirrorRule(q, problem.reg, eta=Obscure.eta, online=True, enough=True)
        updates = descent.run_pass(rule, np.arange(len(tile)))
        added = support_of(descent.state.coef)
        support = np.concatenate([self.support, tile[added]])
        theta = np.concatenate([self.theta, descent.state.coef[added]])
        self._become(support, theta, descent.state.square_norms)
        return updates


def cross_scores(
    kernels: KernelSet, rows: Index, support: Index, coef: Array
) -> Values:
    """K_f(rows, support) coef for every f, shape (outputs, blocks, rows)."""
    n, n_support = len(rows), len(support)
    out = np.zeros((coef.shape[1], kernels.n_kernels, n), kernels.dtype)
    if not n_support:
        return out
    both = kernels.take(np.concatenate([rows, support]))
    columns = slice(n, n + n_support)
    active = coef.T.astype(kernels.dtype)
    size = max(16, CROSS_VALUES // n_support)

    def work(start: int, stop: int) -> None:
        for first in range(start, stop, size):
            part = slice(first, min(first + size, stop))
            for f, block in both.between(part, columns):
                out[:, f, part] = active @ block.T

    in_slices(n, float(n * n_support * out.itemsize * kernels.n_kernels), work)
    return out


def _projected(among: KernelSet, weights: Array, theta: Array, kept: Index) -> Array:
    """Coefficients on the kept rows for what the other rows of `among` held."""
    removed = np.setdiff1d(np.arange(len(theta)), kept)
    both = OnDemandBank(among.take(np.concatenate([kept, removed])))
    combined = both.combine(weights, np.arange(len(kept)))
    n = len(kept)
    return projection(combined[:, :n], combined[:, n:], theta[removed])
