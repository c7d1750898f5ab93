"""An estimator fitted on Dask collections."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from manykernels.distributed.engine import Engine
from manykernels.distributed.newton import PartitionedNewton
from manykernels.distributed.partitions import Partitions
from manykernels.distributed.plan import NO_ROWS, Plan
from manykernels.distributed.problem import PartitionedProblem
from manykernels.distributed.svrg import PartitionedSVRG
from manykernels.files.checkpoint import certified_anew, checkpoint_file
from manykernels.inputs import reporting
from manykernels.inputs.parameters import check_parameters, draw_seed
from manykernels.kernels import reads_matrices
from manykernels.losses import Loss
from manykernels.mkl.models.model import FeatureModel
from manykernels.solvers import SolveResult

SOLVERS = {
    "auto": PartitionedNewton,
    "truncated_newton": PartitionedNewton,
    "newton": PartitionedNewton,
    "svrg": PartitionedSVRG,
}


def fit(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
    """Fit an estimator on Dask collections; it ends as an ordinary one."""
    check_parameters(estimator, estimator._rules)
    loss, solver = estimator._make_loss(), choose_solver(estimator)
    require_possible(estimator, loss)
    parts, engine = Partitions.of(X, y, sample_weight), Engine()
    plan = Plan(estimator, parts, engine, draw_seed(estimator.random_state))
    problem = plan.problem(loss)
    saved = None
    if estimator.checkpoint is not None:
        identity = plan.identity(problem, solver)
        saved = checkpoint_file(estimator.checkpoint, identity)
    callback = estimator.callback
    if estimator.verbose:
        callback = reporting.progress_callback(1, estimator.tol, callback)
    shown = reporting.shown_log() if estimator.verbose else nullcontext()
    with shown:
        result = solver.solve(problem, None, callback, saved)
    if saved is not None and saved.resumed:
        result = certified_anew(problem, result, estimator.tol)
    if not result.converged:
        reporting.warn_unless_converged(solver, result)
    return store(estimator, plan, problem, result)


def choose_solver(estimator: Any) -> Any:
    """The solver of that name for partitions."""
    name = estimator.solver
    if not isinstance(name, str) or name not in SOLVERS:
        raise ValueError(
            "solver must be one that works on partitions, which are "
            f"{', '.join(map(repr, SOLVERS))}, got {name!r}; choose 'auto'."
        )
    limit = {} if estimator.max_iter is None else {"max_iter": estimator.max_iter}
    return SOLVERS[name](tol=estimator.tol, **limit)


def require_possible(estimator: Any, loss: Loss) -> None:
    """Raise where a parameter asks for what partitions cannot give."""
    if loss.smoothness is None:
        advice = "'squared' or 'huber'"
        if is_classifier(estimator):
            advice = "'log', or 'smoothed_hinge', which is at most 0.5 below the hinge"
        raise ValueError(
            f"a fit on partitions needs a smooth loss, got {loss.name!r}; choose loss="
            f"{advice}."
        )
    for name, wanted in (
        ("nugget", None),
        ("device", None),
        ("warm_start", False),
        ("per_target_weights", False),
    ):
        found = getattr(estimator, name, wanted)
        if found != wanted:
            raise ValueError(
                f"a fit on partitions needs {name}={wanted!r}, got {found!r}; leave it "
                "out, or fit on arrays."
            )
    if reads_matrices(estimator.kernels):
        raise ValueError(
            "a fit on partitions needs kernels on columns, got given matrices; pass "
            "the rows themselves and approximate='nystroem'."
        )


def store(
    estimator: Any, plan: Plan, problem: PartitionedProblem, result: SolveResult
) -> Any:
    """Fitted attributes: those of any fit, with no row kept."""
    weights = result.model.weights
    w = problem.spread(weights) * result.model.coef
    blocks = [np.ascontiguousarray(w[span]) for span in problem.spans]
    coef = np.empty((0, problem.n_outputs))
    estimator._model = FeatureModel(plan.kernels, blocks, coef, weights / weights.sum())
    estimator.support_ = NO_ROWS
    estimator.dual_point_ = None
    if result.dual_coef is not None:
        estimator.dual_point_ = plan.dual_point(problem, result.dual_coef)
    estimator.objective_ = result.objective
    estimator.duality_gap_ = result.duality_gap
    estimator.history_, estimator.n_iter_ = result.history, len(result.history)
    plan.targets.store(estimator, problem, w)
    estimator._show_model()
    return estimator
