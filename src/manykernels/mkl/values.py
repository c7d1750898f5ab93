"""Numbers to predict, and weights: checked, and centered for the solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length

from manykernels.inputs.targets import _check_weights


@dataclass(frozen=True)
class TrainingValues:
    """The rows to learn from: those with a positive weight.

    A row of weight zero is a row that is not there.
    """

    kept: np.ndarray  # positions in X
    target: np.ndarray  # (kept rows, targets), less the intercept
    weight: np.ndarray  # positive weight of each kept row
    intercept: np.ndarray  # (targets,)
    flat: bool  # whether y was one column of shape (n,)

    @classmethod
    def of(
        cls, X: Any, y: Any, sample_weight: Any = None, center: bool = True
    ) -> TrainingValues:
        """Check targets and weights of a checked X; take off the weighted mean."""
        rows = X[0] if isinstance(X, list) else X
        y = _check_values(rows, y)
        weight = _check_weights(rows, sample_weight)
        kept = np.flatnonzero(weight > 0.0)
        weight = weight[kept]
        target = y[kept].reshape(len(kept), -1)
        intercept = np.zeros(target.shape[1])
        if center:
            intercept = np.average(target, axis=0, weights=weight)
        return cls(kept, target - intercept, weight, intercept, y.ndim == 1)


def _check_values(rows: Any, y: Any) -> np.ndarray:
    if y is None:
        # Opens as scikit-learn's own message does, for tools that look for it.
        raise ValueError(
            "This MKLRegressor estimator requires y to be passed, but the target y is "
            "None; pass one number, or one row of numbers, per row."
        )
    y = check_array(
        y,
        ensure_2d=False,
        allow_nd=True,
        dtype="numeric",
        ensure_all_finite=False,
        input_name="y",
    ).astype(np.float64)
    if y.ndim > 2 or y.size == 0:
        raise ValueError(
            "y must have the shape (rows,) or (rows, targets), got "
            f"{y.shape}; reshape it so."
        )
    check_consistent_length(rows, y)
    bad = ~np.isfinite(y)
    if bad.any():
        place = int(np.argwhere(bad)[0][0])
        found = "NaN" if np.isnan(y[bad]).any() else "infinity (inf)"
        raise ValueError(
            f"y must hold finite numbers, got {found}, first in row {place}; drop such "
            "rows, or give them values, first."
        )
    return y
