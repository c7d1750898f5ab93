"""What the OBSCURE paper proves, seen in runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from manykernels.solvers import Obscure
from manykernels.solvers.problem import Problem
from tests.oracles.optimum import optimum_of, separator_norm
from tests.oracles.toys import toy_problem


def radius_after(problem: Problem, solver: Obscure) -> float:
    """R of Algorithm 1, from the objective at the end of the online stage."""
    online = replace(solver, batch_passes=0).solve(problem)
    return float(np.sqrt(2.0 * online.history[-1].objective / problem.reg))


def theorem_1(problem: Problem, radius: float, steps: int, delta: float) -> float:
    q, reg = problem.norm.q, problem.reg
    c = np.sqrt(2.0) * problem.bank.n_blocks ** (1.0 / q) + reg * radius
    common = c * np.sqrt(q) * np.sqrt(1.0 + np.log(steps))
    return common / delta * min(common / (reg * steps), 4.0 * radius / np.sqrt(steps))


@pytest.mark.parametrize(
    ("p", "C", "n_classes"), [(1.25, 1.0, 3), (1.5, 5.0, 2), (2.0, 1.0, 4)]
)
def test_long_runs_approach_the_optimum(p: float, C: float, n_classes: int) -> None:
    problem = toy_problem(4, n_rows=30, n_blocks=4, n_classes=n_classes, p=p, C=C)
    optimum = optimum_of(problem)
    lengths = (10, 100, 1000)
    errors = np.zeros((3, len(lengths)))
    for seed in range(3):
        for column, passes in enumerate(lengths):
            solver = Obscure(batch_passes=passes, random_state=seed)
            last = solver.solve(problem).history[-1].objective
            errors[seed, column] = last - optimum
            bound = theorem_1(
                problem,
                radius_after(problem, solver),
                passes * problem.n_rows,
                delta=0.5,
            )
            assert 0.0 <= errors[seed, column] + 1e-6 * optimum < bound
    mean = errors.mean(axis=0)
    # At the rate log T / T, ten times the steps divide the error by 7 here.
    assert mean[1] < mean[0] / 4.0
    assert mean[2] < mean[1] / 4.0
    assert mean[2] < 0.05 * optimum


@pytest.mark.parametrize("p", [1.05, 1.25, 1.5, 2.0])
@pytest.mark.parametrize("eta", [0.3, 2.0])
@pytest.mark.parametrize(("n_blocks", "n_classes"), [(1, 2), (5, 3)])
def test_stage_1_ends_on_separable_data(
    p: float, eta: float, n_blocks: int, n_classes: int
) -> None:
    problem = toy_problem(6, 20, n_blocks, n_classes, p=p, C=10.0)
    stack = problem.bank.rows(np.arange(20))
    length = separator_norm(stack, problem.target, n_classes, p)
    q = problem.norm.q
    solver = Obscure(online_passes=5000, batch_passes=0, eta=eta, random_state=0)
    history = solver.solve(problem).history
    updates = sum(line.updates for line in history)
    assert history[-1].updates == 0
    assert 0 < updates <= 2.0 * q * (1.0 / eta + n_blocks ** (2.0 / q)) * length**2
    radius = np.sqrt(2.0 * history[-1].objective / problem.reg)
    assert radius <= 2.0 * (1.0 + eta * n_blocks ** (2.0 / q)) * length
    # No loss is left, so R is the norm of a separator: not below the smallest one.
    assert radius >= length * (1.0 - 1e-6)


def test_the_radius_bounds_the_norm_of_the_optimum() -> None:
    problem = toy_problem(7, n_rows=24, p=1.25, C=10.0)
    optimum = optimum_of(problem)
    for passes in (1, 5):
        solver = Obscure(online_passes=passes, random_state=1)
        assert radius_after(problem, solver) ** 2 >= 2.0 * optimum / problem.reg
