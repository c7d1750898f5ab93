"""Small data sets in views, as kernel stacks with and without irrelevant kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import loaders
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import manykernels as mk
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet

Views = dict[str, np.ndarray]
OwnSplit = Callable[[int], tuple[np.ndarray, np.ndarray]]
HISTOGRAMS = ("hsv", "lab", "sift_dense", "sift_kp")


@dataclass(frozen=True)
class DataSet:
    """Views of the same rows, kernels for each of them, and training rows to use."""

    name: str
    load: Callable[[], tuple[Views, np.ndarray]]
    kernels: tuple[str, ...]
    n_train: int
    n_test: int = 600
    own_split: OwnSplit | None = None  # rows to train and to test on, from a seed


def _digits() -> tuple[Views, np.ndarray]:
    digits = mk.datasets.load_noisy_digits(1000, 0, 0)
    pixels = np.vstack([digits.data, digits.data_test])
    views = {f"block{b}": pixels[:, 16 * b : 16 * b + 16] for b in range(4)}
    return views, np.concatenate([digits.target, digits.target_test])


def _mfeat() -> tuple[Views, np.ndarray]:
    bunch = loaders.load_mfeat()
    return bunch.views, bunch.target


def _flowers() -> tuple[Views, np.ndarray]:
    bunch = loaders.load_flowers17()
    return bunch.views, bunch.target


def _flowers_split(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One of the file's three splits; its validation rows are left out."""
    splits = loaders.load_flowers17().splits
    part = splits[seed % len(splits)]
    return np.flatnonzero(part == 0), np.flatnonzero(part == 2)


def _tcga() -> tuple[Views, np.ndarray]:
    bunch = loaders.load_tcga_breast()
    views = {
        name: np.vstack([bunch.views[name], bunch.views_test[name]])
        for name in ("mrna", "mirna")
    }
    return views, np.concatenate([bunch.target, bunch.target_test])


def _tcga_split(_: int) -> tuple[np.ndarray, np.ndarray]:
    """The file's patients to train and to test on, in the order of `_tcga`."""
    bunch = loaders.load_tcga_breast()
    n_train, n_test = len(bunch.target), len(bunch.target_test)
    return np.arange(n_train), n_train + np.arange(n_test)


def _groups(name: str, n_groups: int) -> Callable[[], tuple[Views, np.ndarray]]:
    def load() -> tuple[Views, np.ndarray]:
        bunch = loaders.load_uci(name)
        parts = np.array_split(np.arange(bunch.data.shape[1]), n_groups)
        views = {f"columns{g}": bunch.data[:, part] for g, part in enumerate(parts)}
        return views, bunch.target

    return load


SCALES = ("linear", "rbf", "rbf:gamma=0.1*scale")
DATA_SETS = (
    DataSet("digits, 100 rows", _digits, ("linear", "polynomial", "rbf"), 100),
    DataSet("digits, 400 rows", _digits, ("linear", "polynomial", "rbf"), 400),
    DataSet("mfeat", _mfeat, ("linear", "rbf"), 200),
    DataSet("tcga breast", _tcga, SCALES, 150, own_split=_tcga_split),
    DataSet("flowers17", _flowers, ("rbf",), 340, own_split=_flowers_split),
    DataSet("sonar", _groups("sonar", 6), ("linear", "rbf"), 140),
    DataSet("ionosphere", _groups("ionosphere", 6), ("linear", "rbf"), 200),
    DataSet("german", _groups("german", 8), ("linear", "rbf"), 300),
)


@dataclass(frozen=True)
class Split:
    """Kernel stacks (rows, training rows, kernels) and labels of one split."""

    train: np.ndarray
    test: np.ndarray
    target: np.ndarray
    target_test: np.ndarray
    n_useful: int


def make_split(
    data: DataSet, noise_ratio: int, seed: int, n_noise: int = 0, width: int = 2
) -> Split:
    """A split of the file's, else a stratified one.

    `noise_ratio` noise kernels per useful one join, and `n_noise` more, each on `width`
    columns.
    """
    views, target = data.load()
    rng = np.random.default_rng(seed)
    train, test = split_rows(data, target, seed)
    stacks = [
        _view_stacks(name, view, data, train, test) for name, view in views.items()
    ]
    n_useful = sum(len(pair[0]) for pair in stacks)
    for _ in range(noise_ratio * n_useful + n_noise):
        noise = rng.normal(size=(len(target), width))
        stacks.append(_stacks(noise, ("rbf",), train, test))
    return Split(
        np.moveaxis(np.concatenate([pair[0] for pair in stacks]), 0, -1),
        np.moveaxis(np.concatenate([pair[1] for pair in stacks]), 0, -1),
        target[train],
        target[test],
        n_useful,
    )


def split_rows(
    data: DataSet, target: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train and to test on, stratified.

    Where the data set brings its own split, its test rows are the test rows, and a seed
    draws the training rows from its own, if fewer are wanted than there are.
    """
    pool, test = np.arange(len(target)), None
    if data.own_split is not None:
        pool, test = data.own_split(seed)
        if data.n_train >= len(pool):
            return pool, test
    train, others = train_test_split(
        pool, train_size=data.n_train, stratify=target[pool], random_state=seed
    )
    if test is None and data.n_test < len(others):
        test, _ = train_test_split(
            others,
            train_size=data.n_test,
            stratify=target[others],
            random_state=seed,
        )
    return train, others if test is None else test


def _view_stacks(
    name: str, view: np.ndarray, data: DataSet, train: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if name in HISTOGRAMS:
        return _stacks(view, ("chi_squared",), train, test)
    if "digits" not in data.name:
        view = StandardScaler().fit(view[train]).transform(view)
    return _stacks(view, data.kernels, train, test)


def _stacks(
    values: np.ndarray, texts: tuple[str, ...], train: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    kernels = KernelSet.fit(as_kernels(list(texts)), values[train])
    new = np.concatenate([block for _, block in kernels.cross(values[test])], axis=1)
    return kernels.stack(), new


def available(data: DataSet) -> bool:
    """Whether the data set's files are there or can be fetched."""
    try:
        data.load()
    except OSError:
        return False
    return True
