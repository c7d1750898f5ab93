"""Terms left out one by one, against least squares from scratch."""

import numpy as np
import pytest

from manykernels.losses.one_score import SquaredError, Weighted
from manykernels.products import ColumnGeneration
from manykernels.products.base import RankOneKernels
from manykernels.products.product_problem import ProductProblem
from manykernels.products.sparse.refit import Refit, backward_elimination, extended_bic


def squares(Z, y):
    return float(np.square(y - Z @ np.linalg.lstsq(Z, y)[0]).sum())


def greedy(Z, y):
    """All least-squares fits, the cheapest column to leave out every time."""
    kept = list(range(Z.shape[1]))
    while True:
        yield kept, squares(Z[:, kept], y)
        if not kept:
            return
        shorter = [[j for j in kept if j != i] for i in kept]
        kept = min(shorter, key=lambda few: squares(Z[:, few], y))


@pytest.mark.parametrize("seed", range(3))
def test_the_same_lists_as_from_scratch(seed):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(40, 9)) @ rng.normal(size=(9, 9))
    y = Z[:, 2] - Z[:, 5] + rng.normal(size=40)
    for (kept, found), (few, wanted) in zip(
        backward_elimination(Z, y), greedy(Z, y), strict=True
    ):
        assert kept.tolist() == few
        assert found == pytest.approx(wanted, rel=1e-9)


def test_columns_that_follow_from_others_go_first():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(30, 4))
    Z = np.column_stack([Z, Z[:, 0] - 2.0 * Z[:, 3], 0.0 * Z[:, 0], Z[:, 1]])
    y = rng.normal(size=30)
    kept, found = next(backward_elimination(Z, y))
    assert kept.tolist() == [0, 1, 2, 3]
    assert found == pytest.approx(squares(Z, y))


def test_nearly_equal_columns_lose_no_digits():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 5))
    Z[:, 4] = Z[:, 3] + 1e-8 * Z[:, 4]
    y = Z[:, 0] + 2.0 * Z[:, 3] + 1e-3 * rng.normal(size=60)
    for kept, found in backward_elimination(Z, y):
        assert found == pytest.approx(squares(Z[:, kept], y), rel=1e-6)


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 80)])
def test_the_criterion_of_a_pruned_list_is_that_of_its_fit(weights):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 6))
    y = X[:, 0] * X[:, 1] - X[:, 4] + 0.3 * rng.normal(size=80)
    loss = SquaredError() if weights is None else Weighted(SquaredError(), weights)
    base = RankOneKernels(X, normalized=True, around_mean=True, row_weights=weights)
    problem = ProductProblem(base, y, np.ones(3), p=1.0, loss=loss)
    refit = Refit(problem, ColumnGeneration().pricing(problem))
    products = [(0,), (1,), (0, 1), (4,), (2, 3), (5, 5)]
    by_list = dict(
        (tuple(few), value) for few, value in refit._least_squares_lists(products)
    )
    assert len(by_list) == 7
    for few, value in by_list.items():
        assert value == pytest.approx(refit.fit(few).criterion)
    found = refit.pruned(products)
    assert set(found.products) == {(0, 1), (4,)}
    assert found.criterion == pytest.approx(min(by_list.values()))
    assert found.criterion == pytest.approx(
        extended_bic(loss, found.scores, y, 3, 2, problem.n_products)
    )
