"""Mirror descent on the group norm: OBSCURE and Pegasos.

The paper's general algorithm (proximal projected sub-gradient descent) with three
step rules; the loop itself is compiled, see `manykernels.hot.mirror_passes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from manykernels.banks.base import Bank
from manykernels.base.arrays import Array, Index, Values
from manykernels.base.stored import Wholes, require_all
from manykernels.hot.mirror_passes import (
    MirrorRule,
    MirrorState,
    hinge_sums,
    mirror_pass,
)
from manykernels.norms.group import p_norm, p_norms
from manykernels.solvers.loop import (
    Iterate,
    IterativeSolver,
    Resumable,
    State,
    require_alike,
)
from manykernels.solvers.problem import (
    Expansion,
    Problem,
    require_hinge,
    require_p_above_1,
)

ROW_CACHE_BYTES = 256 << 20  # of kernel rows, where the bank does not say
PREFETCHED_ROWS = 32  # rows computed together, so that products are matrix-matrix


@dataclass(frozen=True)
class Obscure(IterativeSolver):
    r"""Online-batch strongly convex MKL for 1 < p <= 2.

    Stage 1 adds :math:`\eta z_t` to theta whenever the hinge loss is positive, and
    gives :math:`R = \sqrt{2 \cdot objective / \lambda}`, an upper bound on the norm
    of the optimum. Stage 2 is a proximal projected sub-gradient method on the ball
    of radius R with self-tuned steps. The best iterate is kept, because the first
    steps of stage 2 often raise the objective.

    Parameters
    ----------
    online_passes, batch_passes : int
        Passes over the data in each stage; stage 1 ends early when a pass makes no
        update.
    eta : float
        Step of the online stage: larger is faster, with a looser R.
    tol : float
        Relative duality gap at which to stop.
    patience : int or None
        Stop when this many passes bring no improvement.
    random_state : int, Generator or None

    References
    ----------
    Orabona, Jie, Caputo: Online-Batch Strongly Convex Multi Kernel Learning, CVPR
    2010, Algorithms 1 and 2.

    Examples
    --------
    >>> import manykernels as mk
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> solver = Obscure(online_passes=2, batch_passes=10, random_state=0)
    >>> model = mk.MKLClassifier("rbf; linear", p=1.25, solver=solver).fit(X, y)
    >>> model.score(X, y) > 0.9, len(model.history_)
    (True, 12)
    """

    online_passes: int = 5
    batch_passes: int = 30
    eta: float = 2.0
    tol: float = 0.0
    patience: int | None = None
    random_state: int | np.random.Generator | None = None

    def search(
        self, problem: Problem, start: Expansion | None
    ) -> tuple[Passes, Expansion]:
        """Both stages; the certificate is a by-product, often a loose one."""
        require_hinge(problem, type(self).__name__)
        require_p_above_1(problem, type(self).__name__)
        descent, q, reg = MirrorDescent(problem, start), problem.norm.q, problem.reg
        online = MirrorRule(q, reg, eta=self.eta, online=True)
        batch = MirrorRule(q, reg, self_tuned=True)
        stages = [(self.online_passes, online), (self.batch_passes, batch)]
        rng = np.random.default_rng(self.random_state)
        return Passes(descent, rng, stages), descent.model()


@dataclass(frozen=True)
class Pegasos(IterativeSolver):
    r"""Projected sub-gradient descent with step :math:`q / (\lambda t)`, 1 < p <= 2.

    The first step multiplies the start by zero, so a warm start has no effect; the
    ball has the radius :math:`\sqrt{2 / \lambda}` that the zero model guarantees.

    Parameters
    ----------
    passes : int
    tol : float
        Relative duality gap at which to stop.
    patience : int or None
        Stop when this many passes bring no improvement.
    random_state : int, Generator or None

    References
    ----------
    Shalev-Shwartz, Singer, Srebro: Pegasos, ICML 2007, extended to the (2, p) group
    norm as in the experiments of Orabona et al. 2010.

    Examples
    --------
    >>> import manykernels as mk
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mk.MKLClassifier("rbf; linear", p=1.25, solver=Pegasos(random_state=0))
    >>> model.fit(X, y).score(X, y) > 0.9
    True
    """

    passes: int = 35
    tol: float = 0.0
    patience: int | None = None
    random_state: int | np.random.Generator | None = None

    def search(
        self, problem: Problem, start: Expansion | None
    ) -> tuple[Passes, Expansion]:
        """The passes; `start` has no effect."""
        require_hinge(problem, type(self).__name__)
        require_p_above_1(problem, type(self).__name__)
        radius = float(np.sqrt(2.0 / problem.reg))
        rule = MirrorRule(problem.norm.q, problem.reg, radius=radius)
        rng = np.random.default_rng(self.random_state)
        passes = Passes(MirrorDescent(problem), rng, [(self.passes, rule)])
        return passes, problem.zero()


class MirrorDescent:
    """theta and its score cache, with passes over the data that change them.

    w_f = (1/q) (||theta_f|| / ||theta||)^(q-2) theta_f throughout.
    """

    def __init__(self, problem: Problem, start: Expansion | None = None) -> None:
        bank, norm, q = problem.bank, problem.norm, problem.norm.q
        self.problem = problem
        self.cache = RowCache(bank)
        self.importance = problem.sample_weight / problem.sample_weight.mean()
        doubled = np.sqrt(2.0 * np.maximum(bank.diagonals(), 0.0))
        self.pair_norms = p_norms(doubled, q)
        coef = np.zeros((problem.n_rows, problem.n_outputs))
        scores: Values = np.zeros((coef.shape[1], bank.n_blocks, len(coef)), bank.dtype)
        square_norms = np.zeros(bank.n_blocks)
        if start is not None and start.coef.any():
            # theta = q coef keeps w where start.weights are optimal for its coef.
            coef = q * start.coef
            scores = np.ascontiguousarray(bank.block_scores(coef))
            square_norms = np.maximum(bank.square_norms(coef), 0.0)
        norms = np.sqrt(square_norms)
        block_scale = (norm.mirror_scale(norms) / q).astype(bank.dtype)
        scalars = np.array([1.0, 0.0, 0.0, p_norm(norms, q)])
        self.state = MirrorState(coef, scores, square_norms, block_scale, scalars)

    def stored(self) -> State:
        """All that the next pass depends on, beside the problem."""
        return {"state": list(self.state), "cache": self.cache.state()}

    def restore(self, stored: State) -> None:
        """Go on from `stored` as if there had been no interruption."""
        found = MirrorState(*stored["state"])
        for name, value in found._asdict().items():
            require_alike(name, value, getattr(self.state, name))
        self.state = found
        self.cache.restore(stored["cache"])

    def run_pass(self, rule: MirrorRule, order: NDArray[np.int64]) -> int:
        """Visit the rows in this order; returns the number of updates."""
        position, updates = self.visit(rule, order, 0)
        while position < len(order):
            ahead = order[position:]
            wanted = self._likely(ahead)
            wanted[0] = True  # the loop waits for it, whatever rounding says here
            self.cache.fill(ahead[wanted])
            position, new = self.visit(rule, order, position)
            updates += new
        return updates

    def visit(
        self, rule: MirrorRule, order: NDArray[np.int64], begin: int
    ) -> tuple[int, int]:
        """Visit rows from a position on; returns the position reached and the updates.

        A position short of the end asks for the kernel row of order[position].
        """
        position, updates = mirror_pass(
            self.cache.rows,
            self.cache.slots,
            self.state,
            rule,
            self.problem.target,
            self.importance,
            self.pair_norms,
            order,
            begin,
        )
        return int(position), int(updates)

    def _likely(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Rows that would be updated if they were visited now."""
        scores = self.scores()[rows]
        target = self.problem.target[rows]
        return np.asarray(self.problem.loss.value(scores, target) > 0.0)

    def scores(self) -> Array:
        """Scores of the training rows, (rows, outputs), from the cache."""
        unscaled = np.matmul(self.state.block_scale, self.state.scores)
        return np.asarray(self.state.scalars[0] * unscaled.T.astype(np.float64))

    def objective(self) -> float:
        """Primal value, from the cache."""
        return self.iterate().objective

    def iterate(self, updates: int = 0) -> Iterate:
        """What the shared loop records after a pass of so many updates.

        What `Problem.primal_value` and `Problem.dual_bound` give, in one sweep over
        the cache. An update keeps the signs and the balance of a row feasible, so the
        largest own coefficient bounds the multiple that is the best dual point.
        """
        problem, (scale, _, _, theta_norm) = self.problem, self.state.scalars
        unscaled = np.matmul(self.state.block_scale, self.state.scores)
        loss, linear, largest = hinge_sums(
            unscaled, scale, self.state.coef, problem.target, problem.bound
        )
        reg, q = problem.reg, problem.norm.q
        objective = reg * (loss + 0.5 * (theta_norm / q) ** 2)
        if largest == 0.0:
            return Iterate(objective, 0.0, updates, self.model)
        cost = (theta_norm / scale) ** 2
        multiple = 1.0 / largest
        if cost > 0.0:  # else no kernel sees the updated rows
            multiple = min(multiple, linear / cost)
        bound = reg * (multiple * linear - 0.5 * multiple * multiple * cost)
        dual_coef = partial(np.multiply, multiple, self.state.coef)
        return Iterate(objective, bound, updates, self.model, dual_coef)

    def model(self) -> Expansion:
        """The current model, copied."""
        weights = self.state.block_scale.astype(np.float64)
        # The common factor of the weights goes to the coefficients.
        total = p_norm(weights, self.problem.norm.weight_exponent)
        if total == 0.0:
            return self.problem.zero()
        factor = total * self.state.scalars[0]
        return Expansion(factor * self.state.coef, weights / total)


class Passes(Resumable):
    """Some passes under each rule of a list, in random order.

    Parameters
    ----------
    descent : MirrorDescent
    rng : Generator
    stages : list of (int, MirrorRule)
        Passes at most, and the rule. A self-tuned rule takes the radius
        sqrt(2 objective / reg) at its stage's beginning, an upper bound on the norm of
        the optimum. An online stage ends with a pass without an update, as another one
        would change nothing.
    """

    remembered = ("stage", "done", "radius", "rng")

    def __init__(
        self,
        descent: MirrorDescent,
        rng: np.random.Generator,
        stages: list[tuple[int, MirrorRule]],
    ) -> None:
        self.descent = descent
        self.rng = rng
        self.stages = stages
        self.stage = 0
        self.done = 0  # passes of this stage
        self.radius: float | None = None

    def iterates(self) -> Iterator[Iterate]:
        problem = self.descent.problem
        while self.stage < len(self.stages):
            most, rule = self.stages[self.stage]
            if self.done == most:
                self.stage, self.done, self.radius = self.stage + 1, 0, None
                continue
            if rule.self_tuned:
                if self.radius is None:
                    objective = self.descent.objective()
                    self.radius = float(np.sqrt(2.0 * objective / problem.reg))
                rule = rule._replace(radius=self.radius)
            order = self.rng.permutation(problem.n_rows)
            updates = self.descent.run_pass(rule, order)
            self.done = most if rule.online and updates == 0 else self.done + 1
            yield self.descent.iterate(updates)

    def state(self) -> State:
        return super().state() | {"descent": self.descent.stored()}

    def restore(self, state: State) -> None:
        super().restore(state)
        self.descent.restore(state["descent"])


class RowCache:
    """rows[slots[i]] is kernel row i where slots[i] >= 0.

    A stored Gram stack is its own cache. Other banks compute rows when they are
    missed, a batch at a time, into a ring of as many rows as `bank.cache_bytes`
    holds: a pass visits every row once, so the row computed first is the one not
    needed for longest.
    """

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.rows: Values
        stored = bank.stored_rows()
        self.stored = stored is not None
        if stored is not None:
            self.rows = stored
            self.slots: NDArray[np.int64] = np.arange(bank.n_rows)
            return
        row_bytes = bank.n_blocks * bank.n_rows * bank.dtype.itemsize
        n_bytes = bank.cache_bytes or ROW_CACHE_BYTES
        capacity = int(min(bank.n_rows, max(PREFETCHED_ROWS, n_bytes // row_bytes)))
        self.rows = np.empty((capacity, bank.n_blocks, bank.n_rows), bank.dtype)
        self.slots = np.full(bank.n_rows, -1)
        self._owners = np.full(capacity, -1)  # the row in each place
        self._next = 0  # place of the next row
        self._batches: list[tuple[int, Index]] = []  # first place, rows

    def fill(self, wanted: Index) -> None:
        """Compute the rows `wanted`, the first of which is needed now."""
        missing = wanted[self.slots[wanted] < 0]
        _, first = np.unique(missing, return_index=True)
        batch = missing[np.sort(first)][:PREFETCHED_ROWS]
        self._forget_batches(len(batch))
        self._take(self._next, batch)

    def _take(self, place: int, batch: Index) -> None:
        places = (place + np.arange(len(batch))) % len(self.rows)
        old = self._owners[places]
        self.slots[old[old >= 0]] = -1
        self.rows[places] = self.bank.rows(batch)
        self.slots[batch] = places
        self._owners[places] = batch
        self._next = int(places[-1] + 1) % len(self.rows)
        self._batches.append((place, batch))

    def _forget_batches(self, coming: int) -> None:
        """Drop the batches of which the coming rows leave nothing."""
        room = len(self.rows) - coming
        kept: list[tuple[int, Index]] = []
        for place, batch in reversed(self._batches):
            if room <= 0:
                break
            kept.append((place, batch))
            room -= len(batch)
        self._batches = kept[::-1]

    def state(self) -> State:
        """Which rows are at hand. Rounding depends on the rows computed together."""
        return {"batches": [] if self.stored else list(self._batches)}

    def restore(self, state: State) -> None:
        """Compute the same rows again, in the same batches."""
        if self.stored:
            return
        self.slots[:] = -1
        self._owners[:] = -1
        self._batches = []
        for place, batch in state["batches"]:
            Wholes(None, low=0, below=self.bank.n_rows).check("batch", batch, {})
            require_all("the cache", {"batch": 0 < len(batch) <= PREFETCHED_ROWS})
            self._take(int(place), batch)
