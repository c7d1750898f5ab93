"""J(theta) and its gradient."""

import numpy as np
import pytest
from scipy.optimize import minimize

from manykernels.losses.one_score import BinarySmoothedHinge, Logistic, SquaredError
from manykernels.products.base import RankOneKernels
from manykernels.products.inner_problem import (
    ActiveFeatures,
    ActiveProducts,
    InnerSolver,
    combined,
)
from tests.products.toys import BASES, columns

PRODUCTS = [(0,), (0, 1), (1, 2), (2, 2)]
RHO = np.array([1.0, 1.0, 1.5])
LOSSES = [SquaredError(), Logistic(), BinarySmoothedHinge(0.5)]


def target_of(loss, n):
    y = np.random.default_rng(0).normal(size=n)
    return y if loss.name == "squared" else np.sign(y)


def J(base, theta, loss, C=2.0, intercept=False):
    target = target_of(loss, base.n_rows)
    K = combined(base, RHO, PRODUCTS, theta)
    return InnerSolver(target, C, loss, intercept).solve(K)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("name", BASES)
def test_gradient_is_minus_half_the_energy(name, loss):
    base = BASES[name]()
    theta = np.array([0.3, 0.5, 0.2, 0.4])
    coef = J(base, theta, loss).coef
    for i, product in enumerate(PRODUCTS):
        step = 1e-4 * np.eye(len(theta))[i]
        above = J(base, theta + step, loss).value
        below = J(base, theta - step, loss).value
        slope = (above - below) / 2e-4
        energy = coef @ base.matrix(product) @ coef / RHO[len(product)] ** 2
        assert slope == pytest.approx(-0.5 * energy, rel=1e-4, abs=1e-7)


def test_gradient_with_an_intercept():
    base, loss = BASES["gaussian"](), SquaredError()
    theta = np.array([0.3, 0.5, 0.2, 0.4])
    coef = J(base, theta, loss, intercept=True).coef
    assert abs(coef.sum()) < 1e-12
    step = np.array([0.0, 1e-4, 0.0, 0.0])
    up = J(base, theta + step, loss, intercept=True).value
    down = J(base, theta - step, loss, intercept=True).value
    energy = coef @ base.matrix((0, 1)) @ coef / RHO[2] ** 2
    assert (up - down) / 2e-4 == pytest.approx(-0.5 * energy, rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_value_is_the_minimum_over_features(loss):
    """J(theta) = min over w of 1/2 sum rho^2 w^2 / theta + C sum loss."""
    base = RankOneKernels(columns(r=3))
    theta = np.array([0.3, 0.5, 0.2, 0.4])
    Z, target = base.features(PRODUCTS), target_of(loss, base.n_rows)
    penalty = np.array([RHO[len(i)] ** 2 for i in PRODUCTS]) / theta

    def value(w):
        return 0.5 * penalty @ w**2 + 2.0 * loss.value(Z @ w, target).sum()

    def slope(w):
        return penalty * w + 2.0 * Z.T @ loss.gradient(Z @ w, target)

    best = minimize(value, np.zeros(4), jac=slope, tol=1e-12)
    assert J(base, theta, loss).value == pytest.approx(best.fun, rel=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_stale_factor_changes_nothing(intercept):
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(30, 60)), rng.normal(size=30)
    solver = InnerSolver(y, 10.0, SquaredError(), intercept)
    for k in range(1, 60):
        K = Z[:, :k] @ Z[:, :k].T / (1.0 + k)
        fresh = InnerSolver(y, 10.0, SquaredError(), intercept).solve(K)
        np.testing.assert_allclose(solver.solve(K).coef, fresh.coef, atol=1e-7)


def test_a_kernel_that_grows_step_by_step_equals_the_sum():
    base = RankOneKernels(columns(r=3))
    active, rng = ActiveProducts(base, RHO), np.random.default_rng(0)
    for _ in range(30):
        place = active.place(PRODUCTS[rng.integers(4)])
        theta = active.theta.copy()
        theta[place] += rng.random()
        theta /= max(1.0, np.linalg.norm(theta))
        active.move(theta, place)
        np.testing.assert_allclose(
            active.matrix, combined(base, RHO, active.products, active.theta)
        )


@pytest.mark.parametrize("intercept", [False, True])
def test_terms_and_rows_give_the_same_solution(intercept):
    base, rng = RankOneKernels(columns(r=3)), np.random.default_rng(0)
    target = target_of(SquaredError(), base.n_rows)
    inner = InnerSolver(target, 3.0, SquaredError(), intercept)
    terms, rows = ActiveFeatures(base, RHO, inner), ActiveProducts(base, RHO)
    for _ in range(20):
        product = PRODUCTS[rng.integers(4)]
        for active in (terms, rows):
            place = active.place(product)
        theta = rows.theta.copy()
        theta[place] += rng.random()
        for active in (terms, rows):
            active.set(theta, active.products)
        one, two = terms.solve(inner), rows.solve(inner)
        np.testing.assert_allclose(one.coef, two.coef, atol=1e-9)
        np.testing.assert_allclose(one.scores, two.scores, atol=1e-9)
        assert one.value == pytest.approx(two.value)
        assert one.intercept == pytest.approx(two.intercept, abs=1e-9)
