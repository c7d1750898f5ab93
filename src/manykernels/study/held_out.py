"""One model on unseen rows: sums that shares are made of, and scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

from manykernels.study.kernel_parts import KernelParts, PartPresence
from manykernels.targets import Labels, Targets, Times, Values


@dataclass(frozen=True)
class ImportanceSettings:
    """How importance is measured, the same for all models.

    Attributes
    ----------
    by : {"kernel", "view"}
    center : bool
        Of labels: whether a constant part gains nothing.
    n_permutations : int
    rng : Generator
    variance : array of shape (targets,) or None
        Of values: of all rows, which every split explains a share of.
    """

    by: str
    center: bool
    n_permutations: int
    rng: np.random.Generator
    variance: np.ndarray | None = None


@dataclass(frozen=True)
class HeldOut:
    """What the parts of one model do on unseen rows."""

    names: list[str]
    kernel_weight: np.ndarray  # (parts,)
    gains: np.ndarray  # (rows, parts), times the weight of the row
    counts: np.ndarray  # (rows,), times the weight of the row
    overlap: int  # rows that one gain depends on
    by_output: dict[str, np.ndarray]  # sums of gains, (classes or targets, parts)
    where_present: np.ndarray  # (2, parts) sums over rows that have it: its gain, all
    n_present: np.ndarray  # (parts,)
    score: float
    drop: np.ndarray  # (parts,)
    permuted: np.ndarray  # (parts,)
    train_rows: int  # 0 if unknown
    classes: np.ndarray | None  # of labels


def examine(
    model: Any,
    X: Any,
    y: Any,
    weight: Any,
    settings: ImportanceSettings,
    train_rows: int = 0,
) -> HeldOut:
    """Measure gains, and what scores lose, of all parts of a fitted model."""
    # Scores are sums of the contributions of kernels: what a part does is exact.
    contributions = np.asarray(model.kernel_contributions(X))
    targets = read_unseen(model, y, weight, len(contributions))
    variance = settings.variance
    if isinstance(targets, Values):
        variance = known_variance(targets) if variance is None else variance
    owners = KernelParts.of(model, settings.by)
    presence = PartPresence.of(model, X, owners, len(contributions)).take(targets.kept)
    parts = owners.sum(contributions[targets.kept], axis=1)
    options: dict[str, Any] = {"center": settings.center, "variance": variance}
    gains = targets.gains(parts, **options)
    mean_weights = np.atleast_2d(model.kernel_weights_).mean(axis=0)
    score, drop, permuted = _losses(targets, parts, presence, settings)
    return HeldOut(
        names=owners.names,
        kernel_weight=owners.sum(mean_weights, axis=0),
        gains=gains.gain * targets.weight[:, None],
        counts=gains.count * targets.weight,
        overlap=targets.rows_per_gain,
        by_output=targets.gains_by_output(parts, **options),
        where_present=_where_present(targets, parts, presence, options),
        n_present=presence.has.sum(axis=0),
        score=score,
        drop=drop,
        permuted=permuted,
        train_rows=train_rows,
        classes=getattr(targets, "classes", None),
    )


def _where_present(
    targets: Targets,
    parts: np.ndarray,
    presence: PartPresence,
    options: dict[str, Any],
) -> np.ndarray:
    """Gains of a part, and of all, over the rows that have it."""
    sums: dict[bytes, np.ndarray] = {}
    by_part = np.zeros((2, parts.shape[1]))
    # Kernels of a view share their rows, and most views have all of them.
    for f, has in enumerate(presence.has.T):
        key = has.tobytes()
        if key not in sums:
            sums[key] = np.zeros(parts.shape[1])
            if has.sum() > 1:  # one row has no covariance and no pair
                some = targets.take(has)
                sums[key] = some.weight @ some.gains(parts[has], **options).gain
        by_part[:, f] = sums[key][f], sums[key].sum()
    return by_part


def _losses(
    targets: Targets,
    parts: np.ndarray,
    presence: PartPresence,
    settings: ImportanceSettings,
) -> tuple[float, np.ndarray, np.ndarray]:
    """The score; what it loses without a part, and with its rows shuffled."""
    scores, each = parts.sum(axis=1), np.moveaxis(parts, 1, 0)
    whole = targets.score_of(scores)
    without = np.array([targets.score_of(scores - part) for part in each])
    shuffled = np.full((max(settings.n_permutations, 1), len(each)), np.nan)
    for line in shuffled[: settings.n_permutations]:
        for f, part in enumerate(each):
            moved = _shuffled(part, presence, f, settings.rng)
            line[f] = targets.score_of(scores - part + moved)
    return whole, whole - without, whole - shuffled.mean(axis=0)


def _shuffled(
    part: np.ndarray, presence: PartPresence, f: int, rng: np.random.Generator
) -> np.ndarray:
    """A part with its rows exchanged among the rows that have its view."""
    # A row keeps its stretch, which depends on the views that it lacks itself.
    rows = np.flatnonzero(presence.has[:, f])
    stretch = presence.stretch.reshape(-1, *[1] * (part.ndim - 1))
    moved = part.copy()
    other = rng.permutation(rows)
    moved[rows] = part[other] / stretch[other] * stretch[rows]
    return moved


# --- from estimators and y ------------------------------------------------------------


def targets_class(estimator: Any) -> type[Labels] | type[Values] | type[Times]:
    """Return what the estimator predicts; raise if it has no kernels to judge."""
    if hasattr(estimator, "kernel_contributions"):
        if hasattr(estimator, "predict_risk"):
            return Times
        if is_classifier(estimator):
            return Labels
        if is_regressor(estimator):
            return Values
    raise TypeError(
        "estimator must be an MKLClassifier, MKLRegressor, MKLSurvival or a relative "
        f"of these with kernel_contributions, got {type(estimator).__name__}; pass the "
        "estimator itself, without a pipeline or a search around it."
    )


def read_targets(
    estimator: Any, y: Any, sample_weight: Any = None, **options: Any
) -> Labels | Values | Times:
    """Read what an estimator shall predict, values and times as they are."""
    kind: Any = targets_class(estimator)
    options |= {Labels: {}, Values: {"center": False}, Times: {"log": False}}[kind]
    targets: Labels | Values | Times = kind.of(
        y, sample_weight, owner=type(estimator).__name__, **options
    )
    return targets


def read_unseen(
    model: Any, y: Any, sample_weight: Any, n_rows: int | None = None
) -> Labels | Values | Times:
    """Read rows that a fitted model is judged on: its classes, its intercept."""
    if targets_class(model) is Labels:
        unknown = np.setdiff1d(np.asarray(y), model.classes_)
        if len(unknown):
            raise ValueError(
                "y must hold labels that the model was fitted on, "
                f"{model.classes_.tolist()}, got {unknown.tolist()} as well; leave "
                "such rows out, or stratify the folds."
            )
        options = {"n_rows": n_rows, "classes": model.classes_}
        return read_targets(model, y, sample_weight, **options)
    targets = read_targets(model, y, sample_weight, n_rows=n_rows)
    if not isinstance(targets, Values):
        return targets
    intercept = np.atleast_1d(model.intercept_)
    if len(intercept) != targets.n_outputs:
        raise ValueError(
            f"y must have as many targets as in fit, {len(intercept)}, got "
            f"{targets.n_outputs}; pass the same targets."
        )
    return replace(targets, intercept=intercept)


def known_variance(values: Values) -> np.ndarray:
    """Return variances of the targets; raise if one of these never changes."""
    variance = values.variance
    if not np.all(variance > 0.0):
        raise ValueError(
            "y must differ between rows, got the same number in all of them; pass "
            "other rows."
        )
    return variance
