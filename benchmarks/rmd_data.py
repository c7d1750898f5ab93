"""Data for the experiments on products of kernels: Table 1, and planted monomials.

Inputs and outputs have zero mean and unit variance on the training rows; the two
classes count as -1 and 1 before that. german has the 24 columns of its numeric version
where the paper names 20. splice has one column per base, A, C, G, T as 1 to 4, without
ambiguous and repeated rows (2,991 remain, as in the paper), EI and IE against neither.
waveform is class 0 against the two others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from loaders import load_uci

from manykernels.compare.products.uniform_coordinates import draw_product
from manykernels.products.base import RankOneKernels

# Training, validation and test rows (Table 1).
SIZES = {
    "german": (350, 150, 500),
    "ionosphere": (140, 36, 175),
    "ringnorm": (500, 1000, 2000),
    "sonar": (83, 21, 104),
    "splice": (500, 1000, 1491),
    "waveform": (500, 1000, 2000),
}
POSITIVE = {"german": 1, "ionosphere": "g", "ringnorm": 1, "sonar": "M", "waveform": 0}
N_TERMS = 10


@dataclass(frozen=True)
class Split:
    """Rows of three kinds in one table."""

    raw: np.ndarray  # columns as they came
    base: RankOneKernels  # columns of zero mean and unit variance
    target: np.ndarray
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    @property
    def known(self) -> RankOneKernels:
        """The base kernels on the training rows."""
        return RankOneKernels(self.base.columns[self.train])

    def errors(self, scores: np.ndarray) -> tuple[float, float]:
        """Mean squared errors of the validation rows and of the test rows."""
        squares = np.square(scores - self.target)
        return float(squares[self.validation].mean()), float(squares[self.test].mean())


def table_split(name: str, seed: int, share: float = 1.0) -> Split:
    """A random split of one of the six tables; `share` of the rows of each kind."""
    X, y = _table(name)
    sizes = [int(share * size) for size in SIZES[name]]
    return _split(X, y, sizes, np.random.default_rng(seed))


def planted_split(
    r: int, seed: int, sizes: tuple[int, ...] = (500, 1000, 1000)
) -> Split:
    """The mean of ten monomials of degree 3 or less of uniform columns, no noise."""
    rng = np.random.default_rng([r, seed])
    X = rng.uniform(-1.0, 1.0, size=(sum(sizes), r))
    terms: set[tuple[int, ...]] = set()
    degrees = [_count(r, d) for d in range(4)]
    while len(terms) < N_TERMS:
        degree = int(rng.choice(4, p=np.array(degrees) / sum(degrees)))
        terms.add(draw_product(r, degree, rng))
    y = RankOneKernels(X).features(sorted(terms)).mean(axis=1)
    return _split(X, y, sizes, rng)


def _count(r: int, degree: int) -> int:
    """Distinct monomials of a degree."""
    return [1, r, r * (r + 1) // 2, r * (r + 1) * (r + 2) // 6][degree]


def _split(
    X: np.ndarray,
    y: np.ndarray,
    sizes: tuple[int, ...] | list[int],
    rng: np.random.Generator,
) -> Split:
    order = rng.permutation(len(y))
    ends = np.cumsum(sizes)
    train, validation, test = (
        order[end - size : end] for size, end in zip(sizes, ends, strict=True)
    )
    shift, scale = X[train].mean(axis=0), X[train].std(axis=0)
    columns = (X - shift) / np.where(scale > 0.0, scale, np.inf)
    target = (y - y[train].mean()) / y[train].std()
    return Split(X, RankOneKernels(columns), target, train, validation, test)


def _table(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = load_uci(name)
    if name != "splice":
        return data.data, np.where(data.target == POSITIVE[name], 1.0, -1.0)
    pairs = zip(data.sequences, data.target, strict=True)
    rows = sorted({(s, label) for s, label in pairs if set(s) <= set("ACGT")})
    X = np.array([["ACGT".index(base) + 1.0 for base in s] for s, _ in rows])
    return X, np.array([-1.0 if label == "N" else 1.0 for _, label in rows])
