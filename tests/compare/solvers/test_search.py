"""What all rivals owe the shared loop: seeds, checkpoints, refusals, any bank."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from manykernels.banks import OnDemandBank
from manykernels.compare import (
    OM2,
    SILP,
    SMOMKL,
    UFO,
    GroupLassoMKL,
    Kloft,
    LevelMethod,
    SimpleMKL,
)
from manykernels.kernels import RBF, Linear
from manykernels.kernels.kernel_set import KernelSet
from manykernels.losses import Softmax
from manykernels.solvers import mirror
from manykernels.solvers.problem import Problem
from tests.compare.solvers.cases import case
from tests.oracles.toys import blobs, make_problem
from tests.solvers.test_checkpoint import KilledError, Memory, same

SPARSE = (SimpleMKL, SILP, LevelMethod)
SOLVERS = [
    SimpleMKL(1e-3, random_state=3),
    SILP(1e-3, random_state=3),
    LevelMethod(1e-3, random_state=3),
    GroupLassoMKL(1e-3, random_state=3),
    Kloft(1e-6, random_state=3),
    Kloft(1e-6, interleaved=True, random_state=3),
    SMOMKL(1e-8),
    UFO(passes=8, alpha=0.01, random_state=3),
    OM2(passes=8, random_state=3),
]
each = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)


def problem_for(solver, index: int = 3) -> Problem:
    classes = 2 if isinstance(solver, SMOMKL) else None
    return case(index, isinstance(solver, SPARSE), classes)


DRAWING = [solver for solver in SOLVERS if hasattr(solver, "random_state")]


@pytest.mark.parametrize("solver", DRAWING, ids=lambda s: type(s).__name__)
def test_the_seed_decides_the_result(solver, one_blas_thread) -> None:
    problem = problem_for(solver)
    result = solver.solve(problem)
    same(result, solver.solve(problem))
    other = replace(solver, random_state=4).solve(problem)
    assert not np.array_equal(result.model.coef, other.model.coef)


@each
@pytest.mark.parametrize("kill_after", [1, 3])
def test_killed_and_resumed_equals_uninterrupted(
    solver, kill_after: int, one_blas_thread
) -> None:
    problem = problem_for(solver)
    whole = solver.solve(problem)
    memory = Memory()
    memory.kill_after = kill_after
    with pytest.raises(KilledError):
        solver.solve(problem, checkpoint=memory)
    memory.kill_after = -1
    same(whole, solver.solve(problem, checkpoint=memory))


@each
def test_a_callback_ends_the_search(solver) -> None:
    result = solver.solve(problem_for(solver), callback=lambda line: line.epoch == 2)
    assert result.stopped and len(result.history) == 2


@each
def test_rows_on_demand_give_the_same_model(
    solver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "PREFETCHED_ROWS", 4)
    X, target = blobs(40, 2, seed=5)
    kernels = KernelSet.fit([RBF(0.1), Linear()], X, dtype=np.float64)
    p = 1.0 if isinstance(solver, SPARSE) else 1.5
    computed = make_problem(OnDemandBank(kernels), target, p, C=5.0)
    stack = computed.bank.rows(np.arange(40))
    ours = solver.solve(make_problem(stack, target, p, C=5.0))
    theirs = solver.solve(computed)
    assert theirs.objective == pytest.approx(ours.objective, rel=1e-4)
    np.testing.assert_allclose(theirs.model.weights, ours.model.weights, atol=1e-3)


@each
def test_losses_other_than_the_hinge_are_refused(solver) -> None:
    problem = replace(problem_for(solver), loss=Softmax())
    name = type(solver).__name__
    with pytest.raises(ValueError, match=f"{name} handles the hinge loss.*'log'"):
        solver.solve(problem)


@pytest.mark.parametrize("solver", SPARSE)
def test_methods_on_the_simplex_refuse_other_norms(solver: type) -> None:
    match = f"{solver.__name__} searches the weights of p = 1 only, got p=1.25"
    with pytest.raises(ValueError, match=match):
        solver().solve(case(0))


@pytest.mark.parametrize("solver", [Kloft, SMOMKL, UFO, OM2])
def test_methods_that_need_a_smooth_dual_refuse_p_1(solver: type) -> None:
    with pytest.raises(ValueError, match=f"{solver.__name__} needs 1 < p <= 2.*p=1;"):
        solver().solve(case(0, sparse=True, n_classes=2))


def test_smo_refuses_more_than_two_classes() -> None:
    with pytest.raises(ValueError, match=r"two classes, got 3; wrap.*OneVsRest"):
        SMOMKL().solve(case(0))


@pytest.mark.parametrize("solver", [SimpleMKL, SILP, LevelMethod, GroupLassoMKL, Kloft])
def test_wrappers_say_that_the_combined_kernel_does_not_fit(solver: type) -> None:
    X, target = blobs(20, 2, seed=1)
    bank = OnDemandBank(KernelSet.fit([RBF(0.1)], X), max_combined_rows=10)
    problem = make_problem(bank, target, p=1.5 if solver is Kloft else 1.0)
    with pytest.raises(ValueError, match=r"all 20 rows, and memory allows 10; raise"):
        solver().solve(problem)


@pytest.mark.parametrize("solver", [SimpleMKL, SILP, LevelMethod, GroupLassoMKL, Kloft])
def test_svms_are_as_precise_as_asked_for(solver: type) -> None:
    problem = case(3, sparse=solver is not Kloft)
    rough = solver(1e-3, random_state=0).solve(problem)
    precise = solver(1e-3, random_state=0, svm_tol=1e-8).solve(problem)
    assert precise.history[0].updates > rough.history[0].updates
    assert precise.objective == pytest.approx(rough.objective, rel=1e-3)


@pytest.mark.parametrize(
    ("solver", "name", "value"),
    [(LevelMethod, "level", 1.0), (LevelMethod, "level", 0.0), (UFO, "alpha", -1.0)],
)
def test_bad_settings_are_refused(solver: type, name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be .*, got {value}; choose"):
        solver(**{name: value})
