"""Newton's method for smooth losses: optima, special cases, honest certificates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from manykernels.banks import BlockBank, FeatureBlock, GramBank, OnDemandBank
from manykernels.kernels import RBF, Linear
from manykernels.kernels.kernel_set import KernelSet
from manykernels.losses import (
    EpsilonInsensitive,
    Loss,
    MulticlassHinge,
    SmoothedHinge,
    Softmax,
)
from manykernels.solvers import Auto, DualAscent, Obscure, Pegasos
from manykernels.solvers.smooth import frozen_kernel as smooth_kernel
from manykernels.solvers.smooth import truncated_newton as smooth
from manykernels.solvers.smooth.frozen_kernel import FrozenKernel
from manykernels.solvers.smooth.frozen_problem import FrozenProblem, hessian
from manykernels.solvers.smooth.truncated_newton import TruncatedNewton
from manykernels.solvers.svrg.solver import SVRG
from tests.oracles.naive import naive_scores, naive_theta_norms
from tests.oracles.optimum import explicit_features
from tests.oracles.smooth import (
    LOSSES,
    PS,
    case,
    smooth_optimum,
    smooth_problem,
)
from tests.oracles.toys import blobs, make_problem

each_loss = pytest.mark.parametrize(
    "index", range(len(LOSSES)), ids=[loss.name for loss in LOSSES]
)


# --- the optimum --------------------------------------------------------------


@each_loss
@pytest.mark.parametrize("p", PS)
@pytest.mark.parametrize("solver", [Auto, TruncatedNewton])
def test_the_optimum_is_reached(index: int, p: float, solver: type) -> None:
    problem, optimum = case(index, p)
    result = solver(tol=1e-6, random_state=0).solve(problem)
    assert result.converged, result.relative_gap
    assert result.objective == pytest.approx(optimum, rel=1e-5)
    assert result.duality_gap >= result.objective - optimum - 1e-6 * optimum
    again = problem.objective(result.model)
    assert result.objective == pytest.approx(again, rel=1e-9)
    gap = problem.duality_gap(result.model, result.dual_coef)
    assert gap <= result.duality_gap * (1.0 + 1e-6) + 1e-12


@each_loss
def test_sparse_weights_reach_the_optimum(index: int) -> None:
    problem = smooth_problem(LOSSES[index], 7, n_rows=24, n_blocks=6, p=1.0)
    result = TruncatedNewton(tol=1e-6).solve(problem)
    assert result.converged, result.relative_gap
    assert result.objective == pytest.approx(smooth_optimum(problem), rel=1e-5)
    norms = problem.theta_norms(result.dual_coef)
    assert np.all(result.model.weights[norms < 0.99 * norms.max()] < 1e-3)


@pytest.mark.parametrize("p", [1.0, 1.001, 1.01, 1.1, 1.5, 2.0])
@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_tight_tolerances_are_reached(p: float, C: float) -> None:
    problem = smooth_problem(Softmax(), 3, n_rows=60, n_blocks=6, p=p, C=C)
    result = TruncatedNewton(tol=1e-8).solve(problem)
    assert result.converged, result.relative_gap
    assert len(result.history) < 40


@pytest.mark.parametrize("n_outputs", [2, 4])
def test_one_kernel_is_logistic_regression(n_outputs: int) -> None:
    problem = smooth_problem(
        Softmax(), 5, n_rows=40, n_blocks=1, n_outputs=n_outputs, p=2.0, C=2.0
    )
    stack = problem.bank.rows(np.arange(40))
    features = explicit_features(stack)[0]
    result = TruncatedNewton(tol=1e-10).solve(problem)
    if n_outputs == 2:
        # w_1 = -w_0 = w / 2: the same machine with half of the squared norm.
        machine = LogisticRegression(C=4.0, fit_intercept=False, tol=1e-10)
        half = machine.fit(features, problem.target).decision_function(features) / 2
        expected = np.stack([-half, half], axis=1)
    else:
        machine = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10)
        machine.fit(features, problem.target)
        expected = machine.decision_function(features)
    scores = problem.bank.scores(result.model.coef, result.model.weights)
    assert np.allclose(scores, expected, atol=1e-4)


def test_integer_weights_are_repeated_rows() -> None:
    plain = smooth_problem(Softmax(), 6, n_rows=18, p=1.2)
    weight = np.random.default_rng(6).integers(1, 4, 18)
    index = np.repeat(np.arange(18), weight)
    stack = plain.bank.stack[index][:, :, index]
    longer = make_problem(stack, plain.target[index], 1.2, 1.0, loss=Softmax())
    weighted = replace(plain, sample_weight=weight.astype(float))
    first = TruncatedNewton(tol=1e-9).solve(weighted).objective
    assert first == pytest.approx(TruncatedNewton(1e-9).solve(longer).objective)
    assert first != pytest.approx(TruncatedNewton(1e-9).solve(plain).objective)


def test_a_start_near_the_solution_needs_fewer_products() -> None:
    problem = smooth_problem(SmoothedHinge(), 8, n_rows=60, n_blocks=5, p=1.1, C=5.0)
    cold = TruncatedNewton(tol=1e-6).solve(problem)
    warm = TruncatedNewton(tol=1e-6).solve(problem, start=cold.model)
    assert warm.converged
    assert sum(h.updates for h in warm.history) < sum(h.updates for h in cold.history)


def test_large_problems_start_from_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = smooth_problem(Softmax(), 9, n_rows=90, n_blocks=5, p=1.1)
    whole = TruncatedNewton(tol=1e-7).solve(problem)
    sizes = []
    take = GramBank.take

    def noted(bank: GramBank, index: np.ndarray, brief: bool = False) -> GramBank:
        sizes.append(len(index))
        return take(bank, index, brief)

    monkeypatch.setattr(smooth, "START_SAMPLE_ROWS", 30)
    monkeypatch.setattr(GramBank, "take", noted)
    sampled = TruncatedNewton(tol=1e-7, random_state=0).solve(problem)
    assert sizes == [30]
    assert sampled.converged
    assert sampled.objective == pytest.approx(whole.objective, rel=1e-6)


# --- any bank -----------------------------------------------------------------


def linear_blocks(sparse: bool) -> tuple[list, np.ndarray]:
    X, target = blobs(30, 3, seed=11)
    parts = [X[:, :2], X[:, 2:5], X[:, 5:], X[:, ::2]]
    return [sp.csr_array(part) if sparse else part for part in parts], target


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("solver", [TruncatedNewton, SVRG])
def test_linear_features_equal_their_gram_matrices(sparse: bool, solver: type) -> None:
    features, target = linear_blocks(sparse)
    blocks = BlockBank([FeatureBlock(part) for part in features])
    stack = blocks.rows(np.arange(30))
    settings = {"p": 1.25, "C": 2.0, "loss": Softmax()}
    ours = solver(tol=1e-8, random_state=0).solve(
        make_problem(blocks, target, **settings)
    )
    gram = solver(tol=1e-8, random_state=0).solve(
        make_problem(stack, target, **settings)
    )
    assert ours.converged and gram.converged
    assert ours.objective == pytest.approx(gram.objective, rel=2e-8)
    assert np.allclose(ours.model.weights, gram.model.weights, atol=1e-3)


@pytest.mark.parametrize("max_combined_rows", [None, 10])
@pytest.mark.parametrize("solver", [TruncatedNewton, SVRG])
def test_kernels_on_demand_equal_stored_ones(max_combined_rows, solver: type) -> None:
    X, target = blobs(40, 3, seed=12)
    kernels = KernelSet.fit([RBF(0.1), Linear(), RBF(1.0)], X, dtype=np.float64)
    settings = {"p": 1.3, "C": 2.0, "loss": Softmax()}
    bank = OnDemandBank(kernels, max_combined_rows=max_combined_rows)
    stored = GramBank(np.ascontiguousarray(np.moveaxis(kernels.stack(), 0, 1)))
    values = [
        solver(tol=1e-7, random_state=0).solve(make_problem(b, target, **settings))
        for b in (bank, stored)
    ]
    assert all(result.converged for result in values)
    assert values[0].objective == pytest.approx(values[1].objective, rel=2e-7)


@pytest.mark.parametrize("precise_rows", [0, 8192])
@pytest.mark.parametrize("solver", [TruncatedNewton, SVRG])
def test_single_precision_gives_honest_certificates(
    precise_rows: int, solver: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smooth_kernel, "FLOAT64_ROWS", precise_rows)
    problem = smooth_problem(Softmax(), 13, n_rows=50, n_blocks=4, p=1.2, C=10.0)
    stack = problem.bank.stack.astype(np.float32)
    single = replace(problem, bank=GramBank(stack))
    result = solver(tol=1e-6, random_state=0).solve(single)
    assert result.converged
    exact = stack.astype(np.float64)
    scores = naive_scores(exact, result.model)
    norms = result.model.weights * naive_theta_norms(exact, result.model.coef)
    assert result.objective == pytest.approx(
        problem.primal_value(scores, norms), rel=1e-10
    )
    dual_norms = naive_theta_norms(exact, result.dual_coef)
    bound = problem.dual_bound(result.dual_coef, dual_norms)
    assert result.objective - bound <= result.duality_gap + 1e-9 * result.objective


# --- the parts ----------------------------------------------------------------


@each_loss
def test_the_hessian_is_that_of_the_optimal_value(index: int) -> None:
    problem = smooth_problem(LOSSES[index], 21, n_rows=20, n_blocks=3, p=1.2)
    weights = np.array([0.5, 0.3, 0.4])

    def slopes(d: np.ndarray) -> np.ndarray:
        frozen = FrozenProblem(problem, FrozenKernel(problem.bank, d))
        point = frozen.solve(np.zeros((20, 3)), 1e-15)
        return -0.5 * problem.theta_norms(point.coef) ** 2

    frozen = FrozenProblem(problem, FrozenKernel(problem.bank, weights))
    point = frozen.solve(np.zeros((20, 3)), 1e-15)
    found = hessian(frozen, point, np.arange(3))
    step = 1e-5
    numeric = [
        (slopes(weights + step * e) - slopes(weights - step * e)) / (2.0 * step)
        for e in np.eye(3)
    ]
    assert np.allclose(found, numeric, rtol=0.02, atol=0.01 * np.abs(found).max())


@each_loss
def test_frozen_problems_are_solved_to_any_gap(index: int) -> None:
    problem = smooth_problem(LOSSES[index], 22, n_rows=40, n_blocks=3, C=50.0)
    weights = np.array([0.5, 0.3, 0.4])
    frozen = FrozenProblem(problem, FrozenKernel(problem.bank, weights))
    rough = frozen.solve(np.zeros((40, 3)), 1e-2)
    fine = frozen.solve(np.zeros((40, 3)), 1e-11)
    assert 0.0 <= fine.gap <= 1e-11
    assert fine.gap < rough.gap <= 1e-2
    assert fine.value <= rough.value
    assert rough.dual_value <= fine.value
    combined = np.einsum("f,ifj->ij", weights, problem.bank.stack)
    assert np.allclose(fine.scores, combined @ fine.coef)
    assert np.allclose(fine.dual_scores, combined @ fine.dual)


def test_a_loss_from_elsewhere_needs_value_gradient_and_conjugate_only() -> None:
    class Halved(Loss):
        """Half the log loss."""

        name, smoothness = "halved", 0.25

        def value(self, scores, target):
            return 0.5 * Softmax().value(scores, target)

        def gradient(self, scores, target):
            return 0.5 * Softmax().gradient(scores, target)

        def conjugate(self, dual, target):
            return 0.5 * Softmax().conjugate(2.0 * dual, target)

        def make_feasible(self, dual, target):
            return 0.5 * Softmax().make_feasible(2.0 * dual, target)

        def feasible_scale(self, dual, target):
            return 0.5 * Softmax().feasible_scale(dual, target)

    problem = smooth_problem(Softmax(), 23, C=1.0)
    twice = replace(problem, loss=Halved(), C=2.0)
    expected = TruncatedNewton(tol=1e-8).solve(problem).objective / 2.0
    for solver in (Auto(tol=1e-7), SVRG(tol=1e-7, random_state=0)):
        assert solver.solve(twice).objective == pytest.approx(expected, rel=1e-6)


# --- who refuses what ---------------------------------------------------------


@pytest.mark.parametrize("solver", [Obscure(), Pegasos(), DualAscent()])
@pytest.mark.parametrize("loss", [Softmax(), SmoothedHinge()])
def test_hinge_solvers_refuse_smooth_losses(solver, loss) -> None:
    problem = smooth_problem(loss, 1)
    text = f"{type(solver).__name__} handles the hinge loss only.*{loss.name!r}"
    with pytest.raises(ValueError, match=text):
        solver.solve(problem)


@pytest.mark.parametrize("solver", [SVRG(), SVRG(steps="theory"), TruncatedNewton()])
@pytest.mark.parametrize("loss", [MulticlassHinge(), EpsilonInsensitive()])
def test_smooth_solvers_refuse_kinks(solver, loss) -> None:
    problem = replace(smooth_problem(Softmax(), 1), loss=loss)
    text = f"{type(solver).__name__} needs a smooth loss.*{loss.name!r}"
    with pytest.raises(ValueError, match=text):
        solver.solve(problem)


def test_auto_names_what_it_takes_for_a_loss_with_kinks_of_its_own() -> None:
    class Ranking(MulticlassHinge):
        name, has_hinge_dual = "ranking", False

    problem = replace(smooth_problem(Softmax(), 1), loss=Ranking())
    with pytest.raises(ValueError, match="Auto handles smooth losses.*'ranking'"):
        Auto().solve(problem)


def test_auto_takes_the_solver_that_suits_the_loss() -> None:
    names = {"log": "TruncatedNewton", "hinge": "DualAscent", "squared": "Ridge"}
    names |= {"huber": "TruncatedNewton", "smoothed_hinge": "TruncatedNewton"}
    for loss in (*LOSSES, MulticlassHinge(), EpsilonInsensitive()):
        problem = replace(smooth_problem(Softmax(), 1), loss=loss)
        expected = {**names, "squared_hinge": "TruncatedNewton"}.get(
            loss.name, "RegressionAscent"
        )
        assert type(Auto().choose(problem)).__name__ == expected
