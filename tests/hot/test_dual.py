"""Dual ascent on one kernel: every row step is exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar

from manykernels.hot.dual import (
    _same_level,
    _water_level,
    add_products,
    best_multiple,
    dual_sweeps,
    frozen_values,
    gather_square,
    shuffled,
)
from manykernels.losses import MulticlassHinge
from tests.oracles.naive import hinge
from tests.oracles.toys import blobs, kernel_stack


def machine(seed: int, n_rows: int = 16, n_classes: int = 3):
    X, target = blobs(n_rows, n_classes, seed)
    gram = np.ascontiguousarray(kernel_stack(X, 4, seed).sum(axis=1))
    bound = np.random.default_rng(seed).uniform(0.2, 2.0, n_rows)
    return gram, target, bound


def dual_value(gram: np.ndarray, target: np.ndarray, coef: np.ndarray) -> float:
    own = coef[np.arange(len(target)), target].sum()
    return float(own - 0.5 * np.trace(coef.T @ gram @ coef))


def random_feasible(
    rng: np.random.Generator, target: np.ndarray, bound: np.ndarray, n_classes: int
) -> np.ndarray:
    draw = rng.normal(size=(len(target), n_classes))
    return MulticlassHinge().make_feasible(draw, target) * bound[:, None]


@given(
    excess=arrays(np.float64, st.integers(2, 6), elements=st.floats(-5.0, 5.0)),
    total=st.floats(1e-3, 10.0),
)
def test_water_level_solves_its_equation(excess: np.ndarray, total: float) -> None:
    level = _water_level(excess, total)
    filled = np.minimum(0.0, excess - level).sum()
    assert filled == pytest.approx(-total, rel=1e-9, abs=1e-9)


@given(
    excess=arrays(np.float64, 4, elements=st.floats(-5.0, 5.0)),
    off=arrays(np.bool_, 4),
    total=st.floats(1e-3, 5.0),
)
def test_a_level_that_is_confirmed_is_the_level(
    excess: np.ndarray, off: np.ndarray, total: float
) -> None:
    upper = np.array([0.0, 0.0, total, 0.0])
    same, level = _same_level(excess, np.where(off, upper - 0.1, upper), 2, total)
    expected = _water_level(excess, total)
    if same:
        assert level == pytest.approx(expected, abs=1e-12)
    if np.array_equal(off, excess < expected - 1e-9):
        assert same or np.any(np.abs(excess - expected) < 1e-9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_step_is_the_best_for_its_row(seed: int, n_classes: int) -> None:
    gram, target, bound = machine(seed, n_classes=n_classes)
    rng = np.random.default_rng(seed)
    coef = random_feasible(rng, target, bound, n_classes)
    for row in rng.permutation(16)[:6]:
        scores = np.ascontiguousarray((gram @ coef).T)
        order = np.array([[row]])
        dual_sweeps(gram, target, bound, coef, scores, scores * 0.0, order, 0.0)
        best = dual_value(gram, target, coef)
        for _ in range(60):
            other = coef.copy()
            # Any feasible row, and points on the way to it.
            goal = random_feasible(rng, target, bound, n_classes)[row]
            other[row] += rng.choice([1.0, 0.1, 0.01]) * (goal - coef[row])
            assert dual_value(gram, target, other) <= best + 1e-10


@pytest.mark.parametrize("drift_type", [np.float32, np.float64])
def test_sweeps_rise_stay_feasible_and_track_the_scores(drift_type: type) -> None:
    gram, target, bound = machine(5)
    gram = gram.astype(drift_type)
    coef = np.zeros((16, 3))
    scores = np.zeros((3, 16))
    drift = np.zeros((3, 16), drift_type)
    values = [0.0]
    for seed in range(6):
        orders = np.random.default_rng(seed).permutation(16)[None, :]
        sweeps, updates = dual_sweeps(
            gram, target, bound, coef, scores, drift, orders, 0.0
        )
        assert sweeps == 1
        values.append(dual_value(gram, target, coef))
    assert updates > 0
    assert np.all(np.diff(values) >= -1e-6)
    assert values[1] > 0.0
    conjugate = MulticlassHinge().conjugate(coef / bound[:, None], target)
    assert np.all(np.isfinite(conjugate))
    close = 1e-12 if drift_type == np.float64 else 1e-4
    assert np.allclose(scores + drift, (gram @ coef).T, atol=close)
    assert not scores.any()


@pytest.mark.parametrize("seed", range(3))
def test_values_are_the_formulas(seed: int) -> None:
    gram, target, bound = machine(seed)
    rng = np.random.default_rng(seed)
    coef = random_feasible(rng, target, bound, 3)
    exact = (gram @ coef).T
    scores = rng.normal(size=exact.shape)
    margins = np.full(16, np.nan)
    linear, quadratic = frozen_values(target, coef, scores, exact - scores, margins)
    losses = [hinge(exact[:, i], target[i]) for i in range(16)]
    np.testing.assert_allclose(np.maximum(1.0 - margins, 0.0), losses)
    assert linear - 0.5 * quadratic == pytest.approx(dual_value(gram, target, coef))
    assert quadratic == pytest.approx(float(np.trace(coef.T @ gram @ coef)))


@pytest.mark.parametrize("seed", range(8))
def test_no_multiple_of_the_model_is_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    margins, bound = rng.normal(1.0, 0.5, 30), rng.uniform(0.1, 2.0, 30)
    quadratic = 10.0 ** rng.uniform(-1.0, 3.0)

    def value(t: float) -> float:
        return 0.5 * t**2 * quadratic + bound @ np.maximum(1.0 - t * margins, 0.0)

    stretch, least = best_multiple(margins, bound, quadratic, 0.0)
    best = minimize_scalar(
        value, bounds=(0.0, 2.0), method="bounded", options={"xatol": 1e-12}
    )
    assert least == pytest.approx(value(stretch), rel=1e-12)
    assert least <= best.fun * (1.0 + 1e-9)
    assert least == pytest.approx(best.fun, rel=1e-6)


def test_sweeps_stop_at_the_goal() -> None:
    gram, target, bound = machine(6)
    coef, scores = np.zeros((16, 3)), np.zeros((3, 16))
    orders = np.stack([np.random.default_rng(s).permutation(16) for s in range(500)])
    drift = np.zeros((3, 16))
    sweeps, _ = dual_sweeps(gram, target, bound, coef, scores, drift, orders, 1e-3)
    assert 1 < sweeps < 500
    margins = np.empty(16)
    linear, quadratic = frozen_values(target, coef, scores, drift, margins)
    _, primal = best_multiple(margins, bound, quadratic, 0.0)
    assert primal - (linear - 0.5 * quadratic) <= 1e-3 * primal


def test_a_row_without_curvature_takes_its_bound() -> None:
    gram, target, bound = machine(7)
    gram[4] = gram[:, 4] = 0.0
    coef, scores = np.zeros((16, 3)), np.zeros((3, 16))
    order = np.array([[4]])
    dual_sweeps(gram, target, bound, coef, scores, scores.copy(), order, 0.0)
    assert coef[4, target[4]] == bound[4]
    assert coef[4].sum() == 0.0
    assert not np.delete(coef, 4, axis=0).any()


def test_gather_square() -> None:
    gram, _, _ = machine(8)
    index = np.array([3, 0, 9])
    places = np.array([2, 5, 4])  # where these rows lie
    values = np.full((6, 16), np.nan)
    values[places] = gram[index]
    out = np.full((3, 3), np.nan)
    gather_square(values, places, index, out, 0, 2)
    assert np.array_equal(out[:2], gram[np.ix_(index, index)][:2])
    assert np.all(np.isnan(out[2]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_added_to_the_columns_of_a_slice(dtype: type) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(7, 5000)).astype(dtype)
    coef = rng.normal(size=(7, 3)) * (rng.random((7, 3)) < 0.5)
    out = np.ones((3, 5000))
    places = np.array([6, 0, 3])
    add_products(values, places, coef[:3], out, 5, 4990)
    expected = np.ones((3, 5000))
    used = values[places, 5:4990].astype(np.float64)
    expected[:, 5:4990] += coef[:3].T @ used
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


def test_shuffled_gives_every_order_as_often() -> None:
    draws = np.random.default_rng(0).integers(2**32, size=(12_000, 3), dtype=np.uint32)
    orders = shuffled(draws)
    assert np.array_equal(np.sort(orders, axis=1), np.tile(np.arange(3), (12_000, 1)))
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 6
    assert np.all(np.abs(counts - 2_000) < 200)  # five standard deviations
