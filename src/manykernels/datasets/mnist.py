"""MNIST handwritten digits."""

import gzip
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from manykernels.datasets.download import DataFile, PathLike, locate, readable

MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"


def _unpack(parts: Sequence[bytes]) -> bytes:
    return gzip.decompress(parts[0])


def _idx_file(name: str, sha256: str) -> DataFile:
    return DataFile(f"mnist/{name}", (MNIST_URL + name,), _unpack, sha256)


TRAIN_IMAGES = _idx_file(
    "train-images-idx3-ubyte.gz",
    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
)
TRAIN_LABELS = _idx_file(
    "train-labels-idx1-ubyte.gz",
    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
)
TEST_IMAGES = _idx_file(
    "t10k-images-idx3-ubyte.gz",
    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
)
TEST_LABELS = _idx_file(
    "t10k-labels-idx1-ubyte.gz",
    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
)


def load_mnist(
    n_train: int | None = None,
    n_test: int | None = None,
    data_dir: PathLike | None = None,
) -> Bunch:
    """Load MNIST: 60,000 training and 10,000 test images of 28 x 28 gray levels.

    Parameters
    ----------
    n_train, n_test : int, optional
        Number of images from the start of each part; all of them by default.
    data_dir : path, optional
        Folder of the data files (see :mod:`manykernels.datasets`).

    Returns
    -------
    Bunch
        ``data`` (n_train, 784) float32 in [0, 1] and ``target`` (n_train,) int64,
        ``data_test`` and ``target_test`` likewise, ``feature_names``
        (``pixel_<row>_<column>``), ``DESCR``.

    Examples
    --------
    >>> from manykernels.datasets import load_mnist
    >>> mnist = load_mnist(n_train=5000, n_test=1000)  # doctest: +SKIP
    >>> mnist.data.shape  # doctest: +SKIP
    (5000, 784)
    """
    return Bunch(
        data=_images(locate(TRAIN_IMAGES, data_dir), n_train),
        target=_labels(locate(TRAIN_LABELS, data_dir), n_train),
        data_test=_images(locate(TEST_IMAGES, data_dir), n_test),
        target_test=_labels(locate(TEST_LABELS, data_dir), n_test),
        feature_names=[f"pixel_{r}_{c}" for r in range(28) for c in range(28)],
        DESCR="MNIST handwritten digits (LeCun, Cortes, Burges), 10 classes.",
    )


def _images(path: Path, count: int | None) -> np.ndarray:
    pixels = _read_idx(path, count)
    return np.divide(pixels.reshape(len(pixels), -1), 255, dtype=np.float32)


def _labels(path: Path, count: int | None) -> np.ndarray:
    return _read_idx(path, count).astype(np.int64)


def _read_idx(path: Path, count: int | None) -> np.ndarray:
    """First ``count`` items of a gzipped IDX file of unsigned bytes."""
    with gzip.open(path) as stream:
        with readable(path):
            total, *shape = _idx_shape(stream)
        if count is not None and not 1 <= count <= total:
            raise ValueError(
                f"the number of images must lie between 1 and {total} for "
                f"{path.name}, got {count}."
            )
        n_items = total if count is None else count
        with readable(path):
            content = stream.read(n_items * math.prod(shape))
            return np.frombuffer(content, np.uint8).reshape(n_items, *shape)


def _idx_shape(stream: gzip.GzipFile) -> list[int]:
    """Shape from the header: 0, 0, type code, number of axes, 4 bytes per axis."""
    zeros, code, n_axes = (int.from_bytes(stream.read(n)) for n in (2, 1, 1))
    if (zeros, code) != (0, 8):
        raise ValueError("not an IDX file of unsigned bytes")
    return [int.from_bytes(stream.read(4)) for _ in range(n_axes)]
