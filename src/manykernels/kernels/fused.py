"""Kernels that are a power or an exponential of an inner product, in one pass.

k(x, y) = s(x) s(y) f(slope <x, y> + l(x) + l(y)) holds for Linear, Cosine, Polynomial
and RBF with their scaling, unless it centers. A tile in single precision is then
computed from the inner products at once: computing takes seven times longer with a
pass for every operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from manykernels.base.arrays import Selection, Values
from manykernels.hot.values import add_values
from manykernels.kernels.base import Kernel
from manykernels.kernels.rows import FeatureGroup, Rows, inverse_roots

if TYPE_CHECKING:
    from manykernels.kernels.fitted import Group, KernelSet

EXPONENTIAL = 0  # in place of the degree of a power


class Curve(NamedTuple):
    """f(t) = (slope t + offset) ** degree, or its exponential."""

    slope: float
    offset: float
    degree: int


def curve(kernel: Kernel) -> Curve | None:
    """The function of the inner product that a kernel is; None where it is no such.

    Examples
    --------
    >>> from manykernels.kernels import RBF, BSpline
    >>> curve(RBF(0.5)), curve(BSpline(1.0))
    (Curve(slope=1.0, offset=0.0, degree=0), None)
    """
    facts: Any = kernel
    if kernel.kind in ("linear", "cosine"):
        return Curve(1.0, 0.0, 1)
    if kernel.kind == "polynomial":
        return Curve(float(facts.gamma), float(facts.coef0), facts.degree)
    if kernel.kind == "rbf":
        return Curve(2.0 * float(facts.gamma), 0.0, EXPONENTIAL)
    return None


def has_curves(group: Group, fitted: KernelSet) -> TypeGuard[FeatureGroup]:
    """Whether the kernels of a group are all such functions of inner products."""
    return isinstance(group, FeatureGroup) and all(
        curve(fitted.kernels[f]) is not None
        and fitted.clips[f] is None
        and fitted.scalings[f].means is None
        for f in group.members
    )


def is_fused(group: Group, fitted: KernelSet) -> TypeGuard[FeatureGroup]:
    """Whether the kernels of a group can all be computed in one pass."""
    return has_curves(group, fitted) and group.rows.values.dtype == np.float32


class FusedTile:
    """Rows of a fused group on two sides, and their inner products."""

    def __init__(
        self, fitted: KernelSet, group: FeatureGroup, left: Selection, right: Selection
    ) -> None:
        self.fitted = fitted
        self.sides = left, right
        self.rows = group.reference(left), group.reference(right)
        self.shared = group.shared(*self.rows)

    def add(self, f: int, weight: float, out: Values) -> Values:
        """out += weight * K_f, and out."""
        kernel, scaling = self.fitted.kernels[f], self.fitted.scalings[f]
        found = curve(kernel)
        assert found is not None
        (left, left_scale), (right, right_scale) = (
            map(_as_single, terms(kernel, found, rows, scaling.side(ids).norms))
            for rows, ids in zip(self.rows, self.sides, strict=True)
        )
        left += np.float32(found.offset)
        left_scale *= np.float32(weight * scaling.factor)
        slope, degree = np.float32(found.slope), found.degree
        scales = left_scale, right_scale
        add_values(self.shared, slope, left, right, degree, *scales, out)
        return out


def terms(
    kernel: Kernel, found: Curve, rows: Rows, norms: Values | None
) -> tuple[Values, Values]:
    """l(x) and s(x) of some rows, which are scaled by `norms`."""
    scale = np.ones(len(rows)) if norms is None else norms
    if found.degree == EXPONENTIAL:
        added = -0.5 * found.slope * rows.squares
    else:
        added = np.zeros(len(rows))
        if rows.shifts is not None:
            added = found.slope * rows.shifts
    if kernel.form == "cosine":
        scale = scale * inverse_roots(rows.plain_squares())
    return added, scale


def _as_single(values: Values) -> Values:
    return values.astype(np.float32)
