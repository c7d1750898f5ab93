"""Exact solutions of tiny problems by an interior-point method."""

from __future__ import annotations

from collections.abc import Sequence

import cvxpy as cp
import numpy as np

from manykernels.solvers.problem import Problem

RANK_TOLERANCE = 1e-12  # relative to the largest eigenvalue


def explicit_features(stack: np.ndarray) -> list[np.ndarray]:
    """Phi_f with Phi_f Phi_f' = K_f, by an eigendecomposition without its zeros.

    Cholesky's factor up to a rotation; it exists for singular kernels as well.
    """
    features = []
    for f in range(stack.shape[1]):
        values, vectors = np.linalg.eigh(stack[:, f, :].astype(np.float64))
        kept = values > RANK_TOLERANCE * values[-1]
        features.append(vectors[:, kept] * np.sqrt(values[kept]))
    return features


def cvxpy_optimum(
    stack: np.ndarray,
    target: np.ndarray,
    n_classes: int,
    p: float,
    C: float,
    sample_weight: np.ndarray | None = None,
) -> float:
    """min over w of ||w||_{2,p}^2 / (2 C W) + weighted mean hinge loss."""
    weight = np.ones(len(target)) if sample_weight is None else sample_weight
    blocks, scores = _linear_model(stack, n_classes)
    slack = cp.Variable(len(target), nonneg=True)
    # Half the squared norm plus C times the losses is near one for every C.
    objective = 0.5 * cp.square(_group_norm(blocks, p)) + C * (weight @ slack)
    constraints = [_margins(scores, target) >= 1.0 - _repeated(slack, n_classes)]
    return minimum(objective, constraints) / (C * weight.sum())


def optimum_of(problem: Problem) -> float:
    """The optimum of a problem whose bank is a Gram stack."""
    return cvxpy_optimum(
        problem.bank.rows(np.arange(problem.n_rows)),
        problem.target,
        problem.n_outputs,
        problem.norm.p,
        problem.C,
        problem.sample_weight,
    )


def separator_norm(
    stack: np.ndarray, target: np.ndarray, n_classes: int, p: float
) -> float:
    """The smallest ||u||_{2,p} with all margins at least 1."""
    blocks, scores = _linear_model(stack, n_classes)
    constraints = [_margins(scores, target) >= 1.0]
    return minimum(_group_norm(blocks, p), constraints)


def p_norm(norms: list[cp.Expression], p: float) -> cp.Expression:
    if p == 1.0:
        return sum(norms)
    # Power cones: exact for every p, where rational approximations need a simple one.
    return cp.pnorm(cp.hstack(norms), p, approx=False)


def _linear_model(
    stack: np.ndarray, n_classes: int
) -> tuple[list[cp.Variable], cp.Expression]:
    features = explicit_features(stack)
    blocks = [cp.Variable((phi.shape[1], n_classes)) for phi in features]
    return blocks, sum(phi @ w for phi, w in zip(features, blocks, strict=True))


def _group_norm(blocks: list[cp.Variable], p: float) -> cp.Expression:
    return p_norm([cp.norm(block, "fro") for block in blocks], p)


def _margins(scores: cp.Expression, target: np.ndarray) -> cp.Expression:
    """Own score minus every score; 1 is added where the two are the same."""
    own = np.eye(scores.shape[1])[target]
    return _repeated(cp.sum(cp.multiply(own, scores), axis=1), own.shape[1]) + (
        own - scores
    )


def _repeated(column: cp.Expression, times: int) -> cp.Expression:
    return cp.reshape(column, (column.size, 1), order="C") @ np.ones((1, times))


def minimum(
    objective: cp.Expression, constraints: Sequence[cp.Constraint] = ()
) -> float:
    task = cp.Problem(cp.Minimize(objective), list(constraints))
    task.solve(solver=cp.CLARABEL)
    if task.status == cp.OPTIMAL_INACCURATE:  # on some processors, by the last digit
        task.solve(solver=cp.CLARABEL, max_step_fraction=0.9)
    assert task.status == cp.OPTIMAL, task.status
    return float(task.value)
