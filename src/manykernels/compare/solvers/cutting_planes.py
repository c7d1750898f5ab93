"""MKL by cutting planes (Sonnenburg et al., 2006; Xu et al., 2009)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from manykernels.base.arrays import Array
from manykernels.compare.solvers.wrapper import (
    Wrapper,
    WrapperSolver,
    require_sparse_norm,
)
from manykernels.norms.group import LpGroupNorm
from manykernels.solvers.levels import project_on_level
from manykernels.solvers.loop import Iterate, Resumable
from manykernels.solvers.problem import Expansion, Problem


@dataclass(frozen=True)
class SILP(WrapperSolver):
    r"""Maximize t with :math:`\sum_f d_f S_f(A) \ge t` for all dual points A; p = 1.

    :math:`S_f(A) = \frac12 \|\theta_f\|^2 - \ell(A)` and d lies in the simplex. A round
    solves the SVM for the current weights, which gives the constraint they violate
    most, and then the linear program with the constraints so far (scipy's HiGHS). The
    weights jump between corners for many rounds before they settle. The SVM is our
    multiclass dual ascent.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach; the linear program's value is the lower bound.
    max_iter : int
        Rounds at most.
    random_state : int, Generator or None
    svm_tol : float
        Relative gap to which an SVM is solved at least; a small current gap asks for
        more. The paper's SVMs are precise from the first, for instance 1e-4.

    References
    ----------
    Sonnenburg, Raetsch, Schaefer, Schoelkopf: Large Scale Multiple Kernel Learning,
    JMLR 2006, Algorithm 1.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import MulticlassHinge
    >>> from manykernels.norms import LpGroupNorm
    >>> bank = GramBank(np.stack([np.eye(4), np.ones((4, 4))], axis=1))
    >>> problem = Problem(bank, np.array([0, 1, 0, 1]), 2, MulticlassHinge(),
    ...                   LpGroupNorm(1.0), 1.0, np.ones(4))
    >>> result = SILP(tol=1e-4, random_state=0).solve(problem)
    >>> round(result.objective, 3), result.model.weights.round(3).tolist()
    (0.25, [1.0, 0.0])
    """

    def wrapper(self, problem: Problem, start: Expansion) -> Wrapper:
        """SVMs and linear programs in turn."""
        require_sparse_norm(problem, type(self).__name__)
        return _CuttingPlanes(problem, start, Cuts(problem.bank.n_blocks), self)


class Cuts(Resumable):
    r"""h(d) = max over t of :math:`\ell_t - \frac12 \sum_f d_f \|\theta_f^t\|^2`.

    Every dual point gives a plane below J(d), the value of the SVM with weights d, so
    the minimum of h over the simplex is a lower bound of the optimum for p = 1. The
    linear program behind it also says how to mix the dual points into one whose dual
    value is at least as good. All points are kept: rows x outputs numbers a round.

    Examples
    --------
    >>> cuts = Cuts(n_blocks=2)
    >>> low = cuts.add(np.ones((1, 2)), 2.0, np.array([1.0, 2.0]))
    >>> low, cuts.weights.tolist()
    (0.0, [0.0, 1.0])
    >>> cuts.add(3.0 * np.ones((1, 2)), 2.0, np.array([2.0, 1.0]))
    0.875
    >>> cuts.weights.round(3).tolist(), cuts.coef.tolist()
    ([0.5, 0.5], [[2.0, 2.0]])
    """

    remembered = ("value", "coef", "weights", "_coefs", "_linears", "_norms")

    def __init__(self, n_blocks: int) -> None:
        self.norm = LpGroupNorm(1.0)
        self.value = -np.inf  # the best dual value
        self.coef: Array = np.zeros((0, 0))  # and its point
        self.weights: Array = np.full(n_blocks, 1.0 / n_blocks)  # argmin h
        self._coefs: list[Array] = []
        self._linears: list[float] = []
        self._norms: list[Array] = []

    def add(self, coef: Array, linear: float, theta_norms: Array) -> float:
        """Take in a dual point, minimize h again; returns the best dual value."""
        self._coefs.append(coef)
        self._linears.append(float(linear))
        self._norms.append(theta_norms)
        shares = self._minimize()
        # By the triangle inequality, whatever the precision of the linear program.
        norms = shares @ np.array(self._norms)
        value = float(shares @ np.array(self._linears)) - self.norm.dual_value(norms)
        if value > self.value:
            self.value = value
            used = np.flatnonzero(shares)
            self.coef = sum((shares[t] * self._coefs[t] for t in used), np.zeros(()))
        return self.value

    def planes(self) -> tuple[Array, Array]:
        """(slopes, heights): h(d) is the largest of slopes @ d + heights."""
        return -0.5 * np.array(self._norms) ** 2, np.array(self._linears)

    def _minimize(self) -> Array:
        """Set `weights` to the minimum of h; returns the planes' multipliers."""
        slopes, heights = self.planes()
        unit = max(float(np.abs(slopes).max()), float(heights.max()), 1e-300)
        n_planes, n_blocks = slopes.shape
        solved = linprog(
            np.append(np.zeros(n_blocks), 1.0),
            A_ub=np.column_stack([slopes / unit, -np.ones(n_planes)]),
            b_ub=-heights / unit,
            A_eq=np.append(np.ones(n_blocks), 0.0)[None, :],
            b_eq=[1.0],
            bounds=[(0.0, None)] * n_blocks + [(None, None)],
            method="highs",
        )
        if solved.x is None:  # rounding; the last minimum and the last plane are valid
            return np.asarray(np.eye(n_planes)[-1])
        weights = np.maximum(solved.x[:-1], 0.0)
        self.weights = weights / weights.sum()
        shares = np.maximum(-solved.ineqlin.marginals, 0.0)
        return np.asarray(shares / shares.sum())


class _CuttingPlanes(Wrapper):
    """The next weights minimize the planes so far."""

    bound: Cuts

    def round(self) -> Iterate:
        solution = self.evaluate(self.weights)
        self.weights = self.bound.weights
        return self.iterate(solution)


@dataclass(frozen=True)
class LevelMethod(WrapperSolver):
    r"""SILP's planes h, but the next d is near the last: p = 1.

    :math:`d_{t+1} = \arg\min \|d - d_t\|^2` over the simplex with
    :math:`h(d) \le (1 - \tau) \min h + \tau\, best`. The level set keeps the weights
    from jumping between corners. The linear program is solved by scipy's HiGHS, the
    projection by non-negative least squares, the SVM by our multiclass dual ascent.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Rounds at most.
    level : float in (0, 1)
        The tau above: close to 1, the weights stay close to the last ones, and rounds
        are many.
    random_state : int, Generator or None
    svm_tol : float
        Relative gap to which an SVM is solved at least; a small current gap asks for
        more. The paper's SVMs are precise from the first, for instance 1e-4.

    References
    ----------
    Xu, Jin, King, Lyu: An Extended Level Method for Efficient Multiple Kernel Learning,
    Advances in Neural Information Processing Systems 21, 2009.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import MulticlassHinge
    >>> from manykernels.norms import LpGroupNorm
    >>> bank = GramBank(np.stack([np.eye(4), np.ones((4, 4))], axis=1))
    >>> problem = Problem(bank, np.array([0, 1, 0, 1]), 2, MulticlassHinge(),
    ...                   LpGroupNorm(1.0), 1.0, np.ones(4))
    >>> result = LevelMethod(tol=1e-4, random_state=0).solve(problem)
    >>> round(result.objective, 3), result.model.weights.round(3).tolist()
    (0.25, [1.0, 0.0])
    """

    level: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise ValueError(
                f"level must be between 0 and 1, got {self.level!r}; choose for "
                "instance 0.5."
            )

    def wrapper(self, problem: Problem, start: Expansion) -> Wrapper:
        """SVMs and projections in turn."""
        require_sparse_norm(problem, type(self).__name__)
        return _Levels(problem, start, Cuts(problem.bank.n_blocks), self)


class _Levels(Wrapper):
    """The next weights are the last ones, projected on a level set of the planes."""

    bound: Cuts
    settings: LevelMethod

    def round(self) -> Iterate:
        solution = self.evaluate(self.weights)
        slopes, heights = self.bound.planes()
        lower = float(np.max(slopes @ self.bound.weights + heights))
        tau = self.settings.level
        level = (1.0 - tau) * lower + tau * self.best
        nearest = project_on_level(self.weights, slopes, heights - level)
        self.weights = self.bound.weights if nearest is None else nearest
        return self.iterate(solution)
