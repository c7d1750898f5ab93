"""Save and load sequence labelers as plain data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from manykernels.chains.descent import ChainProgress
from manykernels.chains.inputs import TokenColumns
from manykernels.chains.model import SequenceKernels, SequenceModel
from manykernels.chains.online_proximal import ChainEpoch
from manykernels.chains.problem import ChainWeights
from manykernels.files import from_plain, to_plain, write_container
from manykernels.files.container import Arrays
from manykernels.mkl.persistence import (
    _plain_labels,
    _plain_params,
    plain_kernels,
)
from manykernels.norms import regularizers as known
from manykernels.norms.regularizers import Regularizer, SumOf

SCALARS = ("objective_", "eta0_", "transition_weight_", "n_iter_", "n_features_in_")
REGULARIZERS = {
    name: getattr(known, name)
    for name in (
        "ElasticNetMKL",
        "GroupLasso",
        "OverlappingGroups",
        "PowerNorm",
        "SparseGroupLasso",
        "SparseMKL",
        "SquaredL2",
        "SquaredPNorm",
    )
}


def save_labeler(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write support positions, coefficients, weights and settings."""
    arrays: Arrays = []
    params = _plain_params(estimator)
    for name in ("regularizer", "cost"):
        params.pop(name, None)
    model: SequenceModel = estimator._model
    columns: TokenColumns | None = estimator._columns
    content = {
        "estimator": type(estimator).__name__,
        "params": params,
        "regularizer": _plain_regularizer(estimator.regularizer),
        "cost": None
        if estimator.cost is None
        else to_plain(np.asarray(estimator.cost, np.float64), arrays),
        "kernels": plain_kernels(
            estimator.kernels, lambda: _fitted_specs(model.kernels), arrays
        ),
        "sets": _plain_sets(model.kernels, arrays),
        "progress": _plain_progress(model.progress, arrays),
        "counts": [model.averaged, model.n_sequences, model.n_calls],
        "tokens": None if columns is None else dict(vars(columns)),
        "classes": to_plain(_plain_labels(estimator.classes_), arrays),
        "object_classes": estimator.classes_.dtype == object,
        "weights": to_plain(estimator.kernel_weights_, arrays),
        "scalars": {name: _number(getattr(estimator, name)) for name in SCALARS},
        "history": [[_number(value) for value in line] for line in estimator.history_],
    }
    write_container(path, content, arrays)


def restore_labeler(
    cls: type,
    content: Any,
    arrays: Arrays,
    functions: Mapping[str, Callable[..., Any]] | None,
) -> Any:
    """The labeler in a file's content, which is checked."""
    estimator: Any = cls(**from_plain(content["params"], arrays))
    estimator.regularizer = _regularizer(content["regularizer"])
    estimator.cost = from_plain(content["cost"], arrays)
    estimator.kernels = from_plain(content["kernels"], arrays, functions)
    kernels = _sets(content["sets"], arrays, functions)
    progress = _progress(content["progress"], arrays)
    estimator._model = SequenceModel(kernels, progress, *content["counts"])
    tokens = content["tokens"]
    estimator._columns = None
    if tokens is not None:
        estimator._columns = columns = TokenColumns(**tokens)
        estimator.feature_names_in_ = np.array(columns.names, dtype=object)
        estimator.token_attributes_ = columns.attributes
    classes = from_plain(content["classes"], arrays)
    as_object = content["object_classes"]
    estimator.classes_ = classes.astype(object) if as_object else classes
    for attribute in SCALARS:
        value = content["scalars"][attribute]
        setattr(estimator, attribute, float("nan") if value is None else value)
    estimator.history_ = [_history_line(line) for line in content["history"]]
    estimator.kernel_names_ = list(kernels.names)
    estimator.kernel_weights_ = from_plain(content["weights"], arrays)
    estimator.transitions_ = estimator._model.weights.pairs
    _require_sound(estimator)
    return estimator


def _number(value: Any) -> Any:
    """Python's own number; None for NaN, which JSON does not know."""
    plain = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(plain, float) and np.isnan(plain) else plain


def _history_line(values: list[Any]) -> ChainEpoch:
    known_values: list[Any] = [float("nan") if v is None else v for v in values]
    return ChainEpoch(*known_values)


def _plain_regularizer(regularizer: Any) -> Any:
    if isinstance(regularizer, str):
        return regularizer
    if isinstance(regularizer, SumOf):
        parts = [_plain_regularizer(part) for part in regularizer.parts]
        factors = regularizer.factors
        return {"sum": parts, "factors": None if factors is None else list(factors)}
    name = type(regularizer).__name__
    if name not in REGULARIZERS:
        raise TypeError(
            f"expected a regularizer of manykernels.norms to save, got {name}; only "
            f"{', '.join(REGULARIZERS)} and their sums can be written to a file."
        )
    return {"name": name, "settings": to_plain(dict(vars(regularizer)), [])}


def _regularizer(plain: Any) -> str | Regularizer:
    if isinstance(plain, str):
        return plain
    if "sum" in plain:
        parts: list[Any] = [_regularizer(part) for part in plain["sum"]]
        return SumOf(parts, plain["factors"])
    made: Regularizer = REGULARIZERS[plain["name"]](**plain["settings"])
    return made


def _fitted_specs(kernels: SequenceKernels) -> list[Any]:
    specs: list[Any] = [None] * len(kernels.names)
    for known_set, at in (
        (kernels.dense, kernels.dense_at),
        (kernels.sparse, kernels.sparse_at),
        (kernels.explicit, kernels.explicit_at),
    ):
        for f, kernel in zip(at, known_set.kernels if known_set else (), strict=True):
            specs[f] = kernel
    return specs


def _plain_sets(kernels: SequenceKernels, arrays: Arrays) -> dict[str, Any]:
    return {name: to_plain(value, arrays) for name, value in vars(kernels).items()}


def _sets(plain: Any, arrays: Arrays, functions: Any) -> SequenceKernels:
    return SequenceKernels(
        **{name: from_plain(value, arrays, functions) for name, value in plain.items()}
    )


def _plain_progress(progress: ChainProgress, arrays: Arrays) -> list[Any]:
    models = [progress.last] + ([] if progress.total is None else [progress.total])
    parts = [[model.coef, model.table, model.pairs] for model in models]
    return [progress.n_steps, to_plain(parts, arrays)]


def _progress(plain: Any, arrays: Arrays) -> ChainProgress:
    n_steps, parts = plain
    models = [ChainWeights(*part) for part in from_plain(parts, arrays)]
    return ChainProgress(models[0], models[1] if len(models) > 1 else None, n_steps)


def _require_sound(estimator: Any) -> None:
    """Sizes must agree, or predictions would fail in a confusing way."""
    model: SequenceModel = estimator._model
    kernels, n_labels = model.kernels, len(estimator.classes_)
    shapes = {
        "coefficients": (len(kernels.kernel_at), kernels.n_reference, n_labels),
        "feature weights": (sum(kernels.feature_columns), n_labels),
        "transitions": (n_labels, n_labels),
    }
    total = model.progress.total
    wrong = []
    for weights in (model.progress.last, *([] if total is None else [total])):
        parts = (weights.coef, weights.table, weights.pairs)
        for (name, shape), part in zip(shapes.items(), parts, strict=True):
            if part.shape != shape or not np.isfinite(part).all():
                wrong.append(name)
    blocks = sorted([*kernels.kernel_at, *kernels.explicit_at])
    if blocks != list(range(len(kernels.names))):
        wrong.append("kernels")
    for known_set in (kernels.dense, kernels.sparse, kernels.explicit):
        if known_set is not None and known_set.n_columns != estimator.n_features_in_:
            wrong.append("columns")
    if estimator._columns and len(estimator._columns.names) != estimator.n_features_in_:
        wrong.append("tokens")
    if estimator.kernel_weights_.shape != (len(kernels.names),):
        wrong.append("weights")
    if wrong:
        raise ValueError(f"parts disagree: {', '.join(sorted(set(wrong)))}")
