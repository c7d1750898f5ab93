"""Ranking kernels one by one, and alignments between them."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import r2_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import LeaveOneOut, cross_val_predict

import manykernels as mk
from manykernels import MKLRegressor
from manykernels.kernels import RBF, Linear
from tests.mkl.test_bad_input import refused

METHODS = ["alignment", "loo"]
NOISE = "noise kernels rank last"


@pytest.fixture(scope="module")
def mixed():
    """Column 0 makes the target, column 1 helps a little, column 2 is noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=80)


def kernels():
    return [RBF(0.5, columns=[2]), RBF(0.5, columns=[0]), RBF(0.5, columns=[1])]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("labels", [False, True])
def test_useful_kernels_come_first(mixed, method, labels):
    X, y = mixed
    y = np.where(y > 0, "high", "low") if labels else y
    ranks = mk.rank_kernels(X, y, kernels(), method)
    assert [rank.position for rank in ranks] == [1, 2, 0]
    scores = [rank.score for rank in ranks]
    assert scores == sorted(scores, reverse=True)
    assert ranks[0].name == "rbf(gamma=0.5)@0"


def test_leave_one_out_scores_of_numbers(mixed):
    X, y = mixed
    ranks = mk.rank_kernels(X, y, kernels(), "loo", C=3.0)
    for rank in ranks:
        plain = MKLRegressor([kernels()[rank.position]], p=2.0, C=3.0, tol=1e-9)
        predicted = cross_val_predict(plain, X, y, cv=LeaveOneOut())
        # R^2 against the mean of all rows, as the score is.
        assert rank.score == pytest.approx(r2_score(y, predicted), abs=1e-9)


def test_leave_one_out_accuracy_of_labels(iris):
    """A linear kernel is a ridge classifier, which codes two classes as -1 and 1."""
    keep = iris.y > 0
    X, y = iris.X[keep], iris.y[keep]
    X = X - X.mean(axis=0)
    (rank,) = mk.rank_kernels(X, y, [Linear(normalize=None)], "loo", C=2.0)
    hits = []
    for train, test in LeaveOneOut().split(X):
        code = 2.0 * (y[train] == 2) - 1.0
        model = MKLRegressor([Linear(normalize=None)], p=2.0, C=2.0, tol=1e-9)
        predicted = model.fit(X[train], code).predict(X[test])
        hits.append((predicted > 0.0) == (y[test] == 2))
    assert rank.score == pytest.approx(np.mean(hits))
    assert RidgeClassifier(0.5).fit(X, y).score(X, y) > rank.score - 0.1


def test_whole_numbers_may_be_numbers(mixed):
    X, y = mixed
    counts = np.round(5.0 * y).astype(int)
    as_labels = mk.rank_kernels(X, counts, kernels(), "loo")
    as_numbers = mk.rank_kernels(X, counts, kernels(), "loo", task="regression")
    assert as_labels[0].score < 0.5 < as_numbers[0].score


def test_alignments_between_kernels(mixed):
    X, _ = mixed
    found = mk.kernel_alignments(X, [*kernels(), RBF(0.5, columns=[0])])
    np.testing.assert_allclose(np.diag(found), 1.0)
    assert found[1, 3] == pytest.approx(1.0)
    assert found[0, 1] < 0.3


def test_given_matrices(mixed):
    X, y = mixed
    matrices = [rbf_kernel(X[:, [j]], gamma=0.5) for j in (2, 0, 1)]
    expected = mk.rank_kernels(X, y, kernels())
    found = mk.rank_kernels(matrices, y, "precomputed")
    assert [r.position for r in found] == [r.position for r in expected]
    np.testing.assert_allclose([r.score for r in found], [r.score for r in expected])


def test_bad_input(mixed):
    X, y = mixed
    with refused("method must be 'alignment' or 'loo'", "'cv'"):
        mk.rank_kernels(X, y, method="cv")
    with refused("task must be 'auto'", "'survival'"):
        mk.rank_kernels(X, y, task="survival")
    with refused("C must be a number", "0"):
        mk.rank_kernels(X, y, method="loo", C=0)
    with refused("y must hold finite numbers", "NaN"):
        mk.rank_kernels(X, np.where(y > 1, np.nan, y), task="regression")
