"""From raw kernel values to final ones: centering, normalization, clipping.

The constants come from the training rows; final values are computed between reference
rows, and of new rows against these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manykernels.base.arrays import Selection, Values
from manykernels.base.stored import FLAG, Floats, Maybe, Real, storable
from manykernels.kernels.base import Kernel, require_range
from manykernels.kernels.fused import FusedTile, is_fused
from manykernels.kernels.rows import (
    BLOCK_BYTES,
    inverse_roots,
    row_blocks,
    scale_outer,
    scale_rows,
)

if TYPE_CHECKING:
    from manykernels.kernels.fitted import Group, KernelSet

# Below this share of the largest k(x, x) a centered value is only rounding.
NOISE = 1e-10


@dataclass
class Side:
    """What one side of a block needs: its means, its inverse norms, its factors."""

    means: Values | None
    norms: Values | None  # times the factors, where there are any
    factors: Values | None = None


@dataclass
class Seen:
    """How many copies of each training row a group of kernels sees, and its factors."""

    copies: Values
    factors: Values | None = None

    @classmethod
    def of(cls, copies: Values, factors: Values | None, name: str) -> Seen:
        """Rows with the factor zero are not there."""
        if factors is None:
            return cls(copies)
        seen = copies * (factors > 0.0)
        if not seen.any():
            raise ValueError(
                f"kernel {name!r} needs training rows that have its view, got none; "
                "leave the view out."
            )
        return cls(seen, factors)

    @property
    def shares(self) -> Values:
        """Of every row in means."""
        return np.asarray(self.copies / self.copies.sum())


@storable(
    diagonal=Floats("rows"),
    factor=Real(),
    norms=Maybe(Floats("rows", low=0.0)),
    means=Maybe(Floats("rows")),
    total=Real(),
    noise=Real(low=0.0),
    direction=Maybe(Floats(None)),
    shares=Maybe(Floats(None, low=0.0)),
    unit=FLAG,
)
@dataclass
class Scaling:
    r"""From k to :math:`\hat k`: subtract means, then divide by norms.

    Attributes
    ----------
    diagonal : array of shape (n,)
        Final values of reference rows with themselves, float64.
    factor : float
        Multiplies every value ("trace", or a constant diagonal).
    norms : array of shape (n,) or None
        1 / sqrt of the centered k(x_j, x_j) ("diagonal"), times the rows' factors.
    means : array of shape (n,) or None
        Mean of k(x_j, .) over all training rows.
    total : float
        Mean of ``means`` over all training rows.
    noise : float
        Centered k(x, x) up to this size count as zero.
    direction : array of shape (d,) or None
        Mean feature vector, where the kernel has explicit features.
    shares : array of shape (n_train,) or None
        Of the training rows in means, where new rows need their values with all.
    unit : bool
        Whether every row is divided by its norm ("diagonal").
    """

    diagonal: Values
    factor: float = 1.0
    norms: Values | None = None
    means: Values | None = None
    total: float = 0.0
    noise: float = 0.0
    direction: Values | None = None
    shares: Values | None = None
    unit: bool = False

    @property
    def is_factor(self) -> bool:
        """Whether values are multiplied by the factor and nothing else."""
        return self.means is None and self.norms is None

    def side(self, ids: Selection) -> Side:
        """Return the constants of some reference rows."""
        means = None if self.means is None else self.means[ids]
        return Side(means, None if self.norms is None else self.norms[ids])

    def centered(self, diagonal: Values, means: Values | None) -> Values:
        """k(x, x) - 2 mu(x) + mean of mu."""
        return diagonal if means is None else diagonal - 2.0 * means + self.total

    def finish(self, block: Values, left: Side, right: Side | Scaling) -> Values:
        """Center and normalize a block in place."""
        if left.means is not None and right.means is not None:
            block -= left.means.astype(block.dtype)[:, None]
            block -= (right.means - self.total).astype(block.dtype)[None, :]
        if left.norms is not None and right.norms is not None:
            scale_outer(block, left.norms, right.norms)
        elif left.norms is not None:
            block *= left.norms.astype(block.dtype, copy=False)[:, None]
        elif right.norms is not None:
            block *= right.norms.astype(block.dtype, copy=False)
        if self.factor != 1.0:
            block *= self.factor
        return block

    def final_diagonal(self, diagonal: Values, side: Side) -> Values:
        """Values of rows with themselves after centering and normalization."""
        final = self.centered(diagonal, side.means)
        if self.unit:
            final = (final > self.noise).astype(np.float64)
        final = final * self.factor
        return final if side.factors is None else final * np.square(side.factors)

    def take(self, index: Values) -> Scaling:
        """Keep the constants of the reference rows `index`."""
        means = None if self.means is None else self.means[index]
        norms = None if self.norms is None else self.norms[index]
        return replace(self, diagonal=self.diagonal[index], norms=norms, means=means)


def fit_scalings(
    groups: list[Group],
    kernels: list[Kernel],
    names: list[str],
    seen: list[Seen],
    dtype: Any,
) -> list[Scaling]:
    """Training constants of every kernel, from the rows that its group sees."""
    scalings: list[Any] = [None] * len(kernels)
    for group, rows in zip(groups, seen, strict=True):
        shares = rows.shares
        means: dict[int, Values] = {}
        everything: Any = group.rows
        for f in group.members:
            kernel = kernels[f]
            with np.errstate(over="ignore"):
                diagonal = group.diagonal(kernel, names[f], everything)
            require_range(diagonal, names[f], dtype, kernel.family)
            scalings[f] = scaling = Scaling(diagonal)
            if kernel.center and kernel.has_features:
                phi = group.features(kernel, everything)
                scaling.direction = np.asarray(phi.T @ shares, dtype=np.float64)
                scaling.means = np.asarray(phi @ scaling.direction)
            elif kernel.center:
                # One product serves all the centered kernels of a group.
                means = means or _implicit_means(group, kernels, names, shares)
                scaling.means, scaling.shares = means[f], shares
            _fit_scaling(scaling, kernel, names[f], shares)
            if rows.factors is not None:
                _multiply_rows(scaling, rows.factors)
    return scalings


def _multiply_rows(scaling: Scaling, factors: Values) -> None:
    """Every row times its factor."""
    scaling.norms = factors if scaling.norms is None else scaling.norms * factors
    scaling.diagonal = scaling.diagonal * np.square(factors)


def _implicit_means(
    group: Group, kernels: list[Kernel], names: list[str], shares: Values
) -> dict[int, Values]:
    """Mean values with the training rows, of centered kernels without features."""
    centered = [f for f in group.members if kernels[f].center]
    means = {f: np.empty(len(shares)) for f in centered if not kernels[f].has_features}
    part_of_group = replace(group, members=list(means))
    everything: Any = group.rows
    for part in row_blocks(len(shares), len(shares), 8, BLOCK_BYTES):
        rows = group.reference(part)
        for f, block in part_of_group.blocks(kernels, names, rows, everything):
            means[f][part] = block @ shares
    return means


def _fit_scaling(scaling: Scaling, kernel: Kernel, name: str, shares: Values) -> None:
    """Complete the constants of one kernel from its k(x, x) and row means."""
    diagonal = scaling.diagonal
    if kernel.normalize == "diagonal" and float(diagonal.min()) < 0:
        raise ValueError(
            f"kernel {name!r} needs k(x, x) >= 0 for normalize='diagonal', got "
            f"{float(diagonal.min()):.4g}; use normalize='trace' or another kernel."
        )
    if scaling.means is not None:
        scaling.total = float(shares @ scaling.means)
        scaling.noise = NOISE * float(diagonal.max())
    centered = scaling.centered(diagonal, scaling.means)
    if not (centered > scaling.noise).any():
        centering = " after centering" if kernel.center else ""
        raise ValueError(
            f"kernel {name!r} must have k(x, x) > 0 on some training row, got "
            f"none{centering}; leave it out or change its columns."
        )
    # Features of an approximate kernel come with unit length where they can.
    unit = kernel.unit_diagonal or kernel.approximate is not None
    if kernel.normalize == "trace":
        scaling.factor = _inverse_mean(name, centered, shares)
    elif kernel.normalize == "diagonal" and kernel.family == "given":
        scaling.factor = _inverse_constant(name, centered)
    elif kernel.normalize == "diagonal" and (scaling.means is not None or not unit):
        scaling.norms, scaling.unit = inverse_roots(centered, scaling.noise), True
        centered = scaling.norms > 0
    scaling.diagonal = np.asarray(centered * scaling.factor, dtype=np.float64)


def _inverse_mean(name: str, centered: Values, shares: Values) -> float:
    mean = float(shares @ centered)
    if mean <= 0:
        raise ValueError(
            f"kernel {name!r} needs a positive mean of k(x, x) for normalize='trace', "
            f"got {mean:.4g}; use normalize=None or another kernel."
        )
    return 1.0 / mean


def _inverse_constant(name: str, centered: Values) -> float:
    low, high = float(centered.min()), float(centered.max())
    if high - low > 1e-4 * high:
        raise ValueError(
            f"kernel {name!r} can have normalize='diagonal' only with a constant "
            f"training diagonal because k(x, x) of new rows is not given, got values "
            f"from {low:.4g} to {high:.4g}; use normalize='trace' or normalize the "
            f"matrices yourself."
        )
    return 1.0 / float(centered.mean())


# --- final values of a fitted set ---------------------------------------------


def between(
    fitted: KernelSet, rows: Selection, columns: Selection
) -> Iterator[tuple[int, Values]]:
    """Yield (f, block) between reference rows, in the group's working precision."""
    for group in fitted.groups:
        if not group.members:
            continue
        left, right = fitted.ids(group, rows), fitted.ids(group, columns)
        if is_fused(group, fitted):
            tile = FusedTile(fitted, group, left, right)
            for f in group.members:
                yield f, tile.add(f, 1.0, np.zeros_like(tile.shared))
            continue
        a, b = group.reference(left), group.reference(right)
        for f, block in group.blocks(fitted.kernels, fitted.names, a, b):
            clip, scaling = fitted.clips[f], fitted.scalings[f]
            if clip is None:
                yield f, scaling.finish(block, scaling.side(left), scaling.side(right))
            else:
                yield f, clip.between(left, right)


def add_between(
    fitted: KernelSet,
    weights: Values,
    rows: Selection,
    columns: Selection,
    out: Values,
) -> None:
    """out += sum_f weights_f K_f between reference rows."""
    slow = []
    for group in fitted.groups:
        if group.members and is_fused(group, fitted):
            sides = fitted.ids(group, rows), fitted.ids(group, columns)
            tile = FusedTile(fitted, group, *sides)
            for f in group.members:
                tile.add(f, weights[f], out)
        else:
            slow.append(group)
    for f, block in between(replace(fitted, groups=slow), rows, columns):
        block *= weights[f]
        out += block


def against(fitted: KernelSet, group: Group, new: Any) -> Iterator[tuple[int, Values]]:
    """Yield (f, block) of new rows against the reference rows, for one group."""
    rows: Any = group.rows
    for f, block in group.blocks(fitted.kernels, fitted.names, new, rows):
        left = new_side(fitted, group, f, new, block)
        block = fitted.scalings[f].finish(block, left, fitted.scalings[f])
        clip = fitted.clips[f]
        if clip is not None:
            block = clip.against(block)
        yield f, block[:, fitted.support] if group.full else block


def new_side(
    fitted: KernelSet, group: Group, f: int, new: Any, block: Values | None
) -> Side:
    """Means and inverse norms of new rows; `block` has their values with all rows."""
    kernel, scaling = fitted.kernels[f], fitted.scalings[f]
    means = norms = None
    if scaling.direction is not None:
        means = np.asarray(group.features(kernel, new) @ scaling.direction)
    elif scaling.shares is not None and block is not None:
        means = np.asarray(block @ scaling.shares)
    factors = new.factors
    if scaling.unit:
        diagonal = group.diagonal(kernel, fitted.names[f], new)
        norms = inverse_roots(scaling.centered(diagonal, means), scaling.noise)
    if factors is not None:
        norms = factors if norms is None else norms * factors
    return Side(means, norms, factors)


def new_diagonal(fitted: KernelSet, group: Group, f: int, new: Any) -> Values:
    """Values of new rows with themselves, for one kernel of a group."""
    width = fitted.n_train if fitted.needs_all(f) else 1
    parts = row_blocks(len(new), width, 8, BLOCK_BYTES)
    values = [_new_diagonal(fitted, group, f, new.take(part)) for part in parts]
    return np.concatenate([np.empty(0), *values])


def _new_diagonal(fitted: KernelSet, group: Group, f: int, rows: Any) -> Values:
    scaling, clip = fitted.scalings[f], fitted.clips[f]
    block = None
    if fitted.needs_all(f):
        block = _raw_block(fitted, group, f, rows, group.rows)
    side = new_side(fitted, group, f, rows, block)
    if clip is not None and block is not None:
        final = scaling.finish(block, side, scaling)
        return np.square(final @ clip.whiten).sum(axis=1)
    diagonal = group.diagonal(fitted.kernels[f], fitted.names[f], rows)
    return scaling.final_diagonal(diagonal, side)


def final_matrix(fitted: KernelSet, f: int, ids: Values) -> Values:
    """Final symmetric matrix of one kernel on some training rows, float64."""
    group = fitted.group_of(f)
    rows = group.reference(ids)
    block = _raw_block(fitted, group, f, rows, rows)
    side = fitted.scalings[f].side(ids)
    block = fitted.scalings[f].finish(block, side, side).astype(np.float64)
    make_symmetric(block, fitted.scalings[f].diagonal[ids])
    return block


def _raw_block(fitted: KernelSet, group: Group, f: int, a: Any, b: Any) -> Values:
    """The unscaled block of one kernel alone."""
    single = replace(group, members=[f])
    ((_, block),) = single.blocks(fitted.kernels, fitted.names, a, b)
    return block


def make_symmetric(block: Values, diagonal: Values) -> None:
    """Copy the upper triangle of a square block to the lower; set the diagonal."""
    below = np.tri(len(block), k=-1, dtype=bool)
    np.copyto(block, block.T.copy(), where=below)
    np.fill_diagonal(block, diagonal)


def final_features(fitted: KernelSet, sides: list[Any], new: bool) -> list[Any]:
    """Phi_f after centering and normalization, for the prepared rows of each group.

    None for a kernel that is not evaluated.
    """
    out: list[Any] = [None] * fitted.n_kernels
    for group, rows in zip(fitted.groups, sides, strict=True):
        all_rows = fitted.ids(group, slice(0, fitted.n_reference))
        for f in group.members:
            scaling = fitted.scalings[f]
            side = scaling.side(all_rows)
            if new:
                side = new_side(fitted, group, f, rows, None)
            phi = group.features(fitted.kernels[f], rows)
            if scaling.direction is not None:
                phi = phi - scaling.direction
            if side.norms is not None:
                phi = scale_rows(phi, side.norms)
            if scaling.factor != 1.0:
                phi = phi * np.sqrt(scaling.factor)
            out[f] = phi.astype(fitted.dtype, copy=True)
    return out
