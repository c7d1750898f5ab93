"""Dual ascent for losses of the residual: frozen problems and known solutions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVR, LinearSVR

from manykernels.banks import GramBank
from manykernels.hot.dual import residual_sweeps
from manykernels.losses import EpsilonInsensitive, Huber, MulticlassHinge, Squared
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Problem
from manykernels.solvers.regression.ascent import (
    DualTerms,
    FrozenRegression,
    RegressionAscent,
)
from tests.oracles.regression import toy_regression

LOSSES = [Squared(), Huber(0.3), EpsilonInsensitive(0.1), EpsilonInsensitive(0.0)]


def one_kernel(K, y, loss, C):
    bank = GramBank(np.ascontiguousarray(K[:, None, :]))
    return Problem(bank, y[:, None], 1, loss, LpGroupNorm(2.0), C, np.ones(len(y)))


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_one_kernel_is_support_vector_regression(C):
    """Rows and their negatives with an odd kernel: SVR's intercept is zero."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(25, 4))
    y = X[:, 0] - 0.5 * X[:, 1] ** 3 + 0.3 * rng.normal(size=25)
    X, y = np.vstack([X, -X]), np.concatenate([y, -y])
    K = X @ X.T + 0.1 * (X @ X.T) ** 3
    problem = one_kernel(K, y, EpsilonInsensitive(0.2), C)
    result = RegressionAscent(tol=1e-10, random_state=0).solve(problem)
    rival = SVR(kernel="precomputed", C=C, epsilon=0.2, tol=1e-8).fit(K, y)
    assert abs(rival.intercept_[0]) < 1e-5
    scores = problem.bank.scores(result.model.coef, result.model.weights)[:, 0]
    np.testing.assert_allclose(scores, rival.predict(K), atol=2e-4)


def test_one_linear_kernel_is_linear_support_vector_regression():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 5))
    y = X @ rng.normal(size=5) + 0.5 * rng.normal(size=60)
    problem = one_kernel(X @ X.T, y, EpsilonInsensitive(0.1), 0.5)
    result = RegressionAscent(tol=1e-9, random_state=0).solve(problem)
    rival = LinearSVR(
        C=0.5, epsilon=0.1, fit_intercept=False, tol=1e-8, max_iter=200_000
    ).fit(X, y)
    coef = X.T @ result.model.coef[:, 0]
    np.testing.assert_allclose(coef, rival.coef_, atol=1e-4)


def naive_sweeps(gram, residual, coef, tube, soft, limit, floor, orders):
    """The best among all points that can be optimal, one coefficient at a time."""
    for order in orders:
        for i in order:
            for k in range(len(coef)):
                a, bend = coef[k, i], gram[i, i] + soft[i]
                pull = residual[k, i] + gram[i, i] * a
                best = max(
                    (
                        0.0,
                        limit[i],
                        floor[i],
                        (pull - tube) / bend,
                        (pull + tube) / bend,
                    ),
                    key=lambda v, p=pull, b=bend, low=floor[i], m=limit[i]: (
                        p * v - tube * abs(v) - 0.5 * b * v * v
                        if low <= v <= m
                        else -np.inf
                    ),
                )
                residual[k] -= (best - a) * gram[i]
                coef[k, i] = best


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("one_sided", [False, True])
def test_compiled_sweeps_equal_plain_ones(loss, one_sided):
    problem = toy_regression(0, loss, n_outputs=2, weighted=True)
    gram = np.ascontiguousarray(problem.bank.stack[:, 0, :])
    terms = DualTerms.of(problem)
    if loss.name == "squared":
        limit = np.full(problem.n_rows, 1e6)
        terms = terms._replace(limit=limit, floor=-limit)
    if one_sided:
        terms = terms._replace(floor=np.where(np.arange(24) % 3, terms.floor, 0.0))
    rng = np.random.default_rng(0)
    orders = np.stack([rng.permutation(problem.n_rows) for _ in range(3)])
    target = np.ascontiguousarray(problem.target.T)
    coef, residual = np.zeros_like(target), target.copy()
    plain_coef, plain_residual = coef.copy(), residual.copy()
    residual_sweeps(gram, residual, coef, *terms, orders, 0.0)
    naive_sweeps(gram, plain_residual, plain_coef, *terms, orders)
    np.testing.assert_allclose(coef, plain_coef, atol=1e-10)
    np.testing.assert_allclose(residual, plain_residual, atol=1e-10)
    np.testing.assert_allclose(residual, target - coef @ gram, atol=1e-10)


@pytest.mark.parametrize("C", [0.1, 10.0, 1e4])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_frozen_problems_are_solved_to_rounding(loss, C):
    problem = toy_regression(2, loss, C=C, n_rows=40, n_outputs=2, weighted=True)
    kernel = problem.bank.combine(np.full(4, 0.25), np.arange(40))
    terms = DualTerms.of(problem)
    target = np.ascontiguousarray(problem.target.T)
    frozen = FrozenRegression(
        kernel, target, np.zeros_like(target), terms, np.random.default_rng(0)
    )
    assert frozen.solve(1e-10) <= 1e-10
    primal, dual = frozen.values()
    # The loss itself, not the conjugate of the terms, gives the same primal value.
    scores = (frozen.coef @ kernel).T
    losses = problem.bound @ loss.value(scores, problem.target)
    quadratic = np.sum(frozen.coef * (frozen.coef @ kernel))
    assert primal == pytest.approx(0.5 * quadratic + losses, rel=1e-9)
    assert dual <= primal * (1.0 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES[1:3], ids=lambda loss: loss.name)
def test_same_seed_same_result_and_resumed_from_its_state(loss):
    problem = toy_regression(3, loss, 1.1, 10.0, n_blocks=6, n_outputs=2)

    class Memory:
        kept = None

        def load(self):
            return self.kept

        def save(self, state, last):
            self.kept = state()

    memory = Memory()
    settings = {"tol": 1e-12, "random_state": 0}
    whole = RegressionAscent(max_iter=6, **settings).solve(problem)
    RegressionAscent(max_iter=3, **settings).solve(problem, checkpoint=memory)
    resumed = RegressionAscent(max_iter=6, **settings).solve(problem, checkpoint=memory)
    np.testing.assert_array_equal(resumed.model.coef, whole.model.coef)
    np.testing.assert_array_equal(resumed.model.weights, whole.model.weights)


def test_few_rows_have_coefficients_in_a_wide_tube():
    problem = toy_regression(4, EpsilonInsensitive(0.5), n_rows=40)
    result = RegressionAscent(tol=1e-6, random_state=0).solve(problem)
    scores = problem.bank.scores(result.model.coef, result.model.weights)
    inside = np.abs(scores - problem.target)[:, 0] < 0.5 - 1e-3
    assert inside.sum() > 10
    np.testing.assert_array_equal(result.model.coef[inside, 0], 0.0)


def test_an_invisible_row_goes_to_its_limit():
    K = np.diag([1.0, 0.0])
    problem = one_kernel(K, np.array([1.0, 3.0]), EpsilonInsensitive(0.1), 2.0)
    result = RegressionAscent(tol=1e-9, random_state=0).solve(problem)
    assert result.converged
    np.testing.assert_allclose(result.model.coef[:, 0], [0.9, 2.0])


def test_refusals():
    problem = toy_regression(0, MulticlassHinge())
    with pytest.raises(ValueError, match="RegressionAscent handles.*loss 'hinge'"):
        RegressionAscent().solve(problem)
    problem = toy_regression(0, Huber(1.0))
    problem.bank.max_combined_rows = 5
    with pytest.raises(ValueError, match="all the 24 rows, got memory for 5"):
        RegressionAscent().solve(problem)
