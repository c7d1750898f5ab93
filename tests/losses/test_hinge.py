"""The multiclass hinge loss and its conjugate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from manykernels.losses import MulticlassHinge
from manykernels.losses.classification import margins
from tests.oracles.naive import hinge

loss = MulticlassHinge()
shapes = st.tuples(st.integers(1, 5), st.integers(2, 5))
tables = shapes.flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-5.0, 5.0))
)


def targets(table: np.ndarray, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, table.shape[1], len(table))


seeds = st.integers(0, 1000)


@given(scores=tables, seed=seeds)
def test_value_is_the_formula(scores: np.ndarray, seed: int) -> None:
    target = targets(scores, seed)
    expected = [hinge(row, own) for row, own in zip(scores, target, strict=True)]
    assert np.allclose(loss.value(scores, target), expected)
    before = scores.copy()
    assert np.allclose(np.maximum(1.0 - margins(scores, target), 0.0), expected)
    assert np.array_equal(before, scores)


@given(scores=tables, seed=seeds)
def test_gradient_is_the_numeric_one_away_from_kinks(
    scores: np.ndarray, seed: int
) -> None:
    target = targets(scores, seed)
    rivals = scores.copy()
    rivals[np.arange(len(target)), target] = -np.inf
    best_two = np.sort(rivals, axis=1)[:, -2:]
    assume(np.all(best_two[:, 1] - best_two[:, 0] > 1e-3))
    assume(np.all(np.abs(margins(scores, target) - 1.0) > 1e-3))
    gradient = loss.gradient(scores, target)
    for k in range(scores.shape[1]):
        step = np.zeros_like(scores)
        step[:, k] = 1e-4
        ahead = loss.value(scores + step, target)
        behind = loss.value(scores - step, target)
        assert np.allclose(gradient[:, k], (ahead - behind) / 2e-4, atol=1e-6)


@given(scores=tables, seed=seeds)
def test_gradient_is_a_subgradient_everywhere(scores: np.ndarray, seed: int) -> None:
    target = targets(scores, seed)
    gradient = loss.gradient(scores, target)
    other = np.random.default_rng(seed).normal(scale=3.0, size=scores.shape)
    linear = loss.value(scores, target) + np.sum(gradient * (other - scores), axis=1)
    assert np.all(loss.value(other, target) >= linear - 1e-9)


@given(dual=tables, seed=seeds)
def test_make_feasible_is_feasible_and_idempotent(dual: np.ndarray, seed: int) -> None:
    target = targets(dual, seed)
    before = dual.copy()
    feasible = loss.make_feasible(dual, target)
    assert np.array_equal(before, dual)
    rows = np.arange(len(target))
    own = feasible[rows, target]
    wrong = feasible.copy()
    wrong[rows, target] = 0.0
    assert np.all(wrong <= 0.0)
    assert np.all(own <= 1.0 + 1e-12)
    assert np.allclose(feasible.sum(axis=1), 0.0)
    assert np.allclose(loss.conjugate(feasible, target), -own)
    assert np.allclose(loss.make_feasible(feasible, target), feasible)


@given(dual=tables, seed=seeds)
def test_infeasible_points_cost_infinity(dual: np.ndarray, seed: int) -> None:
    target = targets(dual, seed)
    feasible = loss.make_feasible(dual, target)
    rows = np.arange(len(target))
    wrong = (target + 1) % dual.shape[1]
    unbalanced, too_long, positive = feasible.copy(), feasible.copy(), feasible.copy()
    unbalanced[rows, target] -= 0.1
    too_long[rows, target] = 1.1
    too_long[rows, wrong] -= 1.1 - feasible[rows, target]
    positive[rows, target] -= 0.1 - feasible[rows, wrong]
    positive[rows, wrong] = 0.1
    for point in (unbalanced, too_long, positive):
        assert np.all(np.isinf(loss.conjugate(point, target)))


@given(dual=tables, seed=seeds, factor=st.floats(0.1, 50.0))
def test_feasible_scale_is_the_longest(
    dual: np.ndarray, seed: int, factor: float
) -> None:
    target = targets(dual, seed)
    feasible = loss.make_feasible(dual, target)
    assume(feasible[np.arange(len(target)), target].max() > 1e-3)
    point = factor * feasible
    scale = loss.feasible_scale(point, target)
    assert np.all(np.isfinite(loss.conjugate(scale * point, target)))
    assert np.any(np.isinf(loss.conjugate(1.01 * scale * point, target)))


def test_nothing_scales_a_wrong_sign() -> None:
    target = np.array([0])
    assert loss.feasible_scale(np.array([[-1.0, 1.0]]), target) == 0.0
    assert loss.feasible_scale(np.array([[1.0, -0.5]]), target) == 0.0
    assert loss.feasible_scale(np.zeros((1, 2)), target) == 0.0
    assert loss.feasible_scale(np.array([[4.0, -4.0]]), target) == 0.25


def test_known_values() -> None:
    scores = np.array([[2.0, 0.0, 0.5], [0.0, 0.0, 0.0], [1.0, 3.0, 0.0]])
    target = np.array([0, 1, 0])
    assert loss.value(scores, target).tolist() == [0.0, 1.0, 3.0]
    gradient = loss.gradient(scores, target)
    assert gradient[0].tolist() == [0.0, 0.0, 0.0]
    assert gradient[1].tolist() == [1.0, -1.0, 0.0]
    assert gradient[2].tolist() == [-1.0, 1.0, 0.0]
    assert margins(scores, target).tolist() == [1.5, 0.0, -2.0]


@pytest.mark.parametrize("margin", [1.0, 1.0 + 1e-12])
def test_a_margin_of_one_is_enough(margin: float) -> None:
    scores = np.array([[margin, 0.0]])
    assert loss.value(scores, np.array([0])).tolist() == [0.0]
    assert not loss.gradient(scores, np.array([0])).any()
