"""Choose among models for p = 1 by held-out rows: a list of terms, shrinkage, none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.products.base import RankOneKernels
from manykernels.products.explicit_lp_norm import ExplicitLpNorm
from manykernels.products.fitted_products import (
    FittedProducts,
    coefs_of,
    from_expansion,
    scores_of,
)
from manykernels.products.indices import n_products
from manykernels.products.mirror_descent import RandomizedMirrorDescent
from manykernels.products.product_problem import ProductExpansion, ProductProblem
from manykernels.products.sparse.column_generation import ColumnGeneration, smallest_C
from manykernels.products.sparse.product_working_sets import working_set
from manykernels.products.sparse.refit import Refit, Terms
from manykernels.products.sparse.sparse_path import PATH_TOL, SparsePath
from manykernels.solvers.loop import Callback, SolveResult

N_CHOICE_FOLDS = 5
MIN_ROWS_FOR_FOLDS = 25  # with fewer, losses of held-out rows are mostly noise
MAX_SHRUNKEN_DEGREE = 2  # shrunken models with products of three extrapolate badly
# Losses within this share of the explained (or, for lists, of the null) loss count as
# equal, and the smaller model is taken.
EQUAL_LOSS_SHARE = 0.01
# A model replaces the constant only if its gain is this many standard errors above 0.
MIN_GAIN_OVER_CONSTANT_SE = 2.0
# Another shift of the columns must gain this many standard errors.
MIN_GAIN_OVER_SHIFT_SE = 1.0
# Multiply-adds for lists on folds. With less, few folds are judged and the choice is
# unstable; a list takes about as many searches of all products as the second number.
MAX_FOLD_LISTS_WORK = 2e12
SEARCHES_PER_LIST = 40
# Bytes of the explicit list of products, beyond which products are sampled instead.
MAX_LISTED_BYTES = 1 << 28


class Mode(NamedTuple):
    """A norm and the prior weights of the degrees."""

    p: float
    rho: tuple[float, ...]


@dataclass(frozen=True)
class HeldOutParts:
    """Pairs of training and held-out rows; folds and possibly a held-out set."""

    problem: ProductProblem  # on all rows
    parts: tuple[tuple[Index, Index], ...]  # (training, held-out) rows

    @classmethod
    def of(
        cls, problem: ProductProblem, extra: int, folds: int, rng: np.random.Generator
    ) -> HeldOutParts:
        """Split the rows into folds, and all but the last `extra` rows from these.

        Folds are left out where the extra rows are as many as the others.
        """
        n = problem.n_rows - extra
        known, parts = np.arange(n), [(np.arange(n), np.arange(n, n + extra))]
        if extra < n and min(folds, n) > 1:
            place = rng.permutation(n) % min(folds, n)
            folded = [
                (known[place != k], known[place == k]) for k in range(place.max() + 1)
            ]
            parts = folded + parts
        return cls(problem, tuple(parts))

    @property
    def judged(self) -> Index:
        """The held-out rows, part after part."""
        return np.concatenate([judged for _, judged in self.parts])

    @property
    def judged_target(self) -> Array:
        return np.asarray(self.problem.target[self.judged])

    def task(self, mode: Mode, known: Index) -> ProductProblem:
        """The problem of a mode on some rows."""
        rho = np.array(mode.rho)
        return replace(self.problem.take(known), rho=rho, p=mode.p)


@dataclass(frozen=True)
class ModePoint:
    """A fit of a mode at one C with its held-out scores."""

    mode: Mode
    C: float
    scores: Array  # of the held-out rows
    result: SolveResult


class ModePath:
    """Fits of one mode for growing C, on all parts side by side."""

    def __init__(
        self,
        settings: Any,
        parts: HeldOutParts,
        mode: Mode,
        callback: Callback | None,
        rng: np.random.Generator,
    ) -> None:
        self.parts, self.mode = parts, mode
        last = len(parts.parts) - 1
        self.tasks = [parts.task(mode, known) for known, _ in parts.parts]
        self.solves = [
            _path_solver(settings, task, rng, callback if i == last else None)
            for i, task in enumerate(self.tasks)
        ]

    def best(
        self, grid: Iterable[float], patience: int, slack: float = 0.0
    ) -> ModePoint:
        """Return the smallest C whose held-out loss is near the smallest one.

        Near is within a share `slack` of the largest decrease from the loss of a score
        of zero. The path ends after `patience` values of C without a decrease, unless
        it is flat so far, within that share of the loss of zero.
        """
        loss, target = self.parts.problem.loss, self.parts.judged_target
        loss = loss.take(self.parts.judged)
        null = float(loss.value(0.0 * target, target).mean())
        found: list[tuple[float, ModePoint]] = []
        since, least = 0, np.inf
        for point in self.points(grid):
            found.append((float(loss.value(point.scores, target).mean()), point))
            since = 0 if found[-1][0] < least else since + 1
            least = min(least, found[-1][0])
            if since >= patience and found[-1][0] > least + slack * null:
                break
        enough = least + slack * max(null - least, 0.0)
        return next(point for value, point in found if value <= enough)

    def points(self, grid: Iterable[float]) -> Iterator[ModePoint]:
        """Yield fits from strong to weak regularization."""
        whole = replace(self.parts.problem, rho=np.array(self.mode.rho))
        for C in grid:
            scores = []
            for (known, judged), task, solve in zip(
                self.parts.parts, self.tasks, self.solves, strict=True
            ):
                result = solve(replace(task, C=C))
                assert isinstance(result.model, ProductExpansion)
                scores.append(scores_of(whole, result.model, judged, known))
            yield ModePoint(self.mode, C, np.concatenate(scores), result)
            if result.stopped:
                return


def _path_solver(
    settings: Any,
    task: ProductProblem,
    rng: np.random.Generator,
    callback: Callback | None,
) -> Callable[[ProductProblem], SolveResult]:
    """Return a solver of the task for any C that starts from its last solution."""
    limit = settings.max_iter
    if task.p == 1.0:
        generation = ColumnGeneration(
            settings.tol, limit or 200, memory_limit=settings.memory_limit
        )
        known, pricing = working_set(task), generation.pricing(task)
        return lambda now: generation.solve(now, known, callback, pricing)
    if 16 * task.n_rows * task.n_products > MAX_LISTED_BYTES:
        drawing = RandomizedMirrorDescent(limit or 500, settings.tol, random_state=rng)
        return lambda now: drawing.solve(now, None, callback)
    listing = ExplicitLpNorm(settings.tol, limit or 50)
    last: list[ProductExpansion] = []

    def solve(now: ProductProblem) -> SolveResult:
        result = listing.solve(now, last[-1] if last else None, callback)
        assert isinstance(result.model, ProductExpansion)
        last[:] = [result.model] if result.model.products else []
        return result

    return solve


class Judged(NamedTuple):
    """A kind of model and its held-out loss, relative to that of a constant."""

    name: str
    loss: float


@dataclass(frozen=True)
class ChosenProducts(FittedProducts):
    """The best of several models, and the held-out losses of all."""

    judged: tuple[Judged, ...] = ()  # the chosen one first
    losses: Array | None = None  # of held-out rows by the chosen one

    def beats(self, other: FittedProducts) -> bool:
        """Whether held-out rows are predicted better by a standard error."""
        assert isinstance(other, ChosenProducts)
        assert self.losses is not None and other.losses is not None
        return gains_surely(self.losses, other.losses, MIN_GAIN_OVER_SHIFT_SE)


@dataclass(frozen=True)
class Candidate:
    """A model on all rows, and losses of held-out rows by the models of the folds."""

    name: str
    fitted: FittedProducts
    losses: Array  # one per row, NaN where it was not judged


@dataclass(frozen=True)
class Choice:
    """Cross-validate the list of the criterion, a shrunken model and a constant.

    A list is chosen anew on the rows of each fold, so that terms that were found in
    noise cost held-out loss. This is slow. It is skipped where the list is worse than
    the shrunken model even if the folds are given its terms.

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
        """Return the list of the criterion, or the model that predicts better."""
        if self.problem.n_rows < MIN_ROWS_FOR_FOLDS:
            return listed
        parts = HeldOutParts.of(self.problem, 0, N_CHOICE_FOLDS, self.rng)
        none = self._nothing(parts, listed)
        shrunken = self._shrunken(parts)
        candidates = [none, shrunken]
        if listed.products:
            given = self._given_list(parts, listed)
            if _gain(shrunken, given, none) < EQUAL_LOSS_SHARE:
                candidates.insert(1, self._list(parts, listed))
        return _chosen(candidates)

    def _nothing(self, parts: HeldOutParts, listed: FittedProducts) -> Candidate:
        """Return the constant model."""
        loss, target = self.problem.loss, self.problem.target
        losses = np.empty(len(target))
        for known, rows in parts.parts[:-1]:
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

    def _shrunken(self, parts: HeldOutParts) -> Candidate:
        """Return p = 1 at the C that predicts held-out rows best."""
        mode = Mode(1.0, tuple(searched_rho(self.problem)[: MAX_SHRUNKEN_DEGREE + 1]))
        rough = replace(self.solver, tol=max(self.solver.tol, PATH_TOL))
        path = ModePath(rough, parts, mode, self.callback, self.rng)
        point = path.best(
            _growing(smallest_C(self.problem.base)), patience=4, slack=EQUAL_LOSS_SHARE
        )
        task = replace(parts.task(mode, parts.parts[-1][0]), C=point.C)
        losses = np.empty(self.problem.n_rows)
        losses[parts.judged] = self.problem.loss.take(parts.judged).value(
            point.scores, parts.judged_target
        )
        fitted = from_expansion(task, point.result, rough)
        return Candidate("shrunken", fitted, losses)

    def _given_list(self, parts: HeldOutParts, listed: FittedProducts) -> Array:
        """Return losses of the given terms, refitted on each fold: biased downwards."""
        losses = np.empty(self.problem.n_rows)
        for known, rows in parts.parts[:-1]:
            task = self.problem.take(known)
            terms = Refit(task, self.solver.pricing(task)).fit(listed.products)
            losses[rows] = self._losses(task, terms, rows)
        return losses

    def _list(self, parts: HeldOutParts, listed: FittedProducts) -> Candidate:
        """Return losses of lists chosen anew, on as many folds as the work allows."""
        losses = np.full(self.problem.n_rows, np.nan)
        work = SEARCHES_PER_LIST * self.solver.pricing(self.problem).work
        for known, rows in parts.parts[
            : max(1, min(N_CHOICE_FOLDS, int(MAX_FOLD_LISTS_WORK / work)))
        ]:
            task = self.problem.take(known)
            terms = SparsePath(self.solver).solve(task).terms
            assert terms is not None
            losses[rows] = self._losses(task, terms, rows)
        return Candidate("list", listed, losses)

    def _losses(self, task: ProductProblem, terms: Terms, rows: Index) -> Array:
        """Return losses of some rows by terms that were fitted on those of a task."""
        assert isinstance(self.problem.base, RankOneKernels)
        plain = replace(self.problem.base.take(rows), normalized=False)
        scores = plain.features(terms.products) @ coefs_of(task, terms)
        return self.problem.loss.take(rows).value(
            scores + terms.intercept, self.problem.target[rows]
        )


def _growing(first: float) -> Iterator[float]:
    """Return values of C from one that explains next to nothing."""
    return (first * 1.6**k for k in range(50))


def _gain(better: Candidate, losses: Array, none: Candidate) -> float:
    """Return the decrease of the mean loss, as a share of the null loss."""
    both = np.isfinite(losses) & np.isfinite(better.losses)
    null = max(float(none.losses[both].mean()), 1e-300)
    return float((losses[both] - better.losses[both]).mean()) / null


def _chosen(candidates: list[Candidate]) -> ChosenProducts:
    """Return the last candidate that is clearly better than those before it."""
    none, best = candidates[0], candidates[0]
    for candidate in candidates[1:]:
        if best is none:
            better = gains_surely(
                candidate.losses, none.losses, MIN_GAIN_OVER_CONSTANT_SE
            )
        else:
            better = _gain(candidate, best.losses, none) > EQUAL_LOSS_SHARE
        best = candidate if better else best
    order = [best, *(c for c in candidates if c is not best)]
    judged = tuple(Judged(c.name, 1.0 - _gain(c, none.losses, none)) for c in order)
    found = {**vars(best.fitted), "criterion": judged[0].loss}
    return ChosenProducts(**found, judged=judged, losses=best.losses)


def gains_surely(losses: Array, others: Array, errors: float) -> bool:
    """Whether the mean loss is smaller by so many standard errors.

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

    The largest of N correlations with noise grows like the square root of 2 log 2N:
    weights in this proportion make all degrees equally likely to be chosen by chance.

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
    chances = np.log(2.0 * np.maximum(counts, 1.0))
    return np.asarray(rho * np.sqrt(np.maximum(chances / chances[1:2].max(), 1.0)))
