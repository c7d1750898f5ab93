"""The data sets of the contests, as banks of kernels with rows to test on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from mnist_speed import block_kernels
from views import DATA_SETS, DataSet, Split, available, make_split

import manykernels as mk
from manykernels.banks import GramBank
from manykernels.kernels import KernelSet

BY_NAME = {data.name: data for data in DATA_SETS}


@dataclass(frozen=True)
class Arena:
    """Kernels among training rows and between test rows and them, with labels."""

    name: str
    bank: GramBank
    test: np.ndarray  # (kernels, test rows, training rows)
    target: np.ndarray
    target_test: np.ndarray


def flowers(n_train: int = 680, seed: int = 0) -> Arena:
    """Flowers-17, seven views with a kernel each."""
    return of_views("flowers17", n_train, seed)


def of_views(name: str, n_train: int, seed: int) -> Arena:
    """One of the data sets in views."""
    return from_split(name, make_split(sized(name, n_train), 0, seed))


def sized(name: str, n_train: int, n_test: int = 600) -> DataSet:
    """A data set in views with another number of rows."""
    return replace(BY_NAME[name], n_train=n_train, n_test=n_test)


def from_split(name: str, split: Split) -> Arena:
    """Kernel stacks as a bank."""
    stack = np.moveaxis(split.train, -1, 1)
    return Arena(
        name,
        GramBank(np.ascontiguousarray(stack)),
        np.moveaxis(split.test, -1, 0),
        split.target,
        split.target_test,
    )


def mnist(n_train: int = 5000, n_test: int = 1000) -> Arena:
    """MNIST with the twelve kernels of the OBSCURE paper, in float32."""
    bunch = mk.datasets.load_mnist(n_train, n_test)
    kernels = KernelSet.fit(block_kernels(), bunch.data)
    test = np.concatenate([block for _, block in kernels.cross(bunch.data_test)], 1)
    bank = GramBank(np.moveaxis(kernels.stack(), 0, 1))
    return Arena("mnist", bank, test, bunch.target, bunch.target_test)


def missing(load: Callable[[], object]) -> str | None:
    """Why a data set cannot be had, or None."""
    try:
        load()
    except OSError as error:
        return str(error)
    return None


__all__ = [
    "BY_NAME",
    "Arena",
    "DataSet",
    "Split",
    "available",
    "flowers",
    "from_split",
    "make_split",
    "missing",
    "mnist",
    "of_views",
    "sized",
]
