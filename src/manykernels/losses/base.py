"""What a solver may ask of a loss."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from manykernels.base.arrays import Array

Target = NDArray[Any]  # outputs as int64, or values as float64 (rows, outputs)


class Loss(Protocol):
    """A convex function of the scores of one row, for all rows at once.

    `dual` is in units of one row: feasible points are minus subgradients, so that
    Fenchel's inequality reads value(s) + conjugate(u) >= -<s, u>, with equality
    at u = -gradient(s).
    """

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def smoothness(self) -> float | None:
        """L of an L-Lipschitz gradient; None where the loss has kinks."""

    @property
    def linear_dual(self) -> bool:
        """Whether the conjugate is linear on every ray of its domain."""

    def value(self, scores: Array, target: Target) -> Array:
        """Loss of every row, shape (rows,)."""

    def gradient(self, scores: Array, target: Target) -> Array:
        """One subgradient per row, shape (rows, outputs)."""

    def conjugate(self, dual: Array, target: Target) -> Array:
        """The conjugate at minus the dual point, per row; infinite if infeasible."""

    def make_feasible(self, dual: Array, target: Target) -> Array:
        """A point of the conjugate's domain near the dual point."""

    def feasible_scale(self, dual: Array, target: Target) -> float:
        """The largest t with t * dual feasible; 0 if there is none."""

    def predict(self, scores: Array) -> Target:
        """Index of the predicted output, or the predicted values, per row."""
