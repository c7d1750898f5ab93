"""A dual point that mixes those of many rounds."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from manykernels.base.arrays import Array
from manykernels.norms.group import LpGroupNorm
from manykernels.solvers.state import Remembers

MEMORY = 12  # dual points kept
STEEP = 30.0  # dual exponents above this are handled as a maximum


class DualMixture(Remembers):
    r"""The best dual value among the mixtures of the last few dual points.

    The dual value is :math:`\ell(A) - \tfrac12 \|\theta(A)\|_{2,q}^2` with linear
    :math:`\ell`. Each round's point serves the weights frozen in that round, and for
    p near 1 its largest block norm alone spoils the bound; the next round spoils
    another block. By the triangle inequality the block norms of a mixture are at
    most the mixture of the block norms, so a good mixture is found and certified
    from F numbers a round, without a kernel value.
    """

    remembered = ("value", "coef", "_points")

    def __init__(self, norm: LpGroupNorm) -> None:
        self.norm = norm
        self.value = -np.inf
        self.coef: Array = np.zeros((0, 0))
        self._points: list[tuple[Array, float, Array]] = []

    def add(self, coef: Array, linear: float, theta_norms: Array) -> float:
        """Take in a feasible point; returns the best value so far."""
        self._points.append((coef.copy(), linear, theta_norms))
        linears = np.array([point[1] for point in self._points])
        norms = np.array([point[2] for point in self._points])
        alone = self._best_point(linears, norms)
        mixed = alone
        if len(linears) > 1 and self.norm.q >= STEEP:
            mixed = _steepest_mixture(linears, norms, alone)
        # The mixture is the best for q = inf; for finite q one point may be better.
        self._record(alone, linears, norms)
        self._record(mixed, linears, norms)
        self._drop(mixed)
        return self.value

    def _best_point(self, linears: Array, norms: Array) -> Array:
        """All the share to the point with the largest value of its own."""
        singles = np.eye(len(linears))
        values = [self._value(shares, linears, norms) for shares in singles]
        return np.asarray(singles[int(np.argmax(values))])

    def _value(self, shares: Array, linears: Array, norms: Array) -> float:
        return float(shares @ linears - self.norm.dual_value(shares @ norms))

    def _record(self, shares: Array, linears: Array, norms: Array) -> None:
        value = self._value(shares, linears, norms)
        if value > self.value:
            self.value = value
            self.coef = sum(
                share * point[0]
                for share, point in zip(shares, self._points, strict=True)
            )

    def _drop(self, shares: Array) -> None:
        """Make room by forgetting the point that the mixture needs least."""
        if len(self._points) > MEMORY:
            del self._points[int(np.argmin(shares[:-1]))]


def _steepest_mixture(linears: Array, norms: Array, start: Array) -> Array:
    """Shares m that maximize linears . m - s^2 / 2 with s >= every entry of norms' m.

    A smooth problem in (m, s) of a dozen variables, scaled to values around one.
    """
    scale = float(np.max(norms))
    if scale == 0.0:
        return start
    linears, norms = linears / scale**2, norms / scale
    ones = np.append(np.ones(len(start)), 0.0)
    result = minimize(
        lambda x: 0.5 * x[-1] ** 2 - linears @ x[:-1],
        np.append(start, np.max(start @ norms)),
        jac=lambda x: np.append(-linears, x[-1]),
        bounds=[(0.0, 1.0)] * len(start) + [(0.0, None)],
        constraints=[
            {
                "type": "ineq",
                "fun": lambda x: x[-1] - x[:-1] @ norms,
                "jac": lambda _: np.hstack(
                    [-norms.T, np.ones((norms.shape[1], 1))],
                ),
            },
            {"type": "eq", "fun": lambda x: ones @ x - 1.0, "jac": lambda _: ones},
        ],
        method="SLSQP",
        options={"maxiter": 100, "ftol": 1e-12},
    )
    shares = np.clip(result.x[:-1], 0.0, None)
    total = float(shares.sum())
    return shares / total if np.isfinite(total) and total > 0.0 else start
