"""Final kernel values of a fitted set: between reference rows, and of new rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manykernels.base.arrays import Values
from manykernels.kernels.build import BLOCK_BYTES, row_blocks
from manykernels.kernels.explicit import feature_map
from manykernels.kernels.groups import Group
from manykernels.kernels.scaling import Side

if TYPE_CHECKING:
    from manykernels.kernels.fitted import KernelSet

Index = Values | slice


def between(
    fitted: KernelSet, rows: Index, columns: Index
) -> Iterator[tuple[int, Values]]:
    """Yield (f, block) between reference rows, in the group's working precision."""
    for group in fitted.groups:
        if not group.members:
            continue
        left, right = fitted.ids(group, rows), fitted.ids(group, columns)
        a, b = group.reference(left), group.reference(right)
        for f, block in group.blocks(fitted.kernels, fitted.names, a, b):
            clip, scaling = fitted.clips[f], fitted.scalings[f]
            if clip is None:
                yield f, scaling.finish(block, scaling.side(left), scaling.side(right))
            else:
                yield f, clip.between(left, right)


def against(fitted: KernelSet, group: Group, new: Any) -> Iterator[tuple[int, Values]]:
    """Yield (f, block) of new rows against the reference rows, for one group."""
    blocks = group.blocks(fitted.kernels, fitted.names, new, group.everything())
    for f, block in blocks:
        block = _finish_new(fitted, group, f, new, block)
        clip = fitted.clips[f]
        if clip is not None:
            block = clip.against(block)
        yield f, block[:, fitted.support] if group.full else block


def new_side(
    fitted: KernelSet, group: Group, f: int, new: Any, block: Values | None
) -> Side:
    """Means and inverse norms of new rows; `block` has their values with all rows."""
    kernel, scaling = fitted.kernels[f], fitted.scalings[f]
    means = None
    if scaling.direction is not None:
        phi = feature_map(kernel, new, group.offset)
        means = np.asarray(phi @ scaling.direction)
    elif scaling.means is not None and block is not None:
        means = block.mean(axis=1, dtype=np.float64)
    if scaling.norms is None:
        return Side(means, None)
    return scaling.new_side(group.diagonal(kernel, fitted.names[f], new), means)


def new_diagonals(
    fitted: KernelSet, group: Group, new: Any
) -> Iterator[tuple[int, Values]]:
    """Yield (f, values of new rows with themselves) for one group."""
    for f in group.members:
        width = fitted.n_train if fitted.needs_all(f) else 1
        parts = row_blocks(len(new), width, 8, BLOCK_BYTES)
        values = [_new_diagonal(fitted, group, f, new.take(part)) for part in parts]
        yield f, np.concatenate([np.empty(0), *values])


def matrix(fitted: KernelSet, f: int, ids: Values) -> Values:
    """Final symmetric matrix of one kernel on some training rows, float64."""
    group = fitted.group_of(f)
    rows = group.reference(ids)
    block = _raw_block(fitted, group, f, rows, rows)
    side = fitted.scalings[f].side(ids)
    block = fitted.scalings[f].finish(block, side, side).astype(np.float64)
    make_symmetric(block, fitted.scalings[f].diagonal[ids])
    return block


def make_symmetric(block: Values, diagonal: Values) -> None:
    """Copy the upper triangle of a square block to the lower; set the diagonal."""
    below = np.tri(len(block), k=-1, dtype=bool)
    np.copyto(block, block.T.copy(), where=below)
    np.fill_diagonal(block, diagonal)


def _new_diagonal(fitted: KernelSet, group: Group, f: int, rows: Any) -> Values:
    scaling, clip = fitted.scalings[f], fitted.clips[f]
    block = None
    if fitted.needs_all(f):
        block = _raw_block(fitted, group, f, rows, group.everything())
    if clip is not None and block is not None:
        final = _finish_new(fitted, group, f, rows, block)
        return np.square(final @ clip.whiten).sum(axis=1)
    side = new_side(fitted, group, f, rows, block)
    diagonal = group.diagonal(fitted.kernels[f], fitted.names[f], rows)
    return scaling.final_diagonal(diagonal, side)


def _finish_new(
    fitted: KernelSet, group: Group, f: int, new: Any, block: Values
) -> Values:
    scaling = fitted.scalings[f]
    left = new_side(fitted, group, f, new, block)
    return scaling.finish(block, left, scaling.side(slice(None)))


def _raw_block(fitted: KernelSet, group: Group, f: int, a: Any, b: Any) -> Values:
    """The unscaled block of one kernel alone."""
    single = replace(group, members=[f])
    ((_, block),) = single.blocks(fitted.kernels, fitted.names, a, b)
    return block
