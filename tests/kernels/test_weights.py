"""A row of weight k is fitted as k copies of it would be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import sigmoid_kernel

from manykernels.kernels import (
    RBF,
    BSpline,
    ChiSquared,
    Custom,
    Distance,
    Kernel,
    Laplacian,
    Linear,
    Precomputed,
)
from manykernels.kernels.grammar import BUILT_IN_KERNELS
from manykernels.kernels.kernel_set import KernelSet, row_copies
from manykernels.kernels.widths import distance_quantile, spread_rows

rng = np.random.default_rng(3)
ROWS = rng.gamma(1.0, size=(18, 3)).round(2)
NEW = rng.gamma(1.0, size=(5, 3))
WEIGHT = rng.integers(0, 4, len(ROWS)).astype(float)
COPIES = np.repeat(np.arange(len(ROWS)), WEIGHT.astype(int))
SHUFFLED = rng.permutation(COPIES)

WORDS = [
    RBF("median"),
    Laplacian("median"),
    Laplacian("scale"),
    BSpline("2*sparse", degree=2),
    ChiSquared("0.5*mean"),
]
ON_COLUMNS: list[Kernel] = [
    cls() for cls in BUILT_IN_KERNELS.values() if cls.family != "given"
] + WORDS


def pairs(kernel: Kernel) -> list[Kernel]:
    """The kernel with every option that it allows."""
    found = []
    for normalize in ("diagonal", "trace", None):
        for center in (False, True):
            for approximate in (None, "nystroem", "random_features"):
                possible = approximate != "random_features" or kernel.random_map
                vanishes = center and kernel.kind == "constant"
                if possible and not vanishes:
                    options: Any = {"normalize": normalize, "center": center}
                    if approximate:
                        options |= {"approximate": approximate, "rank": 6}
                    found.append(replace(kernel, **options))
    return found


def check(kernels: list[Kernel], X: Any, copies: np.ndarray, **options: Any) -> None:
    """Fits with weights and with copies give the same values everywhere."""
    options = {"dtype": np.float64, "psd": "skip", "random_state": 0, **options}
    # The root in a compact kernel makes 1e-8 of a distance of 1e-16 between copies.
    atol = 1e-6 if any(kernel.compact for kernel in kernels) else 1e-9
    weighted = KernelSet.fit(kernels, X, sample_weight=WEIGHT, **options)
    repeated = KernelSet.fit(kernels, X[copies], **options)
    stack = weighted.stack()[:, copies][:, :, copies]
    np.testing.assert_allclose(stack, repeated.stack(), atol=atol)
    for (_, a), (_, b) in zip(weighted.cross(NEW), repeated.cross(NEW), strict=True):
        np.testing.assert_allclose(a[:, :, copies], b, atol=atol)
    diagonals = weighted.cross_diagonals(NEW), repeated.cross_diagonals(NEW)
    np.testing.assert_allclose(*diagonals, atol=atol)


@pytest.mark.parametrize("kernel", ON_COLUMNS, ids=lambda kernel: kernel.label)
@pytest.mark.parametrize("copies", [COPIES, SHUFFLED], ids=["in order", "shuffled"])
def test_every_kernel_on_columns(kernel: Kernel, copies: np.ndarray) -> None:
    for one in pairs(kernel):
        check([one], ROWS, copies)


def test_sparse_rows() -> None:
    X = ROWS * (ROWS > 0.5)
    kernels = [Linear(), RBF("scale"), RBF("median", approximate="nystroem", rank=6)]
    for kernel in kernels:
        check([kernel], sp.csr_array(X), SHUFFLED)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("normalize", ["trace", None])
@pytest.mark.parametrize("kind", [Precomputed, Distance])
def test_given_matrices(kind: type[Kernel], normalize: Any, center: bool) -> None:
    matrix = np.abs(ROWS[:, None] - ROWS[None]).sum(axis=2)
    if kind is Precomputed:
        matrix = np.exp(-matrix)
    kernel = kind(normalize=normalize, center=center)
    options: Any = {"dtype": np.float64, "psd": "skip"}
    weighted = KernelSet.fit([kernel], matrix, sample_weight=WEIGHT, **options)
    repeated = KernelSet.fit([kernel], matrix[np.ix_(COPIES, COPIES)], **options)
    stack = weighted.stack()[:, COPIES][:, :, COPIES]
    np.testing.assert_allclose(stack, repeated.stack(), atol=1e-12)
    (_, a), (_, b) = (
        next(weighted.cross(matrix)),
        next(repeated.cross(matrix[:, COPIES])),
    )
    np.testing.assert_allclose(a[:, :, COPIES], b, atol=1e-12)


def test_clipped_kernels() -> None:
    kernel = Custom(sigmoid_kernel, normalize=None)
    check([kernel], ROWS, COPIES, psd="clip")
    fitted = KernelSet.fit([kernel], ROWS, sample_weight=WEIGHT, psd="clip")
    assert fitted.scalings[0].clip is not None


def test_landmarks_do_not_depend_on_the_order_of_the_rows() -> None:
    kernel = RBF(0.3, approximate="nystroem", rank=7)
    order = rng.permutation(len(ROWS))
    sets = [KernelSet.fit([kernel], X, random_state=1) for X in (ROWS, ROWS[order])]
    found = [fitted.groups[0].source.rows.values for fitted in sets]
    np.testing.assert_array_equal(*found)


def test_a_row_without_weight_is_no_landmark() -> None:
    kernel = RBF(0.3, approximate="nystroem", rank=100)
    fitted = KernelSet.fit([kernel], ROWS, sample_weight=WEIGHT)
    assert len(fitted.groups[0].source.rows) == np.count_nonzero(WEIGHT)


@pytest.mark.parametrize("metric", ["sqeuclidean", "cityblock"])
@pytest.mark.parametrize("q", [0.0, 0.05, 0.37, 0.5, 1.0])
def test_quantiles_of_copies(metric: str, q: float) -> None:
    expected = distance_quantile(ROWS[COPIES], np.ones(len(COPIES)), metric, q)
    assert distance_quantile(ROWS, WEIGHT, metric, q) == pytest.approx(expected)


def test_many_rows_are_spread_like_their_copies() -> None:
    X, weight = rng.normal(size=(700, 2)), rng.integers(0, 5, 700).astype(float)
    repeated = np.repeat(X, weight.astype(int), axis=0)
    rows, copies = spread_rows(X, weight)
    expected, ones = spread_rows(repeated, np.ones(len(repeated)))
    assert len(repeated) > 1000 == len(expected) and (ones == 1).all()
    np.testing.assert_array_equal(np.repeat(rows, copies.astype(int), axis=0), expected)


def test_only_the_ratio_of_fractions_counts() -> None:
    weight = rng.uniform(0.1, 2.0, len(ROWS))
    one, other = (
        KernelSet.fit([RBF("median"), RBF("scale")], ROWS, sample_weight=w)
        for w in (weight, 1e-3 * weight)
    )
    gammas = [[vars(k)["gamma"] for k in fitted.kernels] for fitted in (one, other)]
    assert gammas[0] == pytest.approx(gammas[1])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0], "one finite number >= 0 for each of the 18 rows, got shape"),
        ([-1.0] * 18, "one finite number >= 0"),
        ([np.nan] * 18, "one finite number >= 0"),
        ([0.0] * 18, "positive for some row, got zeros only"),
    ],
)
def test_weights_that_count_nothing(weight: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        row_copies(weight, 18)
