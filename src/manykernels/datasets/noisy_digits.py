"""Handwritten digits with useful and useless columns, for demonstrations and tests."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.utils import Bunch

from manykernels.inputs.parameters import Whole

DIGIT_SIDE, BLOCK_SIDE = 8, 4  # pixels of an image of scikit-learn, and of a block
BLOCK_NAMES = ("top left", "top right", "bottom left", "bottom right")
# One kernel of each sort per image block, as in the OBSCURE paper's MNIST experiment.
USEFUL_KERNELS = (
    "linear:name=linear {0}@{1}",
    "polynomial:degree=5,name=polynomial {0}@{1}",
    "rbf:gamma=0.1,name=rbf {0}@{1}",
)
NOISE_KERNEL = "rbf:gamma={0},name=noise {1}@{2}"
NOISE_COLUMNS = 2


def load_noisy_digits(
    n_train: int = 200,
    n_noise: int = 48,
    random_state: int | None = 0,
    noise_gamma: float | str = "scale",
) -> Bunch:
    """Digits cut into four blocks of 4 x 4 pixels, beside columns of pure noise.

    Twelve kernels (linear, polynomial and RBF on each block) are useful; one RBF
    kernel on each pair of Gaussian noise columns is not.

    Parameters
    ----------
    n_train : int
        Training images, at least 10 (one of each digit) and at most 1,787; all the
        other images are for testing.
    n_noise : int
        Kernels on noise, two columns each.
    random_state : int, optional
        Seed of the noise and of the split.
    noise_gamma : float or str
        Width of the noise kernels. Wide ones (0.1) are nearly constant and harm an
        average of kernels less than those of the usual width.

    Returns
    -------
    Bunch
        ``data`` and ``data_test`` (pixels in [0, 1], block after block, then the
        noise), ``target`` and ``target_test``; ``kernels`` (texts that MKLClassifier
        understands) and ``groups`` ("useful" or "noise" for each of them),
        ``feature_names``, ``DESCR``.

    Examples
    --------
    >>> digits = load_noisy_digits(n_train=100, n_noise=3)
    >>> digits.data.shape, len(digits.kernels)
    ((100, 70), 15)
    >>> digits.kernels[0], digits.groups[-1]
    ('linear:name=linear top left@0-15', 'noise')
    """
    images, target = load_digits(return_X_y=True)
    Whole(low=10, high=len(target) - 10).check("n_train", n_train)
    Whole(low=0).check("n_noise", n_noise)
    # One generator for noise and split: the same seed gives the same of both.
    rng = np.random.default_rng(random_state)
    noise = rng.normal(size=(len(target), NOISE_COLUMNS * n_noise))
    data = np.hstack([_blocks(images / 16.0), noise])  # gray levels reach 16
    train, test = train_test_split(
        np.arange(len(target)),
        train_size=n_train,
        stratify=target,
        random_state=int(rng.integers(2**31)),
    )
    return Bunch(
        data=data[train],
        target=target[train],
        data_test=data[test],
        target_test=target[test],
        kernels=_useful_kernels() + _noise_kernels(n_noise, noise_gamma),
        groups=["useful"] * (len(BLOCK_NAMES) * len(USEFUL_KERNELS))
        + ["noise"] * n_noise,
        feature_names=_feature_names(n_noise),
        DESCR="scikit-learn's 8 x 8 digits in four blocks, with columns of noise.",
    )


def _blocks(images: np.ndarray) -> np.ndarray:
    square = images.reshape(-1, DIGIT_SIDE, DIGIT_SIDE)
    corners = [(top, left) for top in (0, BLOCK_SIDE) for left in (0, BLOCK_SIDE)]
    parts = [square[:, t : t + BLOCK_SIDE, s : s + BLOCK_SIDE] for t, s in corners]
    return np.hstack([part.reshape(len(images), -1) for part in parts])


def _useful_kernels() -> list[str]:
    width = BLOCK_SIDE * BLOCK_SIDE
    return [
        pattern.format(name, f"{b * width}-{(b + 1) * width - 1}")
        for b, name in enumerate(BLOCK_NAMES)
        for pattern in USEFUL_KERNELS
    ]


def _noise_kernels(n_noise: int, gamma: float | str) -> list[str]:
    starts = range(
        DIGIT_SIDE * DIGIT_SIDE,
        DIGIT_SIDE * DIGIT_SIDE + NOISE_COLUMNS * n_noise,
        NOISE_COLUMNS,
    )
    return [
        NOISE_KERNEL.format(gamma, j, f"{start}-{start + NOISE_COLUMNS - 1}")
        for j, start in enumerate(starts, 1)
    ]


def _feature_names(n_noise: int) -> list[str]:
    pixels = range(BLOCK_SIDE * BLOCK_SIDE)
    names = [f"{block.replace(' ', '_')}_{i}" for block in BLOCK_NAMES for i in pixels]
    return names + [f"noise_{j}" for j in range(NOISE_COLUMNS * n_noise)]
