"""Lines and arrays of local data files."""

import gzip
from collections.abc import Sequence

import numpy as np

from manykernels.datasets.download import DataFile, PathLike, locate, readable


def read_lines(file: DataFile, data_dir: PathLike | None = None) -> list[str]:
    """Non-empty lines of a gzipped text file."""
    path = locate(file, data_dir)
    with readable(path):
        text = gzip.decompress(path.read_bytes()).decode("ascii")
    return [line for line in text.splitlines() if line.strip()]


def read_arrays(
    file: DataFile, names: Sequence[str], data_dir: PathLike | None = None
) -> dict[str, np.ndarray]:
    """Named arrays of an npz file; pickled objects are never read."""
    path = locate(file, data_dir)
    with readable(path), np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in names}
