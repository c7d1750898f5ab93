"""Exact solves for the squared loss: known solutions, targets, precision, refusals."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from manykernels.banks import GramBank
from manykernels.losses import Huber, Squared
from manykernels.norms import LpGroupNorm
from manykernels.norms.group import p_norm
from manykernels.solvers.regression.many_targets import solve_targets
from manykernels.solvers.regression.ridge import Ridge
from manykernels.solvers.regression.ridge_system import solve_exactly
from manykernels.solvers.regression.ridge_targets import one_target
from manykernels.solvers.weight_newton import newton_weights
from tests.oracles.regression import toy_regression


def gram(problem, weights):
    return np.tensordot(problem.bank.rows(np.arange(problem.n_rows)), weights, (1, 0))


@pytest.mark.parametrize("n_blocks", [1, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_p_2_is_ridge_regression_on_the_summed_kernel(n_blocks, weighted):
    problem = toy_regression(
        0, Squared(), 2.0, 3.0, n_blocks=n_blocks, n_outputs=2, weighted=weighted
    )
    result = Ridge(tol=1e-10).solve(problem)
    K = gram(problem, np.ones(n_blocks))
    rival = KernelRidge(alpha=1.0 / problem.C, kernel="precomputed")
    rival.fit(K, problem.target, sample_weight=problem.sample_weight)
    scores = problem.bank.scores(result.model.coef, result.model.weights)
    np.testing.assert_allclose(scores, rival.predict(K), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("p", [1.0, 1.3])
def test_derivatives_are_those_of_the_value(p):
    problem = toy_regression(1, Squared(), p, n_outputs=2, weighted=True)
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    here = solve_exactly(problem, weights)
    step = 1e-5
    for f, direction in enumerate(np.eye(4)):
        ahead = solve_exactly(problem, weights + step * direction)
        behind = solve_exactly(problem, weights - step * direction)
        slope = (ahead.value - behind.value) / (2 * step)
        assert slope == pytest.approx(-0.5 * here.squares[f], rel=1e-5)
        bend = -0.5 * (ahead.squares - behind.squares) / (2 * step)
        np.testing.assert_allclose(here.curvature[f], bend, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("p", [1.0, 1.01, 1.1, 1.5, 1.9])
def test_newtons_step_minimizes_the_model(p):
    """No feasible point that a random search finds has a smaller model value."""
    rng = np.random.default_rng(0)
    norm, n_blocks = LpGroupNorm(p), 5
    start = norm.normalize_weights(rng.uniform(0.1, 1.0, (1, n_blocks))[0])[None]
    squares = rng.uniform(0.0, 5.0, (1, n_blocks))
    root = rng.normal(size=(1, n_blocks, n_blocks))
    curvature = root @ root.transpose(0, 2, 1)

    def model(weights):
        moved = weights - start[0]
        return -0.5 * squares[0] @ moved + 0.5 * moved @ curvature[0] @ moved

    # A steep slope, so that the minimum is on the boundary as it is for real values.
    squares += 20.0
    best = newton_weights(norm, start, squares, curvature)[0]
    assert np.all(best >= 0.0)
    assert p_norm(best, norm.weight_exponent) == pytest.approx(1.0)
    for scale in (1.0, 0.1, 0.01):
        for other in best + scale * rng.normal(size=(300, n_blocks)):
            other = norm.normalize_weights(np.maximum(other, 0.0) + 1e-12)
            assert model(other) >= model(best) - 1e-7


def test_problems_of_a_batch_do_not_see_each_other():
    rng = np.random.default_rng(1)
    norm = LpGroupNorm(1.2)
    start = np.stack([norm.uniform_weights(4)] * 3)
    squares = rng.uniform(1.0, 50.0, (3, 4))
    root = rng.normal(size=(3, 4, 4))
    curvature = root @ root.transpose(0, 2, 1)
    together = newton_weights(norm, start, squares, curvature)
    for k in range(3):
        part = slice(k, k + 1)
        alone = newton_weights(norm, start[part], squares[part], curvature[part])
        np.testing.assert_allclose(together[part], alone, rtol=1e-6)


def test_weights_vanish_exactly_at_p_1():
    problem = toy_regression(3, Squared(), 1.0, 0.3, n_rows=40, n_blocks=8)
    result = Ridge(tol=1e-9).solve(problem)
    zero = result.model.weights == 0.0
    assert result.converged and 0 < zero.sum() < 8
    norms = problem.theta_norms(result.model.coef)
    # At the optimum no kernel without a weight has a longer theta than those with.
    assert norms[zero].max() <= norms[~zero].max() * (1.0 + 1e-6)


@pytest.mark.parametrize("p", [1.0, 1.1])
def test_a_sample_of_the_rows_is_only_a_start(p):
    problem = toy_regression(4, Squared(), p, n_rows=1000, n_blocks=3)
    sampled = Ridge(tol=1e-8, random_state=0).solve(problem)
    whole = Ridge(tol=1e-8).solve(problem, problem.zero())
    assert sampled.converged and whole.converged
    assert sampled.objective == pytest.approx(whole.objective, rel=1e-7)
    assert len(sampled.history) <= len(whole.history)


@pytest.mark.parametrize("p", [1.0, 4 / 3])
def test_single_precision_has_an_honest_certificate(p):
    problem = toy_regression(5, Squared(), p, 10.0, n_rows=60)
    rounded = replace(problem, bank=GramBank(problem.bank.stack.astype(np.float32)))
    result = Ridge(tol=1e-6).solve(rounded)
    assert result.converged
    again = rounded.objective(result.model)
    assert result.objective == pytest.approx(again, rel=1e-12)
    gap = rounded.duality_gap(result.model)
    assert gap == pytest.approx(result.duality_gap, abs=1e-9 * again)


@pytest.mark.parametrize("p", [1.0, 1.2, 2.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_targets_with_their_own_weights_equal_separate_fits(p, dtype):
    problem = toy_regression(6, Squared(), p, n_outputs=5, weighted=True)
    problem = replace(problem, bank=GramBank(problem.bank.stack.astype(dtype)))
    ridge = Ridge(tol=1e-9)
    together = solve_targets(problem, ridge)
    for k, result in enumerate(together):
        alone = ridge.solve(one_target(problem, k))
        assert result.converged == alone.converged
        assert result.objective == pytest.approx(alone.objective, rel=1e-8)
        np.testing.assert_allclose(
            result.model.weights, alone.model.weights, rtol=1e-4, atol=1e-6
        )
        np.testing.assert_allclose(result.model.coef, alone.model.coef, atol=1e-4)


def test_a_callback_ends_all_targets():
    problem = toy_regression(7, Squared(), 1.1, n_outputs=3)
    results = solve_targets(problem, Ridge(tol=0.0), callback=lambda line: True)
    assert [len(result.history) for result in results] == [1, 1, 1]
    assert all(result.stopped for result in results)


def test_the_log_names_the_direct_path(caplog):
    with caplog.at_level(logging.INFO, "manykernels"):
        Ridge().solve(toy_regression(0, Squared(), n_rows=900, n_blocks=2))
    assert caplog.text.count("direct path, exact solves") == 1
    assert "900 rows" in caplog.text


def test_a_search_goes_on_from_its_state():
    problem = toy_regression(8, Squared(), 1.05, 10.0, n_blocks=6)
    whole = Ridge(tol=1e-12, max_iter=6).solve(problem)

    class Memory:
        kept = None

        def load(self):
            return self.kept

        def save(self, state, last):
            self.kept = state()

    memory = Memory()
    Ridge(tol=1e-12, max_iter=2).solve(problem, checkpoint=memory)
    resumed = Ridge(tol=1e-12, max_iter=6).solve(problem, checkpoint=memory)
    assert [line.objective for line in resumed.history] == [
        line.objective for line in whole.history
    ]
    np.testing.assert_array_equal(resumed.model.weights, whole.model.weights)


def test_refusals():
    with pytest.raises(ValueError, match="Ridge handles the squared loss only.*huber"):
        Ridge().solve(toy_regression(0, Huber(1.0)))
    problem = toy_regression(0, Squared(), C=1e6)
    stack = problem.bank.stack.copy()
    stack[:, 0, :] -= 2.0 * np.eye(problem.n_rows)
    with pytest.raises(ValueError, match="positive semi-definite.*psd='clip'"):
        Ridge().solve(replace(problem, bank=GramBank(stack)))
    problem.bank.max_combined_rows = 5
    with pytest.raises(ValueError, match="all the 24 rows, got memory for 5"):
        Ridge().solve(problem)


@pytest.mark.parametrize("p", [1.0, 1.05, 4 / 3])
def test_weights_of_a_model_that_is_singular_up_to_rounding(p):
    norm, rng = LpGroupNorm(p), np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(2, 13))
        start = norm.normalize_weights(rng.random(n) ** rng.integers(1, 20))
        parts = rng.normal(size=(n, int(rng.integers(1, n + 1))))
        parts *= 10.0 ** rng.uniform(-8, 4)
        curvature = parts @ parts.T
        squares = rng.random(n) ** 4 * 10.0 ** rng.uniform(-6, 6)
        best = newton_weights(norm, start[None], squares[None], curvature[None])[0]
        assert norm.normalize_weights(best) == pytest.approx(best)
        assert np.all(best >= 0.0)
