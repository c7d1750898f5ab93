"""Multi-epoch SVRG for MKL with smooth losses, made fast.

One kernel for all blocks, adaptive steps and lengths; `theory` has the paper's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from manykernels.base.arrays import Array
from manykernels.hot.svrg_epochs import EpochRule, Snapshot
from manykernels.solvers.loop import (
    Iterate,
    IterativeSolver,
    Resumable,
    SearchRounds,
    State,
    relative_gap,
)
from manykernels.solvers.problem import (
    Expansion,
    Problem,
    require_p_above_1,
    require_smooth_loss,
)
from manykernels.solvers.smooth.frozen_kernel import FrozenKernel, holds_combined
from manykernels.solvers.smooth.frozen_problem import FrozenPoint, FrozenProblem
from manykernels.solvers.svrg.epoch import (
    StepSource,
    feature_source,
    importance,
    run_epoch,
    shared_source,
)
from manykernels.solvers.svrg.theory import BlockEpochs
from manykernels.solvers.weights import DualMixture, WeightSearch

SVRG_RULES = ("practical", "theory")
STEP_GROWTH = 1.3  # of a step after an epoch that lowered the value
FAILED_STEP_SHARE = 0.7  # of a step that failed: as long as later steps may get
SLOW_EPOCH = 0.3  # share of the gap left by an epoch that was too short,
FAST_EPOCH = 0.03  # or longer than it need be
FROZEN_GAP_SHARE = 0.3  # of the gap, that the frozen problem may have for new weights


@dataclass(frozen=True)
class SVRG(IterativeSolver):
    r"""Epochs of stochastic variance reduced gradients, weights in closed form between.

    For smooth losses and 1 < p <= 2. Within an epoch the kernel weights d are frozen
    and a row's gradient is corrected by that of a snapshot,

    .. math::
        w_f \leftarrow w_f - h_f \Bigl( \tfrac{\lambda}{d_f} w_f + L_f
        + \phi_f(x_t) \otimes (loss'(s_t) - loss'(s_t^0)) \Bigr),

    with :math:`L_f` the snapshot's full loss gradient; then
    :math:`d_f = (\|w_f\| / \|w\|_{2,p})^{2-p}`. The error falls by a factor an epoch.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Epochs at most, of practical steps.
    steps : {"practical", "theory"}
        "theory" takes the paper's step and length for every kernel; they guarantee
        :math:`E[g(w_J) - g^*] \le eps\, (g(w_0) - g^*)` after ceil(log(1 / eps)) epochs
        and are far more careful than needed. "practical" adapts them as it goes.
    eps : float, optional
        Of that guarantee; `tol` by default.
    random_state : int, Generator or None

    References
    ----------
    Alioscha-Perez, Oveneke, Jiang, Sahli: Multiple Kernel Learning via Multi-Epochs
    SVRG, 2017, Algorithm 1; its weight exponent r is our p = 2r / (r + 1).

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import Softmax
    >>> from manykernels.norms import LpGroupNorm
    >>> stack = np.stack([np.eye(4), np.ones((4, 4))], axis=1)
    >>> problem = Problem(GramBank(stack), np.array([0, 1, 0, 0]), 2, Softmax(),
    ...                   LpGroupNorm(1.5), 1.0, np.ones(4))
    >>> SVRG(tol=1e-6, random_state=0).solve(problem).converged
    True
    """

    tol: float = 1e-2
    max_iter: int = 200
    steps: str = "practical"
    eps: float | None = None
    random_state: int | np.random.Generator | None = None

    def search(
        self, problem: Problem, start: Expansion | None
    ) -> tuple[SearchRounds, Expansion]:
        """Epochs to the relative gap `tol`, or as many as `steps` allows."""
        require_smooth_loss(problem, type(self).__name__)
        because = "a weight of zero would stay zero"
        require_p_above_1(problem, type(self).__name__, because)
        start = start or problem.zero()
        rng = np.random.default_rng(self.random_state)
        if self.steps == "practical":
            return SharedEpochs(problem, start, rng, self.max_iter), start
        if self.steps != "theory":
            raise ValueError(
                f"steps must be one of {', '.join(SVRG_RULES)}, got {self.steps!r}; "
                "choose 'practical' if in doubt."
            )
        eps = self.tol if self.eps is None else self.eps
        if not 0.0 < eps < 1.0:
            raise ValueError(
                f"steps='theory' needs eps between 0 and 1, got {eps!r}; set eps or "
                "tol to for instance 0.01."
            )
        return BlockEpochs(problem, start, rng, eps), start


@dataclass(frozen=True)
class Stage:
    """What stays while the kernel weights do."""

    frozen: FrozenProblem
    source: StepSource
    safe: float  # 1 / (the smoothness of one row's part of the objective)

    @property
    def weights(self) -> Array:
        """The frozen kernel weights."""
        return np.asarray(self.frozen.kernel.weights)

    def point(self, coef: Array) -> FrozenPoint:
        """Both sides of the frozen problem at these coefficients."""
        return self.frozen.point(coef, self.frozen.kernel.exact_times(coef))


class SharedEpochs(Resumable):
    r"""Steps :math:`h_f = \eta d_f`: then all blocks share one coefficient matrix.

    In the metric of the kernel weights the frozen problem is that of one kernel,
    :math:`K_d = \sum_f d_f K_f`, and a step costs one of its rows. eta grows while
    epochs lower the value and shrinks when one does not, which is then taken back;
    an epoch that gains little is followed by a longer one. Weights change, by their
    accelerated closed form, when the frozen problem is solved well enough for it.
    """

    remembered = (
        *("coef", "eta", "limit", "passes", "epoch"),
        *("gap", "inner", "rng", "search", "mixture"),
    )

    def __init__(
        self,
        problem: Problem,
        start: Expansion,
        rng: np.random.Generator,
        max_iter: int,
    ) -> None:
        self.problem = problem
        self.rng = rng
        self.max_iter = max_iter
        self.coef = start.coef
        self.search = WeightSearch(
            problem.norm, problem.norm.normalize_weights(start.weights)
        )
        self.mixture = DualMixture(problem.norm)
        self.epoch = 0
        self.passes = 1  # over the rows, in the next epoch
        self.gap = np.inf  # relative, after the last epoch
        self.inner = np.inf  # the same, of the frozen problem
        self.eta = np.inf  # infinite before the first epoch
        self.limit = np.inf  # on eta, from epochs that failed
        # Where a combined kernel is held, steps on its rows are the cheapest.
        held = holds_combined(problem.bank)
        self._features = None if held else feature_source(problem)
        self._stage: Stage | None = None

    def restore(self, state: State) -> None:
        super().restore(state)
        self._stage = None  # the combined kernel is made anew

    def iterates(self) -> Iterator[Iterate]:
        point = None
        while self.epoch < self.max_iter:
            self.epoch += 1
            stage = self._freeze()
            if point is None or stage is not self._stage:
                point = stage.point(self.coef)
            self._stage = stage
            point, steps = self._descend(stage, point)
            self.coef = point.coef
            yield self._measured(stage, point, steps)

    def _freeze(self) -> Stage:
        """The frozen problem at the current weights; unchanged ones keep it."""
        known, weights = self._stage, self.search.weights
        if known is not None and np.array_equal(known.weights, weights):
            return known
        self._stage = None  # two combined kernels would be one too many
        kernel = FrozenKernel(self.problem.bank, weights.copy())
        source = shared_source(self.problem, kernel, self._features)
        rows = importance(self.problem) * kernel.diagonal()
        smooth = float(self.problem.loss.smoothness or 0.0) * float(rows.max())
        safe = 1.0 / (smooth + self.problem.reg)
        return Stage(FrozenProblem(self.problem, kernel), source, safe)

    def _descend(self, stage: Stage, old: FrozenPoint) -> tuple[FrozenPoint, int]:
        """An epoch from a point; returns the new one, or the old, and the steps."""
        problem, reg = self.problem, self.problem.reg
        eta = min(self.eta if np.isfinite(self.eta) else stage.safe, 0.5 / reg)
        passes = [self.rng.permutation(problem.n_rows) for _ in range(self.passes)]
        order = np.concatenate(passes)
        rule = EpochRule(
            np.array([eta]), np.array([1.0 - eta * reg]), np.array([len(order)])
        )
        gradient = -old.dual / problem.bound[:, None]
        snapshot = Snapshot(old.scores.T[None], old.dual_scores.T[None], gradient)
        added, decay = run_epoch(stage.source, problem, order, rule, snapshot)
        coef = decay[0] * old.coef + (1.0 - decay[0]) * old.dual + added[0].T
        with np.errstate(over="ignore", invalid="ignore"):  # steps that were too long
            new = stage.point(coef) if np.all(np.isfinite(coef)) else old
        if new is not old and new.value <= old.value:
            self.limit *= 1.02  # noise may be smaller by now
            self.eta = min(STEP_GROWTH * eta, self.limit)
            return new, len(order)
        self.limit = FAILED_STEP_SHARE * eta
        self.eta = 0.5 * eta
        return old, len(order)

    def _measured(self, stage: Stage, point: FrozenPoint, steps: int) -> Iterate:
        """The certificate; then the next weights, or the next epoch's length."""
        problem, weights = self.problem, stage.weights
        norms = problem.theta_norms(point.coef)
        objective = problem.primal_value(point.scores, weights * norms)
        dual, below = self._better_dual(stage.frozen, point)
        bound, dual = self._bound(stage, dual)
        self.gap = relative_gap(objective, bound)
        self._adapt(stage, norms, below, point.value)
        return Iterate(
            objective=objective,
            dual_bound=bound,
            updates=steps,
            snapshot=lambda: Expansion(point.coef, weights),
            dual_snapshot=lambda: dual,
        )

    def _adapt(self, stage: Stage, norms: Array, below: float, value: float) -> None:
        inner, last = relative_gap(value, below), self.inner
        enough = FROZEN_GAP_SHARE * self.gap
        # Near p = 1 the bound suffers from the root of what is unsolved.
        sharp = 5.0 * (self.problem.norm.p - 1.0) + enough
        if inner <= enough * min(1.0, sharp):
            self.search.step(norms, below, value)
            inner = self.gap
        elif inner > SLOW_EPOCH * last:
            self._work_harder(stage)
        elif inner < FAST_EPOCH * last:
            self.passes = max(self.passes // 2, 1)
        self.inner = inner

    def _work_harder(self, stage: Stage) -> None:
        """More passes, up to twice the condition number; then less noisy steps."""
        useful = 2.0 / (self.eta * self.problem.reg * self.problem.n_rows)
        if self.passes < np.clip(useful, 16, 128):
            self.passes *= 2
        elif self.eta > 0.5 * stage.safe:
            self.limit = self.eta = FAILED_STEP_SHARE * self.eta

    def _better_dual(
        self, frozen: FrozenProblem, point: FrozenPoint
    ) -> tuple[Array, float]:
        """The gradient's dual point or the model's own, by their frozen dual value."""
        problem, bound = self.problem, self.problem.bound[:, None]
        own = bound * problem.loss.make_feasible(point.coef / bound, problem.target)
        value = frozen.dual_value(own, frozen.times(own))
        if value > point.dual_value:
            return own, value
        return point.dual, point.dual_value

    def _bound(self, stage: Stage, dual: Array) -> tuple[float, Array]:
        """The best bound that this point or mixtures with earlier ones give."""
        problem = self.problem
        norms = problem.theta_norms(dual)
        alone = problem.dual_bound(dual, norms)
        gain = stage.frozen.losses.gain(dual)
        mixed = problem.reg * self.mixture.add(dual, gain, norms)
        return (mixed, self.mixture.coef) if mixed > alone else (alone, dual)
