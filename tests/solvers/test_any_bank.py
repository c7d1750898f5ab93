"""A bank that knows its rows and nothing else goes through every solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from manykernels import compare
from manykernels.losses import (
    EpsilonInsensitive,
    Huber,
    MulticlassHinge,
    Softmax,
    Squared,
)
from manykernels.solvers import (
    SVRG,
    Auto,
    DualAscent,
    Obscure,
    Pegasos,
    TruncatedNewton,
)
from manykernels.solvers.problem import Problem
from manykernels.solvers.regression.ascent import RegressionAscent
from manykernels.solvers.regression.ridge import Ridge
from tests.banks.check_bank import check_bank
from tests.banks.toy_bank import ToyBank
from tests.oracles.toys import kernel_stack, toy_problem

# solver, loss, p, classes or targets, how close to the optimum it comes
CERTIFIED = 1e-3
SOLVERS = [
    (Auto(1e-4, random_state=0), MulticlassHinge(), 1.25, 3, CERTIFIED),
    (Auto(1e-4, random_state=0), Softmax(), 1.25, 3, CERTIFIED),
    (DualAscent(1e-4, random_state=0), MulticlassHinge(), 1.25, 3, CERTIFIED),
    (DualAscent(1e-4, random_state=0), MulticlassHinge(), 1.0, 3, CERTIFIED),
    (Obscure(10, 200, random_state=0), MulticlassHinge(), 1.25, 3, 0.05),
    (Pegasos(300, random_state=0), MulticlassHinge(), 1.25, 3, 0.1),
    (TruncatedNewton(1e-4), Softmax(), 1.25, 3, CERTIFIED),
    (SVRG(1e-4, random_state=0), Softmax(), 1.25, 3, CERTIFIED),
    (
        SVRG(1e-2, steps="theory", eps=1e-2, random_state=0),
        Softmax(),
        1.25,
        3,
        0.02,
    ),
    (Ridge(1e-4), Squared(), 1.25, 2, CERTIFIED),
    (RegressionAscent(1e-4, random_state=0), Huber(0.5), 1.25, 2, CERTIFIED),
    (
        RegressionAscent(1e-4, random_state=0),
        EpsilonInsensitive(0.2),
        1.25,
        2,
        CERTIFIED,
    ),
    (compare.SimpleMKL(tol=1e-4, random_state=0), MulticlassHinge(), 1.0, 2, 1e-3),
    (compare.SILP(tol=1e-4, random_state=0), MulticlassHinge(), 1.0, 2, 1e-3),
    (compare.LevelMethod(tol=1e-4, random_state=0), MulticlassHinge(), 1.0, 2, 1e-3),
    (compare.Kloft(tol=1e-4, random_state=0), MulticlassHinge(), 1.25, 3, 1e-3),
    (compare.GroupLassoMKL(tol=1e-4, random_state=0), MulticlassHinge(), 1.0, 2, 1e-2),
    (compare.SMOMKL(tol=1e-4), MulticlassHinge(), 1.25, 2, 1e-3),
    (compare.OM2(random_state=0), MulticlassHinge(), 1.25, 3, 0.5),
    (compare.UFO(random_state=0), MulticlassHinge(), 1.25, 3, 1.0),
    (compare.SPOM(random_state=0), MulticlassHinge(), 1.25, 3, 0.1),
    (compare.SPOM(random_state=0), Softmax(), 1.25, 3, 0.1),
]


def problem_for(loss: object, p: float, n_outputs: int) -> Problem:
    """Labels or values, as the loss wants them."""
    problem = toy_problem(3, n_rows=30, n_blocks=3, n_classes=n_outputs, p=p)
    if loss.residual_dual is not None:
        values = np.random.default_rng(0).normal(size=(30, n_outputs))
        return replace(problem, loss=loss, target=values)
    return replace(problem, loss=loss)


@pytest.mark.parametrize(
    ("solver", "loss", "p", "n_outputs", "distance"),
    SOLVERS,
    ids=[f"{type(case[0]).__name__}-{case[1].name}-{case[2]}" for case in SOLVERS],
)
def test_every_solver_takes_it(
    solver: object, loss: object, p: float, n_outputs: int, distance: float
) -> None:
    problem = problem_for(loss, p, n_outputs)
    toy = replace(problem, bank=ToyBank.of(problem.bank.stack))
    optimum = Auto(1e-6, random_state=0).solve(problem).objective
    result = solver.solve(toy)
    assert optimum * (1 - 1e-6) <= result.objective <= optimum * (1 + distance)
    same = solver.solve(problem)
    # Both are certified to 1e-4, and sums are rounded in another order.
    assert result.objective == pytest.approx(
        same.objective, rel=max(1e-4, 1e-2 * distance)
    )
    anew = problem.objective(result.model)
    assert result.objective == pytest.approx(anew, rel=1e-6)


def test_every_solver_is_in_the_list() -> None:
    import manykernels.solvers as core

    tried = {type(case[0]) for case in SOLVERS}
    known = [
        getattr(module, name) for module in (core, compare) for name in module.__all__
    ]
    solvers = {one for one in known if hasattr(one, "solve") and _takes_problems(one)}
    assert solvers <= tried


def _takes_problems(solver: type) -> bool:
    """Solvers of products and of chains have problems of their own."""
    return solver.solve.__annotations__.get("problem") == "Problem"


def test_its_answers_equal_the_dense_ones() -> None:
    X = np.random.default_rng(1).normal(size=(21, 4))
    stack = kernel_stack(X, 3, 1)
    check_bank(ToyBank.of(stack), stack, 1e-12, np.array([5, 2, 11, 17]))


def test_no_solver_names_a_bank_or_a_loss() -> None:
    """Solvers ask what a bank or a loss can do, never what it is."""
    import re
    from pathlib import Path

    import manykernels

    folder = Path(manykernels.__file__).parent
    question = re.compile(
        r"isinstance\((self\.)?(bank|loss)|loss\.name [!=]=|type\(loss\)"
    )
    guilty = [
        f"{path.name}: {line.strip()}"
        for part in ("solvers", "compare/solvers")
        for path in sorted((folder / part).rglob("*.py"))
        for line in path.read_text().splitlines()
        if question.search(line)
    ]
    assert guilty == []
