"""Exact solutions of tiny regression problems by an interior-point method."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from manykernels.banks import GramBank
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Expansion, Problem
from tests.oracles.naive import group_norm, naive_scores, naive_theta_norms
from tests.oracles.optimum import explicit_features, minimum, p_norm
from tests.oracles.toys import kernel_stack


def regression_optimum(problem: Problem) -> float:
    """min over w of ||w||_{2,p}^2 / (2 C W) + weighted mean loss of the residuals."""
    features = explicit_features(problem.bank.rows(np.arange(problem.n_rows)))
    n_outputs = problem.n_outputs
    blocks = [cp.Variable((phi.shape[1], n_outputs)) for phi in features]
    scores = sum(phi @ w for phi, w in zip(features, blocks, strict=True))
    residual = scores - problem.target
    norm = p_norm([cp.norm(block, "fro") for block in blocks], problem.norm.p)
    costs = cp.sum(_losses(problem.loss, residual), axis=1)
    total = problem.C * (problem.sample_weight @ costs)
    return minimum(0.5 * cp.square(norm) + total) * problem.reg


def _losses(loss, residual):
    if loss.name == "squared":
        return 0.5 * cp.square(residual)
    if loss.name == "huber":
        return 0.5 * cp.huber(residual, loss.threshold)
    return cp.pos(cp.abs(residual) - loss.epsilon)


def naive_regression_objective(problem: Problem, model: Expansion) -> float:
    """The objective, one row and one output at a time."""
    stack = problem.bank.rows(np.arange(problem.n_rows))
    scores = naive_scores(stack, model)
    norms = model.weights * naive_theta_norms(stack, model.coef)
    losses = [
        weight * _naive_loss(problem.loss, scores[i, k] - problem.target[i, k])
        for i, weight in enumerate(problem.sample_weight)
        for k in range(problem.n_outputs)
    ]
    total = problem.sample_weight.sum()
    norm = group_norm(norms, problem.norm.p)
    return (0.5 * norm**2 / problem.C + sum(losses)) / total


def _naive_loss(loss, residual):
    size = abs(residual)
    if loss.name == "squared":
        return 0.5 * size**2
    if loss.name == "epsilon_insensitive":
        return max(size - loss.epsilon, 0.0)
    edge = loss.threshold
    return 0.5 * size**2 if size <= edge else edge * (size - 0.5 * edge)


def toy_regression(
    seed: int,
    loss,
    p: float = 1.25,
    C: float = 1.0,
    n_rows: int = 24,
    n_blocks: int = 4,
    n_outputs: int = 1,
    weighted: bool = False,
) -> Problem:
    """Smooth functions of some columns, with noise and one outlier."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    target = np.stack(
        [np.sin(X[:, k % 6]) + 0.5 * X[:, (k + 1) % 6] for k in range(n_outputs)], 1
    )
    target += 0.2 * rng.normal(size=target.shape)
    target[0] += 4.0
    weight = rng.uniform(0.5, 2.0, n_rows) if weighted else np.ones(n_rows)
    bank = GramBank(kernel_stack(X, n_blocks, seed))
    return Problem(bank, target, n_outputs, loss, LpGroupNorm(p), C, weight)
