"""Fitted kernels between rows that are all new: no reference row takes part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from manykernels.base.arrays import Array, Values
from manykernels.kernels.rows import BLOCK_BYTES, row_blocks
from manykernels.kernels.scaling import Side, make_symmetric, new_diagonal, new_side

if TYPE_CHECKING:
    from manykernels.kernels.fitted import Group, KernelSet


class Known(NamedTuple):
    """New rows of a group, and what one kernel needs to know of them."""

    rows: Any
    side: Side
    clipped: Values | None  # coordinates in the space of a clipped kernel


def combined_pairs(fitted: KernelSet, weights: Array, X: Any, Y: Any = None) -> Array:
    """sum_f weights_f k_f(x_i, y_j) in float64, for any rows X and Y.

    Without Y the rows X against themselves, exactly symmetric. Constants of scaling and
    centering are those of the training rows. Given matrices have no such values.

    Examples
    --------
    >>> from manykernels.kernels import KernelSet, Linear
    >>> fitted = KernelSet.fit([Linear(normalize=None)], [[1.0], [2.0]])
    >>> combined_pairs(fitted, np.array([2.0]), [[3.0], [4.0]], [[5.0]]).tolist()
    [[30.0], [40.0]]
    """
    fitted = fitted.only(np.flatnonzero(weights), np.float64)
    left = fitted.new_rows(X)
    right = left if Y is None else fitted.new_rows(Y)
    out = np.zeros((len(left[0]), len(right[0])))
    for group, a, b in zip(fitted.groups, left, right, strict=True):
        _add(fitted, group, weights, a, b, out)
    if Y is None:
        diagonals = [
            weights[f] * new_diagonal(fitted, group, f, rows)
            for group, rows in zip(fitted.groups, left, strict=True)
            for f in group.members
        ]
        make_symmetric(out, np.sum(diagonals, axis=0))
    return out


def _add(
    fitted: KernelSet, group: Group, weights: Array, a: Any, b: Any, out: Array
) -> None:
    """out += sum weights_f k_f; right of the diagonal only where a is b."""
    right = {f: _known(fitted, group, f, b) for f in group.members}
    left = right
    if a is not b:
        left = {f: _known(fitted, group, f, a) for f in group.members}
    for part in row_blocks(len(a), len(b), 8, BLOCK_BYTES):
        columns = slice(part.start if a is b else 0, len(b))
        for f, block in _values(fitted, group, left, right, part, columns):
            out[part, columns] += weights[f] * block


def _values(
    fitted: KernelSet,
    group: Group,
    left: dict[int, Known],
    right: dict[int, Known],
    rows: slice,
    columns: slice,
) -> Iterator[tuple[int, Values]]:
    """(f, values between some rows and others); one product serves a whole group."""
    plain = []
    for f in group.members:
        a, b = left[f].clipped, right[f].clipped
        if a is None or b is None:
            plain.append(f)
        else:
            yield f, a[rows] @ b[columns].T
    if not plain:
        return
    ends = left[plain[0]].rows.take(rows), right[plain[0]].rows.take(columns)
    found = replace(group, members=plain).blocks(fitted.kernels, fitted.names, *ends)
    for f, block in found:
        sides = _some(left[f].side, rows), _some(right[f].side, columns)
        yield f, fitted.scalings[f].finish(block, *sides)


def _known(fitted: KernelSet, group: Group, f: int, rows: Any) -> Known:
    """What needs the values with all training rows is computed in parts."""
    single = replace(group, members=[f])
    if not fitted.needs_all(f):
        return Known(rows, new_side(fitted, single, f, rows, None), None)
    parts = row_blocks(len(rows), fitted.n_train, 8, BLOCK_BYTES)
    found = [_against_all(fitted, single, f, rows.take(part)) for part in parts]
    sides = [side for side, _ in found]
    joined = Side(*(_join(values) for values in zip(*map(_fields, sides), strict=True)))
    return Known(rows, joined, _join([clipped for _, clipped in found]))


def _against_all(
    fitted: KernelSet, single: Group, f: int, rows: Any
) -> tuple[Side, Values | None]:
    """Centering and clipping of new rows, from their values with all training rows."""
    train: Any = single.rows
    ((_, block),) = single.blocks(fitted.kernels, fitted.names, rows, train)
    side, clip = new_side(fitted, single, f, rows, block), fitted.clips[f]
    if clip is None:
        return side, None
    scaling = fitted.scalings[f]
    return side, scaling.finish(block, side, scaling) @ clip.whiten


def _some(side: Side, rows: slice) -> Side:
    return Side(*(None if v is None else v[rows] for v in _fields(side)))


def _fields(side: Side) -> tuple[Values | None, ...]:
    return side.means, side.norms, side.factors


def _join(parts: Any) -> Any:
    return None if not parts or parts[0] is None else np.concatenate(parts)
