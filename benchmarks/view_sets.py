"""Data sets in views that choose and judge the defaults for views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import loaders
import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler, normalize

N_VALIDATION, N_TEST = 300, 600

Views = dict[str, Any]


@dataclass(frozen=True)
class ViewSet:
    """Views of the same rows, and how many rows to learn from."""

    name: str
    load: Callable[[], tuple[Views, np.ndarray]]
    n_train: int


def _multiview(name: str) -> Callable[[], tuple[Views, np.ndarray]]:
    def load() -> tuple[Views, np.ndarray]:
        bunch = loaders.load_multiview(name)
        return bunch.views, bunch.target

    return load


def _mfeat() -> tuple[Views, np.ndarray]:
    bunch = loaders.load_mfeat()
    return bunch.views, bunch.target


def _flowers() -> tuple[Views, np.ndarray]:
    bunch = loaders.load_flowers17()
    return bunch.views, bunch.target


def _tcga() -> tuple[Views, np.ndarray]:
    """All patients: the two views that each of them has."""
    bunch = loaders.load_tcga_breast()
    views = {
        name: np.vstack([bunch.views[name], bunch.views_test[name]])
        for name in bunch.views_test
    }
    return views, np.concatenate([bunch.target, bunch.target_test])


def _uci(name: str, n_groups: int) -> Callable[[], tuple[Views, np.ndarray]]:
    def load() -> tuple[Views, np.ndarray]:
        bunch = loaders.load_uci(name)
        return _parts(bunch.data, n_groups), bunch.target

    return load


def _parts(X: np.ndarray, n_groups: int) -> Views:
    """Neighboring columns as views."""
    parts = np.array_split(np.arange(X.shape[1]), n_groups)
    return {f"columns{g}": X[:, part] for g, part in enumerate(parts)}


def _digits() -> tuple[Views, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return _parts(X, 4), y


def _tumors() -> tuple[Views, np.ndarray]:
    """Mean, error and largest value of ten measurements."""
    X, y = load_breast_cancer(return_X_y=True)
    return _parts(X, 3), y


VIEW_SETS = (
    ViewSet("mfeat", _mfeat, 300),
    ViewSet("flowers17", _flowers, 500),
    ViewSet("tcga breast", _tcga, 110),
    ViewSet("webkb", _multiview("webkb"), 300),
    ViewSet("movies", _multiview("movies"), 350),
    ViewSet("citeseer", _multiview("citeseer"), 500),
    ViewSet("reuters1200", _multiview("reuters1200"), 400),
    ViewSet("orl", _multiview("orl"), 160),
    ViewSet("scene15", _multiview("scene15"), 500),
    ViewSet("wikipedia", _multiview("wikipedia"), 500),
    ViewSet("digits", _digits, 300),
    ViewSet("tumors", _tumors, 200),
    ViewSet("sonar", _uci("sonar", 6), 104),
    ViewSet("ionosphere", _uci("ionosphere", 6), 170),
    ViewSet("german", _uci("german", 8), 400),
    ViewSet("splice", _uci("splice", 6), 400),
    ViewSet("waveform", _uci("waveform", 3), 400),
)


@dataclass(frozen=True)
class Rows:
    """Rows to learn from, to choose by and to judge by."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    @property
    def new(self) -> np.ndarray:
        """Rows that no model has seen: validation, then test."""
        return np.concatenate([self.validation, self.test])


def split(data: ViewSet, target: np.ndarray, seed: int) -> Rows:
    """Stratified training rows; a third of the others to choose by, the rest to judge.

    Both are cut to sizes that are precise enough.
    """
    train, others = train_test_split(
        np.arange(len(target)),
        train_size=data.n_train,
        stratify=target,
        random_state=seed,
    )
    drawn = np.random.default_rng(seed).permutation(others)
    n_validation = min(N_VALIDATION, len(drawn) // 3)
    test = drawn[n_validation : n_validation + N_TEST]
    return Rows(train, drawn[:n_validation], test)


def scaled(view: Any, how: str, train: np.ndarray) -> Any:
    """A view after scaling that was learned on its training rows.

    "standard" standardizes dense columns and takes tf-idf of sparse ones, "log1p" their
    logarithms; rows of sparse views then have unit length. "raw" does nothing.
    """
    if how == "raw":
        return view
    if not sp.issparse(view):
        return StandardScaler().fit(view[train]).transform(view)
    if how == "log1p":
        return sp.csr_array(normalize(view.log1p()))
    return sp.csr_array(TfidfTransformer().fit(view[train]).transform(view))


def joined(views: Views, train: np.ndarray) -> Any:
    """One table of all scaled columns."""
    parts = [scaled(view, "standard", train) for view in views.values()]
    if any(map(sp.issparse, parts)):
        return sp.csr_array(sp.hstack(parts))
    return np.hstack(parts)


def available(data: ViewSet) -> bool:
    """Whether the data set's files are there or can be fetched."""
    try:
        data.load()
    except OSError:
        return False
    return True
