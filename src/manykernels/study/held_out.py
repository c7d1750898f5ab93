"""One model on rows that it has not seen: sums that shares are made of, and scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.study.owners import Owners, Presence
from manykernels.study.tasks import LabelTask, Task, ValueTask, read_task


@dataclass(frozen=True)
class Settings:
    """What all models of a study are asked for."""

    by: str
    center: bool
    n_permutations: int
    rng: np.random.Generator
    variance: np.ndarray | None = None  # of the targets, where there are numbers


@dataclass(frozen=True)
class HeldOut:
    """What the parts of one model do on unseen rows."""

    names: list[str]
    kernel_weight: np.ndarray  # (parts,)
    gains: np.ndarray  # (rows, parts), times the weight of the row
    counts: np.ndarray  # (rows,), times the weight of the row
    overlap: int
    by_output: dict[str, np.ndarray]  # sums of gains, (classes or targets, parts)
    where_present: np.ndarray  # (2, parts) sums over rows that have it: own and all
    n_present: np.ndarray  # (parts,)
    score: float
    drop: np.ndarray  # (parts,)
    permuted: np.ndarray  # (parts,)
    train_rows: int  # 0 where these are not known
    classes: np.ndarray | None  # the labels, where there are such


def examine(
    model: Any, X: Any, y: Any, weight: Any, settings: Settings, train_rows: int = 0
) -> HeldOut:
    """Gains, and what scores lose, of all parts of a fitted model."""
    task, kept = read_task(model, X, y, weight, settings.center, settings.variance)
    owners = Owners.of(model, settings.by)
    found = np.asarray(model.kernel_contributions(X))
    presence = Presence.of(model, X, owners, len(found)).take(kept)
    parts = owners.sum(found[kept], axis=1)
    gains = task.gains(parts)
    learned = np.atleast_2d(model.kernel_weights_).mean(axis=0)
    return HeldOut(
        owners.names,
        owners.sum(learned, axis=0),
        gains.gain * task.weight[:, None],
        gains.count * task.weight,
        task.overlap,
        _by_output(task, parts),
        _where_present(task, parts, presence),
        presence.has.sum(axis=0),
        *_losses(task, parts, presence, settings),
        train_rows,
        getattr(task, "classes", None),
    )


def _by_output(task: Task, parts: np.ndarray) -> dict[str, np.ndarray]:
    """Sums of gains by class, or by target where there are several."""
    if isinstance(task, LabelTask):
        return {"per_class": task.by_class(parts)}
    if isinstance(task, ValueTask) and len(task.variance) > 1:
        gain = task.by_target(parts)
        return {"per_target": np.einsum("i,ifk->kf", task.weight, gain)}
    return {}


def _where_present(task: Task, parts: np.ndarray, presence: Presence) -> np.ndarray:
    """Gains of a part, and of all, over the rows that have it."""
    sums: dict[bytes, np.ndarray] = {}
    found = np.zeros((2, parts.shape[1]))
    for f, here in enumerate(presence.has.T):
        key = here.tobytes()
        if key not in sums:
            own = task.take(here)
            few = here.sum() < 2  # no covariance, no pair
            gain = np.zeros((1, parts.shape[1])) if few else own.gains(parts[here]).gain
            sums[key] = (np.zeros(1) if few else own.weight) @ gain
        found[:, f] = sums[key][f], sums[key].sum()
    return found


def _losses(
    task: Task, parts: np.ndarray, presence: Presence, settings: Settings
) -> tuple[float, np.ndarray, np.ndarray]:
    """The score; what it loses without a part, and with its rows shuffled."""
    scores = parts.sum(axis=1)
    whole = task.score(scores)
    drop = np.array([task.score(scores - part) for part in np.moveaxis(parts, 1, 0)])
    shuffled = np.full((max(settings.n_permutations, 1), parts.shape[1]), np.nan)
    for line in shuffled[: settings.n_permutations]:
        for f, part in enumerate(np.moveaxis(parts, 1, 0)):
            moved = _shuffled(part, presence, f, settings.rng)
            line[f] = task.score(scores - part + moved)
    return whole, whole - drop, whole - shuffled.mean(axis=0)


def _shuffled(
    part: np.ndarray, presence: Presence, f: int, rng: np.random.Generator
) -> np.ndarray:
    """A part with its view's rows exchanged among the rows that have the view.

    A row keeps its own stretch, which speaks of the views that it lacks itself.
    """
    here = np.flatnonzero(presence.has[:, f])
    stretch = presence.stretch.reshape(-1, *[1] * (part.ndim - 1))
    moved = part.copy()
    other = rng.permutation(here)
    moved[here] = part[other] / stretch[other] * stretch[here]
    return moved
