"""What is compiled for CUDA equals the plain code beside it."""

from __future__ import annotations

import gc
from importlib import import_module

import numpy as np
import pytest

from manykernels.device import Device
from manykernels.device.base import Curve
from manykernels.hot.dual import frozen_values
from tests.device.devices import DEVICES, require_torch


@pytest.fixture
def cuda():
    require_torch()
    return DEVICES["cuda"]()


def test_curves_in_one_pass_equal_one_by_one(cuda):
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 70, 5))[:, :, :]
    right = right[:41]
    curves = [Curve(0.7, 0), Curve(1.0, 1), Curve(0.2, 2), Curve(0.3, 5)]
    terms = [
        [(-rng.uniform(size=len(side)), rng.uniform(size=len(side))) for _ in curves]
        for side in (left, right)
    ]
    plain = Device("NumPy", np)
    results = [
        device.get(
            device.add_curves(
                device.put(np.ones((70, 41)), np.float32),
                device.put(left @ right.T, np.float32),
                curves,
                *(
                    [tuple(device.put(x, np.float32) for x in pair) for pair in side]
                    for side in terms
                ),
            )
        )
        for device in (cuda, plain)
    ]
    np.testing.assert_allclose(*results, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("n_outputs", [2, 3, 10, 17, 40])
def test_blocks_reach_the_gap_that_they_promise(cuda, n_outputs):
    rng = np.random.default_rng(1)
    n_rows = 1500
    X = rng.normal(size=(n_rows, 20))
    target = np.argmax(X @ rng.normal(size=(20, n_outputs)), axis=1)
    bound = rng.uniform(0.5, 2.0, n_rows)
    gram = np.exp(-0.05 * np.square(X[:, None] - X[None]).sum(axis=2))
    matrix = cuda.put(gram, np.float32)
    blocks = cuda.hinge_blocks(matrix, target, bound, n_outputs)
    assert blocks is not None
    coef, scores = np.zeros((n_rows, n_outputs)), np.zeros((n_outputs, n_rows))
    steps = blocks.blocks(coef, scores, 1e-3)
    assert steps > 0
    # Feasible, and the gap is what was asked for, in float64.
    assert np.abs(coef.sum(axis=1)).max() < 1e-12
    own = np.zeros_like(coef)
    own[np.arange(n_rows), target] = bound
    assert np.all(coef <= own * (1.0 + 1e-15))
    scores = np.ascontiguousarray((gram @ coef).T)
    margins = np.empty(n_rows)
    linear, quadratic = frozen_values(
        target, coef, scores, np.zeros_like(scores), margins
    )
    stretches = np.linspace(0.9, 1.2, 61)
    primal = min(
        0.5 * t * t * quadratic + bound @ np.maximum(0.0, 1.0 - t * margins)
        for t in stretches
    )
    assert primal - linear + 0.5 * quadratic <= 1.1e-3 * primal


def test_no_garbage_is_collected_and_later_it_is_again():
    require_torch()
    no_collection = import_module("manykernels.device.cuda").no_collection
    assert gc.isenabled()
    with pytest.raises(ValueError, match="inside"), no_collection():
        assert not gc.isenabled()
        raise ValueError("inside")
    assert gc.isenabled()
    gc.disable()
    try:
        with no_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
