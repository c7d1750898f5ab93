"""Certified multiclass MKL: dual ascent under frozen kernel weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from manykernels.banks.base import (
    Array,
    Bank,
    Index,
    Values,
    block_norms,
    support_of,
)
from manykernels.hot.dual import dual_sweeps, frozen_values, gather_square
from manykernels.hot.threads import in_slices, one_blas_thread
from manykernels.losses.hinge import margins
from manykernels.solvers.acceleration import WeightSearch
from manykernels.solvers.loop import (
    Callback,
    Iterate,
    SolveResult,
    relative_gap,
    run,
)
from manykernels.solvers.mixture import DualMixture
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.requirements import require_hinge

SWEEPS = 20  # between two looks at which rows still matter
FIRST_GOAL = 0.3  # relative gap asked of the very first round
INNER_SHARE = 0.1  # part of the current gap that a round may leave unsolved
NEAR_MARGIN = 0.3  # rows this close to the margin stay among the working rows
FINISHED = 0.8  # share of the tolerance at which a working set is solved
ROUGH = 0.05  # relative gap that ends the first working set
PRUNED = (1e-2, 1e-3)  # at p = 1, models without weights below these are tried
DENSE = 0.7  # working sets above this share of the rows are not worth a copy


@dataclass(frozen=True)
class DualAscent:
    r"""Freeze d, ascend the dual on :math:`K_d = \sum_f d_f K_f`, update d, repeat.

    For 1 <= p <= 2. A round combines the kernels once and then needs one kernel row
    an update, whatever the number of kernels; the block norms at its end give the
    next weights and both sides of the certificate. Large problems start on a subset
    of the rows and go on with the rows that the current model leaves near the margin;
    only a check on all the rows ends the search.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Rounds at most.
    subset : int
        Rows of the first working set; smaller problems use all rows at once.
    random_state : int, Generator or None

    References
    ----------
    Crammer and Singer (2001) for the row problem; the weights follow Kloft et al.
    (2011) with Anderson (1965) mixing.
    """

    tol: float = 1e-2
    max_iter: int = 200
    subset: int = 600
    random_state: int | np.random.Generator | None = None

    def solve(
        self,
        problem: Problem,
        start: Expansion | None = None,
        callback: Callback | None = None,
    ) -> SolveResult:
        """Solve to the relative gap `tol`, or until `max_iter` rounds are spent."""
        require_hinge(problem, type(self).__name__)
        start = start or problem.zero()
        rng = np.random.default_rng(self.random_state)
        iterates = _Rounds(problem, start, rng, self).iterates()
        # The products are thin, and BLAS threads would fight with our own.
        with one_blas_thread():
            return run(iterates, start, tol=self.tol, callback=callback)


class _Rounds:
    """The state of the search: coefficients, weights, and the rows at work."""

    def __init__(
        self,
        problem: Problem,
        start: Expansion,
        rng: np.random.Generator,
        solver: DualAscent,
    ) -> None:
        self.problem = problem
        self.rng = rng
        self.solver = solver
        unit = start.coef / problem.bound[:, None]
        feasible = problem.loss.make_feasible(unit, problem.target)
        self.coef = feasible * problem.bound[:, None]
        self.search = WeightSearch(
            problem.norm, problem.norm.normalize_weights(start.weights)
        )
        self.mixture = DualMixture(problem.norm)
        self.gap = np.inf  # relative, on the working rows
        self.goal = FIRST_GOAL  # relative gap asked of the next frozen problem

    def iterates(self) -> Iterator[Iterate]:
        """One iterate per round on all the rows, and per finished working set."""
        left = self.solver.max_iter
        rows = self._first_rows()
        rough = True
        while left > 0:
            work = _WorkingSet(self.problem, rows, self.coef, self.rng)
            everything = len(rows) == self.problem.n_rows
            rough = rough and not everything
            self.search.restart()
            updates = 0
            finished = False
            while left > 0 and not finished:
                left -= 1
                weights = self.search.weights
                updates += work.ascend(weights, self.goal)
                norms = work.theta_norms()
                self.coef[rows] = work.coef
                self._measure(work, norms)
                # Unsolved means that rounding, not work, limits the frozen problem.
                enough = self._enough(rough, everything)
                finished = left == 0 or self.gap <= enough or not work.solved
                if finished:
                    iterate, scores = self._certify(weights, norms, updates)
                    yield iterate
                elif everything:
                    yield self._iterate(weights, work.scores.T, norms, updates)
                    updates = 0
                self._advance(work, norms)
            rows = self._working_rows(scores)
            rough = False

    def _enough(self, rough: bool, everything: bool) -> float:
        """Relative gap that ends a working set; the first one only gives a start.

        Rows outside the working set may add to the gap, so it leaves them room.
        """
        if everything:
            return self.solver.tol
        return max(ROUGH * rough, FINISHED * self.solver.tol)

    def _measure(self, work: _WorkingSet, norms: Array) -> None:
        """The certificate's relative gap, with the loss of the working rows only."""
        primal = self.problem.norm.value(self.search.weights * norms) + work.sums.loss
        dual = self.mixture.add(self.coef, work.sums.linear, norms)
        self.gap = relative_gap(primal, dual)

    def _certify(
        self, weights: Array, norms: Array, updates: int
    ) -> tuple[Iterate, Array]:
        """The certificate: float64, from the kernels, on all rows; and the scores.

        At p = 1 models without the smallest weights are tried first.
        """
        for candidate in self._sparsest_first(weights):
            scores = self.problem.bank.scores(self.coef, candidate)
            scale = self.problem.best_scale(scores, candidate * norms)
            iterate = self._iterate(candidate, scores, norms, updates, scale)
            gap = relative_gap(iterate.objective, iterate.dual_bound)
            if gap <= self.solver.tol:
                break
        return iterate, scores

    def _sparsest_first(self, weights: Array) -> list[Array]:
        norm = self.problem.norm
        if norm.p > 1.0:
            return [weights]
        pruned = [
            norm.normalize_weights(np.where(small, 0.0, weights))
            for small in (weights < share * weights.max() for share in PRUNED)
            if small.any()
        ]
        return [*pruned, weights]

    def _iterate(
        self,
        weights: Array,
        scores: Array,
        norms: Array,
        updates: int,
        scale: float = 1.0,
    ) -> Iterate:
        coef, lengths = self.coef, weights * norms
        return Iterate(
            objective=self.problem.primal_value(scale * scores, scale * lengths),
            dual_bound=self.problem.reg * self.mixture.value,
            updates=updates,
            snapshot=lambda: Expansion(scale * coef, weights),
            dual_snapshot=lambda: self.mixture.coef,
        )

    def _advance(self, work: _WorkingSet, norms: Array) -> None:
        """Next weights, and how precisely to solve the next frozen problem."""
        self.goal = min(self.goal, INNER_SHARE * max(self.gap, self.solver.tol))
        self.search.step(norms, work.sums.dual, work.sums.primal)

    def _first_rows(self) -> Index:
        n_rows = self.problem.n_rows
        if n_rows <= 2 * self.solver.subset:
            return np.arange(n_rows)
        chosen = self.rng.permutation(n_rows)[: self.solver.subset]
        return np.union1d(chosen, support_of(self.coef))

    def _working_rows(self, scores: Array) -> Index:
        """Support rows and rows whose margin is small."""
        near = margins(scores, self.problem.target) < 1.0 + NEAR_MARGIN
        near[support_of(self.coef)] = True
        return np.arange(len(near)) if near.mean() > DENSE else np.flatnonzero(near)


class _Sums(NamedTuple):
    """What the values of a frozen problem are made of."""

    linear: float  # of the own coefficients
    quadratic: float
    loss: float  # weighted

    @property
    def primal(self) -> float:
        return 0.5 * self.quadratic + self.loss

    @property
    def dual(self) -> float:
        return self.linear - 0.5 * self.quadratic


class _WorkingSet:
    """The problem on some of the rows, with one combined kernel."""

    def __init__(
        self, problem: Problem, rows: Index, coef: Array, rng: np.random.Generator
    ) -> None:
        everything = len(rows) == problem.n_rows
        self.bank: Bank = problem.bank if everything else problem.bank.subset(rows)
        self.target = problem.target[rows]
        self.bound = problem.bound[rows]
        self.coef = coef[rows]
        self.rng = rng
        self.scores: Array = np.zeros(self.coef.shape).T
        self.sums = _Sums(0.0, 0.0, 0.0)
        self.solved = False  # whether the last frozen problem reached its goal

    def ascend(self, weights: Array, goal: float) -> int:
        """Solve the problem with these weights to a relative gap; returns updates."""
        kernel = _Combined(self.bank, weights)
        self.scores = kernel.scores(self.coef)
        updates = 0
        for _ in range(SWEEPS):
            updates += self._ascend_active(kernel, goal)
            self.sums = self._sums()
            self.solved = relative_gap(self.sums.primal, self.sums.dual) <= goal
            if self.solved:
                break
        return updates

    def _ascend_active(self, kernel: _Combined, goal: float) -> int:
        """Sweeps over the rows that can change, with their part of the kernel only."""
        active = self._active_rows()
        before = self.coef[active]
        coef = before.copy()
        scores = np.ascontiguousarray(self.scores[:, active])
        orders = np.stack([self.rng.permutation(len(active)) for _ in range(SWEEPS)])
        _, updates = dual_sweeps(
            kernel.square(active),
            self.target[active],
            self.bound[active],
            coef,
            scores,
            np.zeros(scores.shape, self.bank.dtype),
            orders,
            goal,
        )
        self.coef[active] = coef
        change = np.zeros_like(self.coef)
        change[active] = coef - before
        self.scores += kernel.scores(change)
        return int(updates)

    def _active_rows(self) -> Index:
        active = margins(self.scores.T, self.target) < 1.0
        active[support_of(self.coef)] = True
        return np.flatnonzero(active)

    def _sums(self) -> _Sums:
        no_drift = np.zeros_like(self.scores)
        return _Sums(
            *frozen_values(self.target, self.bound, self.coef, self.scores, no_drift)
        )

    def theta_norms(self) -> Array:
        """||theta_f|| of the current coefficients."""
        return block_norms(self.bank, self.coef)


class _Combined:
    """sum_f d_f K_f, combined row by row as rows are asked for.

    Most rows never leave zero, and their kernel rows are never needed.
    """

    def __init__(self, bank: Bank, weights: Array) -> None:
        self.bank = bank
        self.weights = weights
        self.values: Values = np.empty((bank.n_rows, bank.n_rows), bank.dtype)
        self.known = np.zeros(bank.n_rows, dtype=bool)

    def _require(self, rows: Index) -> None:
        missing = rows[~self.known[rows]]
        if len(missing):
            self.values[missing] = self.bank.combine(self.weights, missing)
            self.known[missing] = True

    def scores(self, coef: Array) -> Array:
        """(K coef)' in float64, multiplied in the precision of the kernel."""
        support = support_of(coef)
        self._require(support)
        part = coef[support].T.astype(self.values.dtype)
        return np.asarray(part @ self.values[support], dtype=np.float64)

    def square(self, index: Index) -> Values:
        """Rows and columns `index`, copied together."""
        self._require(index)
        out = np.empty((len(index), len(index)), self.values.dtype)

        def work(start: int, stop: int) -> None:
            gather_square(self.values, index, out, start, stop)

        in_slices(len(index), out.nbytes, work)
        return out
