"""Exact solutions of tiny problems with smooth losses, by an interior-point method."""

from __future__ import annotations

from functools import lru_cache

import cvxpy as cp
import numpy as np

from manykernels.banks import GramBank
from manykernels.losses import Huber, SmoothedHinge, Softmax, Squared, SquaredHinge
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Problem
from tests.oracles.optimum import explicit_features, minimum, p_norm
from tests.oracles.regression import regression_optimum
from tests.oracles.toys import blobs, kernel_stack

LOSSES = [Softmax(), SmoothedHinge(0.5), SquaredHinge(), Squared(), Huber(0.5)]
PS = (1.05, 4 / 3, 1.5, 1.9)


def smooth_problem(
    loss,
    seed: int = 0,
    n_rows: int = 18,
    n_blocks: int = 4,
    n_outputs: int = 3,
    p: float = 4 / 3,
    C: float = 1.0,
    weighted: bool = False,
) -> Problem:
    """Classes for losses that want labels, noisy values for the others."""
    rng = np.random.default_rng(seed)
    X, target = blobs(n_rows, n_outputs, seed)
    if loss.name in ("squared", "huber"):
        slopes = rng.normal(size=(X.shape[1], n_outputs))
        target = X @ slopes + rng.normal(size=(n_rows, n_outputs))
    weight = rng.uniform(0.5, 2.0, n_rows) if weighted else np.ones(n_rows)
    bank = GramBank(kernel_stack(X, n_blocks, seed))
    return Problem(bank, target, n_outputs, loss, LpGroupNorm(p), C, weight)


def smooth_optimum(problem: Problem) -> float:
    """min over w of ||w||_{2,p}^2 / (2 C W) + weighted mean loss."""
    if problem.loss.name in ("squared", "huber"):
        return regression_optimum(problem)
    features = explicit_features(problem.bank.rows(np.arange(problem.n_rows)))
    blocks = [cp.Variable((phi.shape[1], problem.n_outputs)) for phi in features]
    scores = sum(phi @ w for phi, w in zip(features, blocks, strict=True))
    norm = p_norm([cp.norm(block, "fro") for block in blocks], problem.norm.p)
    own = np.eye(problem.n_outputs)[problem.target]
    losses, constraints = _losses(problem.loss, scores, own)
    total = problem.C * (problem.sample_weight @ losses)
    return minimum(0.5 * cp.square(norm) + total, constraints) * problem.reg


def _losses(loss, scores, own):
    own_score = cp.sum(cp.multiply(own, scores), axis=1)
    if loss.name == "log":
        return cp.log_sum_exp(scores, axis=1) - own_score, []
    if loss.name == "squared_hinge":
        margins = cp.multiply(2.0 * own - 1.0, scores)
        return 0.5 * cp.sum(cp.square(cp.pos(1.0 - margins)), axis=1), []
    # Lagrange's dual of the maximum over the simplex that defines the smoothed hinge.
    n_rows, n_outputs = own.shape
    slack = cp.Variable(own.shape, nonneg=True)
    level = cp.Variable((n_rows, 1))
    each = np.ones((1, n_outputs))
    z = scores + 1.0 - own - cp.reshape(own_score, (n_rows, 1), order="C") @ each
    square = cp.sum(cp.square(z + slack - level @ each), axis=1)
    free = cp.sum(cp.multiply(own, slack), axis=1)
    return free + square / (2.0 * loss.width), []


@lru_cache
def case(index: int, p: float) -> tuple[Problem, float]:
    """A problem for the loss of this index, and its optimum."""
    problem = smooth_problem(
        LOSSES[index],
        seed=index,
        p=p,
        C=(1.0, 3.0, 0.3, 1.0, 2.0)[index],
        weighted=index % 2 == 1,
    )
    return problem, smooth_optimum(problem)
