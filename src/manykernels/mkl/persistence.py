"""Save an estimator as plain data; load it without running anything from the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from manykernels.files import (
    ModelFileError,
    from_plain,
    read_container,
    to_plain,
    write_container,
)
from manykernels.files.container import Arrays
from manykernels.mkl.calibration import Temperature
from manykernels.mkl.model import SupportLabels
from manykernels.mkl.soundness import require_sound
from manykernels.mkl.stream import OnlineEpoch
from manykernels.solvers import Epoch

SCALARS = ("objective_", "duality_gap_", "temperature_", "n_iter_", "n_features_in_")


def save_classifier(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write support rows, coefficients, weights and settings; no training kernels."""
    arrays: Arrays = []
    labels = estimator._labels
    content = {
        "estimator": type(estimator).__name__,
        "params": _plain_params(estimator),
        "kernels": plain_kernels(
            estimator.kernels, lambda: estimator._model.kernels.kernels, arrays
        ),
        "model": to_plain(estimator._model, arrays),
        "classes": to_plain(_plain_labels(estimator.classes_), arrays),
        "object_classes": estimator.classes_.dtype == object,
        "support": to_plain(estimator.support_, arrays),
        "feature_names": _feature_names(estimator),
        "scalars": {name: to_plain(getattr(estimator, name), []) for name in SCALARS},
        "history": [list(line) for line in estimator.history_],
        "past": to_plain([labels.target, labels.weight, labels.square_norms], arrays),
    }
    write_container(path, content, arrays)


def load_classifier(
    estimators: Mapping[str, type],
    path: str | os.PathLike[str],
    functions: Mapping[str, Callable[..., Any]] | None,
    restorers: Mapping[str, Callable[..., Any]] | None = None,
) -> Any:
    """The estimator in a file, of one of the classes in `estimators`.

    Estimators with files of another shape have functions of their own in `restorers`.
    """
    content, arrays = read_container(path)
    try:
        special = (restorers or {}).get(content["estimator"])
        if special is not None:
            cls = estimators[content["estimator"]]
            return special(cls, content, arrays, functions)
        return _restore(estimators, content, arrays, functions)
    except ModelFileError:
        raise
    except Exception as error:
        raise ModelFileError(
            f"expected the content of a fitted model, but {os.fspath(path)!r} lacks or "
            f"mixes up parts ({error}); copy the original again."
        ) from error


def _restore(
    estimators: Mapping[str, type],
    content: Any,
    arrays: Arrays,
    functions: Mapping[str, Callable[..., Any]] | None,
) -> Any:
    name = content["estimator"]
    if name not in estimators:
        raise ModelFileError(
            f"expected a model of {', '.join(estimators)}, got {name!r}; load it with "
            "the manykernels that wrote it."
        )
    params = from_plain(content["params"], arrays)
    if isinstance(params.get("class_weight"), list):
        params["class_weight"] = {key: item for key, item in params["class_weight"]}
    estimator = estimators[name](**params)
    estimator.kernels = from_plain(content["kernels"], arrays, functions)
    estimator._model = from_plain(content["model"], arrays, functions)
    classes = from_plain(content["classes"], arrays)
    as_object = content["object_classes"]
    estimator.classes_ = classes.astype(object) if as_object else classes
    estimator.support_ = from_plain(content["support"], arrays)
    for attribute in SCALARS:
        if attribute != "temperature_":
            setattr(estimator, attribute, content["scalars"][attribute])
    estimator._temperature = Temperature(content["scalars"]["temperature_"])
    if content["feature_names"] is not None:
        names = np.array(content["feature_names"], dtype=object)
        estimator.feature_names_in_ = names
    estimator.history_ = [_history_line(line) for line in content["history"]]
    model = estimator._model
    estimator.kernel_names_ = list(model.kernels.names)
    estimator.kernel_weights_, estimator.dual_coef_ = model.weights, model.coef
    estimator._labels = SupportLabels(*from_plain(content["past"], arrays))
    require_sound(estimator)
    return estimator


def _history_line(values: list[Any]) -> Epoch | OnlineEpoch:
    """An epoch of fit, or a call to partial_fit, whose lines are longer."""
    kind = Epoch if len(values) == len(Epoch._fields) else OnlineEpoch
    return kind(*values)


def _plain_params(estimator: Any) -> dict[str, Any]:
    """Parameters that are data; a loaded estimator has defaults for the others.

    Solver objects, callbacks and random states other than seeds are not kept, nor
    are the paths of this machine.
    """
    params = {}
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, dict):
            value = [[to_plain(k, []), to_plain(v, [])] for k, v in value.items()]
        plain = value is None or isinstance(value, (bool, int, float, str, list))
        if plain and name not in ("kernels", "checkpoint", "storage_dir"):
            params[name] = value
    return params


def plain_kernels(given: Any, fitted: Callable[[], Any], arrays: Arrays) -> Any:
    """The kernels as they were given where they are data, else as they were fitted."""
    if given is None or isinstance(given, str):
        return given
    try:
        return to_plain(given, arrays)
    except TypeError:
        return to_plain(fitted(), arrays)


def _plain_labels(classes: np.ndarray) -> np.ndarray:
    """Labels as an array that needs no pickle."""
    if classes.dtype != object:
        return classes
    if all(isinstance(label, str) for label in classes):
        return classes.astype(str)
    raise TypeError(
        "expected labels that are numbers, booleans or text to save, got "
        f"{sorted({type(label).__name__ for label in classes})}; encode y first."
    )


def _feature_names(estimator: Any) -> list[str] | None:
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]
