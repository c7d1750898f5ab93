"""The losses of a problem's rows, wherever scores live."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from manykernels.losses.device import LossThere

LinearMap = Callable[[Any], Any]


@dataclass(frozen=True)
class RowLosses:
    """sum_i b_i loss_i and what belongs to it, in units of the objective over lambda.

    Parameters
    ----------
    loss : LossThere
        For arrays of the sort that the others are.
    target : array of shape (rows,) or (rows, outputs)
    bound : array of shape (rows,)
        b_i.
    dot : callable
        The inner product of two arrays, as a float.
    """

    loss: LossThere
    target: Any
    bound: Any
    dot: Callable[[Any, Any], float]

    def total(self, scores: Any) -> float:
        """sum_i b_i loss_i(s)."""
        return self.dot(self.bound, self.loss.value(scores, self.target))

    def gradient(self, scores: Any) -> Any:
        """b loss'."""
        return self.bound[:, None] * self.loss.gradient(scores, self.target)

    def curvature(self, scores: Any) -> LinearMap:
        """b loss'' as a map of directions."""
        bend = self.loss.curvature(scores, self.target)
        return lambda direction: self.bound[:, None] * bend(direction)

    def gain(self, dual: Any, scale: float = 1.0) -> float:
        """-sum_i b_i loss*(-u_i): the part of the dual value that knows the labels."""
        unit = float(scale) * dual / self.bound[:, None]
        return -self.dot(self.bound, self.loss.conjugate(unit, self.target))

    def feasible_scale(self, dual: Any) -> float:
        """The largest t with t * dual feasible; 0 if there is none."""
        return self.loss.feasible_scale(dual / self.bound[:, None], self.target)
