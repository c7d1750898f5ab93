"""Probabilities from scores: one temperature, fitted without extra models."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import brentq
from scipy.special import softmax

from manykernels.banks import Bank, OnDemandBank
from manykernels.banks.base import support_of
from manykernels.base.arrays import Array, Index
from manykernels.base.machine import one_blas_thread
from manykernels.kernels.base import reads_matrices
from manykernels.mkl.models.model import BlockModel
from manykernels.solvers import InterruptedFitWarning
from manykernels.solvers.problem import Expansion, Problem

LOG_TEMPERATURE_RANGE = (-6.0, 6.0)
ENOUGH_ROWS = 1500  # for one number: on MNIST, more change the log loss by 1 %
MOST_NEIGHBORS = 1000  # support rows that may stand in for another
HELD_VALUES = 1 << 22  # of a combined kernel, kept to be used twice
JITTERS = (1e-6, 1e-4, 1e-2)  # of the mean diagonal, as kernels may be singular
SAME_ROW_RTOL = 1e-6  # of the diagonals: what rounding makes of a distance of zero
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class TrainingScores:
    """Scores of (some of) a model's training rows, and what belongs to them."""

    scores: Array  # (rows, classes)
    target: Labels  # (rows,)
    weight: Array  # (rows,)
    # (rows,) Which support row it is, or is a copy of; -1 where there is none.
    place: Index

    @classmethod
    def of(
        cls,
        problem: Problem,
        model: Expansion,
        most: int = ENOUGH_ROWS,
        scores: Array | None = None,
    ) -> TrainingScores:
        """Scores of all rows, or of a sample of `most`, from the kernels.

        `scores` are those of all rows, where they are known.
        """
        rows = np.arange(problem.n_rows)
        if len(rows) > most:
            rows = np.sort(np.random.default_rng(0).permutation(rows)[:most])
        support = support_of(model.coef)
        place = np.full(problem.n_rows, -1)
        place[support] = np.arange(len(support))
        if scores is None:
            row_scores = problem.bank.scores_at(rows, model.coef, model.weights)
            compared = row_scores[place[rows] >= 0]
        else:
            row_scores, compared = scores[rows], scores[support]
        # A copy of a support row counts as one; only rows that score alike can be.
        idle = np.flatnonzero(place[rows] < 0)
        doubtful = rows[idle[_possible_copies(row_scores[idle], compared)]]
        if len(doubtful):
            place[doubtful] = _copied(problem, model.weights, doubtful, support)
        target, weight = problem.target[rows], problem.sample_weight[rows]
        return cls(row_scores, target, weight, place[rows])

    def unseen(self, own_parts: Array) -> Array:
        """Scores as if each row, with its copies, had been left out.

        A row without coefficients would score the same, unless it is a copy of a row
        that has some.
        """
        copied = self.place >= 0
        unseen = self.scores.copy()
        unseen[copied] -= own_parts[self.place[copied]]
        return unseen

    def temperature(self, own_parts: Array) -> float:
        """The temperature that suits the scores of rows left out."""
        return fit_temperature(self.unseen(own_parts), self.target, self.weight)


def _possible_copies(scores: Array, known: Array) -> Index:
    """Rows of `scores` that are in `known` as well, up to rounding, and some others.

    Copies score alike, and so do rows at the same margins: kernels distinguish them.
    """
    if not scores.size or not known.size:
        return np.empty(0, dtype=np.intp)
    mixed = np.random.default_rng(0).normal(size=scores.shape[1])
    marks, others = scores @ mixed, np.sort(known @ mixed)
    after = np.searchsorted(others, marks)
    near = [
        np.abs(others[np.clip(after - k, 0, len(others) - 1)] - marks) for k in (0, 1)
    ]
    return np.flatnonzero(np.minimum(*near) <= SAME_ROW_RTOL * np.abs(others).max())


def _copied(problem: Problem, weights: Array, rows: Index, support: Index) -> Index:
    """For each row the first support row that it is a copy of, by position; or -1."""
    gram = problem.bank.combine_between(weights, rows, support)
    diagonal, target = problem.bank.diagonals() @ weights, problem.target
    alike = target[rows][:, None] == target[support]
    same = _same_points(gram, diagonal[rows], diagonal[support]) & alike
    return np.where(same.any(axis=1), np.argmax(same, axis=1), -1)


def _same_points(gram: Array, diagonal: Array, others: Array) -> NDArray[np.bool_]:
    """Which pairs of a kernel matrix are at distance zero, up to rounding."""
    sums = diagonal[:, None] + others
    return np.asarray(sums - 2.0 * gram <= SAME_ROW_RTOL * sums)


@dataclass
class Temperature:
    """The temperature of a model: a number, computed when it is first asked for.

    Examples
    --------
    >>> Temperature(2.0).value()
    2.0
    """

    known: float | None = None
    training: TrainingScores | None = None
    neighbors: Neighbors | None = None  # or the model, which then has the support rows
    model: BlockModel | None = None
    labels: Labels | None = None  # (support rows,)

    def value(self) -> float:
        """The number; all else is forgotten once it is known."""
        if self.known is None:
            assert self.training is not None
            neighbors = self.neighbors or self._find_neighbors()
            self.known = self.training.temperature(neighbors.own_parts())
            self.training = self.neighbors = self.model = self.labels = None
        return self.known

    def _find_neighbors(self) -> Neighbors:
        assert self.model is not None and self.labels is not None
        # In double precision, so that copies of a row are found in any storage.
        bank = OnDemandBank(self.model.kernels.astype(np.float64))
        solution = Expansion(self.model.coef, self.model.weights)
        return Neighbors.of(bank, solution, np.arange(len(self.labels)), self.labels)


def calibrate(problem: Problem, solution: Expansion) -> float:
    """The temperature for a model, from estimates of leave-one-out scores.

    Scores learned with the log loss are logarithms of probabilities as they are.
    """
    if problem.loss.scores_are_logits:
        return 1.0
    training = TrainingScores.of(problem, solution)
    return training.temperature(_neighbors(problem, solution).own_parts())


def calibrate_later(
    problem: Problem, solution: Expansion, model: Any, scores: Array | None = None
) -> Temperature:
    """The same when it is asked for.

    Models of explicit features and of given matrices keep no rows: the values between
    their support rows are kept instead, while the kernels are at hand. `scores` of all
    rows spare the kernels where a certificate has them.
    """
    given = reads_matrices(model.kernels.kernels)
    keeps_rows = isinstance(model, BlockModel) and not given
    if problem.loss.scores_are_logits:
        return Temperature(1.0)
    try:
        if not keeps_rows:
            with one_blas_thread():  # thin products
                return Temperature(
                    None, *_keep_for_calibration(problem, solution, scores)
                )
        training = TrainingScores.of(problem, solution, scores=scores)
    except KeyboardInterrupt:
        return Temperature(uncalibrated())
    labels = problem.target[support_of(solution.coef)]
    return Temperature(None, training, None, model, labels)


def _keep_for_calibration(
    problem: Problem, solution: Expansion, scores: Array | None
) -> tuple[TrainingScores, Neighbors]:
    """What calibration takes from the kernels, combined once where that is little."""
    support, combined = support_of(solution.coef), None
    if len(support) <= MOST_NEIGHBORS and len(support) * problem.n_rows <= HELD_VALUES:
        combined = problem.bank.combine_precisely(solution.weights, support)
        scores = (solution.coef[support].T @ combined).T if scores is None else scores
    training = TrainingScores.of(problem, solution, scores=scores)
    return training, _neighbors(problem, solution, combined)


def uncalibrated() -> float:
    """The temperature after Ctrl-C: a solved model is not lost for its probabilities.

    Examples
    --------
    >>> with warnings.catch_warnings(action="ignore"):
    ...     uncalibrated()
    1.0
    """
    warnings.warn(
        "The calibration was interrupted; the model was kept, with probabilities at "
        "the temperature 1.",
        InterruptedFitWarning,
        stacklevel=6,
    )
    return 1.0


def leave_one_out_scores(problem: Problem, solution: Expansion) -> Array:
    """Scores of all training rows as if each had been left out."""
    training = TrainingScores.of(problem, solution, most=problem.n_rows)
    return training.unseen(_neighbors(problem, solution).own_parts())


def _neighbors(
    problem: Problem, solution: Expansion, combined: Array | None = None
) -> Neighbors:
    support = support_of(solution.coef)
    part, labels = (
        Expansion(solution.coef[support], solution.weights),
        problem.target[support],
    )
    return Neighbors.of(problem.bank, part, support, labels, combined)


@dataclass(frozen=True)
class Neighbors:
    """The support rows, and kernel values between them: what leaving them out takes.

    Neighbors of a row are the other support rows, a sample if there are many.
    """

    coef: Array  # (support rows, outputs)
    labels: Labels  # (support rows,)
    near: Index  # positions of the neighbors among the support rows
    gram: Array  # (neighbors, support rows): the combined kernel
    diagonal: Array  # (support rows,)

    @classmethod
    def of(
        cls,
        bank: Bank,
        model: Expansion,
        rows: Index,
        labels: Labels,
        combined: Array | None = None,
    ) -> Neighbors:
        """From a bank that has the support rows at the positions `rows`.

        `model` has their coefficients, `labels` are their classes, and `combined`,
        where it is known, their rows of the combined kernel.
        """
        shuffled = np.random.default_rng(0).permutation(len(rows))
        near = np.sort(shuffled[:MOST_NEIGHBORS])
        if combined is None:
            gram = bank.combine_between(model.weights, rows[near], rows)
        else:
            gram = combined[np.ix_(near, rows)]
        diagonal = (bank.diagonals() @ model.weights)[rows]
        return cls(model.coef, labels, near, gram, diagonal)

    def own_parts(self) -> Array:
        """What leaving out each support row, with its copies, takes from its scores.

        S_i times the coefficients of the row and its copies, where S_i is its squared
        distance from what the other support rows span: they can make up for the rest
        (Chapelle and Vapnik, 2000). The kernel's own diagonal in place of S_i, as
        Jaakkola and Haussler (1999) have it, would be far too careful. Copies are rows
        at distance zero with the same label: a row of weight k is k copies of it.
        """
        first = self._first_copies()
        totals = np.zeros_like(self.coef)
        np.add.at(totals, first, self.coef)
        distinct = first[self.near] == self.near
        spans = _spans(self.gram[distinct], self.diagonal, self.near[distinct])
        return np.asarray(spans[first][:, None] * totals[first])

    def _first_copies(self) -> Index:
        """The first of the neighbors that each row is a copy of, else itself."""
        alike = self.labels[self.near][:, None] == self.labels
        same = _same_points(self.gram, self.diagonal[self.near], self.diagonal) & alike
        itself = np.arange(len(self.labels))
        return np.where(same.any(axis=0), self.near[np.argmax(same, axis=0)], itself)


def _spans(gram: Array, diagonal: Array, near: Index) -> Array:
    """S_i of every support row, from kernel rows of its neighbors."""
    inverse = _inverse_root(gram[:, near])
    if inverse is None:
        return diagonal
    reach = inverse @ gram
    spans = np.maximum(diagonal - np.square(reach).sum(axis=0), 0.0)
    spans[near] = 1.0 / np.square(inverse).sum(axis=0)
    return np.asarray(spans)


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


def fit_temperature(scores: Array, target: Labels, weight: Array) -> float:
    """The t that minimizes the log loss of softmax(scores / t).

    The loss is convex in 1 / t: its slope has one zero, or none within the range.

    Examples
    --------
    >>> scores = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0]])
    >>> round(fit_temperature(scores, np.array([0, 1, 1]), np.ones(3)), 2)
    2.89
    """
    excess = scores - scores[np.arange(len(target)), target][:, None]

    def slope(log_t: float) -> float:
        shares = softmax(excess * np.exp(-log_t), axis=1)
        return float(weight @ np.einsum("ik,ik->i", shares, excess))

    coldest, hottest = LOG_TEMPERATURE_RANGE
    if slope(coldest) <= 0.0:  # the surer the better
        return float(np.exp(coldest))
    if slope(hottest) >= 0.0:
        return float(np.exp(hottest))
    return float(np.exp(brentq(slope, coldest, hottest, xtol=1e-13)))
