"""Probabilities from scores: one temperature, fitted without extra models."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from manykernels.banks.base import support_of
from manykernels.base.arrays import Array, Index, Values
from manykernels.solvers import Expansion, Problem

LOG_RANGE = (-6.0, 6.0)
ENOUGH_ROWS = 4000
BLOCK = 256  # of these rows at a time
MOST_NEIGHBORS = 1000  # support rows that may stand in for another
JITTERS = (1e-6, 1e-4, 1e-2)  # of the mean diagonal, as kernels may be singular


def calibrate(problem: Problem, model: Expansion) -> float:
    """The temperature for a model, from estimates of leave-one-out scores.

    One number needs no more than some thousands of rows. Scores learnt with the log
    loss are logarithms of probabilities as they are.
    """
    if problem.loss.name == "log":
        return 1.0
    if problem.n_rows <= ENOUGH_ROWS:
        rows = np.arange(problem.n_rows)
        scores = problem.bank.scores(model.coef, model.weights)
    else:
        sample = np.random.default_rng(0).permutation(problem.n_rows)
        rows = np.sort(sample[:ENOUGH_ROWS])
        scores = _scores_of(problem, model, rows)
    spans = support_spans(problem, model)[rows]
    held_out = held_out_scores(scores, model.coef[rows], spans)
    return fit_temperature(held_out, problem.target[rows], problem.sample_weight[rows])


def _scores_of(problem: Problem, model: Expansion, rows: Index) -> Array:
    return np.concatenate(
        [block @ model.coef for block in _combined(problem, model, rows)]
    )


def _combined(problem: Problem, model: Expansion, rows: Index) -> Iterator[Values]:
    for start in range(0, len(rows), BLOCK):
        yield problem.bank.combine(model.weights, rows[start : start + BLOCK])


def held_out_scores(scores: Array, coef: Array, spans: Array) -> Array:
    """Training scores as if each row had been left out, s_i - S_i coef_i.

    A row without coefficients would score the same. For a support row, S_i is its
    squared distance from what the other support rows span: they can make up for the
    rest (Chapelle and Vapnik, 2000). The kernel's own diagonal in place of S_i, as
    Jaakkola and Haussler (1999) have it, would be far too careful.
    """
    return scores - spans[:, None] * coef


def support_spans(problem: Problem, model: Expansion) -> Array:
    """S_i of every support row, 0 for others; neighbors are a sample if many."""
    spans = np.where(np.any(model.coef != 0.0, axis=1), 1.0, 0.0)
    spans *= problem.bank.diagonals() @ model.weights
    support = support_of(model.coef)
    shuffled = np.random.default_rng(0).permutation(support)
    near, far = np.sort(shuffled[:MOST_NEIGHBORS]), shuffled[MOST_NEIGHBORS:]
    rows = [block[:, support] for block in _combined(problem, model, near)]
    gram = np.concatenate([np.empty((0, len(support))), *rows])
    inverse = _inverse_root(gram[:, np.searchsorted(support, near)])
    if inverse is None:
        return spans
    spans[near] = 1.0 / np.square(inverse).sum(axis=0)
    reach = inverse @ gram[:, np.searchsorted(support, far)]
    spans[far] = np.maximum(spans[far] - np.square(reach).sum(axis=0), 0.0)
    return spans


def _inverse_root(square: Array) -> Array | None:
    """R with R' R the inverse of a kernel matrix; None if that is far from definite."""
    scale = np.trace(square) / max(len(square), 1)
    for jitter in JITTERS:
        try:
            lower = np.linalg.cholesky(square + jitter * scale * np.eye(len(square)))
        except np.linalg.LinAlgError:
            continue
        return np.asarray(solve_triangular(lower, np.eye(len(square)), lower=True))
    return None


def fit_temperature(scores: Array, target: NDArray[np.int64], weight: Array) -> float:
    """The t that minimizes the log loss of softmax(scores / t).

    Examples
    --------
    >>> scores = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0]])
    >>> round(fit_temperature(scores, np.array([0, 1, 1]), np.ones(3)), 2)
    2.89
    """
    rows = np.arange(len(target))

    def log_loss(log_t: float) -> float:
        logs = log_softmax(scores * np.exp(-log_t), axis=1)
        return -float(np.average(logs[rows, target], weights=weight))

    best = minimize_scalar(log_loss, bounds=LOG_RANGE, method="bounded")
    return float(np.exp(best.x))
