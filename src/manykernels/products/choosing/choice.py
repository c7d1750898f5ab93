"""p = 1: a short list of terms, many shrunken ones or none, by left-out rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.products.base import RankOneKernels
from manykernels.products.choosing.folds import Mode, ModePath, RowParts
from manykernels.products.column_generation import ColumnGeneration, smallest_C
from manykernels.products.fitted import FittedProducts, coefs_of, from_expansion
from manykernels.products.indices import n_products
from manykernels.products.path import SparsePath
from manykernels.products.problem import ProductProblem
from manykernels.products.refit import Refit, Terms
from manykernels.solvers.loop import Callback

FOLDS = 5
LEAST_ROWS = 25  # with fewer, left-out rows say too little
SHRUNKEN_DEGREE = 2  # products of three in a shrunken model run wild on new rows
FACTOR = 1.6  # between neighboring C
STEPS = 50
PATIENCE = 4
SLACK = 0.01  # of what can be gained: fewer terms are worth that much
ROUGH = 1e-2  # relative gap of models that are only judged
LISTS_WORK = 2e12  # multiply-adds for lists on folds; judged by few, luck decides
LOOKS = 40  # at all products, for one list
WORTH = 0.01  # of the null loss: what a long model must gain on a short list
SURE = 2.0  # standard errors that a model must gain on none
LIKELY = 1.0  # standard errors that another zero of the columns must gain


class Judged(NamedTuple):
    """A way to learn and its mean loss on left-out rows, over that of a constant."""

    name: str
    loss: float


@dataclass(frozen=True)
class ChosenProducts(FittedProducts):
    """The best of several ways to learn, and what left-out rows said of each."""

    judged: tuple[Judged, ...] = ()  # the chosen one first
    losses: Array | None = None  # of left-out rows by the chosen one

    def beats(self, other: FittedProducts) -> bool:
        """Whether left-out rows are likely to be predicted better."""
        assert isinstance(other, ChosenProducts)
        assert self.losses is not None and other.losses is not None
        return gains_surely(self.losses, other.losses, LIKELY)


@dataclass(frozen=True)
class Candidate:
    """A model on all rows, and losses of rows by models that have not seen them."""

    name: str
    fitted: FittedProducts
    losses: Array  # one per row, NaN where it was not judged


@dataclass(frozen=True)
class Choice:
    """Folds judge the list of the criterion, a shrunken model of low degree and none.

    A list is chosen anew on the rows of each fold: what found terms in noise finds
    others there, and fails on the left-out rows. A list that loses though its terms
    are given to the folds need not be judged so, which is long.

    Parameters
    ----------
    solver : ColumnGeneration
    problem : ProductProblem
        With columns as base kernels and squared errors.
    callback : callable, optional
        Sees the fits on all rows.
    rng : Generator
        Chooses the folds.
    """

    solver: ColumnGeneration
    problem: ProductProblem
    callback: Callback | None
    rng: np.random.Generator

    def between(self, listed: FittedProducts) -> FittedProducts:
        """The list that the criterion prefers, or what predicts better."""
        if self.problem.n_rows < LEAST_ROWS:
            return listed
        table = RowParts.of(self.problem, 0, FOLDS, self.rng)
        none = self._nothing(table, listed)
        shrunken = self._shrunken(table)
        candidates = [none, shrunken]
        if listed.products:
            given = self._given_list(table, listed)
            if _gain(shrunken, given, none) < WORTH:
                candidates.insert(1, self._list(table, listed))
        return _chosen(candidates)

    def _nothing(self, table: RowParts, listed: FittedProducts) -> Candidate:
        """The mean of the target."""
        loss, target = self.problem.loss, self.problem.target
        losses = np.empty(len(target))
        for known, rows in table.parts[:-1]:
            constant = self._constant(self.problem.take(known))
            losses[rows] = loss.take(rows).value(
                np.full(len(rows), constant), target[rows]
            )
        empty = replace(
            listed,
            products=(),
            weights=np.zeros(0),
            coefs=np.zeros(0),
            intercept=self._constant(self.problem),
        )
        return Candidate("none", empty, losses)

    @staticmethod
    def _constant(task: ProductProblem) -> float:
        return float(task.loss.mean(task.target)) if task.intercept else 0.0

    def _shrunken(self, table: RowParts) -> Candidate:
        """p = 1 at the C that predicts left-out rows best."""
        mode = Mode(1.0, tuple(searched_rho(self.problem)[: SHRUNKEN_DEGREE + 1]))
        rough = replace(self.solver, tol=max(self.solver.tol, ROUGH))
        path = ModePath(rough, table, mode, self.callback, self.rng)
        point = path.best(_growing(smallest_C(self.problem.base)), PATIENCE, SLACK)
        task = replace(table.task(mode, table.parts[-1][0]), C=point.C)
        losses = np.empty(self.problem.n_rows)
        losses[table.judged] = self.problem.loss.take(table.judged).value(
            point.scores, table.judged_target
        )
        fitted = from_expansion(task, point.result, rough)
        return Candidate("shrunken", fitted, losses)

    def _given_list(self, table: RowParts, listed: FittedProducts) -> Array:
        """Losses of the list where its terms are known: less than it deserves."""
        losses = np.empty(self.problem.n_rows)
        for known, rows in table.parts[:-1]:
            task = self.problem.take(known)
            terms = Refit(task, self.solver.pricing(task)).fit(listed.products)
            losses[rows] = self._losses(task, terms, rows)
        return losses

    def _list(self, table: RowParts, listed: FittedProducts) -> Candidate:
        """The criterion at work on every fold, or on as many as can be afforded."""
        losses = np.full(self.problem.n_rows, np.nan)
        work = LOOKS * self.solver.pricing(self.problem).work
        for known, rows in table.parts[: max(1, min(FOLDS, int(LISTS_WORK / work)))]:
            task = self.problem.take(known)
            terms = SparsePath(self.solver).solve(task).terms
            assert terms is not None
            losses[rows] = self._losses(task, terms, rows)
        return Candidate("list", listed, losses)

    def _losses(self, task: ProductProblem, terms: Terms, rows: Index) -> Array:
        """Losses of some rows by terms that were fitted on those of a task."""
        assert isinstance(self.problem.base, RankOneKernels)
        plain = replace(self.problem.base.take(rows), normalized=False)
        scores = plain.features(terms.products) @ coefs_of(task, terms)
        return self.problem.loss.take(rows).value(
            scores + terms.intercept, self.problem.target[rows]
        )


def _growing(first: float) -> Iterator[float]:
    return (first * FACTOR**k for k in range(STEPS))


def _gain(better: Candidate, losses: Array, none: Candidate) -> float:
    """How much less a candidate loses, as a share of the null loss, where both are."""
    both = np.isfinite(losses) & np.isfinite(better.losses)
    null = max(float(none.losses[both].mean()), 1e-300)
    return float((losses[both] - better.losses[both]).mean()) / null


def _chosen(candidates: list[Candidate]) -> ChosenProducts:
    """Longer models, in the order given, must earn their place."""
    none, best = candidates[0], candidates[0]
    for candidate in candidates[1:]:
        if best is none:
            better = gains_surely(candidate.losses, none.losses, SURE)
        else:
            better = _gain(candidate, best.losses, none) > WORTH
        best = candidate if better else best
    order = [best, *(c for c in candidates if c is not best)]
    judged = tuple(Judged(c.name, 1.0 - _gain(c, none.losses, none)) for c in order)
    found = {**vars(best.fitted), "criterion": judged[0].loss}
    return ChosenProducts(**found, judged=judged, losses=best.losses)


def gains_surely(losses: Array, others: Array, errors: float) -> bool:
    """Whether rows lose less on average, by so many standard errors.

    Examples
    --------
    >>> gains_surely(np.array([1.0, 2.0, 1.0]), np.array([2.0, 3.0, 2.5]), 2.0)
    True
    """
    gains = others - losses
    gains = gains[np.isfinite(gains)]
    return bool(gains.mean() > errors * gains.std() / np.sqrt(len(gains)))


def searched_rho(problem: ProductProblem) -> Array:
    r"""rho times :math:`\sqrt{\log 2 N_d / \log 2 N_1}`, N_d the products of degree d.

    The best of N products of noise has a pull of about the square root of 2 log 2N: so
    much more must a product of two pull to be as credible as a column.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(20, 100))
    >>> searched_rho(ProductProblem(RankOneKernels(X), X[:, 0], np.ones(4))).round(2)
    array([1.  , 1.  , 1.32, 1.55])
    """
    base, rho = problem.base, np.asarray(problem.rho, dtype=float)
    counts = np.diff(
        [0] + [n_products(base.n_base, d, base.limits) for d in range(len(rho))]
    )
    prices = np.log(2.0 * np.maximum(counts, 1.0))
    return np.asarray(rho * np.sqrt(np.maximum(prices / prices[1:2].max(), 1.0)))
