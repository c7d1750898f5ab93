"""Losses on a device give the numbers that NumPy's give."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.losses import Huber, Loss, SmoothedHinge, Softmax, Squared
from manykernels.losses.classification import SquaredHinge
from tests.device.devices import every_device

LABELS = [Softmax(), SmoothedHinge(0.3), SquaredHinge()]
VALUES = [Squared(), Huber(0.7)]


@pytest.fixture(params=every_device())
def device(request):
    return request.param()


def data(loss: Loss, n_rows: int = 40, n_outputs: int = 4):
    rng = np.random.default_rng(0)
    scores = 3.0 * rng.normal(size=(n_rows, n_outputs))
    target = rng.integers(n_outputs, size=n_rows)
    if loss in VALUES:
        target = rng.normal(size=(n_rows, n_outputs))
    return scores, target


@pytest.mark.parametrize("loss", LABELS + VALUES, ids=lambda loss: loss.name)
def test_equal_to_the_same_loss_in_numpy(device, loss):
    scores, target = data(loss)
    s, y = device.put(scores), device.put(target)

    def check(found, expected):
        assert type(found) is type(s)
        np.testing.assert_allclose(device.get(found), expected, atol=1e-12)

    check(loss.value(s, y), loss.value(scores, target))
    dual = -loss.gradient(scores, target)
    check(loss.gradient(s, y), -dual)
    directions = np.random.default_rng(1).normal(size=(3, *scores.shape))
    bent = loss.curvature(s, y)(device.put(directions))
    check(bent, loss.curvature(scores, target)(directions))
    for scale in (0.5, 1.0, 1.5, -1.0):  # the last two may be infeasible
        point = scale * dual
        u = device.put(point)
        check(loss.conjugate(u, y), loss.conjugate(point, target))
        found, expected = (
            loss.feasible_scale(u, y),
            loss.feasible_scale(point, target),
        )
        assert found == pytest.approx(expected)
