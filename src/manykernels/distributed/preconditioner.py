"""The curvature of sampled rows in this process, which preconditions Newton systems."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from manykernels.base.arrays import Array
from manykernels.base.machine import one_blas_thread
from manykernels.distributed.shards import HeldShard
from manykernels.losses import Loss

MAX_PRECONDITIONER_COLUMNS = 6000  # of G, which is a dense matrix of them
MAX_PRECONDITIONER_BYTES = 1e9  # of one G per output; else their mean serves all
ZERO_CURVATURE_RTOL = 1e-9  # of curvature that is zero but for rounding
CURVATURE_SHARE = 0.995  # of that of all rows, for which some of the rows will do


class PreconditionerSample:
    """Rows whose curvature G_k by output is nearly that of all rows.

    G is computed once: weights change more often than the curvature.

    Parameters
    ----------
    rows : HeldShard
    total : float
        Sum of the bounds b_i of all rows, for which the sample stands.
    """

    def __init__(self, rows: HeldShard, total: float) -> None:
        self.rows = rows
        self.factor = total / float(rows.bound.sum())
        self._curvatures: list[Array] = []
        self._ignores_shifts = False

    def inverse(self, loss: Loss, w: Array, weights: Array) -> Callable[[Array], Array]:
        """Return the map of r_k to (I + G_k D)^-1 r_k, D = diag(weights) by column."""
        if not self._curvatures:
            self._curvatures = self._compute(loss, w)
        with one_blas_thread():  # threads wait for each other where others work, too
            solves = [_inverse(G, np.sqrt(weights)) for G in self._curvatures]
        if len(solves) == 1:
            return solves[0]

        def solve_outputs(rest: Array) -> Array:
            return np.hstack([solve(rest[:, [k]]) for k, solve in enumerate(solves)])

        def solve_differences(rest: Array) -> Array:
            mean = rest.mean(axis=1, keepdims=True)
            solution = solve_outputs(rest - mean)
            return np.asarray(solution + mean - solution.mean(axis=1, keepdims=True))

        return solve_differences if self._ignores_shifts else solve_outputs

    def _compute(self, loss: Loss, w: Array) -> list[Array]:
        """Phi' diag(share) Phi for the second derivatives of every output."""
        phi, n_outputs = self.rows.phi, w.shape[1]
        scores = np.asarray(phi @ w.astype(phi.dtype), np.float64)
        hessian_product = loss.curvature(scores, self.rows.target)
        heights = np.empty_like(scores)
        for k in range(n_outputs):
            unit = np.zeros_like(scores)
            unit[:, k] = 1.0
            heights[:, k] = hessian_product(unit)[:, k]
        # The log loss ignores what is added to all outputs alike: there G is zero, and
        # without this exception it takes three times as many products.
        shift = np.abs(hessian_product(np.ones_like(scores))).max()
        self._ignores_shifts = bool(shift <= ZERO_CURVATURE_RTOL * heights.max())
        shares = self.factor * self.rows.bound[:, None] * np.maximum(heights, 0.0)
        if 8 * n_outputs * len(w) ** 2 > MAX_PRECONDITIONER_BYTES:
            shares = shares.mean(axis=1, keepdims=True)
        return [_weighted_gram(phi, share) for share in shares.T]


def _weighted_gram(phi: Array, share: Array) -> Array:
    """Phi' diag(share) Phi, by the rows that most of it is from."""
    order = np.argsort(-share)
    reached = np.cumsum(share[order])
    rows = order[: np.searchsorted(reached, CURVATURE_SHARE * reached[-1]) + 1]
    weighted = phi[rows] * np.sqrt(share[rows]).astype(phi.dtype)[:, None]
    return np.asarray(weighted.T @ weighted, np.float64)


def _inverse(curvature: Array, roots: Array) -> Callable[[Array], Array]:
    inner = roots * curvature * roots.T
    inner[np.diag_indices_from(inner)] += 1.0
    factor = cho_factor(inner, overwrite_a=True, check_finite=False)

    def solve(rest: Array) -> Array:
        # (I + G D)^-1 = I - G R (I + R G R)^-1 R with R = D^1/2: weights may be 0.
        solution = cho_solve(factor, roots * rest, check_finite=False)
        return np.asarray(rest - curvature @ (roots * solution))

    return solve
