"""Reference rows that grow must behave as if they had been there from the start."""

import numpy as np
import pytest
import scipy.sparse as sp

from manykernels.kernels import RBF, Cosine, Linear, Polynomial, Precomputed
from manykernels.kernels.kernel_set import KernelSet
from tests.kernels.naive import cross

OLD = np.random.default_rng(0).normal(size=(12, 4))
NEW = np.random.default_rng(1).normal(size=(5, 4))
TEST = np.random.default_rng(2).normal(size=(3, 4))
KERNELS = [
    Linear(),
    Polynomial(2, columns=[0, 1], normalize="trace"),
    RBF("scale"),
    Cosine(columns=[1, 2]),
    Linear(center=True),
]


def test_extended_rows_give_the_values_of_new_rows():
    fitted = KernelSet.fit(KERNELS, OLD, dtype=np.float64)
    grown = fitted.extend(NEW)
    assert grown.n_reference == 17
    stack = grown.stack()
    np.testing.assert_allclose(stack[:, :12, :12], fitted.stack(), atol=1e-12)
    np.testing.assert_allclose(stack[:, 12:, :12], cross(fitted, NEW), atol=1e-12)
    np.testing.assert_allclose(cross(grown, OLD), stack[:, :12], atol=1e-12)
    np.testing.assert_allclose(
        grown.diagonals(), np.einsum("fii->fi", stack), atol=1e-12
    )


def test_restrict_then_extend_keeps_the_training_constants():
    fitted = KernelSet.fit(KERNELS, OLD, dtype=np.float64)
    grown = fitted.take([3, 7]).extend(NEW)
    expected = np.concatenate(
        [cross(fitted, TEST)[:, :, [3, 7]], cross(fitted.extend(NEW), TEST)[:, :, 12:]],
        axis=2,
    )
    np.testing.assert_allclose(cross(grown, TEST), expected, atol=1e-12)


def test_sparse_rows_extend():
    fitted = KernelSet.fit([Linear(), RBF(0.5)], sp.csr_matrix(OLD), dtype=np.float64)
    dense = KernelSet.fit([Linear(), RBF(0.5)], OLD, dtype=np.float64)
    grown = fitted.extend(sp.csr_matrix(NEW))
    np.testing.assert_allclose(grown.stack(), dense.extend(NEW).stack(), atol=1e-12)


def test_what_cannot_grow_says_so():
    K = OLD @ OLD.T
    with pytest.raises(ValueError, match="feature columns only, got given matrices"):
        KernelSet.fit([Precomputed()], K).extend(K)
    with pytest.raises(ValueError, match="centered or clipped kernels, got 'rbf"):
        KernelSet.fit([RBF(center=True)], OLD).extend(NEW)
