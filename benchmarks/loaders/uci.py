"""Small tables, most of them from the UCI repository."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.utils import Bunch

from loaders.files import read_lines
from manykernels.datasets.download import DataFile, PathLike, readable

_SOURCE = "https://archive.ics.uci.edu/ml/machine-learning-databases/"

# Share of A, C, G, T that a base code stands for; D, N, R, S are ambiguous.
_BASES = "ACGT"
_CODES = {"A": "A", "C": "C", "G": "G", "T": "T"}
_CODES |= {"D": "AGT", "N": "ACGT", "R": "AG", "S": "CG"}


def _tidy(parts: Sequence[bytes]) -> bytes:
    """One row per line, comma separated, whatever the original's spacing."""
    rows = (line.replace(",", " ").split() for line in parts[0].decode().splitlines())
    return "".join(f"{','.join(row)}\n" for row in rows if row).encode()


def _tidy_splice(parts: Sequence[bytes]) -> bytes:
    """Keep class and sequence; the original has an instance name in between."""
    rows = [line.split(",") for line in _tidy(parts).decode().splitlines()]
    lines = ["class,sequence", *(f"{row[0]},{row[2]}" for row in rows)]
    if len(rows) != 3190:
        raise ValueError(f"{len(rows)} rows instead of 3190")
    return "".join(f"{line}\n" for line in lines).encode()


@dataclass(frozen=True)
class Table:
    """A table: its file, a short description and how its lines are read."""

    file: DataFile
    description: str
    parse: Callable[[list[str]], Bunch]


def _parse_numeric(lines: list[str]) -> Bunch:
    """Numbers separated by commas or spaces, the label in the last column."""
    rows = [line.replace(",", " ").split() for line in lines]
    data = np.array([row[:-1] for row in rows], dtype=np.float64)
    labels = np.array([row[-1] for row in rows])
    return Bunch(
        data=data,
        target=labels.astype(np.int64) if labels[0].isdigit() else labels,
        feature_names=[f"x{j}" for j in range(data.shape[1])],
    )


def _parse_splice(lines: list[str]) -> Bunch:
    """Class and sequence per line, below a header."""
    labels, sequences = zip(*(line.split(",") for line in lines[1:]), strict=True)
    shares = {
        code: [(base in bases) / len(bases) for base in _BASES]
        for code, bases in _CODES.items()
    }
    coded = [[shares[base] for base in sequence] for sequence in sequences]
    length = len(sequences[0])
    return Bunch(
        data=np.array(coded).reshape(len(coded), -1),
        target=np.array(labels),
        sequences=np.array(sequences),
        feature_names=[f"base{j}_{b}" for j in range(1, length + 1) for b in _BASES],
    )


TABLES = {
    "german": Table(
        DataFile(
            "uci_german/german.data-numeric.gz",
            (_SOURCE + "statlog/german/german.data-numeric",),
            _tidy,
            "245e0e653683f947ed87e9cba959130ee7e764dd3b4bda2840fdc1302c97385c",
        ),
        "Statlog German credit, numeric version: 1 good, 2 bad.",
        _parse_numeric,
    ),
    "ionosphere": Table(
        DataFile(
            "uci_ionosphere/ionosphere.csv.gz",
            (_SOURCE + "ionosphere/ionosphere.data",),
            _tidy,
            "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd",
        ),
        "Radar returns from the ionosphere: g good, b bad.",
        _parse_numeric,
    ),
    "ringnorm": Table(
        DataFile("delve_ringnorm/ringnorm.csv.gz"),
        "Breiman's ringnorm: N(0, 4 I) against N(a, I), 20 dimensions.",
        _parse_numeric,
    ),
    "sonar": Table(
        DataFile(
            "uci_sonar/sonar.csv.gz",
            (_SOURCE + "undocumented/connectionist-bench/sonar/sonar.all-data",),
            _tidy,
            "e90434cdbf00fcf93ffa911fe447ae25606979658e60f1d32e155c3b5240234d",
        ),
        "Sonar returns: M mine, R rock.",
        _parse_numeric,
    ),
    "splice": Table(
        DataFile(
            "uci_splice/splice.csv.gz",
            (_SOURCE + "molecular-biology/splice-junction-gene-sequences/splice.data",),
            _tidy_splice,
        ),
        "Splice junctions in DNA windows of 60 bases: EI, IE or neither (N).",
        _parse_splice,
    ),
    "waveform": Table(
        DataFile("uci_waveform/waveform.csv.gz"),
        "Breiman's waveforms, version 1: three classes of noisy waves.",
        _parse_numeric,
    ),
}


def load_uci(name: str, data_dir: PathLike | None = None) -> Bunch:
    """Load a small classification table.

    ========== ===== ======== =======
    name       rows  features classes
    ========== ===== ======== =======
    german     1000  24       2
    ionosphere 351   34       2
    ringnorm   7400  20       2
    sonar      208   60       2
    splice     3190  240      3
    waveform   5000  21       3
    ========== ===== ======== =======

    In ``splice`` four columns stand for one base: the shares of A, C, G and T, which
    are 0 or 1 but for the few ambiguous codes; ``sequences`` holds the strings. Its
    row order depends on whether the file was downloaded or already in the folder.

    Parameters
    ----------
    name : str
        One of the names above.
    data_dir : path, optional
        Folder of the data files (see `manykernels.datasets`).

    Returns
    -------
    Bunch
        ``data`` (n_rows, n_features) float64, ``target`` (n_rows,) numbers or strings,
        ``target_names`` (the sorted classes), ``feature_names``, ``DESCR``.
    """
    if name not in TABLES:
        raise ValueError(f"name must be one of {', '.join(TABLES)}, got {name!r}.")
    table = TABLES[name]
    lines = read_lines(table.file, data_dir)
    with readable(table.file.path):
        bunch = table.parse(lines)
    bunch.update(target_names=np.unique(bunch.target), DESCR=table.description)
    return bunch
