"""Forward selection next to fits that really leave a row out."""

import numpy as np
import pytest

import manykernels as mk
from manykernels.compare.combinations.leave_one_out import (
    least_squares,
    select_forward,
)
from tests.mkl.test_bad_input import refused


def left_out(K, y, C):
    """Accuracy and squared residual of least-squares SVMs without one row each."""
    n, own = len(y), np.eye(int(y.max()) + 1)[y]
    right, squares = [], []
    for i in range(n):
        rest = np.delete(np.arange(n), i)
        mean = own[rest].mean(axis=0)
        system = K[np.ix_(rest, rest)] + np.eye(n - 1) / C
        predicted = mean + K[i, rest] @ np.linalg.solve(system, own[rest] - mean)
        right.append(np.argmax(predicted) == y[i])
        squares.append(np.sum((own[i] - predicted) ** 2))
    return np.mean(right), -np.mean(squares)


def by_hand(X, y, C):
    chosen, best = [], (-1.0, 0.0)
    while len(chosen) < X.shape[-1]:
        tried = {
            f: left_out(X[..., [*chosen, f]].mean(axis=-1), y, C)
            for f in range(X.shape[-1])
            if f not in chosen
        }
        f = max(tried, key=tried.get)
        if tried[f] <= best:
            break
        chosen.append(f)
        best = tried[f]
    return chosen, best


@pytest.mark.parametrize("C", [0.5, 5.0])
def test_selection_by_really_leaving_out(C, data, exact):
    model = mk.compare.LeaveOneOutKernelClassifier("precomputed", C=C, **exact)
    model.fit(data.X, data.y)
    chosen, (accuracy, _) = by_hand(data.X, data.y, C)
    assert model.selected_.tolist() == chosen
    assert model.loo_scores_[-1] == pytest.approx(accuracy)
    expected = np.zeros(5)
    expected[chosen] = 1.0 / len(chosen)
    np.testing.assert_allclose(model.kernel_weights_, expected)


def test_a_bound_on_the_choice(two, exact):
    free = mk.compare.LeaveOneOutKernelClassifier("precomputed", **exact).fit(
        two.X, two.y
    )
    assert len(free.selected_) > 1, "the bound would not be felt"
    bounded = mk.compare.LeaveOneOutKernelClassifier("precomputed", 1, **exact)
    bounded.fit(two.X, two.y)
    assert bounded.selected_.tolist() == free.selected_[:1].tolist()


def test_the_first_choice_is_that_of_a_ranking(data):
    ones = np.ones(len(data.y))
    problem = least_squares(data.bank, data.y, ones, 2.0)
    first = select_forward(problem, data.y, ones, 1)[0]
    rank = mk.rank_kernels(data.X, data.y, "precomputed", "loo", C=2.0)[0]
    assert first.position == rank.position
    assert first.accuracy == pytest.approx(rank.score)


def test_bad_bounds(iris):
    for bound in (0, 1.5, True):
        with refused("max_kernels must be a positive whole number", repr(bound)):
            mk.compare.LeaveOneOutKernelClassifier(max_kernels=bound).fit(
                iris.X, iris.y
            )
