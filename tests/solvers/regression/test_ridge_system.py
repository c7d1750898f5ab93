"""Exact solves of the squared loss on a device equal those of the processor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from manykernels.banks import build_bank
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from manykernels.losses import Squared
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Problem
from manykernels.solvers.regression.ridge import Ridge, held_out_residuals
from manykernels.solvers.regression.ridge_system import (
    DeviceRidgeSystem,
    ridge_system,
    solve_exactly,
)
from tests.device.devices import every_device


@pytest.fixture(params=every_device())
def device(request):
    return request.param()


def problem(device=None, dtype="float64"):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    kernels = KernelSet.fit(as_kernels("rbf; linear; rbf:gamma=0.1"), X, dtype=dtype)
    target = X[:, :2] + 0.2 * rng.normal(size=(60, 2))
    bank = build_bank(kernels, device=device)
    weight = rng.uniform(0.5, 2.0, 60)
    return Problem(bank, target, 2, Squared(), LpGroupNorm(1.2), 3.0, weight)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_same_model_and_certificate(device, dtype, monkeypatch):
    here, there = problem(dtype=dtype), problem(device, dtype)
    monkeypatch.setattr(type(there.bank), "combine", None)  # nothing travels
    found = Ridge(tol=1e-6).solve(there)
    expected = Ridge(tol=1e-6).solve(here)
    assert found.converged and found.objective == pytest.approx(expected.objective)
    np.testing.assert_allclose(found.model.weights, expected.model.weights, atol=1e-3)
    assert here.duality_gap(found.model) <= 1e-5 * found.objective


def test_outputs_in_parts(device):
    one, weights = problem(device), np.array([0.5, 0.3, 0.4])
    there = replace(one, target=np.tile(one.target, 5), n_outputs=10)
    whole = solve_exactly(there, weights)
    there.bank.on_device().room = 90_000  # the products of seven outputs
    assert isinstance(ridge_system(there, weights), DeviceRidgeSystem)
    parts = solve_exactly(there, weights)
    np.testing.assert_allclose(parts.squares, whole.squares, rtol=1e-10)
    np.testing.assert_allclose(parts.curvature, whole.curvature, rtol=1e-8)


def test_leave_one_out(device):
    weights = np.array([0.5, 0.3, 0.4])
    both = [
        held_out_residuals(one, weights, True) for one in (problem(), problem(device))
    ]
    np.testing.assert_allclose(*both, rtol=1e-6, atol=1e-8)


def test_indefinite_kernels_are_unmasked(device):
    bent = np.array([[1.0, 3.0], [3.0, 1.0]])
    kernels = KernelSet.fit(
        as_kernels("precomputed"), bent, dtype="float64", psd="skip"
    )
    bank = build_bank(kernels, device=device)
    one = replace(problem(), bank=bank, target=np.ones((2, 1)), n_outputs=1)
    one = replace(one, sample_weight=np.ones(2))
    with pytest.raises(ValueError, match="positive semi-definite to solve the squared"):
        solve_exactly(one, np.ones(1))
