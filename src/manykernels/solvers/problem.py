"""The one definition of the problem, its objective and its certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import minimize_scalar

from manykernels.banks.base import Bank, block_norms
from manykernels.base.arrays import Array, Index
from manykernels.losses.base import Loss, Target
from manykernels.norms.group import LpGroupNorm

MAX_RAY_SCALE = 4.0  # times as long as the point itself: solvers end close to the best


@dataclass(frozen=True)
class Expansion:
    """A model on the training rows: w_f = weights_f * sum_i phi_f(x_i) (x) coef_i.

    Examples
    --------
    >>> model = Expansion(coef=np.array([[1.0], [-1.0]]), weights=np.array([0.3, 0.7]))
    >>> model.coef.shape, model.weights.tolist()
    ((2, 1), [0.3, 0.7])
    """

    coef: Array  # (rows, outputs)
    weights: Array  # (blocks,)


class Objective:
    """Both sides of the certificate from what is summed over rows, wherever these are.

    Attributes
    ----------
    loss : Loss
    norm : LpGroupNorm
    reg : float
        lambda.
    """

    loss: Loss
    norm: LpGroupNorm
    reg: float

    def primal_of(self, mean_loss: float, block_norms: Array) -> float:
        """Objective from the mean loss and the norms ||w_f||."""
        return self.reg * self.norm.value(block_norms) + mean_loss

    def bound_on_ray(
        self, mean_conjugate: Callable[[float], float], limit: float, theta_norms: Array
    ) -> float:
        """The largest dual value on the ray through a point (at least that of zero).

        From the mean conjugate at multiples of the point up to `limit`, and the block
        norms of the point itself.
        """
        if limit == 0.0:
            return 0.0
        cost = 2.0 * self.reg * self.norm.dual_value(theta_norms)
        if self.loss.linear_dual:
            return _linear_bound(mean_conjugate, limit, cost)
        return _curved_bound(mean_conjugate, limit, cost)


@dataclass(frozen=True)
class Problem(Objective):
    r"""minimize :math:`\frac\lambda2 \|w\|_{2,p}^2 + \frac1W \sum_i c_i\, loss_i`.

    W is the sum of the sample weights c and :math:`\lambda = 1 / (C W)`: with unit
    weights, C times the sum of the losses plus half the squared norm, divided by C N.

    Parameters
    ----------
    bank : Bank
    target : array of shape (rows,) or (rows, outputs)
        Indices of the true outputs, or the values to predict, as the loss wants it.
    n_outputs : int
    loss : Loss
    norm : LpGroupNorm
    C : float
    sample_weight : array of shape (rows,), positive

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import MulticlassHinge
    >>> problem = Problem(GramBank(np.eye(2)[:, None, :]), np.array([0, 1]), 2,
    ...                   MulticlassHinge(), LpGroupNorm(1.5), 1.0, np.ones(2))
    >>> zero = Expansion(np.zeros((2, 2)), np.ones(1))
    >>> problem.objective(zero), problem.duality_gap(zero)
    (1.0, 1.0)
    """

    bank: Bank
    target: Target
    n_outputs: int
    loss: Loss
    norm: LpGroupNorm
    C: float
    sample_weight: Array

    n_rows: int = field(init=False, repr=False)
    reg: float = field(init=False, repr=False)  # lambda = 1 / (C W)
    bound: Array = field(init=False, repr=False)  # C c_i, of row i's dual coefficients

    def __post_init__(self) -> None:
        # Asked for in every round: computed once.
        object.__setattr__(self, "n_rows", len(self.target))
        object.__setattr__(self, "bound", self.C * self.sample_weight)
        total = float(self.sample_weight.sum())
        object.__setattr__(self, "reg", 1.0 / (self.C * total))

    @property
    def n_blocks(self) -> int:
        """Of the model."""
        return self.bank.n_blocks

    def take(self, rows: Index) -> Problem:
        """The same problem on some of the rows, each with its own loss as before."""
        weight = self.sample_weight[rows]
        bank, target = self.bank.take(rows), self.target[rows]
        return replace(self, bank=bank, target=target, sample_weight=weight)

    def zero(self) -> Expansion:
        """The model that scores everything zero."""
        coef = np.zeros((self.n_rows, self.n_outputs))
        return Expansion(coef, self.norm.uniform_weights(self.bank.n_blocks))

    def objective(self, model: Expansion) -> float:
        """The primal value of a model, from the kernels."""
        scores = self.bank.scores(model.coef, model.weights)
        return self.primal_value(scores, model.weights * self.theta_norms(model.coef))

    def duality_gap(self, model: Expansion, dual_coef: Array | None = None) -> float:
        """Objective minus the best dual value that the coefficients offer.

        An upper bound on how far the objective is above the optimum. `dual_coef` is a
        dual point that serves better than the model's own coefficients, such as
        `SolveResult.dual_coef`.
        """
        unit = self.loss.make_feasible(model.coef / self.bound[:, None], self.target)
        tried = [model.coef, unit * self.bound[:, None]]
        if dual_coef is not None:
            tried.append(dual_coef)
        bounds = [self.dual_bound(coef, self.theta_norms(coef)) for coef in tried]
        return self.objective(model) - max(bounds)

    def theta_norms(self, coef: Array) -> Array:
        """||theta_f|| of every block."""
        return block_norms(self.bank, coef)

    def primal_value(self, scores: Array, block_norms: Array) -> float:
        """Objective from scores and the norms ||w_f||."""
        losses = self.loss.value(scores, self.target)
        mean_loss = np.average(losses, weights=self.sample_weight)
        return self.primal_of(float(mean_loss), block_norms)

    def best_scale(self, scores: Array, block_norms: Array) -> float:
        """The t between 1/2 and 2 that minimizes the objective of t * model.

        With a huge C, margins that miss 1 by rounding alone cost more than the whole
        norm; a slightly longer model does not miss them.
        """
        best = minimize_scalar(
            lambda t: self.primal_value(t * scores, t * block_norms),
            bounds=(0.5, 2.0),
            method="bounded",
            options={"xatol": 1e-9},
        )
        unscaled = self.primal_value(scores, block_norms)
        return float(best.x) if best.fun < unscaled else 1.0

    def dual_value(self, coef: Array, theta_norms: Array) -> float:
        """The dual objective at coef; minus infinity where it is infeasible."""
        mean_conjugate = self._mean_conjugate(coef / self.bound[:, None])
        return -mean_conjugate - self.reg * self.norm.dual_value(theta_norms)

    def dual_bound(self, coef: Array, theta_norms: Array) -> float:
        """The largest dual value on the ray through coef (at least that of zero).

        The block norms are known along the ray, so it costs no kernel value.
        """
        unit = coef / self.bound[:, None]
        limit = self.loss.feasible_scale(unit, self.target)
        return self.bound_on_ray(
            lambda scale: self._mean_conjugate(scale * unit), limit, theta_norms
        )

    def _mean_conjugate(self, unit: Array) -> float:
        conjugates = self.loss.conjugate(unit, self.target)
        return float(np.average(conjugates, weights=self.sample_weight))


def _linear_bound(
    mean_conjugate: Callable[[float], float], limit: float, cost: float
) -> float:
    """Conjugates that are linear on the ray: the best scale in closed form."""
    # Any feasible scale gives the slope; a huge one would magnify rounding.
    feasible = min(limit, 1.0)
    gain = -mean_conjugate(feasible) / feasible
    scale = limit if cost == 0.0 else min(limit, gain / cost)
    return scale * gain - 0.5 * scale * scale * cost


def _curved_bound(
    mean_conjugate: Callable[[float], float], limit: float, cost: float
) -> float:
    """A search in one dimension; the dual value is concave along the ray."""

    def value(scale: float) -> float:
        return -mean_conjugate(scale) - 0.5 * scale**2 * cost

    ends = (0.0, min(limit, MAX_RAY_SCALE))
    best = minimize_scalar(lambda scale: -value(scale), bounds=ends, method="bounded")
    tried = [0.0, value(best.x)] + [value(1.0)] * (limit >= 1.0)
    return max(bound for bound in tried if np.isfinite(bound))


def require_hinge(problem: Problem, solver: str) -> None:
    """Solvers with compiled hinge loops take the multiclass hinge loss only."""
    if not problem.loss.has_hinge_dual:
        raise ValueError(
            f"{solver} handles the hinge loss only, got the loss "
            f"{problem.loss.name!r}; choose solver='auto'."
        )


def require_p_above_1(
    problem: Problem, solver: str, because: str = "its step depends on p / (p - 1)"
) -> None:
    """Raise unless p > 1, as mirror descent and closed-form weights need it."""
    if problem.norm.p <= 1.0:
        raise ValueError(
            f"{solver} needs 1 < p <= 2 because {because}, got p={problem.norm.p:g}; "
            "use p=1.05, or solver='auto' for exactly sparse weights."
        )


def require_smooth_loss(problem: Problem, solver: str) -> None:
    """Newton's method and variance reduction need a gradient without jumps."""
    if problem.loss.smoothness is None:
        raise ValueError(
            f"{solver} needs a smooth loss such as 'log' or 'smoothed_hinge', got the "
            f"loss {problem.loss.name!r}; choose another loss or solver='auto'."
        )


def require_known_loss(problem: Problem, solver: str) -> None:
    """Losses with kinks need a solver of their own; smooth ones share one."""
    if problem.loss.smoothness is None:
        raise ValueError(
            f"{solver} handles smooth losses, the hinge loss and the "
            f"epsilon-insensitive loss, got the loss {problem.loss.name!r}, which has "
            "kinks of its own; choose one of these, or pass a solver object for it."
        )
