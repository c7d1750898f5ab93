"""The rows of a study, and their splits in training and test rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils import get_tags

from manykernels.base.tables import table_rows
from manykernels.inputs.parameters import Whole
from manykernels.inputs.row_matching import match_rows
from manykernels.inputs.views import Views, are_views, has_index
from manykernels.study.held_out import read_targets
from manykernels.targets import Labels, Targets, Values

Fold = tuple[np.ndarray, np.ndarray]  # training rows, test rows


@dataclass(frozen=True)
class StudyRows:
    """Some rows of the data, and what belongs to them."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None


@dataclass(frozen=True)
class Split:
    """One division of all rows."""

    repeat: int
    fold: int
    train: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class StudyData:
    """All rows in one order, and what is to be predicted of them."""

    X: Any
    targets: Targets
    weight: np.ndarray | None
    groups: np.ndarray | None
    pairwise: bool

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any, weight: Any, groups: Any) -> StudyData:
        """Check everything."""
        X, y, weight, groups = align_rows(estimator, X, y, weight, groups)
        targets = one_target(read_targets(estimator, y))
        n_rows = len(targets.y)
        require_rows(X, n_rows)
        weight = _vector("sample_weight", weight, n_rows)
        groups = _vector("groups", groups, n_rows)
        if weight is not None and not np.all(weight > 0.0):
            raise ValueError(
                "sample_weight must be positive in a study, got a weight of "
                f"{weight.min():g}; leave such rows out."
            )
        pairwise = get_tags(estimator).input_tags.pairwise
        return cls(X, targets, weight, groups, pairwise)

    @property
    def n_rows(self) -> int:
        """Of all data."""
        return len(self.targets.y)

    def rows(self, rows: np.ndarray, train: np.ndarray) -> StudyRows:
        """Some rows; kernel matrices have the training rows across."""
        X = take_rows(self.X, rows, train if self.pairwise else None)
        weight = None if self.weight is None else self.weight[rows]
        return StudyRows(X, self.targets.y[rows], weight)

    def folds(self, n_folds: int, rows: np.ndarray, seed: int) -> list[Fold]:
        """Shuffled folds of some rows, as positions among them.

        Folds have the same share of every stratum, and keep groups together.
        """
        strata, groups = self.targets.strata, self.groups
        strata = None if strata is None else strata[rows]
        groups = None if groups is None else groups[rows]
        n_groups = n_folds if groups is None else len(np.unique(groups))
        if n_groups < n_folds:
            raise ValueError(
                f"groups must be at least as many as folds, which are {n_folds}, got "
                f"{n_groups}; take fewer folds."
            )
        if groups is None:
            splitter = KFold if strata is None else StratifiedKFold
        else:
            splitter = GroupKFold if strata is None else StratifiedGroupKFold
        folds = splitter(n_folds, shuffle=True, random_state=seed)
        return list(folds.split(np.zeros(len(rows)), strata, groups))

    def splits(self, cv: Any, n_repeats: int, seed: int) -> list[Split]:
        """All splits of a study; folds are shuffled anew in every repeat."""
        if isinstance(cv, Integral):
            Whole(low=2, example=5).check("cv", cv)
            every = np.arange(self.n_rows)
            splits = [
                Split(repeat, fold, train, test)
                for repeat in range(n_repeats)
                for fold, (train, test) in enumerate(
                    self.folds(int(cv), every, seed + repeat)
                )
            ]
        else:
            splits = self._given_splits(cv, n_repeats)
        if not splits:
            raise ValueError("cv must make at least one split, got none; take cv=5.")
        for split in splits:
            self._require_all_classes(split.train)
        return splits

    def _given_splits(self, cv: Any, n_repeats: int) -> list[Split]:
        if n_repeats != 1:
            raise ValueError(
                "n_repeats must be 1 where cv is not a number of folds, got "
                f"{n_repeats}; pass for instance RepeatedStratifiedKFold as cv."
            )
        if not (hasattr(cv, "split") or isinstance(cv, Iterable)):
            raise TypeError(
                "cv must be a number of folds, a splitter or a list of pairs of rows, "
                f"got {type(cv).__name__}; choose for instance cv=5."
            )
        # Splitters look at the number of rows and at strata, not at X.
        rows, strata = np.zeros(self.n_rows), self.targets.strata
        labels = rows if strata is None else strata
        return [
            Split(0, fold, np.asarray(train), np.asarray(test))
            for fold, (train, test) in enumerate(
                check_cv(cv).split(rows, labels, self.groups)
            )
        ]

    def _require_all_classes(self, train: np.ndarray) -> None:
        if not isinstance(self.targets, Labels):
            return
        counts = np.bincount(
            self.targets.target[train], minlength=self.targets.n_outputs
        )
        if not counts.all():
            raise ValueError(
                "every split must train on rows of all classes, got one without "
                f"{self.targets.classes[counts.argmin()]!r}; take fewer folds, or "
                "stratify them."
            )


# --- rows of any X --------------------------------------------------------------------


def align_rows(estimator: Any, X: Any, y: Any, *others: Any) -> tuple[Any, ...]:
    """X, y and what else has an entry per row, in one order and with rows to take."""
    if y is None:
        raise ValueError("y must be given, got None; pass what X shall predict.")
    if get_tags(estimator).input_tags.pairwise:
        return X, y, *others
    if sp.issparse(X):
        X = sp.csr_array(X)
    elif isinstance(X, list | tuple) and not are_views(X):
        X = np.asarray(X)
    return match_rows(X, y, *others)


def one_target(targets: Targets) -> Targets:
    """Values as one column; raise if there are several."""
    if not isinstance(targets, Values):
        return targets
    if targets.n_outputs > 1:
        raise ValueError(
            f"y must be one number per row, got {targets.n_outputs}; study the targets "
            "one by one."
        )
    return replace(targets, flat=True)


def require_rows(X: Any, n_rows: int) -> None:
    """Raise unless X, or every matrix of it, has as many rows as y."""
    sizes = {one.shape[0] for one in (X if isinstance(X, list | tuple) else [X])}
    if sizes != {n_rows}:
        raise ValueError(
            f"X must have as many rows as y, which are {n_rows}, got "
            f"{', '.join(map(str, sorted(sizes)))}; pass as many."
        )


def take_rows(X: Any, rows: np.ndarray, columns: np.ndarray | None = None) -> Any:
    """Some rows; of kernel matrices, between these and the rows `columns`.

    Examples
    --------
    >>> take_rows(np.eye(3), np.array([0, 2]), np.array([0]))
    array([[1.],
           [0.]])
    """
    if columns is None:
        return table_rows(X, rows)
    if isinstance(X, list | tuple):
        return [take_rows(one, rows, columns) for one in X]
    X = X if sp.issparse(X) else np.asarray(X)
    return X[np.ix_(rows, columns)]


def row_names(X: Any, n_rows: int) -> list[str]:
    """Names of the rows if they have some, else their positions."""
    ids: Any = X.index if isinstance(X, Views) else getattr(X, "index", None)
    return [str(name) for name in (ids if has_index(ids) else range(n_rows))]


def _vector(name: str, values: Any, n_rows: int) -> np.ndarray | None:
    if values is None:
        return None
    vector = np.asarray(values)
    if vector.shape != (n_rows,):
        raise ValueError(
            f"{name} must have one entry per row, which are {n_rows}, got the shape "
            f"{vector.shape}; pass as many."
        )
    return vector
