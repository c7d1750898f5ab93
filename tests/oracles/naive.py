"""The formulas of the problem, one loop at a time."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from manykernels.solvers.problem import Expansion, Problem


def group_norm(norms: list[float] | np.ndarray, p: float) -> float:
    if np.isinf(p):
        return float(max(norms))
    return float(sum(float(value) ** p for value in norms) ** (1.0 / p))


def hinge(scores: np.ndarray, own: int) -> float:
    """max over wrong k of [1 - s_own + s_k]_+."""
    wrong = [1.0 - scores[own] + s for k, s in enumerate(scores) if k != own]
    return max(0.0, *wrong)


def naive_scores(stack: np.ndarray, model: Expansion) -> np.ndarray:
    scores = np.zeros_like(model.coef)
    for i in range(stack.shape[0]):
        for f in range(stack.shape[1]):
            for j in range(stack.shape[0]):
                scores[i] += model.weights[f] * stack[i, f, j] * model.coef[j]
    return scores


def naive_theta_norms(stack: np.ndarray, coef: np.ndarray) -> np.ndarray:
    return np.array(
        [
            np.sqrt(max(np.trace(coef.T @ stack[:, f, :] @ coef), 0.0))
            for f in range(stack.shape[1])
        ]
    )


def naive_objective(stack: np.ndarray, problem: Problem, model: Expansion) -> float:
    total = problem.sample_weight.sum()
    scores = naive_scores(stack, model)
    norms = model.weights * naive_theta_norms(stack, model.coef)
    loss = sum(
        weight * hinge(row, own)
        for weight, row, own in zip(
            problem.sample_weight, scores, problem.target, strict=True
        )
    )
    norm = group_norm(norms, problem.norm.p)
    return 0.5 / (problem.C * total) * norm**2 + loss / total


def naive_dual(stack: np.ndarray, problem: Problem, coef: np.ndarray) -> float:
    """The dual value at coef, in the units of the objective; -inf if infeasible."""
    bound = problem.C * problem.sample_weight
    linear = 0.0
    for i, own in enumerate(problem.target):
        upper = np.zeros(problem.n_outputs)
        upper[own] = bound[i]
        if np.any(coef[i] > upper + 1e-9 * bound[i]):
            return -np.inf
        if abs(coef[i].sum()) > 1e-8 * bound[i]:
            return -np.inf
        linear += coef[i, own]
    theta = group_norm(naive_theta_norms(stack, coef), problem.norm.q)
    return (linear - 0.5 * theta**2) / (problem.C * problem.sample_weight.sum())


def naive_dual_bound(stack: np.ndarray, problem: Problem, coef: np.ndarray) -> float:
    """max over t >= 0 of the dual value at t * coef, by a search."""
    own = coef[np.arange(len(coef)), problem.target]
    longest = np.max(own / problem.bound)
    if longest <= 0.0 or naive_dual(stack, problem, coef / longest) == -np.inf:
        return 0.0
    search = minimize_scalar(
        lambda t: -naive_dual(stack, problem, t * coef),
        bounds=(0.0, 1.0 / longest),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return max(-float(search.fun), naive_dual(stack, problem, coef / longest))


def naive_gap(stack: np.ndarray, problem: Problem, model: Expansion) -> float:
    """Objective minus the better dual bound of the coefficients as they are and cut.

    Cut: wrong outputs at most 0, own output minus their sum, at most the bound.
    """
    cut = np.zeros_like(model.coef)
    for i, own in enumerate(problem.target):
        wrong = [min(0.0, value) for value in model.coef[i]]
        wrong[own] = 0.0
        total = -sum(wrong)
        cut[i] = np.array(wrong) * min(1.0, problem.bound[i] / max(total, 1e-300))
        cut[i, own] = -cut[i].sum()
    bounds = [naive_dual_bound(stack, problem, coef) for coef in (model.coef, cut)]
    return naive_objective(stack, problem, model) - max(bounds)
