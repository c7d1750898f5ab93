"""Exact solutions of tiny problems with censored times, and slow concordance."""

from __future__ import annotations

from itertools import combinations

import cvxpy as cp
import numpy as np

from manykernels.banks import GramBank
from manykernels.losses import CensoredEpsilonInsensitive
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Expansion, Problem
from tests.oracles.naive import group_norm, naive_scores, naive_theta_norms
from tests.oracles.optimum import explicit_features, minimum, p_norm
from tests.oracles.toys import kernel_stack


def survival_optimum(problem: Problem) -> float:
    """min over w of ||w||_{2,p}^2 / (2 C W) + weighted mean loss, with slacks."""
    features = explicit_features(problem.bank.rows(np.arange(problem.n_rows)))
    blocks = [cp.Variable(phi.shape[1]) for phi in features]
    scores = sum(phi @ w for phi, w in zip(features, blocks, strict=True))
    time, event = problem.target.T
    early = cp.pos(time - scores - problem.loss.epsilon)
    late = cp.pos(scores - time - problem.loss.epsilon)
    costs = early + cp.multiply(event, late)
    norm = p_norm([cp.norm(block) for block in blocks], problem.norm.p)
    total = problem.C * (problem.sample_weight @ costs)
    return minimum(0.5 * cp.square(norm) + total) * problem.reg


def naive_survival_objective(problem: Problem, model: Expansion) -> float:
    """The objective, one row at a time."""
    stack = problem.bank.rows(np.arange(problem.n_rows))
    scores = naive_scores(stack, model)[:, 0]
    norms = model.weights * naive_theta_norms(stack, model.coef)
    total = 0.0
    for score, (time, event), weight in zip(
        scores, problem.target, problem.sample_weight, strict=True
    ):
        early, late = time - score, score - time
        worst = max(early, late) if event else early
        total += weight * max(worst - problem.loss.epsilon, 0.0)
    norm = group_norm(norms, problem.norm.p)
    return (0.5 * norm**2 / problem.C + total) / problem.sample_weight.sum()


def toy_survival(
    seed: int,
    epsilon: float = 0.1,
    p: float = 1.25,
    C: float = 1.0,
    n_rows: int = 24,
    n_blocks: int = 4,
    weighted: bool = False,
    share: float = 0.5,
) -> Problem:
    """Smooth functions of some columns; a share of the rows is censored."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    time = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=n_rows)
    event = rng.random(n_rows) >= share
    time = np.where(event, time, time - rng.exponential(size=n_rows))
    weight = rng.uniform(0.5, 2.0, n_rows) if weighted else np.ones(n_rows)
    bank = GramBank(kernel_stack(X, n_blocks, seed))
    target = np.column_stack([time, event])
    loss = CensoredEpsilonInsensitive(epsilon)
    return Problem(bank, target, 1, loss, LpGroupNorm(p), C, weight)


def naive_concordance(time, event, risk, tied_tol: float = 1e-8) -> tuple[float, int]:
    """Every pair of rows by itself: share of right ones, ties count half."""
    right, pairs = 0.0, 0
    for i, j in combinations(range(len(time)), 2):
        first, second = (
            (i, j) if (time[i], not event[i]) <= (time[j], not event[j]) else (j, i)
        )
        same = time[first] == time[second]
        if not event[first] or (same and event[second]):
            continue  # nobody knows who was first
        pairs += 1
        if abs(risk[first] - risk[second]) <= tied_tol:
            right += 0.5
        elif risk[first] > risk[second]:
            right += 1.0
    return right / max(pairs, 1), pairs
