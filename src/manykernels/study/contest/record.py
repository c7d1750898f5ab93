"""What one split leaves behind: predictions of all methods, and what kernels did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from manykernels.study.contest.entrants import (
    BASELINES,
    Lesson,
    Outcome,
    Plan,
    Rows,
    learned,
    uniform,
)
from manykernels.study.contest.kinds import Kind
from manykernels.study.contest.splits import Fold
from manykernels.study.held_out import HeldOut, Settings, examine
from manykernels.study.owners import Owners, Presence

SHUFFLES = 20  # of the rows of every view
LEARNED, UNIFORM = "mkl", "uniform"  # what every study compares


@dataclass(frozen=True)
class Record:
    """One split: what every method predicted of the rows left out.

    Attributes
    ----------
    outcomes : dict of Outcome
        By the name of the method.
    by_kernel, by_view : HeldOut
        What kernels and views do on the rows left out.
    parts : array of shape (rows, views)
        Parts of the views in the decision: of the margin of the predicted class over
        the runner-up, or of the predicted number.
    lacks : array of shape (rows, views)
        Which rows lack which view.
    """

    outcomes: dict[str, Outcome]
    by_kernel: HeldOut
    by_view: HeldOut
    parts: np.ndarray
    lacks: np.ndarray


def compare(
    estimator: Any,
    train: Rows,
    test: Rows,
    folds: Sequence[Fold],
    plan: Plan,
    baselines: Sequence[str],
    step: Callable[[], None],
) -> Record:
    """All methods on one split; `step` is called after each."""
    lesson = Lesson(clone(estimator), train, folds, plan)
    found, model = learned(lesson, test.X)
    outcomes = {LEARNED: found}
    step()
    outcomes[UNIFORM], _ = uniform(lesson, test.X)
    step()
    for name in baselines:
        outcomes[name] = BASELINES[name](lesson, test.X)
        step()
    return record_of(model, test, plan.kind, plan.seed, len(train.y), outcomes)


def record_of(
    model: Any,
    test: Rows,
    kind: Kind,
    seed: int,
    n_train: int,
    outcomes: dict[str, Outcome],
) -> Record:
    """What the kernels of a fitted model do on unseen rows, beside outcomes."""

    def examined(by: str) -> HeldOut:
        rng = np.random.default_rng(seed)
        settings = Settings(by, True, SHUFFLES, rng, kind.variance)
        found = examine(model, test.X, test.y, test.weight, settings, n_train)
        return replace(found, classes=None)  # labels of any type stay out of files

    owners = Owners.of(model, "view")
    presence = Presence.of(model, test.X, owners, len(test.y))
    parts = owners.sum(np.asarray(model.kernel_contributions(test.X)), axis=1)
    held = examined("kernel"), examined("view")
    return Record(outcomes, *held, decisive(parts), ~presence.has)


def decisive(parts: np.ndarray) -> np.ndarray:
    """Parts of what was decided: of two classes, or a number, these are the parts.

    With more classes, parts of the margin of the highest score over the second.

    Examples
    --------
    >>> decisive(np.array([[[3.0, 0.0, 1.0], [0.0, 1.0, 0.5]]])).tolist()
    [[2.0, -0.5]]
    """
    if parts.ndim == 2:
        return parts
    order = np.argsort(parts.sum(axis=1), axis=1)
    rows = np.arange(len(parts))
    return np.asarray(parts[rows, :, order[:, -1]] - parts[rows, :, order[:, -2]])
