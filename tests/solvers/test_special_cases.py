"""Problems whose answer is known, and problems at the edge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from manykernels.banks import GramBank
from manykernels.base.arrays import Index
from manykernels.norms import LpGroupNorm
from manykernels.solvers import Auto, DualAscent, Obscure
from manykernels.solvers.problem import Problem
from manykernels.solvers.working_set import HostSweeps
from tests.oracles.naive import naive_objective
from tests.oracles.optimum import (
    cvxpy_optimum,
    explicit_features,
    optimum_of,
    separator_norm,
)
from tests.oracles.toys import blobs, kernel_stack, make_problem, toy_problem


def solve(problem: Problem, tol: float = 1e-6):
    result = Auto(tol=tol, random_state=0).solve(problem)
    assert result.converged, result.relative_gap
    return result


# --- p = 2 is one machine on the summed kernel -------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_p_2_is_the_summed_kernel(n_classes: int) -> None:
    problem = toy_problem(3, n_rows=28, n_blocks=5, n_classes=n_classes, p=2.0, C=2.0)
    stack = problem.bank.rows(np.arange(28))
    summed = make_problem(
        stack.sum(axis=1, keepdims=True), problem.target, p=2.0, C=2.0
    )
    many, one = solve(problem), solve(summed)
    assert many.objective == pytest.approx(one.objective, rel=2e-6)
    assert np.allclose(many.model.weights, 1.0)
    scores = problem.bank.scores(many.model.coef, many.model.weights)
    other = summed.bank.scores(one.model.coef, one.model.weights)
    assert np.allclose(scores, other, atol=0.02)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_p_2_is_liblinears_multiclass_machine(n_classes: int) -> None:
    problem = toy_problem(5, n_rows=30, n_blocks=3, n_classes=n_classes, p=2.0, C=1.5)
    stack = problem.bank.rows(np.arange(30))
    features = np.hstack(explicit_features(stack))
    if n_classes == 2:
        # w_1 = -w_2 = w / 2: the same machine with half of the squared norm.
        machine = LinearSVC(
            loss="hinge", C=2.0 * 1.5, fit_intercept=False, tol=1e-9, max_iter=10**6
        ).fit(features, problem.target)
        half = features @ machine.coef_[0] / 2.0
        scores = np.stack([-half, half], axis=1)
        square = np.sum(machine.coef_**2) / 2.0
    else:
        machine = LinearSVC(
            multi_class="crammer_singer",
            C=1.5,
            fit_intercept=False,
            tol=1e-9,
            max_iter=10**6,
        ).fit(features, problem.target)
        scores = features @ machine.coef_.T
        square = np.sum(machine.coef_**2)
    reference = problem.primal_value(scores, np.array([np.sqrt(square)]))
    result = solve(problem)
    assert result.objective == pytest.approx(reference, rel=1e-5)


# --- kernels that repeat, matter, or do not ----------------------------------


@pytest.mark.parametrize("p", [1.05, 1.25, 1.5, 2.0])
def test_copies_of_a_kernel_share_its_weight(p: float) -> None:
    X, target = blobs(24, 3, seed=8)
    stack = kernel_stack(X, 2, seed=8)
    twice = np.ascontiguousarray(stack[:, [0, 0, 1], :])
    result = solve(make_problem(twice, target, p=p, C=3.0))
    assert result.model.weights[0] == pytest.approx(result.model.weights[1], rel=1e-6)
    assert result.model.weights[0] > 0.0
    assert result.objective == pytest.approx(
        cvxpy_optimum(twice, target, 3, p, 3.0), rel=5e-6
    )


@pytest.mark.parametrize("p", [1.0, 1.25, 2.0])
@pytest.mark.parametrize("copies", [2, 5])
def test_copies_of_one_kernel_are_a_longer_kernel(p: float, copies: int) -> None:
    # Splitting w over k equal blocks gives ||w||_{2,p} = k^(1/p - 1) ||w||, so the
    # kernel is as if multiplied by k^(2 - 2/p).
    X, target = blobs(24, 3, seed=9)
    stack = kernel_stack(X, 1, seed=9)
    several = np.repeat(stack, copies, axis=1)
    longer = copies ** (2.0 - 2.0 / p) * stack
    many = solve(make_problem(several, target, p=p, C=2.0))
    one = solve(make_problem(longer, target, p=p, C=2.0))
    assert many.objective == pytest.approx(one.objective, rel=2e-6)


def informative_and_noise() -> tuple[np.ndarray, np.ndarray]:
    X, target = blobs(40, 2, seed=10, spread=0.4)
    noise = np.random.default_rng(0).normal(size=(40, 6))
    parts = [X, *(noise[:, [a, a + 1]] for a in range(5))]
    grams = []
    for part in parts:
        squares = np.sum(part**2, axis=1)
        distances = squares[:, None] + squares - 2.0 * part @ part.T
        grams.append(np.exp(-0.1 * distances))
    return np.ascontiguousarray(np.stack(grams, axis=1)), target


def test_p_1_drops_irrelevant_kernels_exactly() -> None:
    stack, target = informative_and_noise()
    result = solve(make_problem(stack, target, p=1.0, C=0.5))
    weights = result.model.weights
    assert weights[0] > 0.9
    assert np.count_nonzero(weights) < len(weights)
    assert weights.sum() == pytest.approx(1.0)
    spread = solve(make_problem(stack, target, p=1.5, C=0.5)).model.weights
    assert np.all(spread > 0.0)


def test_p_1_weights_are_zero_where_the_dual_norm_is_smaller() -> None:
    problem = toy_problem(12, n_rows=30, n_blocks=8, p=1.0, C=1.0)
    result = solve(problem, tol=1e-5)
    norms = problem.theta_norms(result.model.coef)
    clearly_smaller = norms < 0.95 * norms.max()
    assert clearly_smaller.any()
    assert np.all(result.model.weights[clearly_smaller] == 0.0)


# --- one kernel, odd rows, extreme numbers -----------------------------------


def test_one_kernel_makes_p_irrelevant() -> None:
    problem = toy_problem(2, n_blocks=1, p=1.0, C=4.0)
    values = [
        solve(replace(problem, norm=LpGroupNorm(p))).objective
        for p in (1.0, 1.0001, 1.3, 2.0)
    ]
    assert np.allclose(values, values[0], rtol=2e-6)


@pytest.mark.parametrize("p", [1.0, 1.25, 2.0])
def test_rows_that_no_kernel_sees(p: float) -> None:
    problem = toy_problem(13, n_rows=20, n_blocks=3, p=p)
    stack = problem.bank.rows(np.arange(20)).copy()
    blind = [3, 11]
    stack[blind] = 0.0
    stack[:, :, blind] = 0.0
    problem = make_problem(stack, problem.target, p=p, C=2.0)
    result = solve(problem)
    optimum = cvxpy_optimum(stack, problem.target, 3, p, 2.0)
    assert result.objective == pytest.approx(optimum, rel=5e-6)
    scores = problem.bank.scores(result.model.coef, result.model.weights)
    assert np.all(scores[blind] == 0.0)
    if p > 1.0:
        obscure = Obscure(random_state=0).solve(problem)
        assert np.isfinite(obscure.objective)
        assert obscure.objective >= optimum * (1.0 - 1e-6)


def test_no_kernel_sees_anything() -> None:
    problem = make_problem(np.zeros((6, 2, 6)), np.arange(6) % 2, p=1.5)
    assert solve(problem).objective == pytest.approx(1.0)
    assert Obscure(random_state=0).solve(problem).objective == pytest.approx(1.0)


@pytest.mark.parametrize("p", [1.0, 1.25, 2.0])
def test_tiny_C_leaves_nearly_all_the_loss(p: float) -> None:
    problem = toy_problem(14, n_rows=20, n_blocks=3, p=p, C=1e-4)
    result = solve(problem, tol=1e-7)
    assert result.objective == pytest.approx(optimum_of(problem), rel=1e-6)
    assert 0.99 < result.objective < 1.0


@pytest.mark.parametrize("p", [1.0, 1.25, 2.0])
def test_huge_C_is_the_hard_margin(p: float) -> None:
    problem = toy_problem(14, n_rows=20, n_blocks=3, p=p, C=1e4)
    stack = problem.bank.rows(np.arange(20))
    length = separator_norm(stack, problem.target, 3, p)
    result = solve(problem, tol=1e-3)
    # No dual coefficient is near C here, so the separator pays no loss.
    assert result.objective / problem.reg == pytest.approx(0.5 * length**2, rel=1.1e-3)


def test_p_just_above_1_is_close_to_p_1() -> None:
    sparse = toy_problem(15, n_blocks=6, p=1.0, C=2.0)
    nearly = replace(sparse, norm=LpGroupNorm(1.0001))
    bound = solve(sparse, tol=1e-5).objective
    value = solve(nearly, tol=1e-4).objective
    # ||w||_{2,1} >= ||w||_{2,p} >= F^(1/p - 1) ||w||_{2,1}.
    assert bound * 6 ** (2.0 / 1.0001 - 2.0) * (1.0 - 2e-5) <= value
    assert value <= bound * (1.0 + 2e-4)
    assert value == pytest.approx(optimum_of(nearly), rel=2e-4)


def test_float32_kernels_are_certified_at_the_default_tolerance() -> None:
    problem = toy_problem(16, n_rows=30, n_blocks=6, p=1.05, C=10.0)
    stack = problem.bank.rows(np.arange(30)).astype(np.float32)
    single = replace(problem, bank=GramBank(stack))
    result = solve(single, tol=1e-2)
    # The certificate belongs to the stored kernels, whatever their precision.
    exact = naive_objective(stack.astype(np.float64), problem, result.model)
    assert result.objective == pytest.approx(exact, rel=1e-5)
    assert result.objective == pytest.approx(optimum_of(problem), rel=1.1e-2)


# --- sample weights ----------------------------------------------------------


@pytest.mark.parametrize("p", [1.0, 1.25])
def test_integer_weights_are_repeated_rows(p: float) -> None:
    X, target = blobs(18, 3, seed=17)
    stack = kernel_stack(X, 3, seed=17)
    weight = np.random.default_rng(17).integers(1, 4, 18)
    index = np.repeat(np.arange(18), weight)
    repeated = np.ascontiguousarray(stack[index][:, :, index])
    weighted = make_problem(stack, target, p, 2.0, weight.astype(float))
    longer = make_problem(repeated, target[index], p, 2.0)
    first = solve(weighted, tol=2e-7)
    assert first.objective == pytest.approx(solve(longer, 2e-7).objective, rel=1e-6)
    unweighted = solve(make_problem(stack, target, p, 2.0))
    assert first.objective != pytest.approx(unweighted.objective, rel=1e-3)


def test_weights_and_C_are_relative() -> None:
    # Weights times a, C over a: the same losses against the same norm.
    problem = toy_problem(18, weighted=True, p=1.5)
    scaled = replace(problem, C=problem.C / 4, sample_weight=4 * problem.sample_weight)
    assert scaled.reg == pytest.approx(problem.reg)
    assert solve(scaled).objective == pytest.approx(solve(problem).objective, rel=2e-6)


# --- working sets ------------------------------------------------------------


class CountingBank(GramBank):
    """Notes the sizes of the subsets that were asked of it."""

    def __init__(self, stack: np.ndarray) -> None:
        super().__init__(stack)
        self.sizes: list[int] = []

    def take(self, index: Index, brief: bool = False) -> GramBank:
        self.sizes.append(len(index))
        return super().take(index, brief)


@pytest.mark.parametrize("p", [1.0, 1.25, 2.0])
def test_working_sets_reach_the_same_objective(p: float) -> None:
    X, target = blobs(90, 3, seed=19, spread=0.6)
    stack = kernel_stack(X, 4, seed=19)
    everything = make_problem(stack, target, p, C=1.0)
    counting = CountingBank(stack)
    partial = replace(everything, bank=counting)
    whole = DualAscent(tol=1e-5, random_state=0).solve(everything)
    parts = DualAscent(tol=1e-5, subset=10, random_state=0).solve(partial)
    assert whole.converged
    assert parts.converged
    assert counting.sizes
    assert counting.sizes[0] < 30
    assert parts.objective == pytest.approx(whole.objective, rel=2e-5)
    assert parts.objective - parts.duality_gap <= whole.objective
    value = naive_objective(stack, partial, parts.model)
    assert parts.objective == pytest.approx(value, rel=1e-9)


def test_all_rows_work_where_memory_holds_the_kernel_rows_of_few(monkeypatch) -> None:
    X, target = blobs(200, 3, seed=21, spread=0.3)
    stack = kernel_stack(X, 3, seed=21)
    problem = make_problem(stack, target, 1.25, C=1.0)
    solver = DualAscent(tol=1e-5, subset=20, random_state=0)
    expected = solver.solve(problem).objective
    bank = GramBank(stack)
    bank.max_combined_rows = most = 120
    held = []
    init = HostSweeps.__init__

    def noted(kernel, *arguments):
        init(kernel, *arguments)
        held.append(kernel.values.shape)

    monkeypatch.setattr(HostSweeps, "__init__", noted)
    limited = solver.solve(replace(problem, bank=bank))
    assert limited.converged
    assert limited.objective == pytest.approx(expected, rel=2e-5)
    assert held[0][1] < 40
    assert any(columns == 200 for _, columns in held)
    assert all(active * (active + columns) <= 2 * most**2 for active, columns in held)


def test_kernel_rows_make_room_for_others() -> None:
    stack = kernel_stack(blobs(9, 3, seed=22)[0], 2, seed=22)
    weights = np.array([0.5, 2.0])
    target, rng = np.arange(9) % 2, np.random.default_rng(0)
    kernel = HostSweeps(GramBank(stack), target, np.ones(9), rng, most=4)
    kernel.begin(weights)
    whole = np.einsum("f,ifj->ij", weights, stack)
    for rows in ([0, 3, 4], [1, 3], [5, 6, 7, 8], [0]):
        coef = np.zeros((9, 2))
        coef[rows] = np.arange(2 * len(rows)).reshape(-1, 2) + 1.0
        assert kernel.scores(coef) == pytest.approx((whole @ coef).T)
        assert len(kernel.owners) <= 4


def test_a_start_near_the_solution_needs_fewer_rounds() -> None:
    problem = toy_problem(20, n_rows=30, n_blocks=5, p=1.1, C=10.0)
    cold = DualAscent(tol=1e-4, random_state=0).solve(problem)
    warm = DualAscent(tol=1e-4, random_state=0).solve(problem, start=cold.model)
    assert warm.converged
    assert len(warm.history) < len(cold.history)
    assert warm.objective == pytest.approx(cold.objective, rel=2e-4)
