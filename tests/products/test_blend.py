"""Blends: weights that are optimal, members that have not seen what judges them."""

import cvxpy as cp
import numpy as np
import pytest

from manykernels.losses.one_score import BinarySmoothedHinge, Logistic, SquaredError
from manykernels.products import (
    ColumnGeneration,
    ExplicitLpNorm,
    ProductBlend,
    RandomizedMirrorDescent,
)
from manykernels.products.base import RankOneKernels
from manykernels.products.blend import blend_weights, modes
from manykernels.products.product_problem import ProductProblem
from manykernels.products.sparse import choice
from tests.products.toys import columns, gaussians, regression

X, Y = regression(n=120, r=5)
KNOWN, MORE = slice(0, 80), slice(80, None)


def problem_of(rows=slice(None), degree=3, **options):
    base = RankOneKernels(X[rows])
    return ProductProblem(base, Y[rows], np.ones(degree + 1), **options)


def predicted(fitted, A):
    return RankOneKernels(A).features(fitted.products) @ fitted.coefs + fitted.intercept


@pytest.fixture(scope="module")
def fitted():
    return ProductBlend().solve(problem_of(KNOWN))


def test_weights_of_squared_errors_are_optimal():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(30, 6))
    target = scores @ np.array([0.5, -0.4, 0.0, 0.3, 0.0, 0.8]) + rng.normal(size=30)
    v = cp.Variable(6, nonneg=True)
    loss = cp.sum_squares(scores @ v - target)
    cp.Problem(cp.Minimize(loss), [cp.sum(v) == 1]).solve()
    found = blend_weights(SquaredError(), scores, target)
    np.testing.assert_allclose(found, v.value, atol=1e-5)


@pytest.mark.parametrize(
    "loss", [Logistic(), BinarySmoothedHinge()], ids=lambda x: x.name
)
def test_no_move_between_members_lowers_the_loss(loss):
    rng = np.random.default_rng(1)
    scores = 2 * rng.normal(size=(60, 5))
    target = np.where(scores[:, 0] + scores[:, 1] + rng.normal(size=60) > 0, 1.0, -1.0)
    v = blend_weights(loss, scores, target)
    assert v.min() >= 0.0 and v.sum() == pytest.approx(1.0)
    slopes = scores.T @ loss.gradient(scores @ v, target) / 60
    assert slopes[v > 1e-6].max() - slopes.min() <= 1e-5


def alone(member, known, tol):
    """Scores of all rows by one member, fitted on its own."""
    (p, rho), C, _ = member
    base = RankOneKernels(X[known])
    problem = ProductProblem(base, Y[known], np.array(rho), C=C, p=p)
    solver = ColumnGeneration(tol) if p == 1.0 else ExplicitLpNorm(tol, 2000)
    model = solver.solve(problem).model
    Z = RankOneKernels(X).features(model.products)
    factors = model.weights / np.array([rho[len(i)] for i in model.products]) ** 2
    return Z @ (factors * (model.coef[:, 0] @ Z[known])) + model.intercept


def test_a_blend_is_the_sum_of_its_members(fitted):
    scores = sum(
        member.weight * alone(member, KNOWN, 1e-8) for member in fitted.members
    )
    error = np.sqrt(np.mean((predicted(fitted, X) - scores) ** 2))
    assert error <= 0.05 * Y.std()  # members are solved to 1 % of the objective


def test_weights_and_coefficients_belong_to_the_same_products(fitted):
    assert sum(member.weight for member in fitted.members) == pytest.approx(1.0)
    assert len(set(fitted.products)) == len(fitted.products) == len(fitted.coefs)
    assert fitted.weights.sum() == pytest.approx(1.0)
    assert np.all(np.diff(fitted.weights) <= 0.0)


def test_a_blend_predicts_new_rows(fitted):
    assert np.mean((predicted(fitted, X[MORE]) - Y[MORE]) ** 2) <= 0.2 * Y.var()


def test_many_held_out_rows_replace_the_folds():
    few, many = slice(0, 50), slice(50, None)
    held_out = X[many], Y[many]
    one, two = (
        ProductBlend(random_state=seed).solve(problem_of(few), None, held_out)
        for seed in (0, 1)
    )
    assert one.members == two.members  # nothing is left to chance
    judged = np.mean((predicted(one, X[many]) - Y[many]) ** 2)
    for member in one.members:
        single = alone(member, few, 1e-2)[many]
        assert judged <= np.mean((single - Y[many]) ** 2) * (1 + 1e-3)


def test_without_folds_few_held_out_rows_decide_alone():
    few = X[MORE][:15], Y[MORE][:15]
    one, two = (
        ProductBlend(folds=0, random_state=seed).solve(problem_of(KNOWN), None, few)
        for seed in (0, 1)
    )
    folded = ProductBlend().solve(problem_of(KNOWN), None, few)
    assert one.members == two.members != folded.members


def test_held_out_targets_are_not_learnt():
    held_out = X[MORE], Y[MORE]
    strange = X[MORE], np.full(len(Y[MORE]), 50.0)
    one, two = (
        ProductBlend().solve(problem_of(KNOWN), None, h) for h in (held_out, strange)
    )
    # Members at the same C are the same; only C and the weights may differ.
    assert np.abs(predicted(two, X)).max() < 25.0
    assert np.abs(predicted(one, X)).max() < 25.0


def test_classes():
    labels = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    problem = ProductProblem(
        RankOneKernels(X[KNOWN]),
        labels[KNOWN],
        np.ones(3),
        loss=Logistic(),
        intercept=False,
    )
    fitted = ProductBlend().solve(problem)
    assert fitted.products[0] == (0, 1)
    assert np.mean(predicted(fitted, X[MORE]) * labels[MORE] > 0) >= 0.9


def test_long_lists_are_drawn_from(monkeypatch):
    monkeypatch.setattr(choice, "MAX_LISTED_BYTES", 0)
    draws = []
    solve = RandomizedMirrorDescent.solve

    def counted(self, *args):
        draws.append(self)
        return solve(self, *args)

    monkeypatch.setattr(RandomizedMirrorDescent, "solve", counted)
    fitted = ProductBlend(max_iter=20, folds=2).solve(problem_of(KNOWN, degree=2))
    assert draws and np.isfinite(fitted.coefs).all()


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_modes_reach_the_degree_and_differ(degree):
    found = modes(degree)
    assert max(len(mode.rho) for mode in found) == degree + 1
    assert len(set(found)) == len(found)
    assert all(np.all(np.diff(mode.rho) >= 0) for mode in found)


def test_a_callback_ends_the_search():
    seen = []

    def stop(line):
        seen.append(line)
        return True

    fitted = ProductBlend().solve(problem_of(KNOWN), stop)
    assert len(seen) == 1 and len(fitted.members) == 1


@pytest.mark.parametrize(
    "base",
    [gaussians(columns()), RankOneKernels(columns(), normalized=True)],
    ids=["matrices", "normalized"],
)
def test_only_plain_columns(base):
    problem = ProductProblem(base, np.arange(12.0), np.ones(3))
    with pytest.raises(ValueError, match="A blend needs one column per base kernel"):
        ProductBlend().solve(problem)


@pytest.mark.parametrize("n", [2, 3, 6])
def test_few_rows(n):
    base = RankOneKernels(X[:n])
    fitted = ProductBlend().solve(ProductProblem(base, Y[:n], np.ones(3)))
    assert np.isfinite(predicted(fitted, X)).all()
