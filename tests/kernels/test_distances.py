"""Distances that choose widths: against scipy, whichever way they are computed."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from manykernels.kernels import RBF, Linear
from manykernels.kernels.kernel_set import KernelSet
from manykernels.kernels.widths import PRODUCT_COLUMNS, distance_quantile

rng = np.random.default_rng(0)
WIDTHS = [3, PRODUCT_COLUMNS - 1, PRODUCT_COLUMNS, 2 * PRODUCT_COLUMNS]


@pytest.mark.parametrize("n_columns", WIDTHS)
@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("q", [0.05, 0.5])
def test_quantiles_are_those_of_scipy(n_columns, offset, q):
    X = rng.normal(size=(40, n_columns)) + offset
    expected = np.quantile(pdist(X, "sqeuclidean"), q)
    found, smallest = distance_quantile(X, np.ones(40), "sqeuclidean", q)
    assert found == pytest.approx(expected, rel=1e-9)
    assert smallest == pytest.approx(pdist(X, "sqeuclidean").min(), rel=1e-9)


@pytest.mark.parametrize("n_columns", WIDTHS)
def test_equal_rows_have_no_distance(n_columns):
    X = np.repeat(rng.normal(size=(2, n_columns)) + 100.0, [30, 10], axis=0)
    median, smallest = distance_quantile(X, np.ones(40), "sqeuclidean", 0.5)
    assert median == 0.0
    assert smallest == pytest.approx(np.square(X[0] - X[-1]).sum())


def test_wide_tables_have_the_same_widths_sparse_or_dense():
    X = sp.random_array((60, 500), density=0.05, rng=rng, format="csr")
    expected = 4.0 / np.median(pdist(X.toarray(), "sqeuclidean"))
    for table in (X, X.toarray()):
        (kernel,) = KernelSet.fit([RBF("4*median")], table).kernels
        assert kernel.gamma == pytest.approx(expected, rel=1e-9)


def test_kernels_on_the_same_rows_find_a_width_once():
    X = rng.normal(size=(20, 3))
    known = {}
    kernels = [RBF(f"{k}*median") for k in (0.25, 1, 4)] + [RBF("scale"), Linear()]
    alone = [kernel.resolve(X, np.ones(20)) for kernel in kernels]
    assert [kernel.resolve(X, np.ones(20), known) for kernel in kernels] == alone
    assert len(known) == 2
    (rule,) = (rule for rule in known if known[rule] == alone[1].gamma)
    known[rule] = 7.0  # what is known is not computed again
    assert RBF("2*median").resolve(X, np.ones(20), known).gamma == 14.0
