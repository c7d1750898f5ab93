"""Multi-epoch SVRG as printed: every kernel has its own w, step and length.

Steps, lengths and rates of semi-stochastic descent are those of Proposition 1, for an
L-smooth and reg-strongly convex objective with kappa = L / reg.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.hot.svrg_epochs import EpochRule, Snapshot
from manykernels.solvers.conjugate_gradients import conjugate_gradients
from manykernels.solvers.loop import Iterate, Resumable
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.smooth.frozen_kernel import FrozenKernel
from manykernels.solvers.svrg.epoch import block_source, importance, run_epoch


@dataclass(frozen=True)
class Blocks:
    """w_f = sum_i phi_f(x_i) coef[f, :, i] and its scores; one matrix a block."""

    coef: Array  # (blocks, outputs, rows)
    scores: Array  # (blocks, outputs, rows)

    @property
    def norms(self) -> Array:
        """||w_f||."""
        squares = np.einsum("fki,fki->f", self.coef, self.scores)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))

    @property
    def total(self) -> Array:
        """The model's scores, (rows, outputs)."""
        return np.ascontiguousarray(self.scores.sum(axis=0).T)


class BlockEpochs(Resumable):
    """Algorithm 1 of Alioscha-Perez et al. (2017) for a given eps.

    `smooth` bounds the gradient of one row's part of the objective: the loss with all
    the blocks, and the block's own regularizer, which closed-form weights can make
    arbitrarily steep.
    """

    remembered = ("coef", "weights", "epoch", "steps", "lengths", "rng")

    def __init__(
        self, problem: Problem, start: Expansion, rng: np.random.Generator, eps: float
    ) -> None:
        self.problem = problem
        self.rng = rng
        self.eps = eps
        self.n_epochs = epochs_for(eps)
        self.weights = problem.norm.normalize_weights(start.weights)
        self.coef = self.weights[:, None, None] * start.coef.T
        self.epoch = 0
        self.steps: list[Array] = []  # h and m of the epochs so far
        self.lengths: list[Array] = []
        self._source = block_source(problem)
        rows = importance(problem) * problem.bank.diagonals().sum(axis=1)
        self._loss_smooth = float(problem.loss.smoothness or 0.0) * float(rows.max())

    def iterates(self) -> Iterator[Iterate]:
        """One iterate an epoch, and no epoch beyond those that reach eps."""
        blocks = self._blocks()
        while self.epoch < self.n_epochs:
            blocks, steps = self._descend(blocks)
            self.coef = blocks.coef
            self.weights = self.problem.norm.weights(blocks.norms)
            self.epoch += 1
            yield self._iterate(blocks, steps)

    def objective(self) -> float:
        """g(w) of the blocks as they are."""
        blocks = self._blocks()
        return self.problem.primal_value(blocks.total, blocks.norms)

    def _blocks(self) -> Blocks:
        return Blocks(self.coef, self.problem.bank.block_products(self.coef))

    def _descend(self, old: Blocks) -> tuple[Blocks, int]:
        """Lines 3 to 15; returns the new blocks and the number of steps."""
        weights = np.maximum(self.weights, 1e-12)  # vanished blocks stay as they are
        rule = self._rule(weights)
        gradient = self.problem.loss.gradient(old.total, self.problem.target)
        dual = -self.problem.bound[:, None] * gradient
        # -L_f / reg_f, where w_f would go if the gradient of the losses stayed.
        pull = weights[:, None, None] * dual.T
        pull_scores = self.problem.bank.block_scores(dual).transpose(1, 0, 2)
        pull_scores = weights[:, None, None] * pull_scores.astype(np.float64)
        snapshot = Snapshot(old.scores, pull_scores, gradient)
        order = self.rng.integers(self.problem.n_rows, size=int(rule.length.max()))
        added, decay = run_epoch(self._source, self.problem, order, rule, snapshot)
        a = decay[:, None, None]
        coef = a * old.coef + (1.0 - a) * pull + added
        scores = self.problem.bank.block_products(coef)
        return Blocks(coef, scores), len(order)

    def _rule(self, weights: Array) -> EpochRule:
        """Descent parameters after re-assessing the epochs so far (lines 3, 4, 17)."""
        own = self.problem.reg / weights
        smooth = self._loss_smooth + own
        reg = np.minimum(own, 0.5 * smooth)
        rates = [
            convergence(reg, step, length, smooth)
            for step, length in zip(self.steps, self.lengths, strict=True)
        ]
        reached = np.array(rates).reshape(-1, len(weights))
        rate = target_rate(self.eps, reached, self.n_epochs - self.epoch)
        step = step_length(rate, smooth, reg)
        length = inner_length(rate, smooth, reg)
        self.steps = [*self.steps, step]
        self.lengths = [*self.lengths, length.astype(np.float64)]
        taken = [
            draw_length(self.rng, *block)
            for block in zip(reg, step, length.tolist(), strict=True)
        ]
        return EpochRule(step, 1.0 - step * own, np.array(taken, np.int64))

    def _iterate(self, blocks: Blocks, steps: int) -> Iterate:
        problem = self.problem
        model, scores = shared_model(problem, blocks, self.weights)
        norms = problem.theta_norms(model.coef)
        gradient = problem.loss.gradient(blocks.total, problem.target)
        dual = -problem.bound[:, None] * gradient
        return Iterate(
            objective=problem.primal_value(scores, model.weights * norms),
            dual_bound=problem.dual_bound(dual, problem.theta_norms(dual)),
            updates=steps,
            snapshot=lambda: model,
            dual_snapshot=lambda: dual,
        )


def shared_model(
    problem: Problem, blocks: Blocks, weights: Array
) -> tuple[Expansion, Array]:
    r"""The model with one matrix of coefficients that is nearest to the blocks.

    Among all w with the same scores, :math:`w_f = d_f \theta_f(A)` with
    :math:`K_d A = s` has the smallest :math:`\sum_f \|w_f\|^2 / d_f`, and it is the
    nearest point to the blocks in this norm; conjugate gradients approach it.
    """
    kernel = FrozenKernel(problem.bank, weights)
    coef = np.ascontiguousarray(blocks.coef.sum(axis=0).T) / weights.sum()
    scores = kernel.exact_times(coef)
    enough = 1e-20 * float(np.vdot(blocks.total, blocks.total))
    added, _ = conjugate_gradients(
        lambda way, _: kernel.times(way),
        lambda rest: (rest, rest),
        blocks.total - scores,
        np.vdot,
        lambda _added, _rest, square: square <= enough,
        100,
    )
    coef = coef + added
    return Expansion(coef, weights), kernel.exact_times(coef)


def epochs_for(eps: float) -> int:
    """J = ceil(log(1 / eps)).

    Examples
    --------
    >>> epochs_for(1e-2)
    5
    """
    return max(1, int(np.ceil(np.log(1.0 / eps))))


def target_rate(eps: float, rates: Array, epochs_left: int) -> Array:
    """Delta_j, eq. (4): what is missing to eps, spread evenly over the epochs left.

    `rates` (epochs so far, blocks) are those reached; work beyond eps is not asked
    back, so that the result is at most one.

    Examples
    --------
    >>> target_rate(1e-2, np.ones((0, 1)), 2).round(6).tolist()
    [0.1]
    """
    reached = np.prod(rates, axis=0)
    return np.asarray((np.minimum(eps, reached) / reached) ** (1.0 / epochs_left))


def step_length(rate: Array, smooth: Array, reg: Array) -> Array:
    """h, eq. (5): 1 / (4 / Delta (L - reg) + 2 L)."""
    return 1.0 / (4.0 / rate * (smooth - reg) + 2.0 * smooth)


def inner_length(rate: Array, smooth: Array, reg: Array) -> NDArray[np.int64]:
    """m, eq. (5): (4 (kappa - 1) / Delta + 2 kappa) log(2 / Delta + (2k - 1)/(k - 1)).

    Examples
    --------
    >>> inner_length(np.array([0.5]), np.array([10.0]), np.array([1.0])).tolist()
    [167]
    """
    kappa = smooth / reg
    steps = 4.0 * (kappa - 1.0) / rate + 2.0 * kappa
    logs = np.log(2.0 / rate + (2.0 * kappa - 1.0) / (kappa - 1.0))
    return np.ceil(steps * logs).astype(np.int64)


def convergence(reg: Array, step: Array, length: Array, smooth: Array) -> Array:
    """c, eq. (6): the factor by which an epoch shrinks the expected error."""
    left = (1.0 - reg * step) ** length
    room = 1.0 - 2.0 * smooth * step
    return left / ((1.0 - left) * room) + 2.0 * (smooth - reg) * step / room


def draw_length(rng: np.random.Generator, reg: float, step: float, length: int) -> int:
    """T = t with probability proportional to (1 - reg * step)^(m - t), t = 1..m.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> all(1 <= draw_length(rng, 1.0, 0.1, 7) <= 7 for _ in range(50))
    True
    """
    rho = 1.0 - reg * step
    # The number of steps left out is geometric, cut off at m.
    part = rng.random() * (1.0 - rho**length)
    left_out = int(np.floor(np.log1p(-part) / np.log(rho)))
    return length - min(left_out, length - 1)
