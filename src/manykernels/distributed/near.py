"""Rows in this process, by whose curvature Newton's systems are preconditioned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from manykernels.base.arrays import Array
from manykernels.base.machine import one_blas_thread
from manykernels.distributed.rows import HeldRows
from manykernels.losses import Loss

MOST_BYTES = 1e9  # of curvatures by output
FLAT = 1e-9  # curvature that is zero but for rounding
LIGHT = 1e-3  # of the largest root of a weight, below which it counts as zero
ROUNDED = 5e-7  # of its trace, that rounding may take from an eigenvalue
ENOUGH = 0.995  # of the curvature of all rows


@dataclass
class NearRows:
    """A sample whose curvature G is nearly that of all rows, at one point.

    G is found once and kept: weights change more often than rows change their mind.

    Parameters
    ----------
    rows : HeldRows
    factor : float
        What their losses are multiplied with to stand for all.
    """

    rows: HeldRows
    factor: float
    _curvatures: list[Any] = field(default_factory=list)
    _common: bool = False

    def forget(self) -> None:
        """Find G anew where it is asked for next."""
        self._curvatures = []

    def systems(self, loss: Loss, w: Array, roots: Array) -> NearSystems:
        """(I + G D)^-1 for D with these roots; G is that of w, or of an earlier one."""
        if not self._curvatures:
            self._look(loss, w)
        with one_blas_thread():  # threads wait for each other where others work, too
            systems = [NearSystem(known.copy(), roots) for known in self._curvatures]
        return NearSystems(systems, self._common)

    def _look(self, loss: Loss, w: Array) -> None:
        phi = self.rows.phi.astype(np.float32, copy=False)
        scores = np.asarray(phi @ w.astype(np.float32), np.float64)
        bend = loss.curvature(scores, self.rows.target)
        n_outputs = scores.shape[1]
        heights = np.maximum(heights_by_output(bend, scores), 0.0)
        common = np.abs(bend(np.ones((1, *scores.shape)))).max(initial=0.0)
        shares = self.factor * self.rows.bound[:, None] * heights
        too_many = 4 * n_outputs * len(w) ** 2 > MOST_BYTES
        if np.ptp(heights, axis=1).max(initial=0.0) == 0.0 or too_many:
            shares = shares.mean(axis=1, keepdims=True)
        self._curvatures = [near_curvature(phi, share) for share in shares.T]
        self._common = bool(common <= FLAT * heights.max(initial=0.0))


def heights_by_output(bend: Callable[[Array], Array], scores: Array) -> Array:
    """The curvature of every row's loss in each of its scores."""
    n_outputs = scores.shape[1]
    units = np.broadcast_to(np.eye(n_outputs)[:, None], (n_outputs, *scores.shape))
    return np.asarray(np.einsum("kik->ik", bend(units)))


@dataclass(frozen=True)
class NearSystems:
    """(I + G D)^-1 with a G for every output, or one for all.

    Parameters
    ----------
    systems : list of NearSystem
    common : bool
        Whether losses do not see what is added to all outputs alike: there G is zero.
    """

    systems: list[NearSystem]
    common: bool

    def solve(self, rest: Array) -> Array:
        """The preconditioned residual; what is common to all outputs stays."""
        if len(self.systems) == 1:
            return self.systems[0].solve(rest)
        mean = rest.mean(axis=1, keepdims=True) if self.common else 0.0
        parts = zip(self.systems, np.transpose(rest - mean), strict=True)
        better = np.hstack([system.solve(part[:, None]) for system, part in parts])
        if self.common:
            better -= better.mean(axis=1, keepdims=True)
        return better + mean


class NearSystem:
    """(I + G D)^-1 in float32, which is enough to precondition.

    Parameters
    ----------
    curvature : array of shape (columns, columns)
        G in float32; it is overwritten.
    roots : array of shape (columns, 1)
        Of D.
    """

    def __init__(self, curvature: Any, roots: Array) -> None:
        self.roots = roots.astype(np.float32)
        # Dividing by a root that is nearly zero would leave nothing but rounding.
        self.light = np.flatnonzero(roots <= LIGHT * roots.max())
        self.light_rows = curvature[self.light]
        curvature *= self.roots
        curvature *= self.roots.T
        places = np.diag_indices_from(curvature)
        curvature[places] += 1.0 + ROUNDED * float(np.trace(curvature))
        self.factor = cho_factor(curvature, overwrite_a=True, check_finite=False)

    def solve(self, rest: Array) -> Array:
        """D^-1/2 (I + D^1/2 G D^1/2)^-1 D^1/2 rest, which is the same."""
        rest = rest.astype(np.float32)
        inner = cho_solve(self.factor, self.roots * rest, check_finite=False)
        light = rest[self.light] - self.light_rows @ (self.roots * inner)
        out = np.divide(inner, self.roots, where=self.roots > 0.0, out=rest)
        out[self.light] = light
        return np.asarray(out, np.float64)


def near_curvature(phi: Any, share: Array) -> Any:
    """Phi' diag(share) Phi, by the rows that most of it is from."""
    order = np.argsort(-share)
    most = int(np.searchsorted(np.cumsum(share[order]), ENOUGH * share.sum())) + 1
    some = order[:most]  # most rows are certain, and bend nothing
    weighted = phi[some] * np.sqrt(share[some]).astype(np.float32)[:, None]
    return weighted.T @ weighted
