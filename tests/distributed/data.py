"""Small data and kernels that the tests of this folder share."""

import dask.array as da
import numpy as np

KERNELS = ["rbf:gamma=0.5@0-2", "rbf:gamma=0.1", "polynomial:degree=2@3-4"]
COMMON = {
    "kernels": KERNELS,
    "approximate": "nystroem:12",
    "C": 3.0,
    "tol": 1e-7,
    "random_state": 0,
}


def table(n_rows=240, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5))
    y = np.floor(n_classes / 3.0 * (np.tanh(X[:, 0] * X[:, 1]) + 1.0 + X[:, 2] ** 2))
    y = np.clip(y, 0, n_classes - 1).astype(int)
    flip = rng.random(n_rows) < 0.1
    y[flip] = rng.integers(n_classes, size=flip.sum())
    return X, y


def values(X, seed=1):
    rng = np.random.default_rng(seed)
    return np.sin(X[:, 0]) + X[:, 1] * X[:, 3] + 3.0 + 0.1 * rng.normal(size=len(X))


def cut(X, sizes):
    """A dask array with partitions of these sizes."""
    rest = (-1,) * (np.ndim(X) - 1)
    return da.from_array(X, chunks=(tuple(sizes), *rest))


def in_parts(X, n):
    return cut(X, [len(part) for part in np.array_split(np.arange(len(X)), n)])
