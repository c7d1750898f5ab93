"""What every loss promises: numeric gradient, Fenchel's inequality, smoothness."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from manykernels.losses import (
    CensoredEpsilonInsensitive,
    EpsilonInsensitive,
    Huber,
    Loss,
    MulticlassHinge,
    SmoothedHinge,
    Softmax,
    Squared,
    SquaredHinge,
)

CLASSIFYING = [
    MulticlassHinge(),
    Softmax(),
    SmoothedHinge(0.5),
    SmoothedHinge(2.0),
    SquaredHinge(),
]
FITTING = [Squared(), Huber(0.7), EpsilonInsensitive(0.3), EpsilonInsensitive(0.0)]
CENSORED = [CensoredEpsilonInsensitive(0.3), CensoredEpsilonInsensitive(0.0)]
LOSSES = CLASSIFYING + FITTING + CENSORED
SMOOTH = [loss for loss in LOSSES if loss.smoothness is not None]
seeds = st.integers(0, 10_000)


def name(loss: Loss) -> str:
    return loss.name


each_loss = pytest.mark.parametrize("loss", LOSSES, ids=name)
each_smooth_loss = pytest.mark.parametrize("loss", SMOOTH, ids=name)


def draw(loss: Loss, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and targets of a few rows."""
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(1, 5)), int(rng.integers(2, 5))
    scores = rng.normal(size=shape) * rng.choice([0.3, 1.0, 5.0])
    if loss in FITTING:
        return scores, rng.normal(size=shape)
    if loss in CENSORED:
        events = rng.integers(2, size=shape[0])
        return scores[:, :1], np.column_stack([rng.normal(size=shape[0]), events])
    return scores, rng.integers(shape[1], size=shape[0])


@each_smooth_loss
@given(seed=seeds)
def test_gradient_is_the_numeric_one(loss: Loss, seed: int) -> None:
    scores, target = draw(loss, seed)
    gradient = loss.gradient(scores, target)
    for k in range(scores.shape[1]):
        step = np.zeros_like(scores)
        step[:, k] = 1e-5
        ahead = loss.value(scores + step, target)
        behind = loss.value(scores - step, target)
        assert np.allclose(gradient[:, k], (ahead - behind) / 2e-5, atol=2e-5)


@each_smooth_loss
@given(seed=seeds)
def test_gradient_is_lipschitz_with_the_stated_constant(loss: Loss, seed: int) -> None:
    scores, target = draw(loss, seed)
    rng = np.random.default_rng(seed + 1)
    other = scores + rng.normal(size=scores.shape) * rng.choice([1e-3, 0.1, 3.0])
    change = loss.gradient(other, target) - loss.gradient(scores, target)
    distance = np.linalg.norm(other - scores, axis=1)
    assert np.all(
        np.linalg.norm(change, axis=1) <= loss.smoothness * distance * (1 + 1e-9)
    )


@each_smooth_loss
def test_no_smaller_constant_would_do(loss: Loss) -> None:
    ratios = []
    for seed in range(300):
        scores, target = draw(loss, seed)
        rng = np.random.default_rng(seed)
        other = scores + 1e-4 * rng.normal(size=scores.shape)
        change = loss.gradient(other, target) - loss.gradient(scores, target)
        distance = np.linalg.norm(other - scores, axis=1)
        ratios.append(np.max(np.linalg.norm(change, axis=1) / distance))
    assert max(ratios) > 0.6 * loss.smoothness


@each_loss
@given(seed=seeds)
def test_fenchels_inequality_and_where_it_is_tight(loss: Loss, seed: int) -> None:
    scores, target = draw(loss, seed)
    rng = np.random.default_rng(seed + 1)
    dual = loss.make_feasible(rng.normal(size=scores.shape), target)
    bound = loss.value(scores, target) + loss.conjugate(dual, target)
    assert np.all(np.isfinite(bound))
    assert np.all(bound >= -np.sum(scores * dual, axis=1) - 1e-9)
    tight = -loss.gradient(scores, target)
    total = loss.value(scores, target) + loss.conjugate(tight, target)
    assert np.allclose(total, -np.sum(scores * tight, axis=1), atol=1e-9)


@each_loss
def test_the_conjugate_is_the_supremum(loss: Loss) -> None:
    for seed in range(3):
        scores, target = draw(loss, seed)
        rng = np.random.default_rng(seed + 1)
        dual = 0.8 * loss.make_feasible(rng.normal(size=scores.shape), target)
        for i in range(len(scores)):
            one = target[i : i + 1]

            def lacking(s, i=i, one=one, dual=dual) -> float:
                return float(dual[i] @ s + loss.value(s[None], one)[0])

            start = rng.normal(size=scores.shape[1])
            found = minimize(lacking, start, method="Powell")
            best = minimize(lacking, found.x, method="Nelder-Mead").fun
            value = loss.conjugate(dual[i : i + 1], one)[0]
            assert value == pytest.approx(-best, abs=2e-3)


@each_loss
@given(seed=seeds)
def test_feasible_points_stay_and_others_are_told(loss: Loss, seed: int) -> None:
    scores, target = draw(loss, seed)
    dual = -loss.gradient(scores, target)
    assert np.allclose(loss.make_feasible(dual, target), dual, atol=1e-12)
    limit = loss.feasible_scale(dual, target)
    if np.any(dual) and np.isfinite(limit):
        assert limit >= 1.0 - 1e-9
        assert np.all(np.isfinite(loss.conjugate(0.999 * limit * dual, target)))
        assert np.any(np.isinf(loss.conjugate(1.01 * limit * dual, target)))


@each_loss
def test_linear_duals_are_linear_and_others_are_not(loss: Loss) -> None:
    scores, target = draw(loss, 3)
    dual = loss.make_feasible(
        np.random.default_rng(0).normal(size=scores.shape), target
    )
    half = loss.conjugate(0.5 * dual, target) - loss.conjugate(0.0 * dual, target)
    whole = loss.conjugate(dual, target) - loss.conjugate(0.0 * dual, target)
    assert np.allclose(2.0 * half, whole) == loss.linear_dual


def test_smoothing_costs_at_most_its_width() -> None:
    rng = np.random.default_rng(1)
    scores, target = 3.0 * rng.normal(size=(200, 4)), rng.integers(4, size=200)
    hinge = MulticlassHinge().value(scores, target)
    smooth = SmoothedHinge(0.3).value(scores, target)
    assert np.all(smooth <= hinge + 1e-12)
    assert np.all(smooth >= hinge - 0.3 - 1e-12)
    assert np.allclose(smooth[hinge == 0.0], 0.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SmoothedHinge(0.0),
        lambda: Huber(-1.0),
        EpsilonInsensitive,
        CensoredEpsilonInsensitive,
    ],
)
def test_bad_settings_are_refused(make) -> None:
    if make in (EpsilonInsensitive, CensoredEpsilonInsensitive):
        with pytest.raises(ValueError, match="epsilon must be"):
            make(-0.1)
    else:
        with pytest.raises(ValueError, match="positive number"):
            make()
