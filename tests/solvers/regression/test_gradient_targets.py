"""Targets with weights of their own on a device: each as if it were solved alone."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.banks import build_bank
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from manykernels.losses import Squared
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Problem
from manykernels.solvers.regression import ridge
from manykernels.solvers.regression.gradient_targets import GradientTargets
from manykernels.solvers.regression.many_targets import solve_targets
from manykernels.solvers.regression.ridge import Ridge
from manykernels.solvers.regression.ridge_targets import one_target
from tests.device.devices import every_device

KERNELS = "rbf:gamma=0.05; linear@0-1; linear@2-4; rbf@2-4"


@pytest.fixture(params=every_device())
def device(request):
    return request.param()


def problem(device=None, p=1.2, dtype="float64", n=120):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    mixing = rng.normal(size=(5, 6)) * rng.uniform(size=(5, 6)) ** 2
    target = X @ mixing + 0.3 * rng.normal(size=(n, 6))
    kernels = KernelSet.fit(as_kernels(KERNELS), X, dtype=dtype)
    bank = build_bank(kernels, dtype, device=device)
    weight = rng.uniform(0.5, 2.0, n)
    return Problem(bank, target, 6, Squared(), LpGroupNorm(p), 2.0, weight)


@pytest.mark.parametrize(
    ("p", "dtype"), [(1.0, "float64"), (1.2, "float32"), (2.0, "float64")]
)
def test_every_target_is_certified_as_if_alone(device, p, dtype):
    here, there = problem(p=p), problem(device, p, dtype)
    results = solve_targets(there, Ridge(tol=1e-3))
    for k, (found, expected) in enumerate(
        zip(results, solve_targets(here, Ridge(tol=1e-6)), strict=True)
    ):
        alone = one_target(here, k)
        assert found.converged
        assert found.objective == pytest.approx(expected.objective, rel=2e-3)
        # The certificate holds for float64 kernels in the processor's memory, too.
        assert found.objective == pytest.approx(alone.objective(found.model), rel=1e-5)
        gap = alone.duality_gap(found.model, found.dual_coef)
        assert gap <= 1.1e-3 * found.objective


def test_a_sample_gives_weights_and_second_derivatives(device, monkeypatch):
    monkeypatch.setattr(ridge, "MIN_START_ROWS", 20)
    asked = []
    init = GradientTargets.__init__

    def noted(self, part, weights, curvature, *rest):
        asked.append((part.n_rows, curvature is not None))
        init(self, part, weights, curvature, *rest)

    monkeypatch.setattr(GradientTargets, "__init__", noted)
    results = solve_targets(problem(device), Ridge(tol=1e-4, random_state=0))
    assert all(result.converged for result in results)
    assert asked == [(30, False), (120, True)]


def test_targets_in_parts_that_keep_to_the_memory(device, monkeypatch):
    there = problem(device)
    whole = solve_targets(there, Ridge(tol=1e-3))
    there.bank.on_device().room = 8 * 120 * 28 * 4
    parts = solve_targets(there, Ridge(tol=1e-3))
    for one, other in zip(whole, parts, strict=True):
        assert one.converged and other.converged
        assert one.objective == pytest.approx(other.objective, rel=1e-3)


def test_the_callback_stops_all_of_them(device):
    results = solve_targets(problem(device), Ridge(tol=0.0), callback=lambda line: True)
    assert all(len(result.history) <= 1 for result in results)
