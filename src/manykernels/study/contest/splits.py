"""Rows to learn from and rows to predict, again and again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)

from manykernels.inputs.parameters import Whole

Fold = tuple[np.ndarray, np.ndarray]  # rows to learn from, rows to predict


@dataclass(frozen=True)
class Split:
    """One division of all rows."""

    repeat: int
    fold: int
    train: np.ndarray
    test: np.ndarray


def outer_splits(
    cv: Any, n_repeats: int, strata: np.ndarray | None, groups: Any, n: int, seed: int
) -> list[Split]:
    """All splits of a study; a number of folds is shuffled anew in every repeat."""
    if not isinstance(cv, Integral):
        return list(_given(cv, n_repeats, strata, groups, n))
    Whole(low=2, example=5).check("cv", cv)
    return [
        Split(repeat, fold, train, test)
        for repeat in range(n_repeats)
        for fold, (train, test) in enumerate(
            folds(int(cv), strata, groups, n, seed + repeat)
        )
    ]


def _given(
    cv: Any, n_repeats: int, strata: np.ndarray | None, groups: Any, n: int
) -> Iterator[Split]:
    """As a splitter or a list of pairs has it; repeats are its own affair."""
    if n_repeats != 1:
        raise ValueError(
            f"n_repeats must be 1 where cv is not a number of folds, got {n_repeats}; "
            "pass for instance RepeatedStratifiedKFold as cv."
        )
    if not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        raise TypeError(
            "cv must be a number of folds, a splitter or a list of pairs of rows, got "
            f"{type(cv).__name__}; choose for instance cv=5."
        )
    splitter = check_cv(cv)
    labels = np.zeros(n) if strata is None else strata
    for fold, (train, test) in enumerate(splitter.split(np.zeros(n), labels, groups)):
        yield Split(0, fold, np.asarray(train), np.asarray(test))


def folds(
    n_folds: int, strata: np.ndarray | None, groups: Any, n: int, seed: int
) -> list[Fold]:
    """Shuffled folds with the same share of every stratum; groups stay together.

    Examples
    --------
    >>> found = folds(2, np.array([0, 0, 1, 1]), None, 4, seed=0)
    >>> [np.sort(np.array([0, 0, 1, 1])[test]).tolist() for _, test in found]
    [[0, 1], [0, 1]]
    """
    kinds: dict[tuple[bool, bool], Any] = {
        (False, False): KFold,
        (True, False): StratifiedKFold,
        (False, True): GroupKFold,
        (True, True): StratifiedGroupKFold,
    }
    kind = kinds[strata is not None, groups is not None]
    _require_groups(groups, n_folds)
    splitter = kind(n_folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(n), strata, groups))


def _require_groups(groups: Any, n_folds: int) -> None:
    found = n_folds if groups is None else len(np.unique(groups))
    if found < n_folds:
        raise ValueError(
            f"groups must be at least as many as folds, which are {n_folds}, got "
            f"{found}; take fewer folds."
        )
