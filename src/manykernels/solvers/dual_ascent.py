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
    MOST_PAIRS,
    InteriorPoint,
    Pairs,
    pairs_at_work,
)
from manykernels.solvers.levels import LevelSearch, without_smallest
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
from manykernels.solvers.working_set import Doubt, WorkingSet, most_rows, stretched

FIRST_GOAL = 0.1  # relative gap asked of the very first round
UNSOLVED_SHARE = 0.5  # of what the weights leave open: no round need solve more
ENOUGH = 0.4  # of the tolerance: no frozen problem need be solved more precisely
LITTLE_OPEN = 0.8  # of the tolerance: weights that leave less open than this will do
PRECISE = 0.1  # of the gap: what a round may leave unsolved if weights are sensitive
LEAST = 0.05  # of the tolerance: the most precise that a stuck search asks for
STUCK = 0.9  # of the last gap: a gap above it is stuck
NEAR_MARGIN = 0.3  # rows this close to the margin stay among the working rows
FINISHED = 0.8  # share of the tolerance at which a working set is solved
SAMPLE = 0.3  # of the tolerance: gap that ends the work on a sample of the rows,
ROUGH = 3e-3  # or this one: the weights for all the rows differ more than that
AT_ONCE = 5  # times the first sample: fewer rows need no sample
GROWTH = 4.5  # times as many rows, about, in the next sample
REOPENED = 0.05  # relative gap asked of its first round at p = 1
SETTLED_ROWS = 4000  # samples above that leave the weights nearly as they are
NEARLY_SPARSE = 1.04  # between 1 and this, weights react abruptly
ROUND_WORK = 1e5  # multiplications that take as long as a round's Python
INTERIOR_STEPS = 25  # of the interior-point method, as a rule
PACKED = 8  # multiplications of a matrix product in the time of one of a sweep
FLATTERED = 1e-9  # relative difference of objectives that is more than rounding
MORE_SUPPORT = 1.8  # times as many rows with coefficients, where a sample was solved
DENSE = 0.7  # working sets above this share of the rows are not worth a copy
# Share of the coefficients that the lightest rows of a sample have together. Most of
# them (on MNIST half of the rows) lose theirs among more rows, and each costs a kernel
# row.
LIGHT = 0.2


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
        rng = np.random.default_rng(self.random_state)
        rounds = AscentRounds(problem, start, rng, self)
        # The products are thin, and BLAS threads would fight with our own.
        with one_blas_thread():
            result = run(
                rounds, start, tol=self.tol, callback=callback, checkpoint=checkpoint
            )
            if result.objective != rounds.certified:
                result = _with_exact_objective(problem, result, self.tol)
        return replace(result, at_rounding=rounds.at_rounding)


def _with_exact_objective(
    problem: Problem, result: SolveResult, tol: float
) -> SolveResult:
    """As it is, unless a kernel combined in float32 flattered the model."""
    objective = problem.objective(result.model)
    if objective <= result.objective * (1.0 + FLATTERED):
        return result
    bound = result.objective - result.duality_gap
    return replace(
        result,
        objective=objective,
        duality_gap=objective - bound,
        converged=relative_gap(objective, bound) <= tol,
    )


class AscentRounds(Resumable):
    """The state of the search: coefficients, weights, and the rows at work."""

    remembered = (
        "coef",
        "order",
        "sampled",
        "rows",
        "held",
        "gap",
        "last_gap",
        "goal",
        "done",
        "updates",
        "work",
        "certified",
        "at_rounding",
        "rng",
        "search",
        "mixture",
    )

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
        self.mixture = DualMixture(problem.norm)
        weights = problem.norm.normalize_weights(start.weights)
        self.search: LevelSearch | WeightSearch
        if problem.norm.p == 1.0:
            self.search = LevelSearch(weights, self.mixture)
        else:
            self.search = WeightSearch(problem.norm, weights)
        self.gap = np.inf  # relative, on the working rows
        self.last_gap = np.inf  # of the round before
        self.goal = FIRST_GOAL  # relative gap asked of the next frozen problem
        self.done = 0  # rounds
        self.updates = 0  # since the last iterate
        self.order = rng.permutation(problem.n_rows)  # samples are its beginnings
        self.sampled = problem.n_rows  # rows among which the working rows were chosen
        self.work = 0.0  # multiplications of the sweeps
        self.certified = np.inf  # the smallest objective in float64, from the kernels
        self.at_rounding = False  # whether the kernel values allow no smaller gap
        self.rows = self._first_rows()
        self.held: Index = np.empty(0, dtype=np.intp)  # combined rows that still serve
        self.doubt = Doubt(problem.bank)
        self._work: WorkingSet | None = None
        if problem.norm.p == 1.0 and self.coef.any():
            self._bound_by_start()

    def _bound_by_start(self) -> None:
        """The start's own bound: at p = 1 a round's point has a worse one."""
        own = np.take_along_axis(self.coef, self.problem.target[:, None], axis=1)
        norms = block_norms(self.problem.bank, self.coef)
        longest = self.doubt.longer(self.coef, norms)
        self.mixture.add(self.coef, float(own.sum()), longest)

    def iterates(self) -> Iterator[Iterate | None]:
        """One item a round: an iterate for all the rows, None for a working set.

        A round solves the frozen problem, measures, and prepares the next one.
        """
        most, n_rows = self.solver.max_iter, self.problem.n_rows
        while self.done < most and not self.at_rounding:
            self.done += 1
            work = self._work = self._work or self._working_set()
            pairs = self._solve(work)
            weights = self.search.weights
            norms = block_norms(work.bank, work.coef)
            self.coef[self.rows] = work.coef
            self.last_gap = self.gap
            stretch = self._measure(work, weights, norms)
            # Unsolved means that sweeps will not do, and what was solved at once is as
            # good as it gets.
            at_once = pairs is not None
            solved = self.gap <= self._enough() or not work.solved or at_once
            seen, iterate, scores = self._next_sample(), None, None
            ready = solved and len(seen) == n_rows and not self._may_take_all()
            if self.done == most or ready:
                iterate, scores = self._certify(weights, norms)
                self.certified = min(self.certified, iterate.objective)
            elif solved and len(seen) < n_rows:
                scores = self.problem.bank.scores_at(seen, self.coef, weights)
            elif len(self.rows) == n_rows:
                iterate = self._iterate(weights, work.scores.T, norms, stretch)
            self._prepare(work, norms, solved)
            if solved and self.done < most:
                if scores is None:
                    iterate = self._take_all(work)
                else:
                    self._change_rows(seen, scores)
            self.updates = self.updates if iterate is None else 0
            self.at_rounding = pairs is not None and self._all_there_are(pairs)
            del work  # its kernel makes room for that of the next set
            yield iterate

    def _working_set(self) -> WorkingSet:
        # Small samples settle the weights: few rounds are left for large ones.
        brief = len(self.rows) > SETTLED_ROWS
        work = WorkingSet(self.problem, self.rows, self.coef, self.rng, brief)
        if len(self.held):
            work.hold(self.held, self.search.weights)
        return work

    def _solve(self, work: WorkingSet) -> Pairs | None:
        """The frozen problem by sweeps, or with its weights where sweeps cost more.

        Returns the pairs of rows and outputs that were solved for at once, if any.
        """
        pairs = pairs_at_work(work) if self.work > self._work_at_once(work) else None
        if pairs is None:
            updates = work.ascend(self.search.weights, self.goal)
            self.updates += updates
            more = updates * len(work.target) + ROUND_WORK
            self.work += more if work.solved else np.inf
            return None
        goal = ENOUGH * self.solver.tol
        found = InteriorPoint(work, self.problem.norm, pairs).solve(goal)
        work.adopt(found.coef, found.weights)
        work.solved, self.search.weights = True, found.weights
        return pairs

    def _work_at_once(self, work: WorkingSet) -> float:
        """Multiplications of the interior-point method, in the time of a sweep's."""
        n_rows, n_outputs = work.coef.shape
        n_pairs = min(n_rows * (n_outputs - 1), MOST_PAIRS)
        step = n_pairs**3 / 3.0 + n_rows**2 * work.bank.n_blocks * (n_outputs + 1)
        return float(INTERIOR_STEPS * (step / PACKED + 3.0 * ROUND_WORK))

    def _all_there_are(self, pairs: Pairs) -> bool:
        return len(pairs.row) == self.coef.size - len(self.coef)

    def restore(self, state: State) -> None:
        """Go on from an earlier state; the working set's kernel is made anew."""
        rows = state["rows"]
        Wholes(None, low=0, below=self.problem.n_rows).check("rows", rows, {})
        require_all("the search", {"rows": np.all(rows[:-1] < rows[1:])})
        held = state["held"]
        Wholes(None, low=0, below=len(rows)).check("held", held, {})
        require_all("the search", {"held rows": len(np.unique(held)) == len(held)})
        self.rows, self.held = rows, held
        super().restore(state)
        Real(0.0, above=True).check("goal", self.goal, {})
        self._work = None

    def _measure(self, work: WorkingSet, weights: Array, norms: Array) -> float:
        """The gap with the losses of the working rows; the model's best multiple."""
        value = self.problem.norm.value(weights * norms)
        stretch, primal = stretched(work.scores.T, work.target, work.bound, value)
        longest = work.doubt.longer(work.coef, norms)
        dual = self.mixture.add(self.coef, work.sums.linear, longest)
        self.gap = relative_gap(primal, dual)
        return stretch

    def _certify(self, weights: Array, norms: Array) -> tuple[Iterate, Array]:
        """The certificate: float64, from the kernels, on all rows; and the scores."""
        scores = self._all_scores(weights)
        candidates = [(weights, scores)]
        if self.problem.norm.p == 1.0 and self.sampled == self.problem.n_rows:
            candidates = self._sparsest_first(weights, scores)
        for candidate, scores in candidates:
            value = self.problem.norm.value(candidate * norms)
            # What was taken off has left its rounding behind.
            doubt = self.doubt.of_margins(self.coef, np.maximum(candidate, weights))
            stretch, _ = stretched(
                scores, self.problem.target, self.problem.bound, value, doubt
            )
            iterate = self._iterate(candidate, scores, norms, stretch)
            gap = relative_gap(iterate.objective, iterate.dual_bound)
            if gap <= self.solver.tol:
                break
        stretched_scores = partial(np.multiply, stretch, scores)
        return replace(iterate, scores=stretched_scores), scores

    def _sparsest_first(
        self, weights: Array, scores: Array
    ) -> list[tuple[Array, Array]]:
        """Weights without the smallest ones, and their scores, for a few kernels more.

        Scores are linear in the weights: those of what is left out are taken off.
        """
        found = [(weights, scores)]
        left = weights
        for fewer in without_smallest(weights):
            scores = scores - self.problem.bank.scores(self.coef, left - fewer)
            scale = 1.0 / fewer.sum()
            found.append((scale * fewer, scale * scores))
            left = fewer
        return found[::-1]

    def _all_scores(self, weights: Array) -> Array:
        """Scores of all rows, from values that the working set holds where it can."""
        bank, work = self.problem.bank, self._work
        if work is None or not bank.computes_anew or weights is not work.kernel.weights:
            return bank.scores(self.coef, weights)
        scores = np.empty(self.coef.shape)
        scores[self.rows] = work.kernel.scores(work.coef).T
        others = np.setdiff1d(np.arange(self.problem.n_rows), self.rows)
        scores[others] = bank.scores_at(others, self.coef, weights)
        return scores

    def _iterate(
        self, weights: Array, scores: Array, norms: Array, stretch: float
    ) -> Iterate:
        lengths = weights * norms
        return Iterate(
            objective=self.problem.primal_value(stretch * scores, stretch * lengths),
            dual_bound=self.problem.reg * self.mixture.value,
            updates=self.updates,
            snapshot=partial(Expansion, stretch * self.coef, weights),
            dual_snapshot=partial(np.asarray, self.mixture.coef),
        )

    def _prepare(self, work: WorkingSet, norms: Array, solved: bool) -> None:
        """The next weights, and how precisely to solve with them.

        Where only coefficients are missing, the kernel that is combined already serves
        once more: to combine all rows anew takes longer than the missing sweeps.
        """
        unsolved = relative_gap(work.sums.primal, work.sums.dual)
        left_open, enough = self.gap - unsolved, self._enough()
        if not solved and left_open < LITTLE_OPEN * enough:
            self.goal = min(self.goal, UNSOLVED_SHARE * (enough - left_open))
            self.held = work.kernel.owners
            return
        self.held = np.empty(0, dtype=np.intp)
        self.goal = min(self.goal, self._next_goal(left_open))
        self.search.step(norms, work.sums.dual, work.sums.primal)

    def _next_goal(self, left_open: float) -> float:
        """How precisely to solve the next frozen problem.

        Half of what the weights leave open, or the little that is left to the end.
        Fixed points near p = 1 are too sensitive for that. A gap that hardly falls
        may be waiting for more precision.
        """
        tol = self.solver.tol
        if 1.0 < self.problem.norm.p < NEARLY_SPARSE:
            return PRECISE * max(self.gap, tol)
        goal = max(UNSOLVED_SHARE * left_open, ENOUGH * self._enough())
        if self.gap > STUCK * self.last_gap:
            goal = min(goal, max(UNSOLVED_SHARE * self.goal, LEAST * tol))
        return goal

    def _enough(self) -> float:
        """The gap that ends the work on these rows.

        Rows outside the working set may add to the gap, so it leaves them room;
        samples only give a start.
        """
        tol = self.solver.tol
        if self.sampled < self.problem.n_rows:
            return max(ROUGH, SAMPLE * tol)
        return tol if len(self.rows) == self.problem.n_rows else FINISHED * tol

    def _first_rows(self) -> Index:
        """A sample and the support of the start."""
        n_rows, most = self.problem.n_rows, self.problem.bank.max_combined_rows
        if n_rows <= min(AT_ONCE * self.solver.subset, most):
            return np.arange(n_rows)
        support = support_of(self.coef)
        if len(support) + self.solver.subset > most:
            self.coef[support] = 0.0  # a start that would not fit
        self.sampled = min(self.solver.subset, most)
        return np.union1d(self.order[: self.sampled], support_of(self.coef))

    def _next_sample(self) -> Index:
        """The next larger sample, in equal steps of the logarithm up to all rows."""
        ratio = self.problem.n_rows / self.sampled
        steps = max(1, round(np.log(ratio) / np.log(GROWTH)))
        return np.sort(self.order[: round(self.sampled * ratio ** (1.0 / steps))])

    def _may_take_all(self) -> bool:
        """Whether all rows may work at once after a sample.

        What this takes in memory depends on how many of them will have coefficients.
        """
        expected = int(MORE_SUPPORT * len(support_of(self.coef)))
        most = most_rows(self.problem.bank, expected)
        return self.sampled < self.problem.n_rows <= most

    def _take_all(self, sample: WorkingSet) -> Iterate:
        """Go on with all the rows, whose scores come with what their sweeps need.

        That is one pass over the kernels less than to choose rows by their scores, and
        later to certify those left out.
        """
        self.coef = without_light(self.coef)
        # The sample has the values that these need, fewer and side by side.
        norms = block_norms(sample.bank, self.coef[self.rows])
        self._begin(np.arange(self.problem.n_rows), self.problem.n_rows)
        weights = self.search.weights
        work = self._work = self._working_set()
        work.adopt(self.coef, weights)
        value = self.problem.norm.value(weights * norms)
        stretch, _ = stretched(work.scores.T, work.target, work.bound, value)
        return self._iterate(weights, work.scores.T, norms, stretch)

    def _change_rows(self, seen: Index, scores: Array) -> None:
        """Go on with the support and the rows seen whose margin is small."""
        n_rows, most = self.problem.n_rows, self.problem.bank.max_combined_rows
        support = support_of(self.coef)
        distance = np.full(n_rows, np.inf)
        distance[seen] = margins(scores, self.problem.target[seen]) - 1.0
        distance[support] = np.inf
        near = np.flatnonzero(distance < NEAR_MARGIN)
        room = most - len(support)
        if len(near) > room:
            near = near[np.argsort(distance[near])[: max(room, 0)]]
        rows = np.union1d(support, near)
        if len(rows) > DENSE * n_rows and most == n_rows:
            rows = np.arange(n_rows)
        if room < 0:
            self._give_up(len(support))
        self._begin(rows, len(seen))

    def _begin(self, rows: Index, sampled: int) -> None:
        """Go on with these rows."""
        self.rows, self.sampled = rows, sampled
        self.held = np.empty(0, dtype=np.intp)
        self._work = None
        self.gap = np.inf
        sparse = self.problem.norm.p == 1.0
        self.goal = max(self.goal, REOPENED if sparse else ENOUGH * self._enough())
        self.search.restart()

    def _give_up(self, n_support: int) -> None:
        """End with what there is: the support's combined kernel does not fit."""
        self.done = self.solver.max_iter
        warnings.warn(
            f"The solver must hold a combined kernel of {n_support} support rows, and "
            f"memory allows {self.problem.bank.max_combined_rows}; raise memory_limit "
            "or lower C; the best model so far was kept.",
            UserWarning,
            stacklevel=2,
        )


def without_light(coef: Array) -> Array:
    """Coefficients without those of the lightest rows.

    Examples
    --------
    >>> without_light(np.array([[0.5, -0.5], [0.1, -0.1], [0.0, 0.0]])).tolist()
    [[0.5, -0.5], [0.0, 0.0], [0.0, 0.0]]
    """
    weight = np.abs(coef).sum(axis=1)
    order = np.argsort(weight)
    light = order[np.cumsum(weight[order]) < LIGHT * weight.sum()]
    left = coef.copy()
    left[light] = 0.0
    return left
