"""Probabilities from scores: one temperature, fitted without extra models."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from manykernels.solvers import Expansion, Problem

Array = NDArray[np.float64]

LOG_RANGE = (-6.0, 6.0)
ENOUGH_ROWS = 4000
BLOCK = 256  # of these rows at a time


def calibrate(problem: Problem, model: Expansion) -> float:
    """The temperature for a model, from scores that leave each row's own part out.

    One number needs no more than some thousands of rows.
    """
    if problem.n_rows <= ENOUGH_ROWS:
        rows = np.arange(problem.n_rows)
        scores = problem.bank.scores(model.coef, model.weights)
    else:
        sample = np.random.default_rng(0).permutation(problem.n_rows)
        rows = np.sort(sample[:ENOUGH_ROWS])
        scores = _scores_of(problem, model, rows)
    diagonal = problem.bank.diagonals()[rows] @ model.weights
    held_out = held_out_scores(scores, model.coef[rows], diagonal)
    return fit_temperature(held_out, problem.target[rows], problem.sample_weight[rows])


def _scores_of(problem: Problem, model: Expansion, rows: NDArray[np.intp]) -> Array:
    parts = [rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK)]
    combined = (problem.bank.combine(model.weights, part) for part in parts)
    return np.concatenate([block @ model.coef for block in combined])


def held_out_scores(scores: Array, coef: Array, diagonal: Array) -> Array:
    """Training scores without each row's own part, s_i - K(i, i) coef_i.

    A row without coefficients would score the same had it been left out. For a
    support row, removing its own part is the leave-one-out estimate of Jaakkola and
    Haussler (1999), on the careful side.
    """
    return scores - diagonal[:, None] * coef


def fit_temperature(scores: Array, target: NDArray[np.int64], weight: Array) -> float:
    """The t that minimises the log loss of softmax(scores / t).

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
