"""The interior-point method against another one, and where dual ascent needs it."""

import numpy as np
import pytest

from manykernels.solvers import Auto, DualAscent
from manykernels.solvers import interior_point as interior
from manykernels.solvers.interior_point import InteriorPoint, pairs_at_work
from manykernels.solvers.working_set import WorkingSet
from tests.oracles.optimum import optimum_of
from tests.oracles.toys import blobs, kernel_stack, make_problem, toy_problem


def at_work(problem):
    rows, coef = np.arange(problem.n_rows), problem.zero().coef
    return WorkingSet(problem, rows, coef, np.random.default_rng(0))


def scaled_problem(scales, p, C, n_rows=20, n_classes=2):
    X, target = blobs(n_rows, n_classes, 0)
    stack = kernel_stack(X, len(scales), 0) * np.array(scales)[None, :, None]
    return make_problem(stack, target, p, C)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("p", [1.0, 1.01, 1.5, 2.0])
def test_both_sides_of_the_gap_meet_at_the_optimum(p, weighted):
    problem = toy_problem(1, p=p, C=10.0, weighted=weighted)
    work = at_work(problem)
    found = InteriorPoint(work, problem.norm, pairs_at_work(work)).solve(1e-7)
    assert found.gap <= 2e-7
    theta = problem.theta_norms(found.coef)
    dual = problem.dual_bound(found.coef, theta)
    assert dual == pytest.approx(optimum_of(problem), rel=1e-5)
    assert problem.norm.normalize_weights(found.weights) == pytest.approx(
        found.weights, rel=1e-9
    )


def test_rows_beyond_the_margin_are_no_support():
    problem = toy_problem(2, n_rows=60, C=10.0)
    work = at_work(problem)
    found = InteriorPoint(work, problem.norm, pairs_at_work(work)).solve(1e-3)
    support = np.any(found.coef != 0.0, axis=1)
    exact = np.any(
        np.abs(Auto(tol=1e-8, random_state=0).solve(problem).model.coef) > 1e-6, axis=1
    )
    assert support.sum() <= exact.sum() + 3


@pytest.mark.parametrize("p", [1.0, 1.01, 1.5])
def test_kernels_of_any_scale_are_certified(p):
    problem = scaled_problem([1e6, 1.0], p, C=100.0)
    result = Auto(tol=1e-4, random_state=0).solve(problem)
    assert result.converged
    assert problem.duality_gap(result.model, result.dual_coef) <= (
        1.01e-4 * result.objective
    )
    assert result.objective == pytest.approx(optimum_of(problem), rel=1e-3)


def test_the_pairs_near_the_margin_do_where_all_are_too_many(monkeypatch):
    problem = scaled_problem([1e4, 1.0, 1e-2], 1.02, 1e3, n_rows=60, n_classes=4)
    monkeypatch.setattr(interior, "MAX_PAIRS", 150)
    whole = []
    original = interior.Pairs.__init__

    def noted(self, chosen, target):
        original(self, chosen, target)
        whole.append(len(self.row))

    monkeypatch.setattr(interior.Pairs, "__init__", noted)
    result = DualAscent(tol=1e-5, random_state=0).solve(problem)
    assert result.converged and whole and max(whole) <= 150


def test_certified_objectives_are_those_of_the_kernels():
    """A kernel combined in float32 must not flatter the model that is returned."""
    X, target = blobs(40, 2, 3)
    stack = kernel_stack(X, 3, 3).astype(np.float32)
    problem = make_problem(stack, target, 1.1, 1e6)
    result = DualAscent(tol=1e-9, max_iter=3, random_state=0).solve(problem)
    exact = problem.objective(result.model)
    assert exact <= result.objective * (1 + 1e-8)
