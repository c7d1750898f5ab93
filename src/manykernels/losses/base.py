"""What a solver may ask of a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.device import DeviceArray

Target = NDArray[Any]  # outputs as int64, or values as float64 (rows, outputs)
LinearMap = Callable[[DeviceArray], DeviceArray]

# Rounding that a dual point may show and still count as feasible.
FEASIBILITY_SLACK = 1e-9
GRADIENT_STEP = 1e-6  # change of the scores in a difference of gradients


class ResidualDual(NamedTuple):
    r"""The conjugate :math:`tube |u| + soft\, u^2 / 2 - u y`, :math:`|u| \le limit`.

    What losses of the residual s - y are made of, per row and output.

    Examples
    --------
    >>> from manykernels.losses import EpsilonInsensitive, Huber
    >>> EpsilonInsensitive(0.1).residual_dual
    ResidualDual(tube=0.1, soft=0.0, limit=1.0)
    >>> Huber(threshold=2.0).residual_dual
    ResidualDual(tube=0.0, soft=1.0, limit=2.0)
    """

    tube: float
    soft: float
    limit: float


class ResidualRows(NamedTuple):
    """What residuals are measured from, and where only scores that are too low cost.

    Examples
    --------
    >>> from manykernels.losses import CensoredEpsilonInsensitive, EpsilonInsensitive
    >>> EpsilonInsensitive().residual_rows(np.array([[1.0], [2.0]])).one_sided.tolist()
    [False, False]
    """

    values: Array  # (rows, outputs)
    one_sided: NDArray[np.bool_]  # (rows,); dual points are not negative there


class Loss(ABC):
    """A convex function of the scores of one row, for all rows at once.

    A subclass must give `name`, `value`, `gradient`, `conjugate`, `make_feasible` and
    `feasible_scale`. The other answers are for solvers that can do better with more;
    here they promise nothing.

    `dual` is in units of one row: feasible points are minus subgradients, so that
    Fenchel's inequality reads value(s) + conjugate(u) >= -<s, u>, with equality
    at u = -gradient(s).

    Attributes
    ----------
    name : str
        What messages call it.
    smoothness : float or None
        L of an L-Lipschitz gradient; None where the loss has kinks.
    linear_dual : bool
        Whether the conjugate is linear on every ray of its domain.
    has_hinge_dual : bool
        Whether the conjugate is -u_y on u_k <= 1[k = y], sum u = 0: that of the
        multiclass hinge, which compiled loops ascend.
    residual_dual : ResidualDual or None
        The conjugate of a loss of the residual, which compiled loops ascend.
    is_squared : bool
        Whether the loss is 1/2 ||s - y||^2, whose minimum has a closed form.
    scores_are_logits : bool
        Whether softmax(scores) are the probabilities that the loss learns.
    compiled_gradient : (int, float) or None
        Code and parameter of the gradient in :mod:`manykernels.hot.svrg_epochs`.
    takes_any_array : bool
        Whether scores and targets may be arrays of any library that follows the array
        API standard, such as tensors on a GPU; other losses take NumPy's only.

    Examples
    --------
    >>> from manykernels.losses import Softmax
    >>> loss, scores, target = Softmax(), np.array([[2.0, 0.0]]), np.array([1])
    >>> dual = -loss.gradient(scores, target)
    >>> both = loss.value(scores, target) + loss.conjugate(dual, target)
    >>> np.allclose(both, -(scores * dual).sum(axis=1))
    True
    """

    name: ClassVar[str]
    linear_dual: ClassVar[bool] = False
    has_hinge_dual: ClassVar[bool] = False
    is_squared: ClassVar[bool] = False
    scores_are_logits: ClassVar[bool] = False
    takes_any_array: ClassVar[bool] = False

    @property
    def smoothness(self) -> float | None:
        """L of an L-Lipschitz gradient; None where the loss has kinks."""
        return None

    @property
    def residual_dual(self) -> ResidualDual | None:
        """The conjugate of a loss of the residual; None for other losses."""
        return None

    @property
    def compiled_gradient(self) -> tuple[int, float] | None:
        """Code and parameter of the gradient in compiled loops, if they know it."""
        return None

    def residual_rows(self, target: Target) -> ResidualRows:
        """The y of :class:`ResidualDual`, and the rows where u must not be negative."""
        return ResidualRows(target, np.zeros(len(target), dtype=bool))

    @abstractmethod
    def value(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        """Loss of every row, shape (rows,)."""

    @abstractmethod
    def gradient(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        """One subgradient per row, shape (rows, outputs)."""

    @abstractmethod
    def conjugate(self, dual: DeviceArray, target: DeviceArray) -> DeviceArray:
        """The conjugate at minus the dual point, per row; infinite if infeasible."""

    @abstractmethod
    def make_feasible(self, dual: Array, target: Target) -> Array:
        """A point of the conjugate's domain near the dual point."""

    @abstractmethod
    def feasible_scale(self, dual: DeviceArray, target: DeviceArray) -> float:
        """The largest t with t * dual feasible; 0 if there is none."""

    def curvature(self, scores: DeviceArray, target: DeviceArray) -> LinearMap:
        """The second derivative at the scores, as a map of directions.

        Directions have shape (..., rows, outputs). Where the gradient has a kink the
        map must still be linear and positive semi-definite, that of one side:
        conjugate gradients rely on it. Here it is a difference of gradients,
        which will do for losses whose gradient has no kinks.
        """
        gradient = self.gradient(scores, target)

        def hessian_product(direction: Array) -> Array:
            size = float(np.max(np.abs(direction), initial=0.0))
            if size == 0.0:
                return np.zeros_like(direction)
            step = GRADIENT_STEP / size
            flat = direction.reshape(-1, *scores.shape)
            moved = [self.gradient(scores + step * move, target) for move in flat]
            return np.asarray((np.stack(moved) - gradient) / step).reshape(
                direction.shape
            )

        return hessian_product
