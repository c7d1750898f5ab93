"""Level sets of planes: projections, and the search for weights at p = 1."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from manykernels.norms import LpGroupNorm
from manykernels.solvers import weights as level_sets
from manykernels.solvers.weights import LevelSearch, project_on_level
from tests.solvers.test_acceleration import ridge

SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_projection_is_the_nearest_point_of_the_level_set(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_blocks = 3 + seed
    point, inside = rng.dirichlet(np.ones(n_blocks), 2)
    slopes = rng.normal(size=(6, n_blocks))
    heights = -slopes @ inside - 0.01  # `inside` lies in the set
    found = project_on_level(point, slopes, heights)
    assert found is not None
    assert found.sum() == pytest.approx(1.0) and found.min() >= 0.0
    assert np.max(slopes @ found + heights) <= 1e-9
    best = minimize(
        lambda d: 0.5 * np.sum((d - point) ** 2),
        inside,
        jac=lambda d: d - point,
        bounds=[(0.0, 1.0)] * n_blocks,
        constraints=[
            {"type": "ineq", "fun": lambda d: -(slopes @ d + heights)},
            {"type": "eq", "fun": lambda d: d.sum() - 1.0},
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(found, best.x, atol=1e-5)


def test_an_empty_level_set_has_no_projection() -> None:
    point = np.array([0.5, 0.5])
    assert project_on_level(point, np.zeros((1, 2)), np.array([1.0])) is None
    assert project_on_level(np.ones(1), np.zeros((1, 1)), np.array([-1.0])) == 1.0


@pytest.mark.parametrize("seed", SEEDS)
def test_many_blocks_are_projected_to_the_same_point(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    point, inside = rng.dirichlet(np.ones(40), 2)
    slopes = rng.normal(size=(8, 40))
    heights = -slopes @ inside - 0.001
    exact = project_on_level(point, slopes, heights)
    monkeypatch.setattr(level_sets, "MANY_BLOCKS", 1)
    np.testing.assert_allclose(
        project_on_level(point, slopes, heights), exact, atol=1e-5
    )
    assert project_on_level(point, np.zeros((1, 40)), np.array([1.0])) is None


def least_of_planes(slopes: list[np.ndarray], heights: list[float]) -> float:
    """The lowest point over the simplex of the largest of some planes."""
    matrix = np.array(slopes)
    solved = linprog(
        np.append(np.zeros(matrix.shape[1]), 1.0),
        A_ub=np.column_stack([matrix, -np.ones(len(matrix))]),
        b_ub=-np.array(heights),
        A_eq=np.append(np.ones(matrix.shape[1]), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0.0, None)] * matrix.shape[1] + [(None, None)],
    )
    return float(solved.fun)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_search_finds_the_best_weights(seed: int) -> None:
    inner, norm = ridge(seed), LpGroupNorm(1.0)
    bound = SimpleNamespace(value=-np.inf)
    search = LevelSearch(norm.uniform_weights(5), bound)
    upper, slopes, heights = np.inf, [], []
    for _ in range(40):
        theta_norms, value = inner(search.weights)
        slopes.append(-0.5 * theta_norms**2)
        heights.append(value - slopes[-1] @ search.weights)
        upper, bound.value = min(upper, value), least_of_planes(slopes, heights)
        if upper - bound.value <= 1e-6 * upper:
            break
        new = search.step(theta_norms, value, value)
        assert np.all(new >= 0.0) and new.sum() == pytest.approx(1.0)
    assert upper - bound.value <= 1e-6 * upper


def test_a_stored_search_goes_on_as_if_nothing_had_happened() -> None:
    inner, norm = ridge(1), LpGroupNorm(1.0)
    bound = SimpleNamespace(value=0.0)
    search, other = (LevelSearch(norm.uniform_weights(5), bound) for _ in range(2))
    for _ in range(3):
        theta_norms, value = inner(search.weights)
        search.step(theta_norms, value, value)
    other.restore(search.state())
    theta_norms, value = inner(search.weights)
    assert np.array_equal(
        search.step(theta_norms, value, value), other.step(theta_norms, value, value)
    )
