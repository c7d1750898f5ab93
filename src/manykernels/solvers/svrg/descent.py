"""Steps, lengths and rates of semi-stochastic descent, as in Proposition 1.

For an L-smooth and reg-strongly convex objective, kappa = L / reg.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array


def n_epochs(eps: float) -> int:
    """J = ceil(log(1 / eps)).

    Examples
    --------
    >>> n_epochs(1e-2)
    5
    """
    return max(1, int(np.ceil(np.log(1.0 / eps))))


def target_rate(eps: float, rates: Array, epochs_left: int) -> Array:
    """Delta_j, eq. (4): what is missing to eps, spread evenly over the epochs left.

    `rates` (epochs so far, blocks) are those reached; work beyond eps is not asked
    back, so that the result is at most one.

    Examples
    --------
    >>> target_rate(1e-2, np.ones((0, 1)), 2).round(6).tolist()
    [0.1]
    """
    reached = np.prod(rates, axis=0)
    return np.asarray((np.minimum(eps, reached) / reached) ** (1.0 / epochs_left))


def step_length(rate: Array, smooth: Array, reg: Array) -> Array:
    """h, eq. (5): 1 / (4 / Delta (L - reg) + 2 L)."""
    return 1.0 / (4.0 / rate * (smooth - reg) + 2.0 * smooth)


def inner_length(rate: Array, smooth: Array, reg: Array) -> NDArray[np.int64]:
    """m, eq. (5): (4 (kappa - 1) / Delta + 2 kappa) log(2 / Delta + (2k - 1)/(k - 1)).

    Examples
    --------
    >>> inner_length(np.array([0.5]), np.array([10.0]), np.array([1.0])).tolist()
    [167]
    """
    kappa = smooth / reg
    steps = 4.0 * (kappa - 1.0) / rate + 2.0 * kappa
    logs = np.log(2.0 / rate + (2.0 * kappa - 1.0) / (kappa - 1.0))
    return np.ceil(steps * logs).astype(np.int64)


def convergence(reg: Array, step: Array, length: Array, smooth: Array) -> Array:
    """c, eq. (6): the factor by which an epoch shrinks the expected error."""
    left = (1.0 - reg * step) ** length
    room = 1.0 - 2.0 * smooth * step
    return left / ((1.0 - left) * room) + 2.0 * (smooth - reg) * step / room


def draw_length(rng: np.random.Generator, reg: float, step: float, length: int) -> int:
    """T = t with probability proportional to (1 - reg * step)^(m - t), t = 1..m.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> all(1 <= draw_length(rng, 1.0, 0.1, 7) <= 7 for _ in range(50))
    True
    """
    rho = 1.0 - reg * step
    # The number of steps left out is geometric, cut off at m.
    part = rng.random() * (1.0 - rho**length)
    left_out = int(np.floor(np.log1p(-part) / np.log(rho)))
    return length - min(left_out, length - 1)
