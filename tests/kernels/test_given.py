"""Given kernel and distance matrices, custom functions, positive definiteness."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics import pairwise

from manykernels.kernels import RBF, Custom, Distance, Polynomial, Precomputed
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from tests.kernels.naive import cross

N = 12


@pytest.fixture
def X():
    return np.random.default_rng(0).gamma(1.0, size=(N, 3))


@pytest.fixture
def stack(X):
    """Three kernels, shape (F, N, N)."""
    return np.stack([X @ X.T + 1, pairwise.rbf_kernel(X), 2 * pairwise.rbf_kernel(X)])


def last(stack):
    return np.moveaxis(stack, 0, -1)


@pytest.mark.parametrize("form", [last, list, tuple, lambda s: last(s).copy()])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_way_to_give_a_stack(form, dtype, stack):
    fitted = KernelSet.fit(as_kernels("precomputed"), form(stack), dtype=dtype)
    assert fitted.names == ["precomputed@0", "precomputed@1", "precomputed@2"]
    traces = np.trace(stack, axis1=1, axis2=2) / N
    expected = stack / traces[:, None, None]
    np.testing.assert_allclose(fitted.stack(), expected, rtol=1e-5)
    np.testing.assert_allclose(
        cross(fitted, form(stack[:, :5])), expected[:, :5], rtol=1e-5
    )
    np.testing.assert_allclose(fitted.diagonals().mean(axis=1), 1.0)
    np.testing.assert_allclose(fitted.rows([3]), expected[:, [3]], rtol=1e-5)


def test_one_matrix_and_nested_lists(stack):
    for given in (stack[1], stack[1].tolist()):
        fitted = KernelSet.fit([Precomputed(normalize=None)], given)
        np.testing.assert_allclose(fitted.stack()[0], stack[1], rtol=1e-6)


def test_columns_pick_matrices_by_position_or_name(stack):
    kernels = [Precomputed(columns=[2, 0], name="k"), Precomputed(columns=1)]
    fitted = KernelSet.fit(kernels, last(stack))
    assert fitted.names == ["k", "k#2", "precomputed@1"]
    assert [group.position for group in fitted.groups] == [2, 0, 1]
    named = KernelSet.fit(
        [Precomputed(columns="rbf")], last(stack), feature_names=["lin", "rbf", "twice"]
    )
    assert named.names == ["precomputed@rbf"] and named.groups[0].position == 1


def test_views_are_not_copied(stack):
    fitted = KernelSet.fit(as_kernels("precomputed"), last(stack), dtype=np.float64)
    assert all(np.shares_memory(g.matrix, stack) for g in fitted.groups)
    assert not np.shares_memory(fitted.stack(), stack)


@pytest.mark.parametrize("form", [last, lambda s: last(s).copy()])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stacks_are_learned_from_where_they_lie(form, dtype, stack):
    given = form(stack.astype(dtype))
    for X in (given, [given[:, :, f] for f in range(3)]):
        fitted = KernelSet.fit(as_kernels("precomputed"), X)
        found, factors = fitted.stack_as_given()
        assert np.shares_memory(found, given) and found.shape == (N, N, 3)
        np.testing.assert_array_equal(found, given)
        np.testing.assert_allclose(factors, N / np.trace(given), rtol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "change"),
    [
        (Precomputed(), lambda s: [matrix.copy() for matrix in s]),
        (Precomputed(columns=[0, 2]), last),
        (Precomputed(), lambda s: last(s)[::-1, ::-1]),
        (Precomputed(), lambda s: np.rint(100 * last(s)).astype(int)),
        (Precomputed(center=True), last),
        (Distance(), lambda s: last(1 - s[1:] / s[1:, :1, :1])),
        (Precomputed(), lambda s: last(broken(s, 1, 0, 1, s[1, 0, 1] * (1 + 5e-6)))),
    ],
    ids=["apart", "some", "reversed", "integers", "center", "distance", "tolerance"],
)
def test_other_stacks_are_copied(kernel, change, stack):
    fitted = KernelSet.fit([kernel], change(stack), psd="skip")
    assert fitted.stack_as_given() is None
    values = fitted.stack()
    np.testing.assert_array_equal(values, values.transpose(0, 2, 1))


def test_neighbors_in_memory_need_not_be_one_array(stack):
    owner = np.stack([stack, stack])  # two arrays that share an owner lie side by side
    views = [owner[0, 2], owner[1, 0]]
    fitted = KernelSet.fit([Precomputed(normalize=None)], views)
    np.testing.assert_allclose(fitted.stack(), [stack[2], stack[0]], rtol=1e-6)
    found, _ = fitted.stack_as_given()
    np.testing.assert_array_equal(found, np.stack([stack[2], stack[0]], axis=-1))


def test_integer_stacks_work():
    K = np.array([[2, 1], [1, 2]])
    np.testing.assert_allclose(
        KernelSet.fit([Precomputed()], K).stack()[0], [[1, 0.5], [0.5, 1]]
    )


@pytest.mark.parametrize("center", [False, True])
def test_restricted_stacks_take_all_training_columns(center, stack):
    kernels = [Precomputed(center=center)]
    fitted = KernelSet.fit(kernels, last(stack), dtype=np.float64)
    support = np.array([7, 1, 4])
    small = fitted.take(support)
    expected = fitted.stack()[:, :, support]
    np.testing.assert_allclose(cross(small, last(stack)), expected, atol=1e-13)
    np.testing.assert_allclose(small.stack(), expected[:, support], atol=1e-13)
    assert not np.shares_memory(small.groups[0].matrix, stack)
    tiny = small.take([2, 0])
    np.testing.assert_allclose(
        cross(tiny, last(stack)), expected[:, :, [2, 0]], atol=1e-13
    )
    np.testing.assert_allclose(
        tiny.rows([1]), expected[:, support[[0]]][:, :, [2, 0]], atol=1e-13
    )


def test_centered_stack_equals_explicit_centering(stack):
    fitted = KernelSet.fit(
        [Precomputed(center=True, normalize=None)], last(stack), dtype=np.float64
    )
    H = np.eye(N) - 1 / N
    np.testing.assert_allclose(fitted.stack(), H @ stack @ H, atol=1e-12)
    np.testing.assert_allclose(cross(fitted, last(stack)), H @ stack @ H, atol=1e-12)


def test_diagonal_normalization_needs_a_constant_diagonal(stack):
    ok = KernelSet.fit([Precomputed(normalize="diagonal", columns=2)], last(stack))
    np.testing.assert_allclose(ok.stack()[0], stack[1], rtol=1e-6)
    message = "'precomputed.*@0' can have normalize='diagonal' only with a constant"
    with pytest.raises(ValueError, match=message):
        KernelSet.fit([Precomputed(normalize="diagonal", columns=0)], last(stack))


def test_distance_kernel(X):
    D = pairwise.manhattan_distances(X)
    fitted = KernelSet.fit([Distance(), Distance("2*mean"), Distance(3.0)], D)
    mean = D[~np.eye(N, dtype=bool)].mean()
    for K, scale in zip(fitted.stack(), [mean, 2 * mean, 3.0], strict=True):
        np.testing.assert_allclose(K, np.exp(-D / scale), rtol=1e-5)
    np.testing.assert_allclose(cross(fitted, D[:3]), fitted.stack()[:, :3], rtol=1e-5)
    with pytest.raises(ValueError, match="'distance' needs values that are not neg"):
        KernelSet.fit([Distance(name="distance")], -D)


def broken(stack, f, i, j, value):
    stack = stack.copy()
    stack[f, i, j] = value
    return stack


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: broken(s, 1, 0, 1, np.nan), "'precomputed@1' must hold finite"),
        (lambda s: broken(s, 1, 5, 2, np.inf), "'precomputed@1' must hold finite"),
        (lambda s: broken(s, 2, 0, 1, 9.0), "'precomputed@2' must be symmetric"),
        (lambda s: s * np.array([1, 0, 1])[:, None, None], "'precomputed@1' .* zeros"),
        (lambda s: s[:, :5], "must be square, got 5 rows and 12 columns"),
        (
            lambda s: -s,
            "'precomputed@0' must have k",
        ),
    ],
)
def test_bad_training_stacks_are_named(change, message, stack):
    with pytest.raises(ValueError, match=message):
        KernelSet.fit([Precomputed()], last(change(stack)))


def test_bad_shapes(stack):
    with pytest.raises(ValueError, match="same shape, got .* for kernel 0 and .* 1;"):
        KernelSet.fit([Precomputed()], [stack[0], stack[1][:5, :5]])
    with pytest.raises(ValueError, match="got 1 dimensions; stack them so"):
        KernelSet.fit([Precomputed()], np.ones(3))
    with pytest.raises(ValueError, match="expected at least one given kernel"):
        KernelSet.fit([Precomputed()], np.ones((3, 3, 0)))
    with pytest.raises(TypeError, match="must be dense arrays, got a sparse matrix"):
        KernelSet.fit([Precomputed()], sp.eye(3))
    with pytest.raises(TypeError, match="must hold numbers, got <U"):
        KernelSet.fit([Precomputed()], np.full((2, 2), "a"))


def test_bad_new_stacks(stack):
    fitted = KernelSet.fit([Precomputed()], last(stack))
    with pytest.raises(ValueError, match="expected 12 columns, one per training row"):
        next(fitted.cross(last(stack[:, :, :7])))
    with pytest.raises(ValueError, match="expected 3 given kernels as in fit, got 2"):
        next(fitted.cross(last(stack[:2])))
    with pytest.raises(ValueError, match="'precomputed@1' must hold finite numbers"):
        next(fitted.cross(last(broken(stack, 1, 0, 1, np.nan))))
    with pytest.raises(ValueError, match="known for kernels on feature columns only"):
        fitted.cross_diagonals(last(stack))


def indefinite(n=40, seed=0):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    values = np.linspace(-0.5, 3, n)
    return (Q * values) @ Q.T, values


@pytest.mark.parametrize("n", [40, 400])
def test_indefinite_kernels_are_found(n):
    K, _ = indefinite(n)
    K = (K + K.T) / 2
    message = "'bad' must be positive semi-definite, got a smallest eigenvalue of -0"
    with pytest.raises(ValueError, match=message + ".*psd='clip'"):
        KernelSet.fit([Precomputed(name="bad")], K)
    assert KernelSet.fit([Precomputed(name="bad")], K, psd="skip").n_kernels == 1


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clipping(center, dtype):
    K, _ = indefinite()
    K = (K + K.T) / 2
    kernel = Precomputed(normalize=None, center=center)
    fitted = KernelSet.fit([kernel], K, psd="clip", dtype=dtype)
    H = np.eye(40) - center / 40
    values, vectors = np.linalg.eigh(H @ K @ H)
    expected = (vectors * np.maximum(values, 0)) @ vectors.T
    atol = 1e-5 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(fitted.stack()[0], expected, atol=atol)
    np.testing.assert_allclose(cross(fitted, K)[0], expected, atol=atol)
    np.testing.assert_allclose(fitted.diagonals()[0], np.diag(expected), atol=atol)
    small = fitted.take([3, 30])
    np.testing.assert_allclose(cross(small, K)[0], expected[:, [3, 30]], atol=atol)
    np.testing.assert_allclose(
        small.stack()[0], expected[np.ix_([3, 30], [3, 30])], atol=atol
    )


def test_clipping_leaves_good_kernels_alone(stack):
    fitted = KernelSet.fit([Precomputed()], last(stack), psd="clip")
    assert [scaling.clip for scaling in fitted.scalings] == [None] * 3


def test_clipping_a_custom_kernel(X):
    def sigmoid(A, B):
        return np.tanh(2 * (A - 1) @ (B - 1).T - 1)

    with pytest.raises(ValueError, match="'sigmoid.*' must be positive semi-def"):
        KernelSet.fit([Custom(sigmoid, normalize=None)], X)
    kernels = [Custom(sigmoid, normalize=None), RBF()]
    fitted = KernelSet.fit(kernels, X, psd="clip", dtype=np.float64)
    K = fitted.stack()
    assert np.linalg.eigvalsh(K[0])[0] > -1e-12
    np.testing.assert_allclose(cross(fitted, X), K, atol=1e-10)
    np.testing.assert_allclose(fitted.cross_diagonals(X), fitted.diagonals(), atol=1e-9)
    small = fitted.take([1, 5])
    np.testing.assert_allclose(cross(small, X), K[:, :, [1, 5]], atol=1e-10)


SKLEARN = [
    pairwise.linear_kernel,
    pairwise.polynomial_kernel,
    pairwise.rbf_kernel,
    pairwise.laplacian_kernel,
    pairwise.chi2_kernel,
    pairwise.cosine_similarity,
    partial(pairwise.rbf_kernel, gamma=2.0),
    Matern(1.5),
]


@pytest.mark.parametrize("function", SKLEARN, ids=lambda f: type(f).__name__)
def test_sklearn_kernels_plug_in(function, X):
    fitted = KernelSet.fit(as_kernels([function]), X, dtype=np.float64)
    K = function(X, X)
    norms = np.sqrt(np.diag(K))
    expected = K / np.outer(norms, norms)
    np.testing.assert_allclose(fitted.stack()[0], expected, atol=1e-10)
    np.testing.assert_allclose(cross(fitted, X[:4])[0], expected[:4], atol=1e-10)


def test_custom_equals_built_in(X):
    kernels = [Custom(pairwise.polynomial_kernel), Polynomial(3, gamma=1 / 3)]
    K = KernelSet.fit(kernels, X, dtype=np.float64).stack()
    np.testing.assert_allclose(K[0], K[1], atol=1e-12)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda A, B: A @ B[:1].T, r"must return shape \(12, 12\).*got \(12, 1\)"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "must hold finite numbers"),
        (lambda A, B: A @ B.T + A[:, :1], "'<lambda>' must be symmetric"),
        (lambda A, B: -A @ B.T, r"needs k\(x, x\) >= 0 for normalize='diagonal'"),
    ],
)
def test_bad_functions_are_named(function, message, X):
    with pytest.raises(ValueError, match=message):
        KernelSet.fit([Custom(function)], X)


def test_a_set_for_new_rows_keeps_no_matrix(stack):
    new = last(stack)[:5]
    fitted = KernelSet.fit(as_kernels("precomputed"), last(stack), dtype=np.float64)
    small = fitted.take([1, 4], matrices=False)
    assert all(group.matrix.size == 0 for group in small.groups)
    np.testing.assert_array_equal(cross(small, new), cross(fitted, new)[:, :, [1, 4]])
    again = fitted.take([1, 4, 7]).take([0, 2], matrices=False)
    np.testing.assert_array_equal(cross(again, new), cross(fitted, new)[:, :, [1, 7]])


def test_kernels_left_out_read_as_zero(X, stack):
    for kernels, data in ((["rbf", "linear"], X), ("precomputed", last(stack))):
        fitted = KernelSet.fit(as_kernels(kernels), data)
        part = cross(fitted.only([1]), data)
        np.testing.assert_array_equal(part[1], cross(fitted, data)[1])
        assert not part[0].any()
        precise = cross(fitted.astype(np.float64), data)
        assert precise.dtype == np.float64
        np.testing.assert_allclose(precise, cross(fitted, data), atol=1e-5)


def test_unknown_precision_is_refused(X):
    with pytest.raises(ValueError, match="dtype must be float32 or float64, got f99"):
        KernelSet.fit(as_kernels("rbf"), X, dtype="f99")
