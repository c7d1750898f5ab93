"""Explicit features and sparse matrices."""

import numpy as np
import pytest
import scipy.sparse as sp

from manykernels.kernels import RBF, BSpline, Constant, Cosine, Linear
from manykernels.kernels.kernel_set import KernelSet

X = np.random.default_rng(0).normal(size=(20, 5))
NEW = np.random.default_rng(1).normal(size=(7, 5))
EXPLICIT = [
    Linear(),
    Linear(normalize="trace"),
    Linear(normalize=None, columns=[0, 3]),
    Cosine(),
    Cosine(normalize="trace"),
    Constant(),
]
CENTERED = [Linear(center=True), Cosine(center=True, normalize="trace")]


def dense(phi):
    return phi.toarray() if sp.issparse(phi) else phi


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_features_reproduce_the_kernels(form, dtype):
    kernels = EXPLICIT + (CENTERED if form is np.asarray else [])
    fitted = KernelSet.fit(kernels, form(X), dtype=dtype)
    stack, atol = fitted.stack(), 1e-5 if dtype == np.float32 else 1e-12
    (_, new), *_ = fitted.cross(form(NEW))
    for f, (phi, psi) in enumerate(
        zip(fitted.features(), fitted.new_features(form(NEW)), strict=True)
    ):
        assert phi.dtype == dtype
        np.testing.assert_allclose(dense(phi) @ dense(phi).T, stack[f], atol=atol)
        np.testing.assert_allclose(dense(psi) @ dense(phi).T, new[f], atol=atol)
    small = fitted.take([4, 2])
    phi = dense(small.features()[0])
    np.testing.assert_allclose(phi @ phi.T, small.stack()[0], atol=atol)


def test_sparse_rows_give_sparse_features():
    fitted = KernelSet.fit([Linear(), Cosine()], sp.csr_matrix(X))
    assert all(sp.issparse(phi) for phi in fitted.features())


def test_no_features_where_there_are_none():
    fitted = KernelSet.fit([Linear(), RBF()], X)
    assert fitted.features() is None and not fitted.is_explicit
    with pytest.raises(ValueError, match="explicit features need Linear, Cosine and"):
        fitted.new_features(NEW)
    assert KernelSet.fit([Linear(center=True)], sp.csr_matrix(X)).features() is None


def test_many_rows_cost_no_square_matrix():
    rows = np.random.default_rng(0).normal(size=(200_000, 3))
    fitted = KernelSet.fit([Linear(center=True), Constant()], rows)
    assert fitted.features()[0].shape == (200_000, 3)


def test_bspline_is_about_95_percent_zeros():
    fitted = KernelSet.fit([BSpline()], X)
    off = ~np.eye(20, dtype=bool)
    assert 0.93 <= np.mean(fitted.stack()[0][off] == 0) <= 0.97


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_stack_equals_stack(dtype):
    rows = np.random.default_rng(0).normal(size=(1100, 2))
    kernels = [BSpline(), BSpline(0.3, columns=0, normalize="trace")]
    fitted = KernelSet.fit(kernels, rows, dtype=dtype, psd="skip")
    assert fitted.is_sparse
    for K, full in zip(fitted.sparse_stack(), fitted.stack(), strict=True):
        assert sp.issparse(K) and K.format == "csr" and K.dtype == dtype
        assert (K != K.T).nnz == 0
        np.testing.assert_allclose(K.toarray(), full, atol=1e-6)
        assert K.nnz < 0.4 * 1100**2


def test_bspline_on_two_columns_is_checked():
    rows = np.random.default_rng(0).normal(size=(1100, 2))
    with pytest.raises(ValueError, match="'bspline' must be positive semi-definite"):
        KernelSet.fit([BSpline()], rows)
    assert not KernelSet.fit([BSpline()], rows[:300], psd="clip").is_sparse
    assert KernelSet.fit([BSpline(degree=2)], rows).is_sparse


def test_sparse_stack_needs_compact_kernels():
    fitted = KernelSet.fit([BSpline(), RBF()], X)
    assert not fitted.is_sparse
    with pytest.raises(ValueError, match="kernels with compact support only, got bspl"):
        fitted.sparse_stack()


def test_duplicate_rows_still_give_a_width():
    rows = np.repeat([[0.0], [1.0]], 10, axis=0)
    assert KernelSet.fit([BSpline()], rows).kernels[0].width == 1.0
    assert KernelSet.fit([BSpline()], np.ones((3, 1))).kernels[0].width == 1.0
