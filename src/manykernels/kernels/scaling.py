"""Centring and normalisation of one fitted kernel, with training constants."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manykernels.kernels.base import Array, Kernel
from manykernels.kernels.rows import inverse_roots, scale_outer

# Below this share of the largest k(x, x) a centred value is only rounding.
NOISE = 1e-10


@dataclass
class Side:
    """What one side of a block needs: its means and its inverse norms."""

    means: Array | None
    norms: Array | None


@dataclass
class Scaling:
    r"""From k to :math:`\hat k`: subtract means, then divide by norms.

    Attributes
    ----------
    diagonal : array of shape (n,)
        Final values of reference rows with themselves, float64.
    factor : float
        Multiplies every value ("trace", or a constant diagonal).
    norms : array of shape (n,) or None
        1 / sqrt of the centred k(x_j, x_j) ("diagonal").
    means : array of shape (n,) or None
        Mean of k(x_j, .) over all training rows.
    total : float
        Mean of ``means`` over all training rows.
    noise : float
        Centred k(x, x) up to this size count as zero.
    direction : array of shape (d,) or None
        Mean feature vector, where the kernel has explicit features.
    """

    diagonal: Array
    factor: float = 1.0
    norms: Array | None = None
    means: Array | None = None
    total: float = 0.0
    noise: float = 0.0
    direction: Array | None = None

    def side(self, ids: Array | slice) -> Side:
        """Return the constants of some reference rows."""
        pick = [
            None if part is None else part[ids] for part in (self.means, self.norms)
        ]
        return Side(*pick)

    def new_side(self, diagonal: Array | None, means: Array | None) -> Side:
        """Return the constants of new rows from their k(x, x) and means."""
        if self.norms is None or diagonal is None:
            return Side(means, None)
        return Side(means, self.inverse_norms(self.centred(diagonal, means)))

    def centred(self, diagonal: Array, means: Array | None) -> Array:
        """k(x, x) - 2 mu(x) + mean of mu."""
        return diagonal if means is None else diagonal - 2.0 * means + self.total

    def inverse_norms(self, centred: Array) -> Array:
        """1 / sqrt of centred values, 0 for those that are only rounding noise."""
        return inverse_roots(np.where(centred > self.noise, centred, 0.0))

    def finish(self, block: Array, left: Side, right: Side) -> Array:
        """Centre and normalise a block in place."""
        if left.means is not None and right.means is not None:
            block -= left.means.astype(block.dtype)[:, None]
            block -= (right.means - self.total).astype(block.dtype)[None, :]
        if left.norms is not None and right.norms is not None:
            scale_outer(block, left.norms, right.norms)
        elif self.factor != 1.0:
            block *= self.factor
        return block

    def final_diagonal(self, diagonal: Array, side: Side) -> Array:
        """Values of rows with themselves after centring and normalisation."""
        if side.norms is not None:
            return (side.norms > 0).astype(np.float64)
        return self.centred(diagonal, side.means) * self.factor

    def restrict(self, index: Array) -> Scaling:
        """Keep the constants of the reference rows `index`."""
        side = self.side(index)
        return replace(
            self, diagonal=self.diagonal[index], norms=side.norms, means=side.means
        )


def fit_scaling(
    kernel: Kernel,
    name: str,
    diagonal: Array,
    means: Array | None,
    direction: Array | None = None,
) -> Scaling:
    """Training constants of one kernel from its k(x, x) and row means."""
    _require_diagonal(kernel, name, diagonal)
    scaling = Scaling(diagonal, means=means, direction=direction)
    if means is not None:
        scaling.total = float(means.mean())
        scaling.noise = NOISE * float(diagonal.max())
    centred = scaling.centred(diagonal, means)
    if not (centred > scaling.noise).any():
        centring = " after centring" if kernel.center else ""
        raise ValueError(
            f"kernel {name!r} must have k(x, x) > 0 on some training row, got "
            f"none{centring}; leave it out or change its columns."
        )
    if kernel.normalize == "trace":
        scaling.factor = _inverse_mean(name, centred)
    elif kernel.normalize == "diagonal":
        _set_unit_diagonal(scaling, kernel, name, centred)
    scaling.diagonal = scaling.final_diagonal(diagonal, scaling.side(slice(None)))
    return scaling


def _set_unit_diagonal(
    scaling: Scaling, kernel: Kernel, name: str, centred: Array
) -> None:
    if kernel.family == "given":
        _require_constant(name, centred)
        scaling.factor = 1.0 / float(centred.mean())
    elif scaling.means is not None or not (
        # Features of an approximate kernel come with unit length where they can.
        kernel.unit_diagonal or kernel.approximate is not None
    ):
        scaling.norms = scaling.inverse_norms(centred)


def _inverse_mean(name: str, centred: Array) -> float:
    mean = float(centred.mean())
    if mean <= 0:
        raise ValueError(
            f"kernel {name!r} needs a positive mean of k(x, x) for normalize='trace', "
            f"got {mean:.4g}; use normalize=None or another kernel."
        )
    return 1.0 / mean


def _require_constant(name: str, centred: Array) -> None:
    low, high = float(centred.min()), float(centred.max())
    if high - low > 1e-4 * high:
        raise ValueError(
            f"kernel {name!r} can have normalize='diagonal' only with a constant "
            f"training diagonal because k(x, x) of new rows is not given, got values "
            f"from {low:.4g} to {high:.4g}; use normalize='trace' or normalise the "
            f"matrices yourself."
        )


def _require_diagonal(kernel: Kernel, name: str, diagonal: Array) -> None:
    smallest = float(diagonal.min())
    if kernel.normalize == "diagonal" and smallest < 0:
        raise ValueError(
            f"kernel {name!r} needs k(x, x) >= 0 for normalize='diagonal', got "
            f"{smallest:.4g}; use normalize='trace' or another kernel."
        )
