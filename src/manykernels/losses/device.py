"""The smooth losses on arrays of a device, by the array API standard.

They answer as `losses.Loss` does, to scores, dual points and targets that live there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from manykernels.device import Device, DeviceArray

if TYPE_CHECKING:
    from manykernels.losses.base import Loss

SLACK = 1e-9  # rounding that a dual point may show and still count as feasible
AT_THE_KINK = 1e-12  # outputs this close to losing their share count as having one
LinearMap = Callable[[DeviceArray], DeviceArray]


class LossThere(Protocol):
    """What Newton's method asks of a loss, wherever scores and targets live."""

    def value(self, scores: Any, target: Any) -> Any:
        """Loss of every row, shape (rows,)."""

    def gradient(self, scores: Any, target: Any) -> Any:
        """The gradient, shape (rows, outputs)."""

    def curvature(self, scores: Any, target: Any) -> Callable[[Any], Any]:
        """The second derivative as a map of directions (..., rows, outputs)."""

    def conjugate(self, dual: Any, target: Any) -> Any:
        """The conjugate at minus the dual point, per row; infinite if infeasible."""

    def feasible_scale(self, dual: Any, target: Any) -> float:
        """The largest t with t * dual feasible; 0 if there is none."""


class SentLoss:
    """A loss that knows NumPy only: arrays travel to it and back."""

    def __init__(self, device: Device, loss: Loss) -> None:
        self.device, self.loss = device, loss

    def value(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        """Loss of every row."""
        return self._sent(self.loss.value, scores, target)

    def gradient(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        """The gradient."""
        return self._sent(self.loss.gradient, scores, target)

    def conjugate(self, dual: DeviceArray, target: DeviceArray) -> DeviceArray:
        """The conjugate."""
        return self._sent(self.loss.conjugate, dual, target)

    def curvature(self, scores: DeviceArray, target: DeviceArray) -> LinearMap:
        """The second derivative."""
        get, put = self.device.get, self.device.put
        bend = self.loss.curvature(get(scores), get(target))
        return lambda direction: put(bend(get(direction)))

    def feasible_scale(self, dual: DeviceArray, target: DeviceArray) -> float:
        """The largest feasible multiple."""
        return self.loss.feasible_scale(self.device.get(dual), self.device.get(target))

    def _sent(self, answer: Any, *arrays: DeviceArray) -> DeviceArray:
        return self.device.put(answer(*(self.device.get(array) for array in arrays)))


class OnDevice:
    """What the losses below share."""

    def __init__(self, device: Device) -> None:
        self.xp = device.xp

    def _own(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        """One at the true output, else zero."""
        # Made from the target, so that it is where the target is.
        outputs = self.xp.cumulative_sum(self.xp.ones_like(scores[:1, :]), axis=1) - 1.0
        places = self.xp.astype(target, scores.dtype)[:, None]
        return self.xp.astype(outputs == places, scores.dtype)

    def _where(self, inside: DeviceArray, values: DeviceArray) -> DeviceArray:
        """Values, infinite outside of the domain."""
        xp = self.xp
        return xp.where(inside, values, xp.full_like(values, float("inf")))

    def _relu(self, values: DeviceArray) -> DeviceArray:
        return self.xp.maximum(values, self.xp.zeros_like(values))

    def _sum(self, values: DeviceArray) -> DeviceArray:
        """Over the outputs."""
        return self.xp.sum(values, axis=-1)


class Balanced(OnDevice):
    """Losses whose gradients are probabilities less the true output's indicator."""

    def feasible_scale(self, dual: DeviceArray, target: DeviceArray) -> float:
        """1 / (largest value at a true output), if the signs allow any scaling."""
        xp, own = self.xp, self._own(dual, target)
        largest = max(0.0, float(xp.max(dual * own)))
        wrong = float(xp.max(dual * (1.0 - own)))
        total = float(xp.max(xp.abs(self._sum(dual))))
        if largest == 0.0 or max(wrong, total) > SLACK * max(largest, 1.0):
            return 0.0
        return 1.0 / largest

    def _balanced(self, dual: DeviceArray, own: DeviceArray) -> DeviceArray:
        """Whether u_k <= 1[k = y] and the u_k sum to zero, per row."""
        xp = self.xp
        below = xp.all(dual <= own + SLACK, axis=1)
        return below & (xp.abs(self._sum(dual)) <= SLACK * dual.shape[1])


class SoftmaxThere(Balanced):
    """log sum_k exp(s_k) - s_y.

    Examples
    --------
    >>> import numpy as np
    >>> loss = SoftmaxThere(Device("NumPy", np))
    >>> loss.value(np.array([[0.0, 0.0]]), np.array([1])).round(4).tolist()
    [0.6931]
    """

    def value(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        """Loss of every row."""
        xp, top = self.xp, self.xp.max(scores, axis=1, keepdims=True)
        total = xp.log(self._sum(xp.exp(scores - top))) + top[:, 0]
        return total - self._sum(scores * self._own(scores, target))

    def gradient(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        """Probabilities, minus one at the true output."""
        return self._chances(scores) - self._own(scores, target)

    def curvature(self, scores: DeviceArray, target: DeviceArray) -> LinearMap:
        """pi_k (d_k - <pi, d>)."""
        chances = self._chances(scores)

        def bend(direction: DeviceArray) -> DeviceArray:
            weighted = chances * direction
            return weighted - chances * self._sum(weighted)[..., None]

        return bend

    def conjugate(self, dual: DeviceArray, target: DeviceArray) -> DeviceArray:
        """Minus the entropy of e_y - u."""
        xp, own = self.xp, self._own(dual, target)
        chances = self._relu(own - dual)
        logs = xp.log(xp.where(chances > 0.0, chances, xp.ones_like(chances)))
        return self._where(self._balanced(dual, own), self._sum(chances * logs))

    def _chances(self, scores: DeviceArray) -> DeviceArray:
        powers = self.xp.exp(scores - self.xp.max(scores, axis=1, keepdims=True))
        return powers / self._sum(powers)[:, None]


class SmoothedHingeThere(Balanced):
    """max over pi of <pi, s + 1 - e_y> - s_y - width / 2 ||pi - e_y||^2."""

    def __init__(self, device: Device, width: float) -> None:
        super().__init__(device)
        self.width = width

    def value(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        """Loss of every row."""
        own = self._own(scores, target)
        dual = own - self._shares(self._points(scores, own))
        return self._sum(dual * (own - scores - 0.5 * self.width * dual))

    def gradient(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        """pi - e_y."""
        own = self._own(scores, target)
        return self._shares(self._points(scores, own)) - own

    def curvature(self, scores: DeviceArray, target: DeviceArray) -> LinearMap:
        """(d_k - mean of d) / width over the outputs that have a share of pi."""
        points = self._points(scores, self._own(scores, target))
        above = points - self._level(points) >= -AT_THE_KINK
        shares = self.xp.astype(above, scores.dtype)
        counts = self._sum(shares)[:, None]

        def bend(direction: DeviceArray) -> DeviceArray:
            inside = shares * direction
            means = self._sum(inside)[..., None] / counts
            return (inside - shares * means) / self.width

        return bend

    def conjugate(self, dual: DeviceArray, target: DeviceArray) -> DeviceArray:
        """Minus the dual value of the true output, plus the smoothing."""
        own = self._own(dual, target)
        values = self._sum(dual * (0.5 * self.width * dual - own))
        return self._where(self._balanced(dual, own), values)

    def _points(self, scores: DeviceArray, own: DeviceArray) -> DeviceArray:
        """What pi is the projection of."""
        return (scores + 1.0 - own) / self.width + own

    def _level(self, points: DeviceArray) -> DeviceArray:
        """What the projection on the simplex takes off, the largest such level."""
        xp = self.xp
        totals = xp.cumulative_sum(-xp.sort(-points, axis=1), axis=1)
        counts = xp.cumulative_sum(xp.ones_like(points), axis=1)
        return xp.max((totals - 1.0) / counts, axis=1, keepdims=True)

    def _shares(self, points: DeviceArray) -> DeviceArray:
        return self._relu(points - self._level(points))


class SquaredHingeThere(OnDevice):
    """1/2 sum_k [1 - z_k s_k]_+^2, z = 1 at the true output, else -1."""

    def value(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        """Loss of every row."""
        gradient = self.gradient(scores, target)
        return 0.5 * self._sum(gradient * gradient)

    def gradient(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        """-z_k [1 - z_k s_k]_+."""
        signs = self._signs(scores, target)
        return -signs * self._relu(1.0 - signs * scores)

    def curvature(self, scores: DeviceArray, target: DeviceArray) -> LinearMap:
        """d_k where z_k s_k <= 1, else 0."""
        inside = self._signs(scores, target) * scores <= 1.0
        active = self.xp.astype(inside, scores.dtype)
        return lambda direction: active * direction

    def conjugate(self, dual: DeviceArray, target: DeviceArray) -> DeviceArray:
        """Half the square minus the sum of z_k u_k."""
        signed = self._signs(dual, target) * dual
        inside = self.xp.all(signed >= -SLACK, axis=1)
        return self._where(inside, self._sum(signed * (0.5 * signed - 1.0)))

    def feasible_scale(self, dual: DeviceArray, target: DeviceArray) -> float:
        """Any scale, if the signs are right."""
        least = float(self.xp.min(self._signs(dual, target) * dual))
        return float("inf") if least >= -SLACK else 0.0

    def _signs(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        return 2.0 * self._own(scores, target) - 1.0


class HuberThere(OnDevice):
    """Half the squared residual up to a threshold, a line beyond it."""

    def __init__(self, device: Device, threshold: float) -> None:
        super().__init__(device)
        self.threshold = threshold

    def value(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        """Loss of every row."""
        size = self.xp.abs(scores - target)
        inner = self._clipped(size)
        return self._sum(inner * (size - 0.5 * inner))

    def gradient(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        """The residual, clipped to the threshold."""
        return self._clipped(scores - target)

    def curvature(self, scores: DeviceArray, target: DeviceArray) -> LinearMap:
        """d_k where the residual is within the threshold, else 0."""
        within = self.xp.abs(scores - target) <= self.threshold
        inside = self.xp.astype(within, scores.dtype)
        return lambda direction: inside * direction

    def conjugate(self, dual: DeviceArray, target: DeviceArray) -> DeviceArray:
        """That of the squared loss, inside the threshold."""
        limit = self.threshold * (1.0 + SLACK)
        inside = self.xp.all(self.xp.abs(dual) <= limit, axis=1)
        return self._where(inside, self._sum(dual * (0.5 * dual - target)))

    def feasible_scale(self, dual: DeviceArray, target: DeviceArray) -> float:
        """Threshold / largest value."""
        largest = float(self.xp.max(self.xp.abs(dual)))
        return self.threshold / largest if largest > 0.0 else float("inf")

    def _clipped(self, values: DeviceArray) -> DeviceArray:
        return self.xp.clip(values, -self.threshold, self.threshold)


class SquaredThere(HuberThere):
    """Half the squared residual: a threshold that nothing reaches."""

    def __init__(self, device: Device) -> None:
        super().__init__(device, float("inf"))

    def gradient(self, scores: DeviceArray, target: DeviceArray) -> DeviceArray:
        """The residual."""
        return scores - target
