"""Centering and normalization of one fitted kernel, with training constants."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manykernels.base.arrays import Values
from manykernels.base.stored import Floats, Maybe, Real, storable
from manykernels.kernels.base import Kernel
from manykernels.kernels.rows import inverse_roots, scale_outer

# Below this share of the largest k(x, x) a centered value is only rounding.
NOISE = 1e-10


@dataclass
class Side:
    """What one side of a block needs: its means and its inverse norms."""

    means: Values | None
    norms: Values | None


@storable(
    diagonal=Floats("rows"),
    factor=Real(),
    norms=Maybe(Floats("rows", low=0.0)),
    means=Maybe(Floats("rows")),
    total=Real(),
    noise=Real(low=0.0),
    direction=Maybe(Floats(None)),
)
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
        1 / sqrt of the centered k(x_j, x_j) ("diagonal").
    means : array of shape (n,) or None
        Mean of k(x_j, .) over all training rows.
    total : float
        Mean of ``means`` over all training rows.
    noise : float
        Centered k(x, x) up to this size count as zero.
    direction : array of shape (d,) or None
        Mean feature vector, where the kernel has explicit features.
    """

    diagonal: Values
    factor: float = 1.0
    norms: Values | None = None
    means: Values | None = None
    total: float = 0.0
    noise: float = 0.0
    direction: Values | None = None

    def side(self, ids: Values | slice) -> Side:
        """Return the constants of some reference rows."""
        pick = [
            None if part is None else part[ids] for part in (self.means, self.norms)
        ]
        return Side(*pick)

    def new_side(self, diagonal: Values | None, means: Values | None) -> Side:
        """Return the constants of new rows from their k(x, x) and means."""
        if self.norms is None or diagonal is None:
            return Side(means, None)
        return Side(means, self.inverse_norms(self.centered(diagonal, means)))

    def centered(self, diagonal: Values, means: Values | None) -> Values:
        """k(x, x) - 2 mu(x) + mean of mu."""
        return diagonal if means is None else diagonal - 2.0 * means + self.total

    def inverse_norms(self, centered: Values) -> Values:
        """1 / sqrt of centered values, 0 for those that are only rounding noise."""
        return inverse_roots(np.where(centered > self.noise, centered, 0.0))

    def finish(self, block: Values, left: Side, right: Side) -> Values:
        """Center and normalize a block in place."""
        if left.means is not None and right.means is not None:
            block -= left.means.astype(block.dtype)[:, None]
            block -= (right.means - self.total).astype(block.dtype)[None, :]
        if left.norms is not None and right.norms is not None:
            scale_outer(block, left.norms, right.norms)
        elif self.factor != 1.0:
            block *= self.factor
        return block

    def final_diagonal(self, diagonal: Values, side: Side) -> Values:
        """Values of rows with themselves after centering and normalization."""
        if side.norms is not None:
            return (side.norms > 0).astype(np.float64)
        return self.centered(diagonal, side.means) * self.factor

    def restrict(self, index: Values) -> Scaling:
        """Keep the constants of the reference rows `index`."""
        side = self.side(index)
        return replace(
            self, diagonal=self.diagonal[index], norms=side.norms, means=side.means
        )


def fit_scaling(
    kernel: Kernel,
    name: str,
    diagonal: Values,
    means: Values | None,
    direction: Values | None = None,
) -> Scaling:
    """Training constants of one kernel from its k(x, x) and row means."""
    _require_diagonal(kernel, name, diagonal)
    scaling = Scaling(diagonal, means=means, direction=direction)
    if means is not None:
        scaling.total = float(means.mean())
        scaling.noise = NOISE * float(diagonal.max())
    centered = scaling.centered(diagonal, means)
    if not (centered > scaling.noise).any():
        centering = " after centering" if kernel.center else ""
        raise ValueError(
            f"kernel {name!r} must have k(x, x) > 0 on some training row, got "
            f"none{centering}; leave it out or change its columns."
        )
    if kernel.normalize == "trace":
        scaling.factor = _inverse_mean(name, centered)
    elif kernel.normalize == "diagonal":
        _set_unit_diagonal(scaling, kernel, name, centered)
    scaling.diagonal = scaling.final_diagonal(diagonal, scaling.side(slice(None)))
    return scaling


def _set_unit_diagonal(
    scaling: Scaling, kernel: Kernel, name: str, centered: Values
) -> None:
    if kernel.family == "given":
        _require_constant(name, centered)
        scaling.factor = 1.0 / float(centered.mean())
    elif scaling.means is not None or not (
        # Features of an approximate kernel come with unit length where they can.
        kernel.unit_diagonal or kernel.approximate is not None
    ):
        scaling.norms = scaling.inverse_norms(centered)


def _inverse_mean(name: str, centered: Values) -> float:
    mean = float(centered.mean())
    if mean <= 0:
        raise ValueError(
            f"kernel {name!r} needs a positive mean of k(x, x) for normalize='trace', "
            f"got {mean:.4g}; use normalize=None or another kernel."
        )
    return 1.0 / mean


def _require_constant(name: str, centered: Values) -> None:
    low, high = float(centered.min()), float(centered.max())
    if high - low > 1e-4 * high:
        raise ValueError(
            f"kernel {name!r} can have normalize='diagonal' only with a constant "
            f"training diagonal because k(x, x) of new rows is not given, got values "
            f"from {low:.4g} to {high:.4g}; use normalize='trace' or normalize the "
            f"matrices yourself."
        )


def _require_diagonal(kernel: Kernel, name: str, diagonal: Values) -> None:
    smallest = float(diagonal.min())
    if kernel.normalize == "diagonal" and smallest < 0:
        raise ValueError(
            f"kernel {name!r} needs k(x, x) >= 0 for normalize='diagonal', got "
            f"{smallest:.4g}; use normalize='trace' or another kernel."
        )
