"""Final values of fitted kernels: raw blocks, scaled and clipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Selection, Values
from manykernels.base.tables import table_rows
from manykernels.kernels.base import Kernel, inverse_roots
from manykernels.kernels.columns import as_table
from manykernels.kernels.feature_group import FeatureGroup
from manykernels.kernels.kernel_scaling import RowScaling, Scaling
from manykernels.kernels.matrices import GivenGroup, check_new_stack, read_stack
from manykernels.kernels.pairwise import (
    KERNEL_BLOCK_BYTES,
    KERNEL_TILE,
    FusedTile,
    in_both,
    make_symmetric,
    row_blocks,
    scale_rows,
)

if TYPE_CHECKING:
    from manykernels.kernels.kernel_set import Group


@dataclass
class KernelValues:
    """Values of fitted kernels between rows, and explicit features.

    Computed group by group: the kernels of a group share rows and a pairwise quantity.
    The attributes are those of `KernelSet`.
    """

    kernels: list[Kernel]
    names: list[str]
    groups: list[Group]
    scalings: list[Scaling]
    n_columns: int
    n_train: int
    dtype: np.dtype[Any]
    support: Values | None = None
    n_kernels: int = field(init=False, repr=False, compare=False)
    n_reference: int = field(init=False, repr=False, compare=False)
    # Whether new rows bring their values with all training rows.
    are_given: bool = field(init=False, repr=False, compare=False)
    # Kernels whose constants of new rows need their values with all training rows.
    needs_all: set[int] = field(init=False, repr=False, compare=False)
    # Whether `features` gives explicit features.
    is_explicit: bool = field(init=False, repr=False, compare=False)
    # Whether every kernel has compact support, so that matrices are sparse.
    is_sparse: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.n_kernels = len(self.kernels)
        self.n_reference = self.n_train if self.support is None else len(self.support)
        self.are_given = bool(self.groups) and isinstance(self.groups[0], GivenGroup)
        self.needs_all, self.is_explicit, self.is_sparse = set(), True, True
        if not all(self.scalings):
            return  # constants are still missing
        for group in self.groups:
            for f in group.members:
                kernel, scaling = self.kernels[f], self.scalings[f]
                phi = kernel.has_features
                if scaling.clip is not None or (kernel.center and not phi):
                    self.needs_all.add(f)
                # Centered features of sparse rows would fill the memory.
                full = kernel.center and phi and sp.issparse(group.rows.values)
                self.is_explicit &= phi and not full
                exact = kernel.approximate is None and not kernel.center
                self.is_sparse &= kernel.compact and exact and not scaling.clip

    # --- between reference rows -------------------------------------------------

    def stack(self, out: Values | None = None, *, n_threads: int = 1) -> Values:
        """Return kernel matrices of the reference rows, (F, N, N), exactly symmetric.

        Parameters
        ----------
        out : array of shape (F, N, N), optional
            Where to write, for instance a memory map.
        n_threads : int
            Tiles computed at the same time; worth it where BLAS itself is limited to
            one thread.
        """
        shape = (self.n_kernels, self.n_reference, self.n_reference)
        out = np.empty(shape, dtype=self.dtype) if out is None else out
        if out.shape != shape:
            raise ValueError(
                f"out must have shape {shape}, got {out.shape}; allocate it so."
            )
        tiles = symmetric_tiles(self.n_reference)
        if n_threads == 1:
            for rows, columns in tiles:
                self._fill_tile(out, rows, columns)
            return out
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(lambda tile: self._fill_tile(out, *tile), tiles))
        return out

    def _fill_tile(self, out: Values, rows: slice, columns: slice) -> None:
        """Write one tile of every kernel, and its mirror image."""
        for f, block in self.between(rows, columns):
            if rows == columns:
                make_symmetric(block, self._diagonal(f, rows))
            out[f, rows, columns] = block
            if rows != columns:
                out[f, columns, rows] = block.T

    def rows(self, index: Any) -> Values:
        """Return some reference rows against all of them, shape (F, len(index), N)."""
        n = self.n_reference
        index = np.atleast_1d(np.arange(n)[np.asarray(index, dtype=np.intp)])
        out = np.empty((self.n_kernels, len(index), n), dtype=self.dtype)
        for part in row_blocks(len(index), n, self.dtype.itemsize, KERNEL_BLOCK_BYTES):
            for f, block in self.tile(index[part], slice(0, n)):
                out[f, part] = block
        return out

    def tile(self, rows: Selection, columns: Selection) -> Iterator[tuple[int, Values]]:
        """Yield (f, block) between some reference rows and others."""
        # Products of a row with itself are inexact, and its value is known.
        ids, *places = in_both(np.arange(self.n_reference), rows, columns)
        for f, block in self.between(rows, columns):
            block[tuple(places)] = self._diagonal(f, ids)
            yield f, block

    def combined_tile(
        self, weights: Values, rows: Selection, columns: Selection
    ) -> Values:
        """Return sum_f weights_f K_f between some reference rows and others."""
        every = np.arange(self.n_reference)
        ids, *places = in_both(every, rows, columns)
        out = np.zeros((len(every[rows]), len(every[columns])), self.dtype)
        plain = []
        for group in self.groups:
            if self.is_fused(group):
                # Weighted values are added at once: no block of a single kernel.
                tile = FusedTile(self, group, rows, columns)
                for f in group.members:
                    tile.add(f, weights[f], out)
            else:
                plain.append(group)
        for f, block in self.between(rows, columns, plain):
            block *= weights[f]
            out += block
        diagonal = np.zeros(len(ids))
        for group in self.groups:
            for f in group.members:
                diagonal += weights[f] * self._diagonal(f, ids)
        out[tuple(places)] = diagonal
        return out

    def between(
        self, rows: Selection, columns: Selection, groups: Sequence[Group] | None = None
    ) -> Iterator[tuple[int, Values]]:
        """Yield (f, block) between reference rows, in the group's working precision.

        Unlike in :meth:`tile`, values of a row with itself are subject to rounding.
        """
        for group in self.groups if groups is None else groups:
            if self.is_fused(group):
                tile = FusedTile(self, group, rows, columns)
                for f in group.members:
                    yield f, tile.add(f, 1.0, np.zeros_like(tile.products))
            elif group.members:
                ids, others = self.ids(group, rows), self.ids(group, columns)
                a, b = group.reference(ids), group.reference(others)
                for f, block in group.blocks(self, a, b):
                    scaling = self.scalings[f]
                    left, right = scaling.of_rows(ids), scaling.of_rows(others)
                    yield f, scaling.finish(block, left, right)

    def diagonals(self) -> Values:
        """Return values of the reference rows with themselves, (F, N), float64."""
        out = np.zeros((self.n_kernels, self.n_reference))
        for group in self.groups:
            for f in group.members:
                diagonal = self.scalings[f].diagonal
                out[f] = diagonal[self.support] if group.full else diagonal
        return out

    def _diagonal(self, f: int, ids: Selection) -> Values:
        return self.scalings[f].diagonal[self.ids(self.group_of(f), ids)]

    def sparse_stack(self) -> list[Any]:
        """Return CSR matrices of the reference rows from a few dense rows at a time."""
        if not self.is_sparse:
            raise ValueError(
                "sparse matrices need plain kernels with compact support only, got "
                f"{', '.join(self.names)}; use stack instead."
            )
        n = self.n_reference
        parts: list[list[Any]] = [[] for _ in self.kernels]
        for rows in row_blocks(n, n, 8, KERNEL_BLOCK_BYTES):
            for f, block in self.between(rows, slice(rows.start, n)):
                # Column 0 is that of the block's first row: keep what is right of it.
                upper = np.triu(block.astype(self.dtype), 1)
                i, j = np.nonzero(upper)
                entries = (upper[i, j], (i, j + rows.start))
                parts[f].append(sp.csr_array(entries, shape=(len(block), n)))
        out = []
        for part, diagonal in zip(parts, self.diagonals(), strict=True):
            upper = sp.csr_array(sp.vstack(part, format="csr"))
            diagonal = sp.diags_array(diagonal.astype(self.dtype))
            out.append(sp.csr_array(upper + upper.T + diagonal))
        return out

    # --- of new rows ------------------------------------------------------------

    def cross(
        self, X_new: Any, block_bytes: int = 2**26
    ) -> Iterator[tuple[slice, Values]]:
        """Iterate over (rows, block), block[f, i, j] = k_f(x_i, x_j), shape (F, b, N).

        Parameters
        ----------
        X_new : same kind as in fit
            New rows; given matrices hold values with all training rows.
        block_bytes : int
            Memory that one yielded block may take, with the rows prepared for it.
        """
        width, itemsize = self.n_kernels * max(1, self.n_reference), self.dtype.itemsize
        prepared: list[Any] = []
        if self.are_given:
            prepared = self.new_rows(X_new)
            n_rows = len(prepared[0])
        else:
            X_new = as_table(X_new)
            n_rows, itemsize = X_new.shape[0], 8
            # Three copies in float64: rows as read, without offset, and as mapped.
            for group in self.groups:
                width += 3 * group.rows.values.shape[1]
        for part in row_blocks(n_rows, width, itemsize, block_bytes):
            if self.are_given:
                rows = [whole.take(part) for whole in prepared]
            else:  # a part at a time: prepared rows take more memory than the table
                rows = self.new_rows(table_rows(X_new, part))
            yield part, self._cross_block(rows, part.stop - part.start)

    def _cross_block(self, prepared: list[Any], n_rows: int) -> Values:
        """Return values of prepared new rows with the reference rows."""
        out = np.zeros((self.n_kernels, n_rows, self.n_reference), dtype=self.dtype)
        for group, whole in zip(self.groups, prepared, strict=True):
            train: Any = group.rows
            width = self.n_train if group.full else self.n_reference
            for part in row_blocks(n_rows, width, out.itemsize, KERNEL_BLOCK_BYTES):
                rows = whole if part == slice(0, n_rows) else whole.take(part)
                for f, block in group.blocks(self, rows, train):
                    # Centering and clipping need the raw values with all rows.
                    left = self.scaling_of_new(group, f, rows, block)
                    right = self.scalings[f].of_rows(slice(None))
                    block = self.scalings[f].finish(block, left, right)
                    out[f, part] = block[:, self.support] if group.full else block
        return out

    def cross_diagonals(self, X_new: Any) -> Values:
        """Return values of new rows with themselves, shape (F, n), float64.

        Given matrices do not hold these: with them this raises a ValueError.
        """
        if self.are_given:
            raise ValueError(
                "k(x, x) of new rows is known for kernels on feature columns only, got "
                "given matrices; compute it where the matrices come from."
            )
        prepared = self.new_rows(X_new)
        out = np.empty((self.n_kernels, len(prepared[0])))
        for group, rows in zip(self.groups, prepared, strict=True):
            for f in group.members:
                scaling = self.scaling_of_new(group, f, rows)
                out[f] = self.new_diagonal(group, f, rows, scaling)
        return out

    def scaling_of_new(
        self, group: Group, f: int, rows: Any, block: Values | None = None
    ) -> RowScaling:
        """Return the constants of new rows, perhaps from raw values with all rows."""
        kernel, scaling = self.kernels[f], self.scalings[f]
        if block is None and f in self.needs_all:
            return self._scaling_in_parts(group, f, rows)
        means = norms = clipped = None
        if scaling.direction is not None:
            means = np.asarray(group.features(kernel, rows) @ scaling.direction)
        elif scaling.shares is not None and block is not None:
            means = np.asarray(block @ scaling.shares)
        if scaling.unit:
            centered = scaling.centered(group.diagonal(self, f, rows), means)
            norms = inverse_roots(centered, scaling.noise)
        if rows.factors is not None:
            norms = rows.factors if norms is None else norms * rows.factors
        if scaling.clip is not None and block is not None:
            train = scaling.of_rows(slice(None))
            final = scaling.finish(block, RowScaling(means, norms), train)
            clipped = final @ scaling.clip.whiten
        return RowScaling(means, norms, rows.factors, clipped)

    def _scaling_in_parts(self, group: Group, f: int, rows: Any) -> RowScaling:
        """Compute the values with all training rows for some new rows at a time."""
        train: Any = group.rows
        parts = [RowScaling()] if len(rows) == 0 else []
        for part in row_blocks(len(rows), self.n_train, 8, KERNEL_BLOCK_BYTES):
            some = rows.take(part)
            ((_, block),) = group.blocks(self, some, train, [f])
            parts.append(self.scaling_of_new(group, f, some, block))
        return RowScaling.concatenate(parts)

    def new_diagonal(
        self, group: Group, f: int, rows: Any, scaling: RowScaling
    ) -> Values:
        """Return values of new rows with themselves, given the rows' constants."""
        raw = group.diagonal(self, f, rows)
        return self.scalings[f].final_diagonal(raw, scaling)

    def new_rows(self, X_new: Any) -> list[Any]:
        """Return new rows prepared for every group."""
        if self.are_given:
            X_new = read_stack(X_new)
            check_new_stack(X_new, self.n_columns, self.n_train)
        else:
            X_new = as_table(X_new)
            if X_new.shape[1] != self.n_columns:
                raise ValueError(
                    f"expected {self.n_columns} columns as in fit, got "
                    f"{X_new.shape[1]}; pass the same columns in the same order."
                )
        return [group.new(self, X_new) for group in self.groups]

    # --- explicit features --------------------------------------------------

    def features(self) -> list[Any] | None:
        """Return phi_f of the reference rows with phi_f phi_f^T = kernel f.

        None unless every kernel has such a form: approximate kernels, and Linear,
        Cosine or Constant where they are not centered on a sparse X.
        """
        if not self.is_explicit:
            return None
        out: list[Any] = [None] * self.n_kernels
        for group in self.groups:
            ids = self.ids(group, slice(0, self.n_reference))
            rows = group.reference(ids)
            for f in group.members:
                scaling = self.scalings[f].of_rows(ids)
                out[f] = self._final_features(group, f, rows, scaling)
        return out

    def new_features(self, X_new: Any) -> list[Any]:
        """Return explicit features of new rows, in the space of :meth:`features`."""
        if not self.is_explicit:
            raise ValueError(
                "explicit features need Linear, Cosine and Constant kernels only, or "
                f"approximate ones, got {', '.join(self.names)}; use cross instead."
            )
        out: list[Any] = [None] * self.n_kernels
        for group, rows in zip(self.groups, self.new_rows(X_new), strict=True):
            for f in group.members:
                scaling = self.scaling_of_new(group, f, rows)
                out[f] = self._final_features(group, f, rows, scaling)
        return out

    def _final_features(
        self, group: Group, f: int, rows: Any, scaling: RowScaling
    ) -> Any:
        """Return features after centering and normalization."""
        phi = group.features(self.kernels[f], rows)
        # <phi(x) - mean, phi(y) - mean> is the centered kernel.
        if self.scalings[f].direction is not None:
            phi = phi - self.scalings[f].direction
        if scaling.norms is not None:
            phi = scale_rows(phi, scaling.norms)
        # The factor of the kernel: each of the two sides brings its root.
        if self.scalings[f].factor != 1.0:
            phi = phi * np.sqrt(self.scalings[f].factor)
        return phi.astype(self.dtype, copy=True)

    def feature_blocks(
        self, X_new: Any, block_bytes: int = 2**26
    ) -> Iterator[tuple[slice, list[Any]]]:
        """Iterate over (rows, explicit features of these new rows).

        Parameters
        ----------
        X_new : array, sparse matrix or data frame
        block_bytes : int
            Memory that the features of a block may take.
        """
        X_new = as_table(X_new)
        columns = self.n_feature_columns()
        if sp.issparse(X_new):
            # Of a sparse row the non-zeros, values and their places.
            stored = 2 * -(-X_new.nnz // max(1, X_new.shape[0]))
            for f, kernel in enumerate(self.kernels):
                if not kernel.approximate:
                    columns[f] = min(columns[f], stored)
        for part in row_blocks(X_new.shape[0], sum(columns), 8, block_bytes):
            yield part, self.new_features(table_rows(X_new, part))

    # --- facts ------------------------------------------------------------------

    def group_of(self, f: int) -> Group:
        """Return the group that evaluates kernel f."""
        return next(group for group in self.groups if f in group.members)

    def ids(self, group: Group, index: Selection) -> Selection:
        """Return the positions in a group's arrays of some reference rows."""
        if group.full and self.support is not None:
            return self.support[index]
        return index

    def n_feature_columns(self) -> list[int]:
        """Count the columns of every kernel's features; 0 where not evaluated."""
        columns = [0] * self.n_kernels
        for group in self.groups:
            for f in group.members:
                kernel = self.kernels[f]
                single = kernel.form == "constant" and kernel.approximate is None
                columns[f] = 1 if single else group.rows.values.shape[1]
        return columns

    def has_curves(self, group: Group) -> TypeGuard[FeatureGroup]:
        """Whether all kernels of a group are curves of inner products."""
        if not group.members or not isinstance(group, FeatureGroup):
            return False
        for f in group.members:
            curve, scaling = self.kernels[f].curve(), self.scalings[f]
            if curve is None or scaling.clip or scaling.means is not None:
                return False
        return True

    def is_fused(self, group: Group) -> TypeGuard[FeatureGroup]:
        """Whether the kernels of a group are computed in one pass over a tile."""
        # In single precision: a pass for every operation takes seven times longer.
        return self.has_curves(group) and group.rows.values.dtype == np.float32


def symmetric_tiles(n: int, size: int = KERNEL_TILE) -> list[tuple[slice, slice]]:
    """Return tiles on and above the diagonal of an n x n matrix."""
    starts = range(0, n, size)
    parts = map(slice, starts, [*starts[1:], n])
    return list(combinations_with_replacement(parts, 2))
