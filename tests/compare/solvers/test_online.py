"""UFO-MKL and OM-2: the printed algorithms, what they solve and what is proved."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from manykernels.compare import OM2, UFO
from manykernels.compare.solvers.ufo import paper_p
from manykernels.norms import LpGroupNorm
from manykernels.solvers import Auto
from manykernels.solvers.problem import Problem
from tests.oracles.naive import group_norm, naive_objective, naive_theta_norms
from tests.oracles.naive_obscure import NaiveObscure
from tests.oracles.optimum import explicit_features, minimum, p_norm
from tests.oracles.toys import toy_problem

# seed, rows, kernels, classes, p, C: small C, because the error falls as 1 / (reg t)
CASES = [
    (0, 24, 4, 3, 1.25, 0.3),
    (1, 30, 6, 2, 1.5, 0.2),
    (2, 20, 3, 4, 1.1, 0.1),
    (3, 26, 5, 3, 2.0, 0.3),
    (4, 18, 2, 2, 1.75, 0.5),
]


def stack_of(problem: Problem) -> np.ndarray:
    return problem.bank.rows(np.arange(problem.n_rows))


def elastic_net(problem: Problem, alpha: float) -> tuple[float, np.ndarray]:
    """Optimum and block norms of reg/2 ||w||_{2,p}^2 + alpha ||w||_{2,1} + losses."""
    features = explicit_features(stack_of(problem))
    n_rows, n_classes = problem.n_rows, problem.n_outputs
    blocks = [cp.Variable((phi.shape[1], n_classes)) for phi in features]
    scores = sum(phi @ w for phi, w in zip(features, blocks, strict=True))
    slack = cp.Variable(n_rows, nonneg=True)
    constraints = [
        scores[i, own] - scores[i, k] >= 1.0 - slack[i]
        for i, own in enumerate(problem.target)
        for k in range(n_classes)
        if k != own
    ]
    norms = [cp.norm(block, "fro") for block in blocks]
    norm = 0.5 * cp.square(p_norm(norms, problem.norm.p))
    # Divided by reg, as all values are near one then.
    lasso = alpha / problem.reg * sum(norms)
    loss = problem.C * (problem.sample_weight @ slack)
    value = problem.reg * minimum(norm + lasso + loss, constraints)
    return value, np.array([float(n.value) for n in norms])


@pytest.mark.parametrize("settings", CASES, ids=lambda c: f"p={c[-2]}")
def test_ufo_without_a_lasso_solves_our_problem(settings: tuple) -> None:
    problem = toy_problem(*settings)
    result = UFO(passes=4000, tol=1e-3, random_state=0).solve(problem)
    reference = Auto(tol=1e-6, random_state=0).solve(problem)
    assert result.converged
    assert result.objective == pytest.approx(reference.objective, rel=1e-3)
    np.testing.assert_allclose(result.model.weights, reference.model.weights, atol=0.05)
    value = naive_objective(stack_of(problem), problem, result.model)
    assert result.objective == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.02, 0.1])
@pytest.mark.parametrize("p", [1.25, 2.0])
def test_ufo_reaches_the_optimum_of_its_elastic_net(p: float, alpha: float) -> None:
    problem = toy_problem(1, 22, 4, 3, p, C=0.5, weighted=True)
    optimum, norms = elastic_net(problem, alpha)
    result = UFO(passes=4000, alpha=alpha, tol=1e-3, random_state=0).solve(problem)
    assert result.converged
    assert result.objective == pytest.approx(optimum, rel=1e-3)
    assert result.objective >= optimum * (1.0 - 1e-6)
    assert result.objective - result.duality_gap <= optimum * (1.0 + 1e-6)
    stack = stack_of(problem)
    lengths = result.model.weights * naive_theta_norms(stack, result.model.coef)
    value = naive_objective(stack, problem, result.model) + alpha * lengths.sum()
    assert result.objective == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(lengths, norms, atol=0.02 * norms.max())


def test_a_strong_lasso_removes_kernels() -> None:
    problem = toy_problem(3, 30, 8, 3, 2.0, C=1.0)
    sparse = UFO(passes=300, alpha=0.15, random_state=0).solve(problem)
    dense = UFO(passes=300, random_state=0).solve(problem)
    assert np.any(sparse.model.weights == 0.0)
    assert np.any(sparse.model.weights > 0.0)
    assert np.all(dense.model.weights > 0.0)


class NaiveUFO(NaiveObscure):
    """Algorithm 1 of the paper, with explicit blocks."""

    alpha = 0.0

    def weights_of_theta(self) -> list[np.ndarray]:
        norms = np.array([np.linalg.norm(block) for block in self.theta])
        v = np.maximum(norms - self.alpha * self.t, 0.0)
        if not v.any():
            return [np.zeros_like(block) for block in self.theta]
        ratios = v / group_norm(v, self.q)
        scale = ratios ** (self.q - 2.0) * v / (self.reg * self.t * norms)
        return [c * block for c, block in zip(scale, self.theta, strict=True)]

    def run(self, order: np.ndarray) -> None:
        for row in order:
            z, wrong = self.subgradient(row)
            self.updates += wrong
            self.t += 1
            for block, change in zip(self.theta, z, strict=True):
                block += change


class NaiveOM2(NaiveObscure):
    """OM-2 with explicit blocks; remembers what its bound speaks of."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.steps: list[tuple[int, int, float]] = []  # row, wrong, eta
        self.mistakes = 0
        self.largest = 0.0

    def run(self, order: np.ndarray) -> None:
        for row in order:
            scores, own = self.scores(row), self.target[row]
            wrong = int(
                np.argmax(np.where(np.arange(len(scores)) == own, -1e9, scores))
            )
            lead = scores[own] - scores[wrong]
            self.mistakes += lead <= 0.0
            if lead > 1.0:
                continue
            z = [np.zeros_like(block) for block in self.theta]
            for block, phi in zip(z, self.features, strict=True):
                block[:, own] += phi[row]
                block[:, wrong] -= phi[row]
            size = group_norm([float(np.linalg.norm(b)) for b in z], self.q) ** 2
            self.largest = max(self.largest, size)
            eta = min(1.0, 1.0 - 2.0 * lead / size)
            if eta <= 0.0:
                continue
            self.steps.append((row, wrong, eta))
            for block, change in zip(self.theta, z, strict=True):
                block += eta * change


def naive(kind: type, problem: Problem) -> NaiveObscure:
    return kind(
        explicit_features(stack_of(problem)),
        problem.target,
        problem.n_outputs,
        problem.norm.p,
        problem.reg,
    )


@pytest.mark.parametrize("alpha", [0.0, 0.03])
@pytest.mark.parametrize("p", [1.2, 2.0])
def test_ufo_equals_the_printed_algorithm(p: float, alpha: float) -> None:
    problem = toy_problem(2, 18, 3, 3, p, C=1.0)
    slow = naive(NaiveUFO, problem)
    slow.alpha = alpha
    rng, values = np.random.default_rng(7), []
    for _ in range(4):
        slow.run(rng.permutation(problem.n_rows))
        norms = [float(np.linalg.norm(b)) for b in slow.weights_of_theta()]
        values.append(slow.objective() + alpha * sum(norms))
    result = UFO(passes=4, alpha=alpha, random_state=7).solve(problem)
    found = [line.objective for line in result.history]
    np.testing.assert_allclose(found, values, rtol=1e-8)
    assert sum(line.updates for line in result.history) == slow.updates


@pytest.mark.parametrize("p", [1.1, 1.5, 2.0])
def test_om2_equals_a_naive_loop(p: float) -> None:
    problem = toy_problem(5, 24, 3, 3, p)
    slow, rng = naive(NaiveOM2, problem), np.random.default_rng(3)
    result = OM2(passes=3, random_state=3).solve(problem)
    values = []
    for _ in result.history:
        slow.run(rng.permutation(problem.n_rows))
        values.append(slow.objective())
    found = [line.objective for line in result.history]
    np.testing.assert_allclose(found, values, rtol=1e-8)
    assert sum(line.updates for line in result.history) == len(slow.steps)


@pytest.mark.parametrize("p", [1.1, 1.5, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_om2_keeps_its_mistake_bound(seed: int, p: float) -> None:
    """H = sum of steps <= sum eta_t loss_t(u) + X ||u|| sqrt(q H) for every u.

    Mistakes take a full step, so they are at most H.
    """
    problem = toy_problem(seed, 40, 4, 3, p, C=10.0)
    slow = naive(NaiveOM2, problem)
    slow.run(np.random.default_rng(seed).permutation(problem.n_rows))
    total = sum(eta for _, _, eta in slow.steps)
    assert slow.mistakes <= total + 1e-9
    assert slow.theta_norm() ** 2 <= slow.q * slow.largest * total * (1.0 + 1e-9)
    model = Auto(tol=1e-3, random_state=0).solve(problem).model
    u = problem.bank.scores(model.coef, model.weights)
    size = group_norm(model.weights * problem.theta_norms(model.coef), p)
    loss = sum(
        eta * max(0.0, 1.0 - u[row, problem.target[row]] + u[row, wrong])
        for row, wrong, eta in slow.steps
    )
    assert total <= loss + size * np.sqrt(slow.largest * slow.q * total)


def test_om2_stops_after_a_pass_without_an_update() -> None:
    result = OM2(passes=100, random_state=0).solve(toy_problem(0, 40, 6, 2, 2.0))
    updates = [line.updates for line in result.history]
    assert len(updates) < 100 and updates[-1] == 0 and all(updates[:-1])


def test_om2_does_not_depend_on_C() -> None:
    problem = toy_problem(1, 30, 3, 3, 1.5)
    one, other = (
        OM2(passes=1, random_state=0).solve(replace(problem, C=C)).model
        for C in (1.0, 100.0)
    )
    np.testing.assert_array_equal(one.coef, other.coef)


def test_the_paper_takes_a_p_that_falls_with_the_number_of_kernels() -> None:
    values = [paper_p(n) for n in (1, 2, 12, 100, 1000)]
    assert values[0] == values[1] == 2.0 and np.all(np.diff(values[1:]) < 0.0)
    assert LpGroupNorm(values[2]).q == pytest.approx(2.0 * np.log(12))
