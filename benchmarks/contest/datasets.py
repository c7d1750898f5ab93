"""The data sets of the contests, as banks of kernels with rows to test on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from mnist_speed import block_kernels
from views import DATA_SETS, DataSet, Split, available, make_split

import manykernels as mk
from manykernels.banks import BlockBank, FeatureBlock, GramBank
from manykernels.kernels.kernel_set import KernelSet

BY_NAME = {data.name: data for data in DATA_SETS}


@dataclass(frozen=True)
class Arena:
    """Kernels among training rows and between test rows and them, with labels."""

    name: str
    bank: GramBank
    test: np.ndarray  # (kernels, test rows, training rows)
    target: np.ndarray
    target_test: np.ndarray

    def __post_init__(self) -> None:
        self.bank.stored_rows()  # a layout that only some ask for: not on their clock


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


def mnist(n_train: int = 5000, n_test: int = 1000, seed: int = 0) -> Arena:
    """MNIST with the twelve kernels of the OBSCURE paper, in float32.

    The seed draws the images, from those to train and from those to test on.
    """
    data, target, data_test, target_test = mnist_images(n_train, n_test, seed)
    kernels = KernelSet.fit(block_kernels(), data)
    test = np.concatenate([block for _, block in kernels.cross(data_test)], 1)
    bank = GramBank(np.moveaxis(kernels.stack(), 0, 1))
    return Arena("mnist", bank, test, target, target_test)


def mnist_images(n_train: int, n_test: int, seed: int) -> tuple[np.ndarray, ...]:
    """Images and labels to train on, and to test on."""
    bunch, rng = mk.datasets.load_mnist(), np.random.default_rng(seed)
    train = rng.choice(len(bunch.data), n_train, replace=False)
    test = rng.choice(len(bunch.data_test), n_test, replace=False)
    return (
        bunch.data[train],
        bunch.target[train],
        bunch.data_test[test],
        bunch.target_test[test],
    )


def some_rows(arena: Arena, n_rows: int) -> Arena:
    """Some rows, the same whenever; rows of a data set may be ordered by class."""
    rows = np.random.default_rng(0).permutation(arena.bank.n_rows)[:n_rows]
    target = np.unique(arena.target[rows], return_inverse=True)[1]
    bank = arena.bank.take(rows)
    return replace(arena, bank=bank, test=arena.test[:, :, rows], target=target)


def some_kernels(arena: Arena, n_kernels: int, seed: int | None = None) -> Arena:
    """The first kernels, or some that a seed draws.

    Above as many as there are, powers 2, 3, ... of them join: a power of a positive
    semi-definite kernel is one, too.
    """
    order = np.arange(arena.bank.n_blocks)
    if seed is not None:
        order = np.random.default_rng(seed).permutation(order)
    more = -(-n_kernels // len(order))
    stack, test = arena.bank.stack[:, order], arena.test[order]
    powers = np.concatenate([stack**k for k in range(1, more + 1)], axis=1)
    powers_test = np.concatenate([test**k for k in range(1, more + 1)])
    bank = GramBank(np.ascontiguousarray(powers[:, :n_kernels]))
    return replace(arena, bank=bank, test=powers_test[:n_kernels])


def mnist_features(n_train: int, seed: int = 0) -> tuple[BlockBank, np.ndarray]:
    """MNIST as explicit features: 16 squares of 7 x 7 pixels, each of unit length.

    No kernel of all the rows may be held: steps are taken on features.
    """
    images, target, _, _ = mnist_images(n_train, 1, seed)
    squares = (
        images.reshape(-1, 4, 7, 4, 7).transpose(1, 3, 0, 2, 4).reshape(16, -1, 49)
    )
    blocks = []
    for square in squares:
        lengths = np.linalg.norm(square, axis=1, keepdims=True)
        blocks.append(FeatureBlock(square / np.maximum(lengths, 1e-6)))
    return BlockBank(blocks, dtype=np.float32, max_combined_rows=1), target


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
    "mnist_features",
    "mnist_images",
    "of_views",
    "sized",
    "some_kernels",
    "some_rows",
]
