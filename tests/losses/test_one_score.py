"""Losses of one score: derivatives, conjugates, and the two-output losses they are."""

import numpy as np
import pytest

from manykernels import losses
from manykernels.losses.one_score import BinarySmoothedHinge, Logistic, SquaredError

LOSSES = [SquaredError(), Logistic(), BinarySmoothedHinge(0.5)]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_derivatives_and_conjugate(loss):
    scores = np.linspace(-3.0, 3.0, 41) + 0.003
    target = np.where(np.arange(41) % 2, 1.0, -1.0)
    step = 1e-6
    slope = (loss.value(scores + step, target) - loss.value(scores - step, target)) / (
        2 * step
    )
    np.testing.assert_allclose(loss.gradient(scores, target), slope, atol=1e-6)
    change = loss.gradient(scores + step, target) - loss.gradient(scores - step, target)
    np.testing.assert_allclose(
        loss.curvature(scores, target), change / (2 * step), atol=1e-4
    )
    dual = -loss.gradient(scores, target)
    meet = loss.value(scores, target) + loss.conjugate(dual, target) + scores * dual
    np.testing.assert_allclose(meet, 0.0, atol=1e-12)
    other = 0.5 * dual
    young = loss.value(scores, target) + loss.conjugate(other, target) + scores * other
    assert np.all(young >= -1e-12)


def test_conjugates_are_infinite_outside():
    for loss in (Logistic(), BinarySmoothedHinge()):
        outside = loss.conjugate(np.array([1.1, -0.1]), np.ones(2))
        assert np.isinf(outside).all()


@pytest.mark.parametrize(
    ("loss", "several"),
    [
        (Logistic(), losses.Softmax()),
        (BinarySmoothedHinge(0.5), losses.SmoothedHinge(0.25)),
        (BinarySmoothedHinge(1.2), losses.SmoothedHinge(0.6)),
    ],
    ids=lambda loss: loss.name,
)
def test_they_are_those_of_two_outputs_with_scores_0_and_s(loss, several):
    scores = np.linspace(-3.0, 3.0, 41)
    target = np.where(np.arange(41) % 3, 1.0, -1.0)
    both, label = np.column_stack([0.0 * scores, scores]), (target > 0).astype(int)
    np.testing.assert_allclose(
        loss.value(scores, target), several.value(both, label), atol=1e-12
    )
    gradient = several.gradient(both, label)
    np.testing.assert_allclose(
        loss.gradient(scores, target), gradient[:, 1], atol=1e-12
    )
    np.testing.assert_allclose(
        loss.conjugate(-gradient[:, 1], target),
        several.conjugate(-gradient, label),
        atol=1e-8,
    )


def test_squared_errors_are_those_of_one_column():
    scores, target = np.linspace(-3.0, 3.0, 7), np.arange(7.0)
    one, several = SquaredError(), losses.Squared()
    column, goal = scores[:, None], target[:, None]
    np.testing.assert_allclose(one.value(scores, target), several.value(column, goal))
    np.testing.assert_allclose(
        one.conjugate(scores, target), several.conjugate(column, goal)
    )


def test_the_deviance_counts_a_perfect_fit_as_rounding():
    target = np.array([1.0, 2.0, 4.0])
    assert np.isfinite(SquaredError().deviance(target, target))
    close = SquaredError().deviance(target + 1e-3, target)
    assert close == pytest.approx(3 * np.log(1e-6))
    labels = np.array([1.0, -1.0])
    assert Logistic().deviance(np.zeros(2), labels) == pytest.approx(4 * np.log(2))
