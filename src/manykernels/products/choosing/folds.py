"""One way to learn, for growing C, judged by rows that it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from manykernels.base.arrays import Array, Index
from manykernels.products.column_generation import ColumnGeneration
from manykernels.products.explicit_lp_norm import ExplicitLpNorm
from manykernels.products.fitted import scores_of
from manykernels.products.mirror_descent import RandomizedMirrorDescent
from manykernels.products.problem import ProductExpansion, ProductProblem
from manykernels.products.restricted import working_set
from manykernels.solvers.loop import Callback, SolveResult

LISTED_BYTES = 1 << 28  # beyond, products are drawn and not listed


class Mode(NamedTuple):
    """A norm and the prior weights of the degrees."""

    p: float
    rho: tuple[float, ...]


@dataclass(frozen=True)
class RowParts:
    """All rows, and for every part of the work which to learn from and to judge by."""

    problem: ProductProblem  # on all rows
    parts: tuple[tuple[Index, Index], ...]  # the last one learns from all but held out

    @classmethod
    def of(
        cls, problem: ProductProblem, extra: int, folds: int, rng: np.random.Generator
    ) -> RowParts:
        """Folds, unless the last `extra` rows, which are held out, are as many."""
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
        """The rows to judge by, part after part."""
        return np.concatenate([judged for _, judged in self.parts])

    @property
    def judged_target(self) -> Array:
        """Their targets."""
        return np.asarray(self.problem.target[self.judged])

    def task(self, mode: Mode, known: Index) -> ProductProblem:
        """The problem of a mode on some rows."""
        rho = np.array(mode.rho)
        return replace(self.problem.take(known), rho=rho, p=mode.p)


class PathSettings(Protocol):
    """What the solvers along a path are told."""

    @property
    def tol(self) -> float:
        """Relative duality gap at which to stop."""

    @property
    def max_iter(self) -> int | None:
        """Rounds."""

    @property
    def memory_limit(self) -> int | str | None:
        """Bytes."""


@dataclass(frozen=True)
class ModePoint:
    """Where the path of a mode was best."""

    mode: Mode
    C: float
    scores: Array  # of the rows to judge by
    result: SolveResult


class ModePath:
    """One mode for growing C, on all parts side by side."""

    def __init__(
        self,
        settings: PathSettings,
        table: RowParts,
        mode: Mode,
        callback: Callback | None,
        rng: np.random.Generator,
    ) -> None:
        self.table, self.mode = table, mode
        last = len(table.parts) - 1
        self.tasks = [table.task(mode, known) for known, _ in table.parts]
        self.solves = [
            _solver(settings, task, rng, callback if i == last else None)
            for i, task in enumerate(self.tasks)
        ]

    def best(
        self, grid: Iterable[float], patience: int, slack: float = 0.0
    ) -> ModePoint:
        """The least C with a loss near the least; the path ends when no C is better.

        Near means to gain all but a share `slack` of the most that can be gained on a
        score of zero. A path that is flat so far, within that share of the loss of
        zero, goes on.
        """
        loss, target = self.table.problem.loss, self.table.judged_target
        loss = loss.take(self.table.judged)
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
        """From strong to weak regularization."""
        whole = replace(self.table.problem, rho=np.array(self.mode.rho))
        for C in grid:
            scores = []
            for (known, judged), task, solve in zip(
                self.table.parts, self.tasks, self.solves, strict=True
            ):
                result = solve(replace(task, C=C))
                assert isinstance(result.model, ProductExpansion)
                scores.append(scores_of(whole, result.model, judged, known))
            yield ModePoint(self.mode, C, np.concatenate(scores), result)
            if result.stopped:
                return


def _solver(
    settings: PathSettings,
    task: ProductProblem,
    rng: np.random.Generator,
    callback: Callback | None,
) -> Callable[[ProductProblem], SolveResult]:
    """A function of the problem for some C, which starts where it last ended."""
    limit = settings.max_iter
    if task.p == 1.0:
        generation = ColumnGeneration(
            settings.tol, limit or 200, memory_limit=settings.memory_limit
        )
        known, pricing = working_set(task), generation.pricing(task)
        return lambda now: generation.solve(now, known, callback, pricing)
    if 16 * task.n_rows * task.n_products > LISTED_BYTES:
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
