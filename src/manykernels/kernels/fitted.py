"""Fitted kernels: training matrices and new rows, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Selection, Values
from manykernels.base.machine import one_blas_thread
from manykernels.base.stored import (
    Count,
    ListOf,
    Maybe,
    Part,
    Wholes,
    storable,
)
from manykernels.base.tables import table_rows
from manykernels.device import Device
from manykernels.kernels.approximate.maps import MappedGroup
from manykernels.kernels.base import Kernel, row_copies, unique_names
from manykernels.kernels.checked import CheckedKernels
from manykernels.kernels.extend import extended
from manykernels.kernels.given import (
    GivenGroup,
    check_new_stack,
    fit_given,
    read_stack,
)
from manykernels.kernels.psd import Clip, Psd, make_psd
from manykernels.kernels.rows import (
    BLOCK_BYTES,
    FeatureGroup,
    as_table,
    row_blocks,
    row_factors,
    shared_columns,
    symmetric_tiles,
)
from manykernels.kernels.scaling import (
    Scaling,
    Seen,
    add_between,
    against,
    between,
    final_features,
    fit_scalings,
    make_symmetric,
    new_diagonal,
)
from manykernels.kernels.sparse import sparse_matrices

# All evaluate blocks between `reference` rows, or of `new` rows against `everything`.
Group: TypeAlias = FeatureGroup | GivenGroup | MappedGroup


PSD_OPTIONS = get_args(Psd)


# In a file it always has the support rows only.
@storable(
    kernels=ListOf(Part(Kernel), "kernels"),
    names=ListOf(Part(str), "kernels"),
    groups=ListOf(Part(FeatureGroup, GivenGroup, MappedGroup)),
    scalings=ListOf(Part(Scaling), "kernels"),
    n_columns=Count(),
    n_train=Count(size="training rows"),
    dtype=Part(np.dtype),
    clips=ListOf(Maybe(Part(Clip)), "kernels"),
    support=Wholes("support", low=0, below="training rows"),
)
@dataclass
class KernelSet(CheckedKernels):
    r"""Fitted kernels on reference rows: :math:`\hat k_f(x, x_j)` for all f.

    Kernels on the same columns share one product per block. The reference rows are the
    training rows, or those kept by :meth:`take`.

    Attributes
    ----------
    kernels : list of Kernel
        Specifications with numbers in place of "scale", "median" and the like.
    names : list of str
        One display name per kernel, all different.
    groups : list
        Reference rows, one entry per set of kernels that share them.
    scalings : list of Scaling
        Centering and normalization constants per kernel.
    clips : list of Clip or None
        Projection per kernel that was made positive semi-definite.
    n_columns : int
        Columns (or matrices) that new data must have.
    n_train : int
        Number of training rows.
    dtype : dtype
        Of all returned blocks.
    support : array of int or None
        Training positions of the reference rows once restricted.

    Examples
    --------
    >>> from manykernels.kernels import RBF, KernelSet, Linear
    >>> kernels = KernelSet.fit([Linear(), RBF(0.5)], [[1.0], [2.0]])
    >>> kernels.names
    ['linear', 'rbf(gamma=0.5)']
    >>> kernels.stack().shape
    (2, 2, 2)
    >>> next(kernels.cross([[3.0]]))[1].round(2)
    array([[[1.  , 1.  ]],
    <BLANKLINE>
           [[0.14, 0.61]]], dtype=float32)
    """

    kernels: list[Kernel]
    names: list[str]
    groups: list[Group]
    scalings: list[Scaling]
    n_columns: int
    n_train: int
    dtype: np.dtype[Any]
    clips: list[Clip | None] = field(default_factory=list)
    support: Values | None = None
    n_kernels: int = field(init=False, repr=False, compare=False)
    n_reference: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Count the kernels F and the reference rows N."""
        self.n_kernels = len(self.kernels)
        self.n_reference = self.n_train if self.support is None else len(self.support)

    @classmethod
    def fit(
        cls,
        kernels: Sequence[Kernel],
        X: Any,
        *,
        feature_names: Sequence[str] | None = None,
        dtype: Any = np.float32,
        psd: Psd = "check",
        random_state: int | np.random.Generator | None = None,
        sample_weight: Any = None,
        device: Device | None = None,
    ) -> KernelSet:
        """Fit kernels on training rows.

        Parameters
        ----------
        kernels : sequence of Kernel
            As returned by :func:`as_kernels`.
        X : array, sparse matrix, data frame, or stack of given matrices
            Training rows; for Precomputed and Distance an array of shape
            (n, n, n_matrices), a list of n x n matrices or one matrix.
        feature_names : sequence of str, optional
            Column names; taken from a data frame if not given.
        dtype : float32 or float64
            Precision of the kernel values.
        psd : {"check", "clip", "skip"}
            What to do about given, custom and spline kernels with negative
            eigenvalues.
        random_state : int, Generator or None
            For the landmarks and random features of approximate kernels.
        sample_weight : array of shape (n,), optional
            A row of weight k is fitted as k copies of it would be: in widths, means,
            normalization and landmarks. Weights that are no whole numbers are taken
            relative to their mean.
        device : Device, optional
            Where features of approximate kernels are computed, and stay.
        """
        given, precision = _check_options(kernels, dtype, psd)
        resolved = list(kernels)
        groups: list[Group] = []
        seen: list[Seen] = []
        if given:
            matrices = read_stack(X)
            n_columns, n_train = len(matrices), len(matrices[0])
            copies = row_copies(sample_weight, n_train)
            resolved, names, groups[:] = fit_given(
                kernels, matrices, feature_names, copies, precision
            )
            seen = [Seen(copies)] * len(groups)
        else:
            X = as_table(X)
            n_train, n_columns = map(int, X.shape)
            copies = row_copies(sample_weight, n_train)
            names = unique_names(list(map(attrgetter("label"), kernels)))
            rng = np.random.default_rng(random_state)
            for columns, members in shared_columns(resolved, X, feature_names):
                first = resolved[members[0]]
                factors = row_factors(X, columns, first.family)
                seen.append(Seen.of(copies, factors, names[members[0]]))
                data = (resolved, names, X, seen[-1].copies, precision)
                if first.approximate is None:
                    groups.append(FeatureGroup.fit(columns, members, *data))
                else:
                    groups.append(MappedGroup.fit(columns, members, *data, rng, device))
        scalings = fit_scalings(groups, resolved, names, seen, precision)
        clips: list[Clip | None] = [None] * len(resolved)
        fitted = cls(
            resolved, names, groups, scalings, n_columns, n_train, precision, clips
        )
        if any(map(attrgetter("check_psd"), resolved)):
            # Threads of BLAS cost more than they bring on samples of 256 rows.
            with one_blas_thread():
                make_psd(fitted, psd, copies)
        return fitted

    def stack(self, out: Values | None = None, *, n_threads: int = 1) -> Values:
        """Kernel matrices of the reference rows, shape (F, N, N), exactly symmetric.

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

    def rows(self, index: Any) -> Values:
        """Some reference rows against all of them, shape (F, len(index), N)."""
        n = self.n_reference
        index = np.atleast_1d(np.arange(n)[np.asarray(index, dtype=np.intp)])
        out = np.empty((self.n_kernels, len(index), n), dtype=self.dtype)
        for part in row_blocks(len(index), n, self.dtype.itemsize, BLOCK_BYTES):
            for f, block in self.tile(index[part], slice(0, n)):
                out[f, part] = block
        return out

    def tile(self, rows: Selection, columns: Selection) -> Iterator[tuple[int, Values]]:
        """Yield (f, block) between some reference rows and others."""
        ids, *same = self._in_both(rows, columns)
        for f, block in between(self, rows, columns):
            block[tuple(same)] = self._diagonal(f, ids)
            yield f, block

    def combined_tile(
        self, weights: Values, rows: Selection, columns: Selection
    ) -> Values:
        """sum_f weights_f K_f between some reference rows and others."""
        ids, *same = self._in_both(rows, columns)
        every = np.arange(self.n_reference)
        shape = len(every[rows]), len(every[columns])
        out = np.zeros(shape, self.dtype)
        add_between(self, weights, rows, columns, out)
        members = [f for group in self.groups for f in group.members]
        parts = [weights[f] * self._diagonal(f, ids) for f in members]
        out[tuple(same)] = np.sum(parts, axis=0)
        return out

    def _in_both(self, rows: Selection, columns: Selection) -> tuple[Values, ...]:
        """Rows that are among the columns too, their places in rows and in columns."""
        every = np.arange(self.n_reference)
        ids, others = every[rows], every[columns]
        order = np.argsort(others, kind="stable")
        at = np.searchsorted(others, ids, sorter=order)
        at = order[np.minimum(at, len(others) - 1)]
        same = np.flatnonzero(others[at] == ids)
        return ids[same], same, at[same]

    def diagonals(self) -> Values:
        """Values of the reference rows with themselves, shape (F, N), float64."""
        all_rows = slice(0, self.n_reference)
        return np.stack([self._diagonal(f, all_rows) for f in range(self.n_kernels)])

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
        width = self.n_kernels * max(1, self.n_reference)
        if isinstance(self.groups[0], GivenGroup):
            sides = self.new_rows(X_new)
            parts = row_blocks(len(sides[0]), width, self.dtype.itemsize, block_bytes)
            return self._cross_blocks(sides, parts)
        X_new = self._read_table(X_new)
        width += self._prepared_columns()
        parts = row_blocks(X_new.shape[0], width, 8, block_bytes)
        return self._cross_table(X_new, parts)

    def cross_diagonals(self, X_new: Any) -> Values:
        """Values of new rows with themselves, shape (F, n), float64.

        Given matrices do not hold these: with them this raises a ValueError.
        """
        if isinstance(self.groups[0], GivenGroup):
            raise ValueError(
                "k(x, x) of new rows is known for kernels on feature columns only, got "
                "given matrices; compute it where the matrices come from."
            )
        sides = self.new_rows(X_new)
        out = np.empty((self.n_kernels, len(sides[0])))
        for group, rows in zip(self.groups, sides, strict=True):
            for f in group.members:
                out[f] = new_diagonal(self, group, f, rows)
        return out

    def take(self, index: Any, *, matrices: bool = True) -> KernelSet:
        """Keep only the reference rows `index` (positions or a mask).

        Without the given `matrices` only `cross` remains, which is all that a fitted
        model needs: it is small, whatever the kernels were.
        """
        index = np.asarray(index)
        chosen = index if index.dtype == bool else index.astype(np.intp)
        index = np.arange(self.n_reference)[chosen]
        support = index if self.support is None else self.support[index]
        groups: list[Group] = []
        scalings = list(self.scalings)
        for group in self.groups:
            if isinstance(group, GivenGroup) and not matrices:
                groups.append(group.forget(support))
                continue
            keep_all = any(map(self.needs_all, group.members))
            groups.append(group.take(index, support, keep_all))
            for f in group.members:
                if not groups[-1].full:
                    scalings[f] = scalings[f].take(index)
        return replace(self, groups=groups, scalings=scalings, support=support)

    def without_rows(self) -> KernelSet:
        """The maps of explicit features alone: only `new_features` remains."""
        no_rows = np.empty(0, dtype=np.intp)
        all_rows = np.arange(self.n_train) if self.support is None else self.support
        return replace(self.take(no_rows), support=all_rows)

    def only(self, kernels: Any, dtype: Any = None) -> KernelSet:
        """In `cross`, evaluate only the kernels at these positions; others are zero.

        With a dtype, in another precision as well.
        """
        wanted = set(np.asarray(kernels, dtype=np.intp).tolist())
        groups: list[Group] = []
        precision = np.dtype(self.dtype if dtype is None else dtype)
        for group in self.groups:
            members = sorted(wanted.intersection(group.members))
            if members:
                part = group if dtype is None else group.astype(precision)
                groups.append(replace(part, members=members))
        # One group says what sort of data the set reads, even if it evaluates nothing.
        groups = groups or [replace(self.groups[0], members=[])]
        return replace(self, groups=groups, dtype=precision)

    def astype(self, dtype: Any) -> KernelSet:
        """The same kernels with another precision, for storage and for the work."""
        return self.only(range(self.n_kernels), dtype)

    def extend(self, X_new: Any) -> KernelSet:
        """Reference rows followed by new rows, under the same training constants.

        For data that arrives in parts; given matrices, clipped kernels and centered
        kernels without explicit features cannot grow.
        """
        return extended(self, self.new_rows(X_new))

    def features(self) -> list[Any] | None:
        """Explicit Phi_f of the reference rows with Phi_f Phi_f^T = kernel f.

        None unless every kernel has such a form: approximate kernels, and Linear,
        Cosine or Constant where they are not centered on a sparse X.
        """
        if not self.is_explicit:
            return None
        all_rows = slice(0, self.n_reference)
        sides = [group.reference(self.ids(group, all_rows)) for group in self.groups]
        return final_features(self, sides, new=False)

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
        width = self._feature_numbers(X_new)
        for part in row_blocks(X_new.shape[0], width, 8, block_bytes):
            yield part, self.new_features(table_rows(X_new, part))

    def _feature_numbers(self, X_new: Any) -> int:
        """Numbers that the features of a new row take; where sparse, its non-zeros."""
        columns = self.n_feature_columns()
        if not sp.issparse(X_new):
            return sum(columns)
        held = 2 * -(-X_new.nnz // max(1, X_new.shape[0]))  # values and their places
        return sum(
            n if kernel.approximate else min(n, held)
            for n, kernel in zip(columns, self.kernels, strict=True)
        )

    def new_features(self, X_new: Any) -> list[Any]:
        """Explicit features of new rows, in the space of :meth:`features`."""
        if not self.is_explicit:
            raise ValueError(
                "explicit features need Linear, Cosine and Constant kernels only, or "
                f"approximate ones, got {', '.join(self.names)}; use cross instead."
            )
        return final_features(self, self.new_rows(X_new), new=True)

    @property
    def is_explicit(self) -> bool:
        """Whether :meth:`features` gives explicit features."""
        for group in self.groups:
            for f in group.members:
                kernel = self.kernels[f]
                if not kernel.explicit and kernel.approximate is None:
                    return False
                if kernel.center and sp.issparse(group.rows.values):
                    return False
        return True

    @property
    def is_sparse(self) -> bool:
        """Whether every kernel has compact support, so that matrices are sparse."""
        for kernel, clip in zip(self.kernels, self.clips, strict=True):
            mapped = kernel.approximate is not None
            if not kernel.compact or kernel.center or mapped or clip is not None:
                return False
        return True

    def sparse_stack(self) -> list[Any]:
        """CSR matrices of the reference rows, without ever holding a dense N x N."""
        if not self.is_sparse:
            raise ValueError(
                "sparse matrices need plain kernels with compact support only, got "
                f"{', '.join(self.names)}; use stack instead."
            )
        return sparse_matrices(self)

    def needs_all(self, f: int) -> bool:
        """Whether new rows of a kernel need their values with all training rows."""
        implicit = self.kernels[f].center and not self.kernels[f].has_features
        return implicit or self.clips[f] is not None

    def group_of(self, f: int) -> Group:
        """Return the group that evaluates kernel f."""
        return next(group for group in self.groups if f in group.members)

    def ids(self, group: Group, index: Selection) -> Selection:
        """Positions in a group's arrays of some reference rows."""
        if group.full and self.support is not None:
            return self.support[index]
        return index

    def _fill_tile(self, out: Values, rows: slice, columns: slice) -> None:
        """Write one tile of every kernel, and its mirror image."""
        for f, block in between(self, rows, columns):
            if rows == columns:
                make_symmetric(block, self._diagonal(f, rows))
            out[f, rows, columns] = block
            if rows != columns:
                out[f, columns, rows] = block.T

    def _cross_blocks(
        self, sides: list[Any], parts: list[slice]
    ) -> Iterator[tuple[slice, Values]]:
        """Yield (part, block) for parts of the prepared new rows."""
        for part in parts:
            shape = (self.n_kernels, part.stop - part.start, self.n_reference)
            out = np.zeros(shape, dtype=self.dtype)
            for group, rows in zip(self.groups, sides, strict=True):
                width = self.n_train if group.full else self.n_reference
                for sub in row_blocks(shape[1], width, out.itemsize, BLOCK_BYTES):
                    some = slice(part.start + sub.start, part.start + sub.stop)
                    new = rows if some == slice(0, len(rows)) else rows.take(some)
                    for f, block in against(self, group, new):
                        out[f, sub] = block
            yield part, out

    def _cross_table(
        self, X_new: Any, parts: list[slice]
    ) -> Iterator[tuple[slice, Values]]:
        """Yield (part, block) for parts of a table: prepared rows take more than it."""
        for part in parts:
            sides = self.new_rows(table_rows(X_new, part))
            for _, block in self._cross_blocks(sides, [slice(0, len(sides[0]))]):
                yield part, block

    def _prepared_columns(self) -> int:
        """Numbers that a new row takes: as read, without offset, as mapped."""
        chosen = [group.rows.values.shape[1] for group in self.groups]
        return 3 * sum(chosen)

    def new_rows(self, X_new: Any) -> list[Any]:
        """New rows prepared for every group."""
        if isinstance(self.groups[0], GivenGroup):
            X_new = read_stack(X_new)
            check_new_stack(X_new, self.n_columns, self.n_train)
        else:
            X_new = self._read_table(X_new)
        return [group.new(X_new, self.kernels, self.names) for group in self.groups]

    def _read_table(self, X_new: Any) -> Any:
        """A table with as many columns as in fit."""
        X_new = as_table(X_new)
        if X_new.shape[1] != self.n_columns:
            raise ValueError(
                f"expected {self.n_columns} columns as in fit, got "
                f"{X_new.shape[1]}; pass the same columns in the same order."
            )
        return X_new

    def _diagonal(self, f: int, ids: Selection) -> Values:
        return self.scalings[f].diagonal[self.ids(self.group_of(f), ids)]


def _check_options(
    kernels: Sequence[Kernel], dtype: Any, psd: Any
) -> tuple[bool, np.dtype[Any]]:
    """Whether the kernels read given matrices, all or none; and the precision."""
    if psd not in PSD_OPTIONS:
        raise ValueError(
            f"psd must be 'check', 'clip' or 'skip', got {psd!r}; choose one of these."
        )
    try:
        precision = np.dtype(dtype)
    except TypeError:
        precision = np.dtype(object)
    if precision not in (np.float32, np.float64):
        got = getattr(dtype, "__name__", dtype)
        raise ValueError(
            f"dtype must be float32 or float64, got {got}; choose one of these."
        )
    families = list(map(attrgetter("family"), kernels))
    given = families.count("given")
    if given not in (0, len(families)) or not families:
        problem = "got both in one set" if given else "got no kernel"
        raise ValueError(
            f"a set needs kernels that are either all on feature columns or all given "
            f"as matrices, {problem}; fit them separately or choose one sort."
        )
    return given > 0, precision
