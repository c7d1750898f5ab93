"""The loss of censored times: numeric slopes, and what it is with events only."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manykernels.losses import CensoredEpsilonInsensitive, EpsilonInsensitive


def draw(seed: int, n_rows: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    target = np.column_stack([rng.normal(size=n_rows), rng.integers(2, size=n_rows)])
    return 2.0 * rng.normal(size=(n_rows, 1)), target


@pytest.mark.parametrize("epsilon", [0.0, 0.4])
@given(seed=st.integers(0, 10_000))
def test_the_gradient_is_the_numeric_one_off_the_kinks(epsilon, seed) -> None:
    loss, (scores, target) = CensoredEpsilonInsensitive(epsilon), draw(seed)
    distance = np.abs(np.abs(scores[:, 0] - target[:, 0]) - epsilon)
    ahead, behind = (loss.value(scores + h, target) for h in (1e-6, -1e-6))
    smooth = distance > 1e-5
    numeric = (ahead - behind) / 2e-6
    np.testing.assert_allclose(
        loss.gradient(scores, target)[smooth, 0], numeric[smooth], atol=1e-6
    )


@given(seed=st.integers(0, 10_000))
def test_the_gradient_is_a_subgradient_everywhere(seed) -> None:
    loss, (scores, target) = CensoredEpsilonInsensitive(0.25), draw(seed)
    scores[::3] = target[::3, :1] + 0.25  # on a kink
    scores[1::3] = target[1::3, :1] - 0.25
    other = draw(seed + 1)[0]
    plane = loss.value(scores, target) + np.sum(
        loss.gradient(scores, target) * (other - scores), axis=1
    )
    assert np.all(loss.value(other, target) >= plane - 1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_events_only_are_the_epsilon_insensitive_loss_to_the_bit(epsilon) -> None:
    ours, plain = CensoredEpsilonInsensitive(epsilon), EpsilonInsensitive(epsilon)
    scores, target = draw(0)
    target[:, 1] = 1.0
    values = target[:, :1]
    dual = 2.0 * np.random.default_rng(1).normal(size=scores.shape)
    for method in ("value", "gradient"):
        found, expected = (
            getattr(loss, method)(scores, t)
            for loss, t in ((ours, target), (plain, values))
        )
        np.testing.assert_array_equal(found, expected)
    for method in ("conjugate", "make_feasible", "feasible_scale"):
        found, expected = (
            getattr(loss, method)(dual, t)
            for loss, t in ((ours, target), (plain, values))
        )
        np.testing.assert_array_equal(found, expected)
    assert ours.residual_dual == plain.residual_dual


def test_censored_rows_have_one_side() -> None:
    loss, target = CensoredEpsilonInsensitive(0.5), np.array([[1.0, 0.0]])
    for score, cost in ((-1.0, 1.5), (0.4, 0.1), (0.6, 0.0), (9.0, 0.0)):
        assert loss.value(np.array([[score]]), target)[0] == pytest.approx(cost)
    assert np.isinf(loss.conjugate(np.array([[-0.1]]), target)[0])
    assert loss.feasible_scale(np.array([[-0.1]]), target) == 0.0
    assert loss.make_feasible(np.array([[-0.1]]), target)[0, 0] == 0.0
    rows = loss.residual_rows(target)
    assert rows.one_sided.all() and rows.values.tolist() == [[1.0]]
