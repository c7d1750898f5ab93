"""Whether what came out of a model file can predict: files may be forged."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.kernels import Kernel, KernelSet
from manykernels.kernels.groups import MappedGroup
from manykernels.kernels.maps import RandomFourier, TensorSketch, Whitening
from manykernels.mkl.model import BlockModel, FeatureModel


def require_sound(estimator: Any) -> None:
    """Raise a ValueError where a restored estimator's parts do not fit together."""
    _require_consistent(estimator)
    _require_prediction(estimator)


def _require_consistent(estimator: Any) -> None:
    """Sizes must agree, or the first prediction would fail in a confusing way."""
    n_classes = len(estimator.classes_)
    sizes = model_sizes(estimator, n_classes) | {
        "weights": estimator._model.weights.ndim == 1,
        "classes": n_classes >= 2,
        "labels": estimator._labels.target.shape == estimator.support_.shape,
    }
    require_all(sizes)


def require_all(sizes: dict[str, bool]) -> None:
    """Raise a ValueError that names what is not right."""
    wrong = [name for name, right in sizes.items() if not right]
    if wrong:
        raise ValueError(f"sizes disagree: {', '.join(wrong)}")


def model_sizes(estimator: Any, n_outputs: int) -> dict[str, bool]:
    """What must agree in every fitted model, and whether it does."""
    model = estimator._model
    n_support, n_kernels = model.kernels.n_reference, model.kernels.n_kernels
    members = sorted(f for group in model.kernels.groups for f in group.members)
    shapes = ((n_kernels,), (n_kernels, n_outputs))
    return {
        "coefficients": model.coef.shape == (n_support, n_outputs),
        "shape of the weights": model.weights.shape in shapes,
        "kernels": members == list(range(n_kernels)),
        "names": len(model.kernels.names) == n_kernels,
        "scalings": len(model.kernels.scalings) == n_kernels,
        "clips": len(model.kernels.clips) == n_kernels,
        "support": estimator.support_.shape == (n_support,),
        "maps": _maps_fit(model.kernels),
        "blocks": _has_its_blocks(model),
    }


def _require_prediction(estimator: Any) -> None:
    scores = zero_scores(estimator)
    if scores is None:
        return
    scores = scores / estimator.temperature_
    if scores.shape != (1, len(estimator.classes_)) or not np.isfinite(scores).all():
        raise ValueError("its scores are no finite numbers")


def zero_scores(estimator: Any) -> np.ndarray | None:
    """Scores of a row of zeros, without which a later row would fail unexplained.

    None where a function from elsewhere need not take zeros.
    """
    kernels = estimator._model.kernels
    given = any(kernel.family == "given" for kernel in kernels.kernels)
    width = kernels.n_train if given else kernels.n_columns
    if estimator.n_features_in_ != width or isinstance(width, bool):
        raise ValueError(f"{estimator.n_features_in_!r} features, {width!r} columns")
    if any(kernel.family == "custom" for kernel in kernels.kernels):
        return None
    shape = (1, width, kernels.n_columns) if given else (1, width)
    return np.asarray(estimator._model.scores(np.zeros(shape)))


def _maps_fit(kernels: KernelSet) -> bool:
    """Whether the constants of approximate kernels have shapes that can be used."""
    return all(
        _map_fits(group, kernels.kernels[group.members[0]], kernels.n_columns)
        for group in kernels.groups
        if isinstance(group, MappedGroup)
    )


def _map_fits(group: MappedGroup, kernel: Kernel, n_columns: int) -> bool:
    source, landmarks = group.source, group.source.rows
    width = _width(source.columns, n_columns)
    return (
        _constants_fit(group.map, kernel, len(landmarks), width)
        and source.members == group.members
        and source.family == kernel.family
        and landmarks.values.shape[1] == width
        and landmarks.squares.shape == (len(landmarks),)
        and group.rows.values.shape[1] == group.map.n_columns
        and isinstance(group.unit, bool)
    )


def _width(columns: Any, n_columns: int) -> int:
    """How many columns are chosen; counted, as a file may claim any number of them."""
    if isinstance(columns, slice):
        return len(range(n_columns)[columns])
    if columns.dtype.kind != "i" or columns.min() < 0 or columns.max() >= n_columns:
        raise ValueError(f"columns outside of a table with {n_columns}")
    return len(columns)


def _constants_fit(found: Any, kernel: Kernel, n_landmarks: int, width: int) -> bool:
    """Whether a map belongs to the kernel, with finite numbers for these columns."""
    if isinstance(found, Whitening):
        numbers, first = found.whiten, n_landmarks
        known = kernel.approximate == "nystroem"
    elif isinstance(found, RandomFourier):
        numbers, first = found.frequencies, width
        known = kernel.random_map in ("gaussian", "cauchy")
    else:
        return kernel.approximate is not None and _is_sketch(found, kernel, width)
    shaped = numbers.ndim == 2 and len(numbers) == first
    return known and shaped and bool(np.isfinite(numbers).all())


def _is_sketch(found: Any, kernel: Any, width: int) -> bool:
    """Buckets are positions among the columns of phi."""
    shape = (getattr(kernel, "degree", None), width + 1)
    return bool(
        isinstance(found, TensorSketch)
        and kernel.random_map == "sketch"
        and found.buckets.shape == found.signs.shape == shape
        and found.buckets.dtype.kind == "i"
        and 0 <= found.buckets.min()
        and found.buckets.max() < found.n_columns
        and np.isin(found.signs, (-1.0, 1.0)).all()
    )


def _has_its_blocks(model: Any) -> bool:
    """Whether a model of features has one block per kernel, and needs no rows."""
    if not isinstance(model, FeatureModel):
        return isinstance(model, BlockModel)
    shapes = [(n, model.coef.shape[1]) for n in model.kernels.n_feature_columns()]
    return (
        model.kernels.is_explicit
        and [block.shape for block in model.blocks] == shapes
        and all(bool(np.isfinite(block).all()) for block in model.blocks)
    )
