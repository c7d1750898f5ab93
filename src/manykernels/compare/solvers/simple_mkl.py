"""SimpleMKL: a reduced gradient on the simplex (Rakotomamonjy et al., 2008)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manykernels.base.arrays import Array
from manykernels.compare.solvers.wrapper import (
    WrappedSVM,
    Wrapper,
    WrapperSolver,
    require_sparse_norm,
)
from manykernels.solvers.loop import Iterate, State
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.weights import DualMixture
from manykernels.solvers.working_set import FrozenValues

LINE_SEARCH_SLOPE_SHARE = 0.1  # of the first slope, at which a line search ends
MAX_LINE_SEARCH_SVMS = 10
DIRECTION_RTOL = 1e-12  # parts of a direction below it are zero
STALLED_SVM_TOL_FACTOR = 0.1  # on the SVM's gap, where a round brings no decrease


@dataclass(frozen=True)
class SimpleMKL(WrapperSolver):
    r"""Descend :math:`J(d) = \min_w \frac12\sum_f \|w_f\|^2/d_f + loss`; p = 1.

    The direction is the gradient :math:`-\frac12\|\theta_f\|^2` minus that of the
    largest weight, which takes up the difference so that the weights sum to one. While
    the value falls, a step goes as far as the first weight that vanishes, and on with
    the direction that is left; then a line search on the slope of J, known at every
    trial. Every trial is an SVM, solved by multiclass dual ascent.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Directions at most.
    random_state : int, Generator or None
    svm_tol : float
        Largest relative gap of an SVM; a smaller current gap needs a smaller one. The
        paper's SVMs are precise from the first, for instance 1e-4.

    References
    ----------
    Rakotomamonjy, Bach, Canu, Grandvalet: SimpleMKL, JMLR 2008, Algorithm 1.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> from manykernels.losses import MulticlassHinge
    >>> from manykernels.norms import LpGroupNorm
    >>> bank = GramBank(np.stack([np.eye(4), np.ones((4, 4))], axis=1))
    >>> problem = Problem(bank, np.array([0, 1, 0, 1]), 2, MulticlassHinge(),
    ...                   LpGroupNorm(1.0), 1.0, np.ones(4))
    >>> result = SimpleMKL(tol=1e-4, random_state=0).solve(problem)
    >>> round(result.objective, 3), result.model.weights.round(3).tolist()
    (0.25, [1.0, 0.0])
    """

    def wrapper(self, problem: Problem, start: Expansion) -> Wrapper:
        """Directions and line searches in turn."""
        require_sparse_norm(problem, type(self).__name__)
        return _Descent(problem, start, DualMixture(problem.norm), self)


def reduced_direction(weights: Array, gradient: Array) -> Array:
    """Steepest descent on the simplex: -(gradient_f - gradient of the largest weight).

    Zero where a weight is zero and would fall; the largest weight balances the rest.

    Examples
    --------
    >>> reduced_direction(np.array([0.6, 0.4, 0.0]), np.array([1.0, 0.0, 2.0])).tolist()
    [-1.0, 1.0, 0.0]
    """
    largest = int(np.argmax(weights))
    direction = gradient[largest] - gradient
    direction[(weights == 0.0) & (direction < 0.0)] = 0.0
    direction[largest] = 0.0
    direction[largest] = -direction.sum()
    return np.asarray(direction)


class _Descent(Wrapper):
    """One direction and its line search a round."""

    remembered = (*Wrapper.remembered, "here")
    here: WrappedSVM | None = None  # the SVM at the current weights

    def restore(self, state: State) -> None:
        """Go on from an earlier state."""
        super().restore(state)
        if self.here is not None:
            here = WrappedSVM(*self.here)
            self.here = here._replace(values=FrozenValues(*here.values))

    def round(self) -> Iterate:
        if self.here is None:
            found = self.evaluate(self.weights)
        else:
            found = self._search(self.here)
        iterate = self.iterate(found)
        if found is self.here:  # too rough an SVM to see a way down
            self.goal *= STALLED_SVM_TOL_FACTOR
            self.here = None
        else:
            self.weights, self.here = found.weights, found
        return iterate

    def _search(self, here: WrappedSVM) -> WrappedSVM:
        """A point with a lower value than `here`, if the slopes show any."""
        largest = int(np.argmax(here.weights))
        direction = reduced_direction(here.weights, -0.5 * here.squares)
        rounding = DIRECTION_RTOL * float(np.abs(direction).max())
        while direction.min() < -rounding and direction.max() > rounding:
            falling = np.flatnonzero(direction < -rounding)
            ratios = here.weights[falling] / -direction[falling]
            longest, first = float(ratios.min()), int(falling[np.argmin(ratios)])
            there = self.evaluate(_moved(here.weights, direction, longest, first))
            if there.value >= here.value:
                return self._line_search(here, there, direction, longest)
            here = there
            if first == largest:
                break
            direction[largest] += direction[first]
            direction[first] = 0.0
        return here

    def _line_search(
        self, here: WrappedSVM, there: WrappedSVM, direction: Array, longest: float
    ) -> WrappedSVM:
        """Where J is nearly flat between two points, by regula falsi on its slope."""

        def slope(solution: WrappedSVM) -> float:
            return -0.5 * float(solution.squares @ direction)

        low, high = 0.0, longest
        at_low, at_high = slope(here), slope(there)
        enough = LINE_SEARCH_SLOPE_SHARE * abs(at_low)
        found = here
        for _ in range(MAX_LINE_SEARCH_SVMS):
            if at_low >= 0.0 or at_high <= 0.0:
                break
            step = low + (high - low) * at_low / (at_low - at_high)
            found = self.evaluate(_moved(here.weights, direction, step))
            at_step = slope(found)
            if abs(at_step) <= enough:
                break
            # The end that stays counts half, or it might stay for ever.
            if at_step < 0.0:
                low, at_low, at_high = step, at_step, 0.5 * at_high
            else:
                high, at_high, at_low = step, at_step, 0.5 * at_low
        return found


def _moved(
    weights: Array, direction: Array, step: float, vanished: int | None = None
) -> Array:
    """Weights + step * direction, on the simplex; exactly zero at `vanished`."""
    moved = np.maximum(weights + step * direction, 0.0)
    if vanished is not None:
        moved[vanished] = 0.0
    return np.asarray(moved / moved.sum())
