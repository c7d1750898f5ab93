"""Save and load the estimators over products as plain data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from manykernels.files import ModelFileError, from_plain, to_plain, write_container
from manykernels.files.container import Arrays
from manykernels.mkl.persistence import (
    _feature_names,
    _plain_labels,
    _plain_params,
    plain_kernels,
)
from manykernels.mkl.soundness import require_all, zero_scores
from manykernels.products.model import (
    ColumnScale,
    InteractionTable,
    MonomialModel,
    PolynomialModel,
    ProductKernelModel,
)
from manykernels.solvers import Epoch

SCALARS = ("objective_", "duality_gap_", "n_iter_", "n_features_in_")
MEMBER = ("p", "degree_weights", "C", "weight")
TABLE = ("interaction", "columns", "degree", "weight", "coefficient", "sign")


def save_polynomial(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write the products in use, their coefficients and the settings."""
    arrays: Arrays = []
    params = _plain_params(estimator)
    params.pop("base_kernels", None)
    classes = getattr(estimator, "classes_", None)
    content = {
        "estimator": type(estimator).__name__,
        "params": to_plain(params, arrays),
        "base_kernels": plain_kernels(
            estimator.base_kernels, lambda: estimator._model.kernels.kernels, arrays
        ),
        "degree_weights": to_plain(_listed(estimator.degree_weights), arrays),
        "model": to_plain(estimator._model, arrays),
        "classes": None
        if classes is None
        else to_plain(_plain_labels(classes), arrays),
        "object_classes": classes is not None and classes.dtype == object,
        "feature_names": _feature_names(estimator),
        "scalars": {name: to_plain(getattr(estimator, name), []) for name in SCALARS},
        "C": to_plain(estimator.C_, arrays),
        "blend": to_plain(getattr(estimator, "blend_", None), arrays),
        "weights": to_plain(estimator.kernel_weights_, arrays),
        "names": list(estimator.kernel_names_),
        "table": _plain_table(estimator, arrays),
        "history": [list(line) for line in estimator.history_],
    }
    write_container(path, content, arrays)


def restore_polynomial(
    cls: type,
    content: Any,
    arrays: Arrays,
    functions: Mapping[str, Callable[..., Any]] | None,
) -> Any:
    """The estimator in a file's content, which is checked."""
    estimator: Any = cls(**from_plain(content["params"], arrays))
    estimator.base_kernels = from_plain(content["base_kernels"], arrays, functions)
    estimator.degree_weights = from_plain(content["degree_weights"], arrays)
    estimator._model = from_plain(content["model"], arrays, functions)
    if content["classes"] is not None:
        classes = from_plain(content["classes"], arrays)
        as_object = content["object_classes"]
        estimator.classes_ = classes.astype(object) if as_object else classes
    if content["feature_names"] is not None:
        names = np.array(content["feature_names"], dtype=object)
        estimator.feature_names_in_ = names
    for attribute in SCALARS:
        setattr(estimator, attribute, content["scalars"][attribute])
    estimator.C_ = from_plain(content["C"], arrays)
    if content.get("blend") is not None:
        estimator.blend_ = from_plain(content["blend"], arrays)
    estimator.kernel_weights_ = from_plain(content["weights"], arrays)
    estimator.kernel_names_ = [str(name) for name in content["names"]]
    estimator.interactions_ = _table(from_plain(content["table"], arrays))
    estimator.history_ = [Epoch(*line) for line in content["history"]]
    _require_sound(estimator)
    return estimator


def _listed(weights: Any) -> Any:
    return list(weights) if isinstance(weights, tuple) else weights


def _plain_table(estimator: Any, arrays: Arrays) -> dict[str, Any]:
    table = estimator.interactions_
    return {key: to_plain(value, arrays) for key, value in table.items()}


def _table(columns: dict[str, Any]) -> InteractionTable:
    table = InteractionTable(columns)
    table["columns"] = [tuple(names) for names in columns["columns"]]
    return table


def _require_sound(estimator: Any) -> None:
    """Sizes and ranges must agree, or predictions would fail in a confusing way."""
    model = estimator._model
    if not isinstance(model, MonomialModel | ProductKernelModel):
        raise ModelFileError(
            "expected a model over products in the file, got "
            f"{type(model).__name__}; copy the original again."
        )
    n_outputs, n_products = len(model.intercept), len(model.products)
    classes = getattr(estimator, "classes_", None)
    n_classes = 0 if classes is None else len(classes)
    wanted = 1 if n_classes in (0, 2) else n_classes
    table = estimator.interactions_
    rows = len(table["interaction"])
    checks = {
        "outputs": n_outputs == wanted and model.intercept.ndim == 1,
        "classes": (classes is None) == (not hasattr(estimator, "loss")),
        "coefficients": _coef_fits(model, n_products, n_outputs),
        "numbers": all(np.isfinite(array).all() for array in _numbers(model)),
        "products": _products_fit(model, _n_base(estimator, model), estimator.degree),
        "scale": _scale_fits(model.scale, estimator.n_features_in_),
        "weights": estimator.kernel_weights_.shape == (n_products,),
        "names": len(estimator.kernel_names_) == n_products,
        "table": set(TABLE) <= set(table)
        and all(len(column) == rows for column in table.values()),
        "scalars": all(_is_number(getattr(estimator, name)) for name in SCALARS),
        "feature names": _names_fit(estimator),
        "blend": _is_blend_sound(getattr(estimator, "blend_", [])),
    }
    require_all(checks)
    _require_prediction(estimator, model)


def _require_prediction(estimator: Any, model: PolynomialModel) -> None:
    """A row of zeros must have finite scores, or a later one would fail unexplained."""
    if model.kernels is None:
        scores = model.scores(np.zeros((1, estimator.n_features_in_)))
    else:
        found = zero_scores(estimator)
        if found is None:
            return
        scores = found
    if scores.shape != (1, len(model.intercept)) or not np.isfinite(scores).all():
        raise ValueError("its scores are no finite numbers")


def _names_fit(estimator: Any) -> bool:
    names = getattr(estimator, "feature_names_in_", None)
    return names is None or (
        len(names) == estimator.n_features_in_
        and all(isinstance(name, str) for name in names)
    )


def _is_blend_sound(rows: Any) -> bool:
    return isinstance(rows, list) and all(
        isinstance(row, dict) and set(MEMBER) <= set(row) for row in rows
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(model: PolynomialModel) -> list[np.ndarray]:
    arrays = [model.coef, model.intercept]
    if isinstance(model, ProductKernelModel):
        arrays.append(model.weights)
    if model.scale is not None:
        arrays += [model.scale.shift, model.scale.factor]
    return arrays


def _n_base(estimator: Any, model: PolynomialModel) -> int:
    if model.kernels is None:
        return int(estimator.n_features_in_)
    return int(model.kernels.n_kernels)


def _coef_fits(model: PolynomialModel, n_products: int, n_outputs: int) -> bool:
    if isinstance(model, MonomialModel):
        return model.coef.shape == (n_products, n_outputs)
    return model.weights.shape == (n_products, n_outputs) and model.coef.shape == (
        model.kernels.n_reference,
        n_outputs,
    )


def _products_fit(model: PolynomialModel, n_base: int, degree: int) -> bool:
    """Factors are positions of base kernels, and -1 fills up on the right."""
    products = model.products
    if products.dtype.kind != "i" or products.shape[1:] != (degree,):
        return False
    inside = bool(((products >= -1) & (products < n_base)).all())
    filled = products < 0
    return inside and not np.any(filled[:, :-1] & ~filled[:, 1:])


def _scale_fits(scale: ColumnScale | None, n_columns: int) -> bool:
    if scale is None:
        return True
    return scale.shift.shape == scale.factor.shape == (n_columns,)
