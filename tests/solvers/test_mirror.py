"""The cached, compiled loop against the printed algorithms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from manykernels.banks import GramBank
from manykernels.hot.mirror_passes import MirrorRule
from manykernels.solvers import DualAscent, Obscure, Pegasos
from manykernels.solvers.mirror import MirrorDescent
from manykernels.solvers.problem import Problem
from tests.oracles.naive import naive_dual_bound, naive_objective, naive_theta_norms
from tests.oracles.naive_obscure import NaiveObscure
from tests.oracles.optimum import explicit_features
from tests.oracles.toys import toy_problem

CASES = [
    pytest.param(1.05, 2, False, id="p=1.05"),
    pytest.param(1.25, 3, False, id="p=1.25"),
    pytest.param(1.5, 4, True, id="p=1.5 weighted"),
    pytest.param(2.0, 3, True, id="p=2 weighted"),
]
CLOSE = {"rtol": 1e-8, "atol": 1e-10}


def pair(p: float, n_classes: int, weighted: bool) -> tuple[Problem, NaiveObscure]:
    problem = toy_problem(
        21, n_rows=18, n_blocks=4, n_classes=n_classes, p=p, C=3.0, weighted=weighted
    )
    stack = problem.bank.rows(np.arange(18))
    importance = problem.sample_weight / problem.sample_weight.mean()
    features = explicit_features(stack)
    return problem, NaiveObscure(
        features, problem.target, n_classes, p, problem.reg, importance
    )


def assert_same(descent: MirrorDescent, naive: NaiveObscure) -> None:
    """Scores, block norms, objective, dual bound and the expansion all agree."""
    problem = descent.problem
    stack = problem.bank.rows(np.arange(problem.n_rows))
    scores = np.array([naive.scores(i) for i in range(problem.n_rows)])
    assert np.allclose(descent.scores(), scores, **CLOSE)
    scale, t, s, norm = descent.state.scalars
    norms = scale * np.sqrt(descent.state.square_norms)
    assert np.allclose(norms, [np.linalg.norm(b) for b in naive.theta], **CLOSE)
    assert norm == pytest.approx(naive.theta_norm(), rel=1e-8)
    assert t == naive.t
    assert s == pytest.approx(naive.s, rel=1e-8)
    iterate = descent.iterate()
    objective, dual_bound = iterate.objective, iterate.dual_bound
    assert objective == pytest.approx(naive.objective(), rel=1e-8)
    model = descent.model()
    assert objective == pytest.approx(naive_objective(stack, problem, model), rel=1e-8)
    coef = descent.state.coef
    theta_norms = naive_theta_norms(stack, coef)
    generic = problem.dual_bound(coef, theta_norms)
    assert dual_bound == pytest.approx(generic, rel=1e-8)
    snapshot = iterate.dual_snapshot
    dual = np.zeros_like(coef) if snapshot is None else snapshot()
    point = problem.dual_value(dual, naive_theta_norms(stack, dual))
    assert dual_bound == pytest.approx(point, rel=1e-8)
    assert dual_bound == pytest.approx(naive_dual_bound(stack, problem, coef), rel=1e-6)


@pytest.mark.parametrize(("p", "n_classes", "weighted"), CASES)
@pytest.mark.parametrize("eta", [0.5, 2.0])
def test_both_stages_equal_the_printed_algorithms(
    p: float, n_classes: int, weighted: bool, eta: float
) -> None:
    problem, naive = pair(p, n_classes, weighted)
    descent = MirrorDescent(problem)
    rng = np.random.default_rng(1)
    updates = 0
    for _ in range(3):
        order = rng.permutation(problem.n_rows)
        updates += descent.run_pass(
            MirrorRule(
                descent.problem.norm.q, descent.problem.reg, eta=eta, online=True
            ),
            order,
        )
        naive.online(order, eta)
        assert updates == naive.updates
        assert_same(descent, naive)
    radius = naive.radius()
    assert np.sqrt(2.0 * descent.objective() / problem.reg) == pytest.approx(radius)
    rule = MirrorRule(
        descent.problem.norm.q, descent.problem.reg, radius=radius, self_tuned=True
    )
    for _ in range(4):
        order = rng.permutation(problem.n_rows)
        updates += descent.run_pass(rule, order)
        naive.batch(order, radius)
        assert updates == naive.updates
        assert_same(descent, naive)


@pytest.mark.parametrize(("p", "n_classes", "weighted"), CASES)
def test_a_small_ball_projects_as_printed(
    p: float, n_classes: int, weighted: bool
) -> None:
    problem, naive = pair(p, n_classes, weighted)
    descent = MirrorDescent(problem)
    radius = 0.5  # far below the optimum's norm, so that every step is cut
    rule = MirrorRule(
        descent.problem.norm.q, descent.problem.reg, radius=radius, self_tuned=True
    )
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(problem.n_rows)
        descent.run_pass(rule, order)
        naive.batch(order, radius)
        assert_same(descent, naive)
    assert naive.theta_norm() <= naive.q * radius * (1.0 + 1e-12)
    assert naive.theta_norm() > 0.9 * naive.q * radius


@pytest.mark.parametrize(("p", "n_classes", "weighted"), CASES)
def test_pegasos_equals_the_plain_recursion(
    p: float, n_classes: int, weighted: bool
) -> None:
    problem, naive = pair(p, n_classes, weighted)
    descent = MirrorDescent(problem)
    radius = np.sqrt(2.0 / problem.reg)
    rule = MirrorRule(descent.problem.norm.q, descent.problem.reg, radius=radius)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(problem.n_rows)
        descent.run_pass(rule, order)
        naive.batch(order, radius, self_tuned=False)
        assert_same(descent, naive)


@pytest.mark.parametrize(("p", "n_classes", "weighted"), CASES)
def test_the_solvers_visit_rows_in_the_seeds_order(
    p: float, n_classes: int, weighted: bool
) -> None:
    problem, naive = pair(p, n_classes, weighted)
    result = Obscure(online_passes=2, batch_passes=3, random_state=5).solve(problem)
    rng = np.random.default_rng(5)
    objectives = []
    for _ in range(2):
        naive.online(rng.permutation(problem.n_rows), 2.0)
        objectives.append(naive.objective())
    radius = naive.radius()
    for _ in range(3):
        naive.batch(rng.permutation(problem.n_rows), radius)
        objectives.append(naive.objective())
    assert np.allclose([line.objective for line in result.history], objectives)
    assert sum(line.updates for line in result.history) == naive.updates


def test_pegasos_forgets_where_it_started() -> None:
    problem, _ = pair(1.5, 3, False)
    start = Obscure(random_state=0).solve(problem).model
    solver = Pegasos(passes=3, random_state=2)
    warm, cold = solver.solve(problem, start=start), solver.solve(problem)
    assert warm.objective == cold.objective
    assert np.array_equal(warm.model.coef, cold.model.coef)


def test_a_start_is_continued() -> None:
    problem, _ = pair(1.25, 3, False)
    first = MirrorDescent(problem)
    order = np.random.default_rng(0).permutation(problem.n_rows)
    first.run_pass(
        MirrorRule(first.problem.norm.q, first.problem.reg, eta=2.0, online=True), order
    )
    second = MirrorDescent(problem, first.model())
    assert np.allclose(second.scores(), first.scores(), **CLOSE)
    ends = [
        (one.objective, one.dual_bound) for one in (second.iterate(), first.iterate())
    ]
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)
    for descent in (first, second):
        descent.run_pass(
            MirrorRule(
                descent.problem.norm.q, descent.problem.reg, eta=2.0, online=True
            ),
            order[::-1].copy(),
        )
    assert np.allclose(second.scores(), first.scores(), **CLOSE)


@pytest.mark.parametrize("p", [1.01, 1.001])
def test_huge_dual_exponents_stay_finite(p: float) -> None:
    problem = toy_problem(22, n_blocks=6, p=p, C=10.0)
    result = Obscure(online_passes=3, batch_passes=5, random_state=0).solve(problem)
    assert np.all(np.isfinite([line.objective for line in result.history]))
    assert np.all(np.isfinite(result.model.coef))
    stack = problem.bank.rows(np.arange(problem.n_rows))
    value = naive_objective(stack, problem, result.model)
    assert result.objective == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize("solver", [Obscure, Pegasos])
@pytest.mark.parametrize("p", [1.05, 1.5])
def test_float32_caches_stay_close_to_the_truth(solver: type, p: float) -> None:
    problem = toy_problem(43, n_rows=60, n_blocks=5, p=p, C=10.0)
    single = replace(problem, bank=GramBank(problem.bank.stack.astype(np.float32)))
    result = solver(random_state=0).solve(single)
    assert result.objective == pytest.approx(problem.objective(result.model), rel=1e-4)
    optimum = DualAscent(tol=1e-6, random_state=0).solve(problem).objective
    assert result.objective - result.duality_gap <= optimum * (1.0 + 1e-5)
