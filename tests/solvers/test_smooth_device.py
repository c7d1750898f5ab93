"""Smooth losses on a device: the same optimum, certified in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from manykernels.banks import build_bank
from manykernels.banks.device_kernels import DeviceKernels
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from manykernels.losses import Huber, SmoothedHinge, Softmax, Squared
from manykernels.losses.classification import SquaredHinge
from manykernels.norms import LpGroupNorm
from manykernels.solvers.loop import relative_gap
from manykernels.solvers.problem import Problem
from manykernels.solvers.smooth import TruncatedNewton, truncated_newton
from manykernels.solvers.smooth.frozen_kernel import freeze
from manykernels.solvers.smooth.frozen_problem import FrozenProblem, hessian
from tests.device.devices import every_device

KERNELS = "rbf:gamma=0.05; linear; polynomial:degree=3@0-2; rbf@2-4"
FEATURES = "linear; linear@0-1; linear@2-4"
LOSSES = [Softmax(), SmoothedHinge(0.5), SquaredHinge(), Huber(0.5), Squared()]


@pytest.fixture(params=every_device())
def device(request):
    return request.param()


def problem(device=None, loss=LOSSES[0], p=1.2, kernels=KERNELS, limit=None, n=150):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    target = np.argmax(X[:, :3] + 0.7 * rng.normal(size=(n, 3)), axis=1)
    if loss in LOSSES[3:]:
        target = X[:, :3] + 0.3 * rng.normal(size=(n, 3))
    weight = rng.uniform(0.5, 2.0, n)
    bank = build_bank(KernelSet.fit(as_kernels(kernels), X), "auto", limit, device)
    return Problem(bank, target, 3, loss, LpGroupNorm(p), 2.0, weight)


def check_same(device, **options):
    here, there = problem(**options), problem(device, **options)
    solver = TruncatedNewton(tol=1e-4, random_state=0)
    found, expected = solver.solve(there), solver.solve(here)
    assert found.converged and expected.converged
    assert found.objective == pytest.approx(expected.objective, rel=2e-4)
    # The certificate holds for the kernels in the processor's memory, too.
    exact = here.objective(found.model)
    assert found.objective == pytest.approx(exact, rel=1e-6)
    gap = here.duality_gap(found.model, found.dual_coef)
    assert -1e-6 <= relative_gap(exact, exact - gap) <= 1.05e-4


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_every_loss_is_certified_to_the_same_optimum(device, loss):
    check_same(device, loss=loss)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_sparse_and_even_weights(device, p):
    check_same(device, p=p)


def test_features_are_never_multiplied_out(device, monkeypatch):
    monkeypatch.setattr(DeviceKernels, "scores", None)
    check_same(device, kernels=FEATURES, n=600)


def test_kernels_that_do_not_fit_are_combined_in_every_product(device, monkeypatch):
    monkeypatch.setattr(DeviceKernels, "max_combined_rows", 20)
    there = problem(device)
    assert freeze(there.bank, np.ones(4)).held is None
    check_same(device)


def test_a_sample_gives_large_problems_their_first_weights(device, monkeypatch):
    monkeypatch.setattr(truncated_newton, "START_SAMPLE_ROWS", 50)
    check_same(device)


def test_second_derivatives_in_the_weights_agree(device):
    here = problem(loss=LOSSES[0])
    there = replace(here, bank=problem(device).bank)
    weights, blocks = np.array([0.5, 0.2, 0.4, 0.3]), np.array([0, 2, 3])
    found = []
    for one in (here, there):
        frozen = FrozenProblem(one, freeze(one.bank, weights))
        point = frozen.solve(np.zeros((150, 3)), 1e-7)
        found.append(hessian(frozen, point, blocks))
    np.testing.assert_allclose(found[1], found[0], rtol=5e-3)
