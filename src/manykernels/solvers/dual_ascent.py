"""Certified multiclass MKL: dual ascent under frozen kernel weights."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from manykernels.banks.base import block_norms, support_of
from manykernels.base.arrays import Array, Index
from manykernels.base.machine import one_blas_thread
from manykernels.base.stored import Real, Wholes, require_all
from manykernels.losses.classification import margins
from manykernels.solvers.interior_point import (
    InteriorPoint,
    interior_point_work,
    pairs_at_work,
)
from manykernels.solvers.levels import LevelSearch, without_small_weights
from manykernels.solvers.loop import (
    Callback,
    Checkpoint,
    Iterate,
    Resumable,
    SolveResult,
    State,
    relative_gap,
    run,
)
from manykernels.solvers.problem import Expansion, Problem, require_hinge
from manykernels.solvers.weights import DualMixture, WeightSearch
from manykernels.solvers.working_set import (
    RoundingBound,
    WorkingSet,
    best_rescaling,
    fits_in_memory,
)

FIRST_ROUND_GAP = 0.1  # asked of the very first frozen problem: weights are far off
HALF_OF_GAP = 0.5  # more precision in one of the gap's two parts would be wasted
NEARLY_SPARSE_P = 1.04  # between 1 and this, weights react abruptly
NEAR_MARGIN = 0.3  # rows this close to the margin stay among the working rows
SAMPLE_GAP = 3e-3  # ends the work on a sample: weights for all rows differ by more
SAMPLE_GROWTH = 5  # times as many rows, about, in the next sample
SETTLED_ROWS = 4000  # samples above that leave the weights nearly as they are
# Share of the coefficients that the rows with the smallest ones have together. Most of
# them (on MNIST half of the rows) lose theirs among more rows, and each costs a kernel
# row.
SMALL_COEF_SHARE = 0.2


@dataclass(frozen=True)
class DualAscent:
    r"""Freeze d, ascend the dual on :math:`K_d = \sum_f d_f K_f`, update d, repeat.

    For 1 <= p <= 2. A round combines the kernels once and then needs one kernel row
    an update, whatever the number of kernels; the block norms at its end give the
    next weights and both sides of the certificate. Large problems are solved on
    growing samples of the rows first: weights learned there are nearly right for all,
    and most rows that a sample's model leaves far from the margin stay there. Each
    sample goes on with the rows near the margin. After the last one all rows work at
    once, where memory holds the kernel rows of those with coefficients, else those
    near the margin; only a check on all the rows ends the search. Where sweeps cost
    more than an interior-point method would, that method solves for coefficients and
    weights of the working rows at once.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Rounds at most.
    subset : int
        Rows of the first sample; problems up to five times as large use all rows at
        once.
    random_state : int, Generator or None

    References
    ----------
    Crammer and Singer (2001) for the row problem; the weights follow Kloft et al.
    (2011) with Anderson (1965) mixing, and Xu et al. (2009) at p = 1.

    Examples
    --------
    >>> import manykernels as mk
    >>> model = mk.MKLClassifier("rbf; linear", solver=DualAscent(tol=1e-3))
    """

    certified: ClassVar[bool] = True  # warns where the gap stays above tol

    tol: float = 1e-2
    max_iter: int = 200
    subset: int = 200
    random_state: int | np.random.Generator | None = None

    def solve(
        self,
        problem: Problem,
        start: Expansion | None = None,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> SolveResult:
        """Solve to the relative gap `tol`, or until `max_iter` rounds are spent."""
        require_hinge(problem, type(self).__name__)
        start = start or problem.zero()
        rounds = AscentRounds(problem, start, self)
        # The products are thin, and BLAS threads would wait for the loops' threads.
        with one_blas_thread():
            result = run(
                rounds, start, tol=self.tol, callback=callback, checkpoint=checkpoint
            )
            # A kernel combined in float32 may make a model look better than it is.
            if result.objective != rounds.certified:
                objective = problem.objective(result.model)
                # Sums in another order differ by less than that.
                if not np.isclose(objective, result.objective, rtol=1e-9, atol=0.0):
                    result = result.with_objective(objective, self.tol)
        return replace(result, at_rounding=rounds.at_rounding)


class AscentRounds(Resumable):
    """The state of the search: coefficients, weights, and the rows at work."""

    remembered = (
        *("coef", "order", "sampled", "rows", "goal", "done", "updates", "work"),
        *("certified", "at_rounding", "rng", "search", "mixture"),
    )

    def __init__(self, problem: Problem, start: Expansion, solver: DualAscent) -> None:
        self.problem, self.solver = problem, solver
        self.rng = np.random.default_rng(solver.random_state)
        unit = start.coef / problem.bound[:, None]
        feasible = problem.loss.make_feasible(unit, problem.target)
        self.coef: Array = feasible * problem.bound[:, None]
        self.mixture = DualMixture(problem.norm)
        weights = problem.norm.normalize_weights(start.weights)
        sparse = problem.norm.p == 1.0
        self.search: LevelSearch | WeightSearch = (
            LevelSearch(weights, self.mixture)
            if sparse
            else WeightSearch(problem.norm, weights)
        )
        self.goal = FIRST_ROUND_GAP  # relative gap asked of the next frozen problem
        self.done = 0  # rounds
        self.updates = 0  # since the last iterate
        self.work = 0.0  # multiplications of the sweeps
        self.certified = np.inf  # the smallest objective in float64, from the kernels
        self.at_rounding = False  # whether the kernel values allow no smaller gap
        self.order = self.rng.permutation(problem.n_rows)  # samples are its beginnings
        self.sampled = problem.n_rows  # rows among which the working rows were chosen
        self.rows = self._first_rows()
        self.rounding = RoundingBound(problem.bank)
        self._working_set: WorkingSet | None = None
        if sparse and self.coef.any():
            self._bound_by_start()

    def iterates(self) -> Iterator[Iterate | None]:
        problem, solver, n_rows = self.problem, self.solver, self.problem.n_rows
        while self.done < solver.max_iter and not self.at_rounding:
            self.done += 1
            work = self._working_rows()

            # 1) Solve the problem with frozen weights: by sweeps, or by the
            #    interior-point method, which finds its own weights.
            at_once = self._solve_frozen(work)
            weights = self.search.weights
            norms = block_norms(work.bank, work.coef)
            self.coef[self.rows] = work.coef

            # 2) Measure the gap with the losses of the working rows.
            value = problem.norm.value(weights * norms)
            multiple, primal = best_rescaling(
                work.scores.T, work.target, work.bound, value
            )
            upper_norms = work.rounding.upper_norms(work.coef, norms)
            dual = self.mixture.add(self.coef, work.values.linear, upper_norms)
            gap, enough = relative_gap(primal, dual), self._gap_to_reach()
            # What sweeps cannot solve, or what was solved at once, stays as it is.
            solved = gap <= enough or at_once or not work.solved

            # 3) Once the rows are solved, score the next sample; the last one is all
            #    the rows, whose scores certify the model.
            iterate, scores, sample = None, None, self._next_sample()
            whole = len(sample) == n_rows and not self._may_take_all()
            if (solved and whole) or self.done == solver.max_iter:
                iterate, scores = self._certify(weights, norms)
                self.certified = min(self.certified, iterate.objective)
            elif solved and len(sample) < n_rows:
                scores = problem.bank.scores_at(sample, self.coef, weights)
            elif len(self.rows) == n_rows:
                iterate = self._iterate(weights, work.scores.T, norms, multiple)

            # 4) Choose the next weights, and how precisely to solve with them.
            unsolved = relative_gap(work.values.primal, work.values.dual)
            #    Where better weights are not needed, the combined kernel serves once
            #    more: to combine it anew takes longer than the sweeps that are missing.
            open_gap = gap - unsolved  # what better weights would close
            if not solved and open_gap < enough:
                self.goal = min(self.goal, HALF_OF_GAP * (enough - open_gap))
            else:
                next_goal = HALF_OF_GAP * max(open_gap, enough)
                if 1.0 < problem.norm.p < NEARLY_SPARSE_P:
                    next_goal = 0.1 * max(gap, solver.tol)
                self.goal = min(self.goal, next_goal)
                self.search.step(norms, work.values.dual, work.values.primal)

            # 5) Go on with the rows of the next sample that are near the margin, or
            #    with all the rows.
            if solved and self.done < solver.max_iter:
                if scores is None:
                    iterate = self._take_all(work)
                else:
                    self._change_rows(sample, scores)
            self.updates = self.updates if iterate is None else 0
            del work  # its kernel makes room for that of the next set
            yield iterate

    def restore(self, state: State) -> None:
        rows = state["rows"]
        Wholes(None, low=0, below=self.problem.n_rows).check("rows", rows, {})
        require_all("the search", {"rows": np.all(rows[:-1] < rows[1:])})
        self.rows = rows
        super().restore(state)
        Real(0.0, above=True).check("goal", self.goal, {})
        self._working_set = None

    # --- one frozen problem -----------------------------------------------------------

    def _working_rows(self) -> WorkingSet:
        if self._working_set is None:
            # Few rounds are left for large samples: values need not be stored.
            brief = len(self.rows) > SETTLED_ROWS
            self._working_set = WorkingSet(
                self.problem, self.rows, self.coef, self.rng, brief
            )
        return self._working_set

    def _solve_frozen(self, work: WorkingSet) -> bool:
        """Solve the frozen problem; whether it was solved with its weights at once."""
        all_pairs = self.coef.size - len(self.coef)
        costly = self.work > interior_point_work(work)
        pairs = pairs_at_work(work) if costly else None
        if pairs is None:
            updates = work.ascend(self.search.weights, self.goal)
            self.updates += updates
            self.work += updates * len(work.target) if work.solved else np.inf
            return False
        goal = HALF_OF_GAP * self.solver.tol
        found = InteriorPoint(work, self.problem.norm, pairs).solve(goal)
        work.adopt(found.coef, found.weights)
        work.solved, self.search.weights = True, found.weights
        self.at_rounding = len(pairs.row) == all_pairs
        return True

    def _gap_to_reach(self) -> float:
        """The gap that ends the work on these rows; samples only give a start."""
        tol = self.solver.tol
        if self.sampled < self.problem.n_rows:
            return max(SAMPLE_GAP, HALF_OF_GAP * tol)
        return tol

    # --- certificates -----------------------------------------------------------------

    def _bound_by_start(self) -> None:
        """Keep the start's own bound: at p = 1 a round's point has a worse one."""
        target = self.problem.target[:, None]
        linear = float(np.take_along_axis(self.coef, target, axis=1).sum())
        norms = block_norms(self.problem.bank, self.coef)
        self.mixture.add(self.coef, linear, self.rounding.upper_norms(self.coef, norms))

    def _certify(self, weights: Array, norms: Array) -> tuple[Iterate, Array]:
        """The certificate: float64, from the kernels, on all rows; and the scores."""
        problem, scores = self.problem, self._all_scores(weights)
        candidates, fewer = [(weights, scores)], weights
        if problem.norm.p == 1.0 and self.sampled == problem.n_rows:
            fewer = without_small_weights(weights)
        if np.count_nonzero(fewer) < np.count_nonzero(weights):
            # Scores are linear in the weights: those of what is left out are taken off.
            rest = scores - problem.bank.scores(self.coef, weights - fewer)
            scale = 1.0 / fewer.sum()
            candidates.insert(0, (scale * fewer, scale * rest))
        for candidate, scores in candidates:
            value = problem.norm.value(candidate * norms)
            # What was taken off has left its rounding behind.
            rounding = self.rounding.on_margins(
                self.coef, np.maximum(candidate, weights)
            )
            multiple, _ = best_rescaling(
                scores, problem.target, problem.bound, value, rounding
            )
            iterate = self._iterate(candidate, scores, norms, multiple)
            gap = relative_gap(iterate.objective, iterate.dual_bound)
            if gap <= self.solver.tol:
                break
        rescaled = partial(np.multiply, multiple, scores)
        return replace(iterate, scores=rescaled), scores

    def _all_scores(self, weights: Array) -> Array:
        """Scores of all rows, from values that the working set holds where it can."""
        bank, work = self.problem.bank, self._working_set
        if work is None or not bank.computes_anew or weights is not work.kernel.weights:
            return bank.scores(self.coef, weights)
        scores = np.empty(self.coef.shape)
        scores[self.rows] = work.kernel.scores(work.coef).T
        others = np.setdiff1d(np.arange(self.problem.n_rows), self.rows)
        scores[others] = bank.scores_at(others, self.coef, weights)
        return scores

    def _iterate(
        self, weights: Array, scores: Array, norms: Array, multiple: float
    ) -> Iterate:
        lengths = weights * norms
        return Iterate(
            objective=self.problem.primal_value(multiple * scores, multiple * lengths),
            dual_bound=self.problem.reg * self.mixture.value,
            updates=self.updates,
            snapshot=partial(Expansion, multiple * self.coef, weights),
            dual_snapshot=partial(np.asarray, self.mixture.coef),
        )

    # --- the rows at work -------------------------------------------------------------

    def _first_rows(self) -> Index:
        """A sample and the support of the start; all rows if they are few."""
        n_rows, most = self.problem.n_rows, self.problem.bank.max_combined_rows
        if n_rows <= min(SAMPLE_GROWTH * self.solver.subset, most):
            return np.arange(n_rows)
        support = support_of(self.coef)
        if len(support) + self.solver.subset > most:
            self.coef[support] = 0.0  # a start that would not fit
        self.sampled = min(self.solver.subset, most)
        return np.union1d(self.order[: self.sampled], support_of(self.coef))

    def _next_sample(self) -> Index:
        """The next larger sample, in equal steps of the logarithm up to all rows."""
        ratio = self.problem.n_rows / self.sampled
        steps = max(1, round(np.log(ratio) / np.log(SAMPLE_GROWTH)))
        return np.sort(self.order[: round(self.sampled * ratio ** (1.0 / steps))])

    def _may_take_all(self) -> bool:
        """Whether all rows may work at once after a sample.

        What this takes in memory depends on how many of them will have coefficients:
        up to twice as many as in the sample.
        """
        n_rows = self.problem.n_rows
        expected = min(2 * len(support_of(self.coef)), n_rows)
        return self.sampled < n_rows and fits_in_memory(self.problem.bank, expected)

    def _take_all(self, sample: WorkingSet) -> Iterate:
        """Go on with all the rows, whose scores come with what their sweeps need.

        That is one pass over the kernels less than to choose rows by their scores, and
        later to certify those left out.
        """
        self.coef = without_small_coef(self.coef)
        # The sample has the values that these need, fewer and side by side.
        norms = block_norms(sample.bank, self.coef[self.rows])
        self._begin(np.arange(self.problem.n_rows), self.problem.n_rows)
        weights, work = self.search.weights, self._working_rows()
        work.adopt(self.coef, weights)
        value = self.problem.norm.value(weights * norms)
        multiple, _ = best_rescaling(work.scores.T, work.target, work.bound, value)
        return self._iterate(weights, work.scores.T, norms, multiple)

    def _change_rows(self, sample: Index, scores: Array) -> None:
        """Go on with the support and the rows of a sample whose margin is small."""
        most, support = self.problem.bank.max_combined_rows, support_of(self.coef)
        distance = np.full(self.problem.n_rows, np.inf)
        distance[sample] = margins(scores, self.problem.target[sample]) - 1.0
        distance[support] = np.inf
        near = np.flatnonzero(distance < NEAR_MARGIN)
        if len(support) > most:
            self.done = self.solver.max_iter
            warnings.warn(
                f"The solver must hold a combined kernel of {len(support)} support "
                f"rows, and memory allows {most}; raise memory_limit or lower C; the "
                "best model so far was kept.",
                UserWarning,
                stacklevel=2,
            )
        nearest = near[np.argsort(distance[near])]
        rows = nearest[: max(most - len(support), 0)]
        self._begin(np.union1d(support, rows), len(sample))

    def _begin(self, rows: Index, sampled: int) -> None:
        """Go on with these rows."""
        self.rows, self.sampled = rows, sampled
        self._working_set = None
        self.goal = max(self.goal, HALF_OF_GAP * self._gap_to_reach())
        self.search.restart()


def without_small_coef(coef: Array) -> Array:
    """Coefficients without those of the rows whose coefficients are smallest.

    Examples
    --------
    >>> without_small_coef(np.array([[0.5, -0.5], [0.1, -0.1], [0.0, 0.0]])).tolist()
    [[0.5, -0.5], [0.0, 0.0], [0.0, 0.0]]
    """
    size = np.abs(coef).sum(axis=1)
    order = np.argsort(size)
    small = order[np.cumsum(size[order]) < SMALL_COEF_SHARE * size.sum()]
    left = coef.copy()
    left[small] = 0.0
    return left
