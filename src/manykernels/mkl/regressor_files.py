"""Save and load regressors as plain data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from manykernels.files import from_plain, to_plain, write_container
from manykernels.files.container import Arrays
from manykernels.mkl.persistence import (
    _feature_names,
    _plain_params,
    plain_kernels,
)
from manykernels.mkl.soundness import model_sizes, require_all, zero_scores
from manykernels.solvers import Epoch

SCALARS = ("n_iter_", "n_features_in_")
VALUES = ("objective_", "duality_gap_", "intercept_", "support_")


def save_regressor(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write support rows, coefficients, weights and settings; no training kernels."""
    arrays: Arrays = []
    content = {
        "estimator": type(estimator).__name__,
        "params": _plain_params(estimator),
        "kernels": plain_kernels(
            estimator.kernels, lambda: estimator._model.kernels.kernels, arrays
        ),
        "model": to_plain(estimator._model, arrays),
        "values": {name: to_plain(getattr(estimator, name), arrays) for name in VALUES},
        "scalars": {name: to_plain(getattr(estimator, name), []) for name in SCALARS},
        "feature_names": _feature_names(estimator),
        "history": _plain_history(estimator.history_),
    }
    write_container(path, content, arrays)


def restore_regressor(
    cls: type,
    content: Any,
    arrays: Arrays,
    functions: Mapping[str, Callable[..., Any]] | None,
) -> Any:
    """The regressor in a file's content."""
    estimator: Any = cls(**from_plain(content["params"], arrays))
    estimator.kernels = from_plain(content["kernels"], arrays, functions)
    model = estimator._model = from_plain(content["model"], arrays, functions)
    for name in VALUES:
        setattr(estimator, name, from_plain(content["values"][name], arrays))
    for name in SCALARS:
        setattr(estimator, name, content["scalars"][name])
    if content["feature_names"] is not None:
        names = np.array(content["feature_names"], dtype=object)
        estimator.feature_names_in_ = names
    estimator.history_ = _history(content["history"])
    estimator.kernel_names_ = list(model.kernels.names)
    estimator.kernel_weights_, estimator.dual_coef_ = model.weights.T, model.coef
    _require_sound(estimator)
    return estimator


def _require_sound(estimator: Any) -> None:
    """Raise a ValueError where the parts do not fit together: files may be forged."""
    intercept = np.atleast_1d(estimator.intercept_)
    sizes = model_sizes(estimator, estimator._model.coef.shape[1])
    sizes["intercept"] = intercept.shape == (estimator._model.coef.shape[1],)
    require_all(sizes)
    scores = zero_scores(estimator)
    found = intercept if scores is None else scores + intercept
    if not np.isfinite(found).all():
        raise ValueError("its predictions are no finite numbers")


def _plain_history(history: list[Any]) -> list[Any]:
    """Lines of one fit, or of one fit per target."""
    return [
        list(item) if isinstance(item, Epoch) else [list(line) for line in item]
        for item in history
    ]


def _history(content: list[Any]) -> list[Any]:
    return [
        [Epoch(*line) for line in item]
        if item and isinstance(item[0], list)
        else Epoch(*item)
        for item in content
    ]
