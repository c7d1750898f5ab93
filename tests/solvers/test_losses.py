"""Every loss of classification, with two, three and four classes, in every solver."""

from __future__ import annotations

from functools import lru_cache

import pytest

from manykernels.losses import (
    Loss,
    MulticlassHinge,
    SmoothedHinge,
    Softmax,
    SquaredHinge,
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
from tests.oracles.optimum import optimum_of
from tests.oracles.smooth import smooth_optimum, smooth_problem
from tests.oracles.toys import toy_problem


def smooth_loss(name: str, n_classes: int) -> Loss:
    """At width (M - 1) / M zero scores lie on a kink of the gradient."""
    if name == "kink":
        return SmoothedHinge((n_classes - 1) / n_classes)
    known = {"log": Softmax, "smoothed_hinge": SmoothedHinge}
    return known.get(name, SquaredHinge)()


SMOOTH = ("log", "smoothed_hinge", "kink", "squared_hinge")
CLASSES = (2, 3, 4)
PS = (1.1, 1.5)


@lru_cache
def smooth_case(name: str, n_classes: int, p: float) -> tuple[Problem, float]:
    loss = smooth_loss(name, n_classes)
    problem = smooth_problem(loss, 2, n_outputs=n_classes, p=p)
    return problem, smooth_optimum(problem)


@lru_cache
def hinge_case(n_classes: int, p: float) -> tuple[Problem, float]:
    problem = toy_problem(n_classes, 20, n_classes=n_classes, p=p)
    return problem, optimum_of(problem)


@pytest.mark.parametrize("p", PS)
@pytest.mark.parametrize("n_classes", CLASSES)
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("solver", [Auto, TruncatedNewton, SVRG])
def test_smooth_losses(solver: type, loss: str, n_classes: int, p: float) -> None:
    problem, optimum = smooth_case(loss, n_classes, p)
    result = solver(tol=1e-5, random_state=0).solve(problem)
    assert result.converged, result.relative_gap
    assert result.objective == pytest.approx(optimum, rel=1e-4)
    assert result.objective < problem.objective(problem.zero())


@pytest.mark.parametrize("p", PS)
@pytest.mark.parametrize("n_classes", CLASSES)
@pytest.mark.parametrize("solver", [Auto, DualAscent, Obscure, Pegasos])
def test_hinge(solver: type, n_classes: int, p: float) -> None:
    assert isinstance(hinge_case(n_classes, p)[0].loss, MulticlassHinge)
    problem, optimum = hinge_case(n_classes, p)
    result = solver(tol=1e-4, random_state=0).solve(problem)
    certified = solver in (Auto, DualAscent)
    assert result.objective == pytest.approx(optimum, rel=1e-3 if certified else 0.3)
    assert result.duality_gap >= result.objective - optimum - 1e-6 * optimum
    again = problem.duality_gap(result.model, result.dual_coef)
    assert again <= result.duality_gap * (1 + 1e-6) + 1e-12
