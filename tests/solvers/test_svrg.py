"""Multi-epoch SVRG: the paper's guarantee, and the practical mode's optimum."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp

from manykernels.banks import BlockBank, FeatureBlock
from manykernels.losses import SmoothedHinge, Softmax
from manykernels.norms import LpGroupNorm
from manykernels.solvers.smooth.truncated_newton import TruncatedNewton
from manykernels.solvers.svrg import theory as descent
from manykernels.solvers.svrg.solver import SVRG
from manykernels.solvers.svrg.theory import BlockEpochs, Blocks, shared_model
from tests.oracles.optimum import explicit_features
from tests.oracles.smooth import LOSSES, PS, case, smooth_problem

each_loss = pytest.mark.parametrize(
    "index", range(len(LOSSES)), ids=[loss.name for loss in LOSSES]
)


# --- practical steps ----------------------------------------------------------


@each_loss
@pytest.mark.parametrize("p", PS)
def test_practical_steps_reach_the_optimum(index: int, p: float) -> None:
    problem, optimum = case(index, p)
    result = SVRG(tol=1e-6, random_state=0).solve(problem)
    assert result.converged, result.relative_gap
    assert result.objective == pytest.approx(optimum, rel=1e-5)
    assert result.duality_gap >= result.objective - optimum - 1e-6 * optimum
    again = problem.objective(result.model)
    assert result.objective == pytest.approx(again, rel=1e-9)


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0, 100.0])
def test_epochs_grow_with_the_logarithm_of_the_precision(C: float) -> None:
    problem = smooth_problem(Softmax(), 2, n_rows=60, n_blocks=5, p=1.3, C=C)
    history = SVRG(tol=1e-9, max_iter=150, random_state=1).solve(problem).history
    gaps = np.array([line.gap for line in history])
    assert gaps[-1] <= 1e-9
    epochs = [int(np.argmax(gaps <= eps)) for eps in (1e-1, 1e-5, 1e-9)]
    first, second = np.diff(epochs)
    assert second <= 3 * first + 5


def test_the_same_seed_gives_the_same_result() -> None:
    problem = smooth_problem(SmoothedHinge(), 3, n_rows=30)
    for steps in ("practical", "theory"):
        one, two, other = (
            SVRG(tol=1e-3, steps=steps, random_state=seed).solve(problem).objective
            for seed in (1, 1, 2)
        )
        assert one == two
        assert one != other


def test_an_epoch_that_fails_is_taken_back() -> None:
    # Steps ten thousand times too long: epochs diverge until they have shrunk.
    problem = smooth_problem(LOSSES[3], 4, n_rows=30, C=100.0)
    solver = SVRG(tol=1e-6, random_state=0)
    search, _ = solver.search(problem, None)
    search.eta = 1e4
    values = [iterate.objective for iterate in islice(search.iterates(), 60)]
    assert np.all(np.diff(values[:8]) <= 1e-12)
    assert values[-1] == pytest.approx(
        TruncatedNewton(tol=1e-8).solve(problem).objective, rel=1e-3
    )


# --- the paper's constants ----------------------------------------------------


@pytest.mark.parametrize("eps", [0.5, 0.1, 1e-3])
def test_equal_rates_are_spread_evenly(eps: float) -> None:
    n = descent.epochs_for(eps)
    share = eps ** (1.0 / n)
    for done in range(n):
        rates = np.full((done, 2), share)
        assert np.allclose(descent.target_rate(eps, rates, n - done), share)


def test_lost_work_is_made_up_for_and_spare_work_is_not_asked_back() -> None:
    poor = descent.target_rate(0.01, np.array([[0.9]]), 4)
    assert poor < 0.01 ** (1 / 5)
    assert np.prod([0.9, *np.repeat(poor, 4)]) == pytest.approx(0.01)
    assert descent.target_rate(0.01, np.array([[1e-3]]), 4) == 1.0


@pytest.mark.parametrize("rate", [0.9, 0.37, 0.05])
@pytest.mark.parametrize("kappa", [2.0, 30.0, 1e4])
def test_steps_and_lengths_reach_their_rate(rate: float, kappa: float) -> None:
    smooth, reg = np.array([3.0]), np.array([3.0 / kappa])
    step = descent.step_length(np.array([rate]), smooth, reg)
    length = descent.inner_length(np.array([rate]), smooth, reg)
    assert 0.0 < step < 1.0 / (2.0 * smooth)
    reached = descent.convergence(reg, step, length, smooth)
    assert reached <= rate * (1.0 + 1e-12)
    assert descent.convergence(reg, step, 0.5 * length, smooth) > rate


def test_lengths_are_drawn_as_printed() -> None:
    rng = np.random.default_rng(0)
    reg, step, length = 0.5, 0.1, 6
    draws = [descent.draw_length(rng, reg, step, length) for _ in range(20_000)]
    wanted = (1.0 - reg * step) ** (length - np.arange(1, length + 1))
    share = np.bincount(draws, minlength=length + 1)[1:] / len(draws)
    assert np.allclose(share, wanted / wanted.sum(), atol=0.015)


def as_features(problem, sparse: bool):
    parts = explicit_features(problem.bank.stack)
    make = sp.csr_array if sparse else np.ascontiguousarray
    return replace(problem, bank=BlockBank([FeatureBlock(make(x)) for x in parts]))


@each_loss
@pytest.mark.parametrize(
    ("kind", "eps"), [("gram", 0.1), ("gram", 0.01), ("dense", 0.02), ("sparse", 0.02)]
)
def test_the_guarantee_of_theorem_1(index: int, kind: str, eps: float) -> None:
    problem = smooth_problem(LOSSES[index], 5, n_rows=14, n_blocks=3, p=1.5, C=1.0)
    best = TruncatedNewton(tol=1e-9).solve(problem).objective
    if kind != "gram":
        problem = as_features(problem, kind == "sparse")
    zero = problem.objective(problem.zero())
    ends, models = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        search = BlockEpochs(problem, problem.zero(), rng, eps)
        for iterate in search.iterates():
            last = iterate
        assert search.epoch == descent.epochs_for(eps)
        ends.append(search.objective() - best)
        models.append(last.objective - best)
    assert np.min(ends) >= -1e-8
    assert np.mean(ends) <= eps * (zero - best)
    # What is returned has one matrix of coefficients, and is no worse.
    assert np.mean(models) <= eps * (zero - best)


@pytest.mark.parametrize("p", [1.1, 4 / 3, 1.9])
def test_the_guarantee_for_other_norms(p: float) -> None:
    problem = smooth_problem(Softmax(), 6, n_rows=14, n_blocks=4, p=p, C=2.0)
    best = TruncatedNewton(tol=1e-9).solve(problem).objective
    zero = problem.objective(problem.zero())
    ends = []
    for seed in range(5):
        solver = SVRG(tol=0.0, steps="theory", eps=0.03, random_state=seed)
        history = solver.solve(problem).history
        assert len(history) == descent.epochs_for(0.03)
        ends.append(history[-1].objective - best)
    assert np.mean(ends) <= 0.03 * (zero - best)


def test_kernels_have_steps_and_lengths_of_their_own() -> None:
    problem = smooth_problem(Softmax(), 7, n_rows=14, n_blocks=4, p=1.2)
    search = BlockEpochs(problem, problem.zero(), np.random.default_rng(0), 0.05)
    next(search.iterates())
    assert np.allclose(search.steps[0], search.steps[0][0])  # weights are equal
    assert np.ptp(search.weights) > 0.1
    next(search.iterates())
    largest = int(np.argmax(search.weights))
    assert np.ptp(search.lengths[1]) > 0
    assert search.lengths[1][largest] == search.lengths[1].max()


def test_weights_are_those_of_the_paper_with_its_own_exponent() -> None:
    # Eq. (2) with the paper's exponent r; ours is p = 2r / (r + 1).
    norms = np.array([0.5, 2.0, 1.3])
    for r in (1.2, 2.0, 5.0):
        squares = norms**2
        printed = squares ** (1 / (r + 1)) * np.sum(squares ** (r / (r + 1))) ** (
            -1 / r
        )
        assert np.allclose(LpGroupNorm(2 * r / (r + 1)).weights(norms), printed)
        assert np.sum(printed**r) == pytest.approx(1.0)


def test_the_shared_model_has_the_same_scores_and_a_smaller_norm() -> None:
    problem = smooth_problem(Softmax(), 8, n_rows=16, n_blocks=3, p=1.4)
    rng = np.random.default_rng(0)
    coef = rng.normal(size=(3, 3, 16))
    stack = problem.bank.stack
    blocks = Blocks(coef, np.einsum("ifj,fkj->fki", stack, coef))
    weights = problem.norm.weights(blocks.norms)
    model, scores = shared_model(problem, blocks, weights)
    assert np.allclose(scores, blocks.total, atol=1e-3 * np.abs(blocks.total).max())
    length = problem.norm.value(weights * problem.theta_norms(model.coef))
    assert length <= problem.norm.value(blocks.norms) * (1.0 + 1e-9)


# --- refusals -----------------------------------------------------------------


def test_settings_that_make_no_sense() -> None:
    problem = smooth_problem(Softmax(), 1)
    with pytest.raises(ValueError, match="steps must be one of practical, theory"):
        SVRG(steps="bold").solve(problem)
    with pytest.raises(ValueError, match="eps between 0 and 1, got 0.0"):
        SVRG(tol=0.0, steps="theory").solve(problem)
    with pytest.raises(ValueError, match="SVRG needs 1 < p <= 2.*p=1;"):
        SVRG().solve(replace(problem, norm=LpGroupNorm(1.0)))
