"""Approximate kernels: close to the exact ones, and explicit."""

import logging
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

from manykernels.device import HOST
from manykernels.kernels import (
    RBF,
    BSpline,
    ChiSquared,
    Constant,
    Cosine,
    Custom,
    Distance,
    Intersection,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    approximate_kernels,
    parse_kernel,
)
from manykernels.kernels.approximate import fit_map
from manykernels.kernels.kernel_set import KernelSet
from tests.kernels import naive
from tests.kernels.naive import cross

rng = np.random.default_rng(0)
X = np.abs(rng.normal(size=(30, 4)))
X[20:25] = X[:5]  # equal rows make landmark matrices singular
NEW = np.abs(rng.normal(size=(9, 4)))


def cauchy(a, b):
    return 1.0 / (1.0 + np.square(a[:, None] - b[None]).sum(axis=2))


KERNELS = [
    Linear(),
    Cosine(),
    Constant(),
    Polynomial(3, gamma=0.5),
    RBF(0.3),
    Laplacian(0.3),
    ChiSquared(0.5),
    Intersection(),
    BSpline(3.0, degree=3),
    Custom(cauchy),
]
RANDOM = [RBF(0.3), Laplacian(0.3), Polynomial(2, gamma=0.2)]


def approximate(kernel, rank=30, how="nystroem", **settings):
    return replace(kernel, approximate=how, rank=rank, **settings)


def fit(kernel, rows=X, dtype=np.float64, seed=0, **options):
    kernels = [kernel] if not isinstance(kernel, list) else kernel
    return KernelSet.fit(kernels, rows, dtype=dtype, random_state=seed, **options)


each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.kind)
each_scaling = pytest.mark.parametrize(
    "scaling",
    [
        {},
        {"normalize": "trace"},
        {"normalize": None},
        {"center": True},
        {"center": True, "normalize": None},
    ],
    ids=str,
)


# --- values ------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 3e-6), (np.float64, 1e-10)])
@each_scaling
@each_kernel
def test_nystroem_with_all_rows_is_exact(kernel, scaling, dtype, rtol):
    if kernel.kind == "constant" and "center" in scaling:
        pytest.skip("a centered constant is zero")
    kernel = replace(kernel, **scaling)
    fitted = fit(approximate(kernel), dtype=dtype)
    # The root in a spline turns the last digit of a distance into the eighth.
    rtol = max(rtol, 1e-6) if kernel.compact else rtol
    expected = naive.scaled(kernel, X, X, X)
    scale = np.abs(expected).max()
    for got in (fitted.stack()[0], cross(fitted, X)[0]):
        np.testing.assert_allclose(got, expected, rtol=0, atol=rtol * scale)


@each_kernel
def test_new_rows_get_the_values_of_the_formula(kernel):
    """k(x, L) k(L, L)^+ k(L, y) for all rows L, then unit length."""
    fitted = fit(approximate(kernel))
    pinv = np.linalg.pinv(naive.gram(kernel, X, X), rcond=1e-12, hermitian=True)
    left, right = naive.gram(kernel, NEW, X), naive.gram(kernel, X, X)
    expected = left @ pinv @ right
    own = np.einsum("ij,jk,ik->i", left, pinv, left)
    expected /= np.sqrt(np.outer(own, np.diagonal(right @ pinv @ right)))
    np.testing.assert_allclose(cross(fitted, NEW)[0], expected, atol=1e-6)


def test_nystroem_is_that_of_scikit_learn_on_the_same_landmarks():
    kernel = approximate(RBF(0.3, normalize=None), rank=7)
    fitted = fit(kernel)
    landmarks = fitted.groups[0].source.rows.values
    theirs = Nystroem(kernel="rbf", gamma=0.3, n_components=7).fit(landmarks)
    expected = theirs.transform(X) @ theirs.transform(X).T
    np.testing.assert_allclose(fitted.stack()[0], expected, atol=1e-10)
    assert {tuple(row) for row in landmarks} <= {tuple(row) for row in X}


@pytest.mark.parametrize("how", ["nystroem", "random_features"])
@pytest.mark.parametrize("kernel", RANDOM, ids=lambda k: k.kind)
def test_a_larger_rank_is_closer(kernel, how):
    rows = 0.5 * np.random.default_rng(3).normal(size=(150, 8))
    exact = fit(kernel, rows).stack()[0]

    def error(rank):
        fitted = [fit(approximate(kernel, rank, how), rows, seed=s) for s in range(4)]
        return np.mean([np.square(f.stack()[0] - exact).mean() for f in fitted]) ** 0.5

    errors = [error(rank) for rank in (4, 20, 100)]
    assert errors[2] < 0.7 * errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize("kernel", RANDOM, ids=lambda k: k.kind)
def test_random_features_are_unbiased(kernel):
    """The mean over many draws is the kernel, within the error of such a mean."""
    kernel = approximate(kernel, 6, "random_features", normalize=None)
    rows = np.random.default_rng(1).normal(size=(6, 3))
    fitted = fit(kernel, rows)
    source = fitted.groups[0].source
    generator = np.random.default_rng(2)
    draws = np.empty((4000, 6, 6))
    for draw in draws:
        drawn = fit_map(fitted, source, generator)
        phi = drawn.features(HOST, kernel, rows)
        draw[:] = phi @ phi.T
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws)) + 1e-12
    z = (draws.mean(axis=0) - naive.gram(kernel, rows, rows)) / error
    assert np.abs(z).max() < 4.5  # 21 numbers: once in 7,000 seeds by chance


def test_orthogonal_frequencies_vary_less_than_independent_ones():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(12, 16))
    exact = rbf_kernel(rows, gamma=0.02)

    def error(frequencies):
        angles = rows @ frequencies * np.sqrt(0.04)
        phi = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        return np.square(phi @ phi.T / frequencies.shape[1] - exact).mean()

    independent = np.mean([error(rng.normal(size=(16, 16))) for _ in range(100)])
    kernel = approximate(RBF(0.02), 32, "random_features")
    ours = np.mean(
        [
            np.square(fit(kernel, rows, seed=s).stack()[0] - exact).mean()
            for s in range(100)
        ]
    )
    assert ours < 0.8 * independent


@each_scaling
@pytest.mark.parametrize("how", ["nystroem", "random_features"])
@pytest.mark.parametrize("kernel", RANDOM, ids=lambda k: k.kind)
def test_features_symmetry_eigenvalues_and_new_rows(kernel, how, scaling):
    fitted = fit(approximate(kernel, 8, how, **scaling))
    (stack,) = fitted.stack()
    (phi,) = fitted.features()
    assert fitted.is_explicit and phi.shape == (30, 8)
    np.testing.assert_allclose(phi @ phi.T, stack, atol=1e-12 * np.abs(stack).max())
    np.testing.assert_array_equal(stack, stack.T)
    np.testing.assert_allclose(np.diagonal(stack), fitted.diagonals()[0], rtol=1e-12)
    values = np.linalg.eigvalsh(stack)
    assert values[0] > -1e-12 * values[-1]
    if scaling.get("normalize", "diagonal") == "diagonal":
        np.testing.assert_allclose(np.diagonal(stack), 1.0, rtol=1e-12)
    scale = np.abs(stack).max()
    np.testing.assert_allclose(cross(fitted, X)[0], stack, atol=1e-12 * scale)
    (psi,) = fitted.new_features(NEW)
    np.testing.assert_allclose(psi @ phi.T, cross(fitted, NEW)[0], atol=1e-12 * scale)
    own = fitted.cross_diagonals(NEW)[0]
    np.testing.assert_allclose(np.square(psi).sum(axis=1), own, rtol=1e-10)
    np.testing.assert_allclose(fitted.rows([3, 7])[0], stack[[3, 7]], atol=1e-12)


def test_rows_far_from_every_landmark_stay_finite():
    """Their features vanish in float32; unit length is taken before rounding."""
    rows = np.concatenate([np.zeros((20, 1)), np.linspace(8, 40, 5)[:, None]])
    kernel = approximate(RBF(1.0), rank=1)
    sets = (fit(kernel, rows, np.float32, seed=seed) for seed in range(50))
    fitted = next(f for f in sets if not f.groups[0].source.rows.values.any())
    stack = fitted.stack()[0]
    assert np.isfinite(stack).all()
    np.testing.assert_allclose(np.diagonal(stack)[:21], 1.0)
    assert fitted.diagonals()[0, -1] == stack[-1, -1] == 0.0  # exp(-1600) is zero


def test_new_rows_in_blocks():
    whole = fit([approximate(RBF(0.3), 5), Linear()])
    expected = cross(whole, NEW)
    parts = list(whole.cross(NEW, block_bytes=1))
    assert len(parts) == len(NEW)
    got = np.concatenate([block for _, block in parts], axis=1)
    np.testing.assert_allclose(got, expected, atol=1e-13)
    blocks = list(whole.feature_blocks(NEW, block_bytes=1))
    assert [rows.start for rows, _ in blocks] == list(range(9))
    phi = np.concatenate([features[0] for _, features in blocks])
    few = whole.new_features(NEW)[0]
    np.testing.assert_allclose(phi, few, atol=1e-13)
    many = whole.new_features(np.tile(NEW, (20_000, 1)))[0]  # not mapped at once
    np.testing.assert_allclose(many, np.tile(few, (20_000, 1)), atol=1e-13)


def test_exact_and_approximate_kernels_in_one_set():
    mixed = fit([RBF(0.3), approximate(RBF(0.3), 6), Linear(), approximate(RBF(2), 6)])
    assert not mixed.is_explicit and mixed.features() is None
    for f, stack in enumerate(mixed.stack()):
        np.testing.assert_allclose(stack, cross(mixed, X)[f], atol=1e-12)
    np.testing.assert_allclose(mixed.stack()[0], rbf_kernel(X, gamma=0.3), atol=1e-12)
    assert not np.allclose(mixed.stack()[1], mixed.stack()[0], atol=1e-3)


# --- the set around them -----------------------------------------------------


@pytest.mark.parametrize("how", ["nystroem", "random_features"])
def test_restrict_extend_only_and_precision(how):
    kernels = [
        approximate(RBF(0.3), 6, how),
        approximate(Polynomial(2), 6, how, center=True),
    ]
    fitted = fit(kernels)
    small = fitted.take([4, 17, 2])
    np.testing.assert_allclose(
        cross(small, NEW), cross(fitted, NEW)[:, :, [4, 17, 2]], atol=1e-13
    )
    longer = small.extend(NEW)
    np.testing.assert_allclose(longer.stack()[:, 3:, :3], cross(small, NEW), atol=1e-13)
    one = cross(fitted.only([1]), NEW)
    assert not one[0].any()
    np.testing.assert_allclose(one[1], cross(fitted, NEW)[1], atol=1e-13)
    single = fit(kernels, dtype=np.float32)
    assert single.stack().dtype == np.float32
    np.testing.assert_allclose(single.stack(), fitted.stack(), atol=2e-5)
    assert single.astype(np.float64).new_features(NEW)[0].dtype == np.float64


def test_a_set_without_rows_only_maps():
    fitted = fit([approximate(RBF(0.3), 6), Linear(), Constant()], X[:20])
    bare = fitted.take([1, 5]).without_rows()
    assert [len(group.rows) for group in bare.groups] == [0, 0, 0]
    assert bare.n_feature_columns() == [6, 4, 1]
    assert bare.support.tolist() == [1, 5]
    pairs = zip(bare.new_features(NEW), fitted.new_features(NEW), strict=True)
    for got, expected in pairs:
        np.testing.assert_array_equal(got, expected)
    with pytest.raises(ValueError, match="only to earlier ones that were kept, got"):
        bare.extend(NEW)


def test_seeds():
    kernel = approximate(RBF(0.3), 5)
    one, same, other = (fit(kernel, seed=s).stack() for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)
    generator = np.random.default_rng(1)
    np.testing.assert_array_equal(one, fit(kernel, seed=generator).stack())


def test_landmarks_are_all_that_new_rows_need():
    """The fitted constants do not grow with the rows."""
    sizes = []
    for n in (100, 400):
        rows = np.random.default_rng(5).normal(size=(n, 4))
        bare = fit(approximate(RBF(0.3), 10), rows).without_rows()
        sizes.append(len(pickle.dumps(bare.take([]))))
    assert sizes[1] - sizes[0] < 100


def test_sparse_rows():
    sparse = sp.csr_matrix(np.where(X > 0.7, X, 0.0))
    for kernel in (RBF(0.3), Polynomial(2), Cosine()):
        for how in ("nystroem", "random_features"):
            if kernel.explicit and how == "random_features":
                continue
            kernel = approximate(kernel, 6, how)
            fitted, dense = fit(kernel, sparse), fit(kernel, sparse.toarray())
            np.testing.assert_allclose(fitted.stack(), dense.stack(), atol=1e-10)
            np.testing.assert_allclose(
                cross(fitted, sparse), cross(dense, sparse.toarray()), atol=1e-10
            )
    with pytest.raises(TypeError, match="needs a dense table, got a sparse one"):
        fit(approximate(Laplacian(), 6), sparse)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_by_name(frame):
    table = frame(dict(zip("abcd", X.T, strict=True)))
    new = frame(dict(zip("abcd", NEW.T, strict=True)))
    by_name = fit(approximate(RBF(0.3, columns=["a", "c"]), 6), table)
    by_place = fit(approximate(RBF(0.3, columns=[0, 2]), 6))
    np.testing.assert_array_equal(by_name.stack(), by_place.stack())
    np.testing.assert_array_equal(cross(by_name, new), cross(by_place, NEW))
    for rows, features in by_name.feature_blocks(new, block_bytes=200):
        np.testing.assert_allclose(
            features[0], by_place.new_features(NEW)[0][rows], atol=1e-13
        )


def test_words_are_resolved_as_for_the_exact_kernel():
    exact, close = fit(RBF("0.1*scale")), fit(approximate(RBF("0.1*scale"), 5))
    assert exact.kernels[0].gamma == close.kernels[0].gamma


def test_indefinite_kernels_are_still_found():
    def indefinite(a, b):
        return np.tanh(1.0 - rbf_kernel(a, b, gamma=5.0)) + 0.1

    kernel = Custom(indefinite, approximate="nystroem", rank=25)
    with pytest.raises(ValueError, match="'indefinite.*must be positive semi-definite"):
        fit(kernel)
    stack = fit(kernel, psd="clip").stack()[0]
    assert np.linalg.eigvalsh(stack)[0] > -1e-10
    np.testing.assert_array_equal(stack, fit(kernel, psd="skip").stack()[0])


def test_a_rank_above_the_rows_is_lowered(caplog):
    with caplog.at_level(logging.INFO, "manykernels"):
        fitted = fit(approximate(RBF(0.3), 500))
    assert "rank 500 lowered to 25 different rows" in caplog.text
    assert fitted.features()[0].shape[1] <= 30
    assert fit(RBF(0.3, approximate="nystroem")).n_feature_columns()[0] <= 30


def test_an_odd_number_of_fourier_features_is_raised():
    fitted = fit(approximate(RBF(0.3), 7, "random_features"))
    assert fitted.features()[0].shape == (30, 8)
    wide = fit(RBF(0.3, approximate="random_features"))
    assert wide.features()[0].shape == (30, 300)


# --- specification -----------------------------------------------------------


@pytest.mark.parametrize("rank", [0, -3, 2.5, True, "many"])
def test_bad_ranks(rank):
    with pytest.raises(ValueError, match="rank of rbf must be a whole number >= 1"):
        RBF(approximate="nystroem", rank=rank)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: RBF(approximate="nystrom"),
            "approximate must be 'nystroem', 'random_features' or None, got 'nystrom'",
        ),
        (lambda: RBF(rank=10), "got rank=10 without one; add approximate="),
        (
            lambda: ChiSquared(approximate="random_features"),
            "got chi_squared, which has none; use approximate='nystroem'",
        ),
        (
            lambda: Linear(approximate="random_features"),
            "got linear, which has none; leave approximate out, its exact features",
        ),
        (
            lambda: Precomputed(approximate="nystroem"),
            "needs a kernel on feature columns, got precomputed",
        ),
        (
            lambda: Distance(approximate="nystroem", rank=3),
            "needs a kernel on feature columns, got distance",
        ),
        (
            lambda: parse_kernel("rbf:approximate=yes"),
            "approximate must be 'nystroem'.*got 'yes'; choose one of these for rbf",
        ),
        (
            lambda: approximate_kernels([Linear()], "fast"),
            "approximate must be .*got 'fast'; choose one of these for all kernels",
        ),
        (
            lambda: approximate_kernels([Linear()], None, 0),
            "rank of all kernels must be a whole number >= 1, got 0",
        ),
    ],
)
def test_clear_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_setting_of_its_own_comes_first():
    own = RBF(1.0, approximate="random_features", rank=4)
    kernels = approximate_kernels([Linear(), RBF(0.5), own], "nystroem", 9)
    assert kernels == [Linear(), RBF(0.5, approximate="nystroem", rank=9), own]
    assert approximate_kernels([RBF()], None, 9) == [RBF()]
