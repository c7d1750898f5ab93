"""Values of every kernel against a double loop over its formula."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics.pairwise import (
    additive_chi2_kernel,
    laplacian_kernel,
    polynomial_kernel,
    rbf_kernel,
)

from manykernels.kernels import (
    RBF,
    BSpline,
    ChiSquared,
    Constant,
    Cosine,
    Custom,
    Intersection,
    Laplacian,
    Linear,
    Polynomial,
)
from manykernels.kernels.kernel_set import KernelSet
from tests.kernels import naive
from tests.kernels.naive import cross

KERNELS = [
    Linear(),
    Cosine(),
    Polynomial(),
    Polynomial(5, gamma=0.5, coef0=0.0),
    Polynomial(2, gamma="scale"),
    RBF(0.5),
    RBF(),
    RBF("median"),
    RBF("0.1*scale"),
    RBF(columns=[0, 2]),
    Laplacian(),
    Laplacian("2*median"),
    ChiSquared(),
    ChiSquared(0.3),
    Intersection(),
    BSpline(columns=1),
    BSpline(1.5, degree=3),
    Constant(),
    Custom(laplacian_kernel),
    Custom(polynomial_kernel, columns=slice(0, 2)),
]
CENTERED = [
    Linear(),
    Cosine(),
    Polynomial(2),
    RBF(0.5),
    Laplacian(),
    ChiSquared(),
    Intersection(),
    Custom(rbf_kernel),
]
OPTIONS = [
    {"normalize": normalize, "center": center}
    for normalize in ("diagonal", "trace", None)
    for center in (False, True)
]


def identity(kernel):
    return kernel.label


@pytest.fixture
def X():
    X = np.random.default_rng(0).gamma(1.0, size=(17, 4))
    X[3] = 0.0
    return X


@pytest.fixture
def X_new():
    return np.random.default_rng(1).gamma(1.0, size=(6, 4))


def columns(kernel, X):
    if kernel.columns is None:
        return X
    chosen = kernel.columns
    return X[:, list(chosen) if isinstance(chosen, tuple) else chosen].reshape(
        len(X), -1
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=identity)
def test_values_equal_a_double_loop(kernel, X, X_new):
    fitted = KernelSet.fit([kernel], X, dtype=np.float64)
    A, B = columns(kernel, X_new), columns(kernel, X)
    expected = naive.scaled(fitted.kernels[0], B, B, B)
    K = fitted.stack()[0]
    np.testing.assert_allclose(K, expected, atol=1e-12)
    np.testing.assert_allclose(fitted.diagonals()[0], np.diag(expected), atol=1e-12)
    assert np.array_equal(K, K.T) and np.linalg.eigvalsh(K)[0] > -1e-10
    expected = naive.scaled(fitted.kernels[0], A, B, B)
    np.testing.assert_allclose(cross(fitted, X_new)[0], expected, atol=1e-12)
    single = KernelSet.fit([kernel], X, dtype=np.float32).stack()
    assert single.dtype == np.float32 and K.dtype == np.float64
    np.testing.assert_allclose(single[0], K, atol=1e-5)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kernel", CENTERED, ids=identity)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaling_equals_the_definition(kernel, options, dtype, X, X_new):
    fitted = KernelSet.fit([replace(kernel, **options)], X, dtype=dtype)
    tolerance = {"rtol": 1e-5, "atol": 2e-5 if dtype == np.float32 else 1e-10}
    numbers = fitted.kernels[0]
    train = naive.scaled(numbers, X, X, X)
    new = naive.scaled(numbers, X_new, X, X)
    np.testing.assert_allclose(fitted.stack()[0], train, **tolerance)
    np.testing.assert_allclose(cross(fitted, X_new)[0], new, **tolerance)
    np.testing.assert_allclose(fitted.diagonals()[0], np.diag(train), **tolerance)
    own = np.diag(naive.scaled(numbers, X_new, X_new, X))
    np.testing.assert_allclose(fitted.cross_diagonals(X_new)[0], own, **tolerance)


def test_rows_of_zeros_give_zeros_and_not_nan(X):
    kernels = [Linear(), Cosine(), Intersection()]
    fitted = KernelSet.fit(kernels, X)
    assert np.all(fitted.stack()[:, 3] == 0)
    assert np.all(cross(fitted, np.zeros((1, 4))) == 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_together_equal_kernels_alone(dtype, X, X_new):
    kernels = [k for k in KERNELS if not isinstance(k, BSpline)]
    fused = KernelSet.fit(kernels, X, dtype=dtype)
    atol = 2e-6 if dtype == np.float32 else 1e-13
    for f, kernel in enumerate(kernels):
        alone = KernelSet.fit([kernel], X, dtype=dtype)
        np.testing.assert_allclose(fused.stack()[f], alone.stack()[0], atol=atol)
        np.testing.assert_allclose(
            cross(fused, X_new)[f], cross(alone, X_new)[0], atol=atol
        )


def test_kernels_on_the_same_columns_share_one_group(X):
    same = [Linear(), Polynomial(), RBF(), Cosine(columns=[0, 1, 2, 3])]
    assert len(KernelSet.fit(same, X).groups) == 1
    assert len(KernelSet.fit([Linear(columns=0), Linear(columns=1)], X).groups) == 2


@pytest.mark.parametrize("shift", [0.0, 10.0, 1e4])
@pytest.mark.parametrize("gamma", [0.01, 1.0, 100.0])
def test_rbf_keeps_five_digits_in_float32_far_from_the_origin(shift, gamma):
    X = np.random.default_rng(0).normal(size=(60, 5)) + shift
    X[1] = X[0] + 1e-3
    kernels = [RBF(gamma), Linear(), Polynomial(2)]
    fitted = KernelSet.fit(kernels, X, dtype=np.float32)
    expected = KernelSet.fit(kernels, X, dtype=np.float64).stack()
    np.testing.assert_allclose(
        expected[0], rbf_kernel(X - shift, gamma=gamma), atol=1e-6
    )
    np.testing.assert_allclose(fitted.stack(), expected, atol=1e-5)
    np.testing.assert_allclose(cross(fitted, X), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_and_blocks_do_not_show(dtype):
    X = np.random.default_rng(0).gamma(1.0, size=(900, 3))
    kernels = [Linear(), RBF(), Polynomial(3, center=True), Laplacian()]
    fitted = KernelSet.fit(kernels, X, dtype=dtype)
    stack = fitted.stack()
    assert np.array_equal(stack, stack.transpose(0, 2, 1))
    assert np.array_equal(stack, fitted.stack(n_threads=2))
    pieces = list(fitted.cross(X, block_bytes=10**6))
    assert len(pieces) > 5 and pieces[-1][0].stop == 900
    atol = 5e-6 if dtype == np.float32 else 1e-12
    new = np.concatenate([block for _, block in pieces], axis=1)
    np.testing.assert_allclose(new, stack, atol=atol)
    index = [5, 899, 5, 0]
    np.testing.assert_allclose(fitted.rows(index), stack[:, index], atol=atol)
    assert fitted.rows(3).shape == (4, 1, 900)


def test_stack_writes_into_a_memory_map(tmp_path, X):
    fitted = KernelSet.fit([RBF(), Linear()], X)
    out = np.lib.format.open_memmap(
        tmp_path / "K.npy", mode="w+", dtype=np.float32, shape=(2, 17, 17)
    )
    assert fitted.stack(out) is out
    np.testing.assert_array_equal(out, fitted.stack())
    with pytest.raises(ValueError, match=r"out must have shape \(2, 17, 17\)"):
        fitted.stack(out[:1])


@pytest.mark.parametrize("center", [False, True])
def test_restriction_keeps_new_row_values(center, X, X_new):
    kernels = [replace(k, center=center) for k in CENTERED]
    fitted = KernelSet.fit(kernels, X, dtype=np.float64)
    support = np.array([9, 2, 14, 3])
    small = fitted.take(support)
    assert small.n_reference == 4 and fitted.n_reference == 17
    expected = cross(fitted, X_new)[:, :, support]
    np.testing.assert_allclose(cross(small, X_new), expected, atol=1e-13)
    block = fitted.stack()[:, support][:, :, support]
    np.testing.assert_allclose(small.stack(), block, atol=1e-13)
    np.testing.assert_allclose(small.rows([1, 2]), block[:, [1, 2]], atol=1e-13)
    assert np.array_equal(small.diagonals(), fitted.diagonals()[:, support])
    smaller = small.take(np.array([True, False, True, False]))
    np.testing.assert_allclose(
        cross(smaller, X_new), expected[:, :, [0, 2]], atol=1e-13
    )
    np.testing.assert_allclose(
        smaller.stack(), block[:, [0, 2]][:, :, [0, 2]], atol=1e-13
    )


def test_restriction_drops_rows_unless_centering_needs_them(X):
    small = KernelSet.fit([RBF(), RBF(columns=0, center=True)], X).take([1, 2])
    assert [len(group.rows) for group in small.groups] == [2, 17]


@pytest.mark.parametrize("kernel", [Linear(), Laplacian()])
def test_scale_words(kernel, X):
    fitted = KernelSet.fit([RBF("scale"), RBF("10*scale"), Laplacian("scale")], X)
    scale = 1 / (4 * X.var())
    gammas = [k.gamma for k in fitted.kernels]
    np.testing.assert_allclose(gammas, [scale, 10 * scale, 0.25])
    assert KernelSet.fit([RBF()], np.ones((3, 2))).kernels[0].gamma == 1.0
    assert KernelSet.fit([RBF("median")], np.ones((3, 2))).kernels[0].gamma == 1.0


def test_median_and_mean_words(X):
    from scipy.spatial.distance import pdist

    fitted = KernelSet.fit([RBF("median"), Laplacian("median"), ChiSquared()], X)
    distances = -additive_chi2_kernel(X)[np.triu_indices(17, 1)]
    expected = [
        1 / np.median(pdist(X) ** 2),
        1 / np.median(pdist(X, "cityblock")),
        1 / distances.mean(),
    ]
    np.testing.assert_allclose([k.gamma for k in fitted.kernels], expected)


def test_median_looks_at_a_thousand_rows_at_most():
    X = np.arange(3000.0)[:, None]
    first = KernelSet.fit([RBF("median")], X).kernels[0].gamma
    assert first == KernelSet.fit([RBF("median")], X).kernels[0].gamma
    np.testing.assert_allclose(first, 1 / np.median(_gaps(X)), rtol=0.01)


def _gaps(X):
    i, j = np.triu_indices(len(X), 1)
    return (X[i, 0] - X[j, 0]) ** 2
