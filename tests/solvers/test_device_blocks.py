"""The hinge problem on a device: the same optimum as in the processor's memory."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.banks import build_bank
from manykernels.hot.dual import block_steps, violations
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from manykernels.losses import MulticlassHinge
from manykernels.norms import LpGroupNorm
from manykernels.solvers import DualAscent, device_blocks, working_set
from manykernels.solvers.loop import relative_gap
from manykernels.solvers.problem import Expansion, Problem
from tests.device.devices import every_device

KERNELS = "rbf:gamma=0.05; linear; polynomial:degree=3@0-2; rbf@2-4"


@pytest.fixture(params=every_device())
def device(request, monkeypatch):
    """Every device, and blocks that are small enough for small problems."""
    monkeypatch.setattr(working_set, "HOST_ROWS", 0)
    monkeypatch.setattr(device_blocks, "BLOCK_ROWS", 64)
    return request.param()


def problem(device=None, p=1.3, n_rows=300, n_classes=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 5)).astype(np.float32)
    y = np.argmax(X[:, :n_classes] + 0.7 * rng.normal(size=(n_rows, n_classes)), axis=1)
    weight = rng.uniform(0.5, 2.0, n_rows)
    bank = build_bank(KernelSet.fit(as_kernels(KERNELS), X), device=device)
    loss = MulticlassHinge()
    return Problem(bank, y, n_classes, loss, LpGroupNorm(p), 2.0, weight)


@pytest.mark.parametrize("p", [1.0, 1.3, 2.0])
def test_certified_to_the_same_optimum(device, p):
    here, there = problem(p=p), problem(device, p)
    solver = DualAscent(tol=1e-3, random_state=0)
    found, expected = solver.solve(there), solver.solve(here)
    assert found.converged and expected.converged
    assert found.objective == pytest.approx(expected.objective, rel=2e-3)
    # The certificate holds for the kernels in the processor's memory, too.
    dual = found.objective - found.duality_gap
    exact = here.objective(found.model)
    assert -1e-6 <= relative_gap(exact, dual) <= 1.01e-3


def test_two_classes_and_many(device):
    for n_classes in (2, 5):
        one = problem(device, n_classes=n_classes)
        assert DualAscent(tol=1e-2, random_state=0).solve(one).converged


def test_a_block_of_all_rows_solves_the_problem():
    one = problem()
    weights = one.norm.uniform_weights(one.bank.n_blocks)
    gram = one.bank.combine(weights, np.arange(one.n_rows)).astype(np.float64)
    coef, scores = np.zeros((300, 4)), np.zeros((300, 4))
    for floor in (0.5, 0.1, 1e-2, 1e-4, 1e-9):
        block_steps(gram, one.target, one.bound, coef, scores, floor, 200)
    assert np.max(violations(one.target, one.bound, coef, scores)) < 1e-2
    np.testing.assert_allclose(scores, gram @ coef, atol=1e-9)
    frozen = Problem(
        build_bank(
            KernelSet.fit(as_kernels("precomputed:normalize=none"), gram, psd="skip")
        ),
        one.target,
        4,
        one.loss,
        LpGroupNorm(2.0),
        one.C,
        one.sample_weight,
    )
    model = Expansion(coef, np.ones(1))
    assert frozen.duality_gap(model) < 1e-4 * frozen.objective(model)


def test_rows_that_the_kernel_does_not_see_take_their_bound():
    gram = np.diag([1.0, 0.0])
    coef, scores = np.zeros((2, 2)), np.zeros((2, 2))
    labels, bound = np.array([0, 1]), np.array([3.0, 3.0])
    block_steps(gram, labels, bound, coef, scores, 0.1, 2)
    assert coef.tolist() == [[0.5, -0.5], [-3.0, 3.0]]
    assert violations(labels, bound, coef, scores).tolist() == [0.0, 0.0]
