"""Kernels from given matrices: reading and checking a stack, and its values.

A stack is one array of shape (n, n_train, n_kernels), a list of matrices, or a single
matrix. Matrices are kept as views and copied only when some rows are taken. An array
with the kernels last is used in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.lib.stride_tricks import as_strided

from manykernels.base.arrays import Array, Selection, Values
from manykernels.base.machine import SCATTERED, in_slices
from manykernels.base.stored import FLAG, Count, Floats, ListOf, Part, Wholes, storable
from manykernels.hot.stack import gather_given, stack_facts
from manykernels.kernels.base import (
    VALUE_RTOL,
    Kernel,
    Normalize,
    Widths,
    require_finite,
    require_nonnegative,
    unique_names,
)
from manykernels.kernels.columns import select_columns

if TYPE_CHECKING:
    from manykernels.kernels.kernel_values import KernelValues

# Of the largest value: asymmetry up to this is rounding, and values are used in place.
SYMMETRY_ROUNDING = 1e-6
HALF_EPS = float(np.finfo(np.float16).eps)
CHECK_BYTES = 16 << 10  # of a stack, checked at a time: they stay in the fastest cache


@dataclass(frozen=True, repr=False)
class Precomputed(Kernel):
    """A given kernel matrix, K[i, j] = k(x_i, x_j).

    ``columns=k`` picks matrix k of the given stack; without it there is one such kernel
    per matrix. The default normalization is "trace": rows of a new matrix hold
    k(x, x_j) for the training rows only, so k(x, x) of a new row is not known.

    Examples
    --------
    >>> from manykernels.kernels import Precomputed
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> KernelSet.fit([Precomputed()], [[4.0, 2.0], [2.0, 4.0]]).stack()
    array([[[1. , 0.5],
            [0.5, 1. ]]], dtype=float32)
    """

    normalize: Normalize = field(default="trace", kw_only=True)

    kind: ClassVar[str] = "precomputed"
    family: ClassVar[str] = "given"
    form: ClassVar[str] = "given"
    check_psd: ClassVar[bool] = True


def _mean_distance(matrix: Values, copies: Values) -> float:
    """Return the mean over the pairs of different rows, or 1 if all rows are equal."""
    total = copies @ (matrix @ copies) - copies @ np.diagonal(matrix)
    pairs = copies.sum() * (copies.sum() - 1.0)
    mean = float(total) / max(1.0, float(pairs))
    return mean if mean > 0 else 1.0


@dataclass(frozen=True, repr=False)
class Distance(Kernel):
    r"""A given distance matrix, :math:`k(x_i, x_j) = \exp(-d_{ij} / scale)`.

    Parameters
    ----------
    scale : float or str
        Positive number; "mean" = mean distance over the pairs of different training
        rows; or a multiple, "2*mean".

    Examples
    --------
    >>> from manykernels.kernels import Distance
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> KernelSet.fit([Distance()], [[0.0, 2.0], [2.0, 0.0]]).stack().round(3)
    array([[[1.   , 0.368],
            [0.368, 1.   ]]], dtype=float32)
    """

    scale: float | str = "mean"

    kind: ClassVar[str] = "distance"
    widths: ClassVar[Widths] = {"scale": {"mean": _mean_distance}}
    family: ClassVar[str] = "given"
    form: ClassVar[str] = "given"
    nonnegative: ClassVar[bool] = True
    check_psd: ClassVar[bool] = True

    def apply(self, block: Values) -> Values:
        block *= -1.0 / float(self.scale)
        return np.exp(block, out=block)


@dataclass
class GivenRows:
    """Rows of a given matrix, and the columns of the same rows."""

    values: Values
    ids: Selection

    factors: ClassVar[None] = None

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: Selection) -> GivenRows:
        return GivenRows(self.values[index], self.ids)


@storable(
    position=Count(),
    matrix=Floats(0, 0),
    dtype=Part(np.dtype),
    members=ListOf(Count()),
    ids=Wholes(None),
    full=FLAG,
)
@dataclass
class GivenGroup:
    """Kernels read from one matrix of a given stack.

    Attributes
    ----------
    position : int
        Which matrix of the stack.
    matrix : array
        Its rows and columns of the reference rows; a view of what was given until some
        rows are taken.
    ids : array of int or None
        Training positions of the reference rows, once some were taken.
    dtype : dtype
        Working precision.
    members : list of int
        Positions of its kernels in the set.
    full : bool
        True once rows were taken: new rows come with all training columns.
    symmetric : bool
        Whether the matrix is known to be symmetric up to rounding.
    """

    position: int
    matrix: Values
    dtype: Any
    members: list[int]
    ids: Values | None = None
    full: bool = False
    symmetric: bool = field(default=False, init=False, compare=False)

    @property
    def rounding(self) -> float:
        """Relative rounding of the values, where it is that of half precision."""
        return HALF_EPS if self.matrix.dtype == np.float16 else 0.0

    @property
    def rows(self) -> GivenRows:
        """All reference rows, with the columns of all training rows."""
        return GivenRows(self.matrix, slice(None))

    def reference(self, ids: Any) -> Any:
        """Return some reference rows, named by their training positions."""
        if self.ids is not None:
            order = np.argsort(self.ids)
            ids = order[np.searchsorted(self.ids, ids, sorter=order)]
        return GivenRows(self.matrix[ids], ids)

    def new(self, fitted: KernelValues, X: Any) -> GivenRows:
        """Pick this group's matrix of new rows; `X` is a sequence of matrices."""
        matrix = X[self.position]
        for f in self.members:
            require_finite(matrix, fitted.names[f])
            if fitted.kernels[f].nonnegative:
                require_nonnegative(matrix, fitted.names[f])
        return GivenRows(matrix, slice(None))

    def blocks(
        self,
        fitted: KernelValues,
        a: GivenRows,
        b: GivenRows,
        members: Sequence[int] | None = None,
    ) -> Iterator[tuple[int, Values]]:
        """Yield (kernel position, copy of the given block as kernel values)."""
        for f in self.members if members is None else members:
            block = np.array(a.values[:, b.ids], dtype=self.dtype, order="C")
            yield f, fitted.kernels[f].apply(block)

    def diagonal(self, fitted: KernelValues, f: int, rows: GivenRows) -> Values:
        """Return k(x, x) of training rows in float64."""
        diagonal = np.array(rows.values.diagonal(), dtype=np.float64)
        return fitted.kernels[f].apply(diagonal)

    def features(self, kernel: Kernel, rows: GivenRows) -> Any:
        """Raise, as given matrices have no explicit features."""
        raise ValueError(
            f"explicit features need a kernel on feature columns, got a given matrix, "
            f"{kernel.label!r}; use cross instead."
        )

    def take(self, index: Values, support: Values, keep_all: bool) -> GivenGroup:
        """Keep the matrix of the reference rows only."""
        # A copy: a view would keep the whole matrix alive.
        matrix = np.array(self.matrix[np.ix_(index, index)])
        return replace(self, matrix=matrix, ids=support, full=True)

    def astype(self, dtype: Any) -> GivenGroup:
        return replace(self, dtype=np.dtype(dtype))

    def forget(self, support: Values) -> GivenGroup:
        """Keep no matrix at all: new rows bring their values with them."""
        return replace(self, matrix=np.empty((0, 0)), ids=support, full=True)

    def fits(self, kernels: Sequence[Kernel], n_columns: int, support: Values) -> bool:
        return (
            self.position < n_columns
            and self.full
            and np.array_equal(self.ids, support)  # type: ignore[arg-type]
            and all(kernels[f].family == "given" for f in self.members)
        )


def fit_given(
    kernels: Sequence[Kernel],
    matrices: list[Values],
    matrix_names: Sequence[str] | None,
    copies: Values,
    dtype: Any,
) -> tuple[list[Kernel], list[str], list[GivenGroup]]:
    """Return resolved kernels, one for every chosen matrix, with names and groups."""
    rows, columns = matrices[0].shape
    if rows != columns:
        raise ValueError(
            f"given training kernels must be square, got {rows} rows and {columns} "
            f"columns; pass k(x_i, x_j) for all pairs of training rows."
        )
    chosen: list[Kernel] = []
    places: list[int] = []
    no_rows = np.empty((0, len(matrices)))
    for kernel in kernels:
        index = select_columns(kernel.columns, no_rows, matrix_names)
        picked = np.arange(len(matrices))[index].tolist()
        # A single choice keeps its own columns.
        single = len(picked) == 1 and kernel.columns is not None
        chosen += [kernel if single else replace(kernel, columns=k) for k in picked]
        places += picked
    names = unique_names([kernel.label for kernel in chosen])
    # Centered kernels are computed in float64: they do not share a group with others.
    members: dict[tuple[int, bool], list[int]] = {}
    symmetric = check_matrices([matrices[k] for k in places], names, chosen)
    for f, k in enumerate(places):
        members.setdefault((k, chosen[f].center), []).append(f)
        chosen[f] = chosen[f].resolve(matrices[k], copies)
    groups = []
    for (k, center), same in members.items():
        precision = np.dtype(float) if center else dtype
        groups.append(GivenGroup(k, matrices[k], precision, same))
        groups[-1].symmetric = bool(symmetric[same[0]])
    return chosen, names, groups


def read_stack(X: Any) -> list[Values]:
    """Return the matrices of a stack, as views.

    >>> stack = np.zeros((3, 5, 5))  # (n_kernels, n, n)
    >>> matrices = read_stack(np.moveaxis(stack, 0, -1))
    >>> len(matrices), np.shares_memory(matrices[0], stack)
    (3, True)
    """
    if sp.issparse(X):
        raise TypeError(
            "given kernels must be dense arrays, got a sparse matrix; call .toarray() "
            "on it first."
        )
    if isinstance(X, list | tuple) and len(X) and np.ndim(X[0]) == 2:
        matrices = [m if is_device_matrix(m) else np.asarray(m) for m in X]
    else:
        array = np.asarray(X)
        if array.ndim == 2:
            matrices = [array]
        elif array.ndim == 3:
            matrices = [array[:, :, k] for k in range(array.shape[2])]
        else:
            raise ValueError(
                f"given kernels must come as (n, n_train, n_kernels), a list of "
                f"matrices or one matrix, got {array.ndim} dimensions; stack them so."
            )
    _require_same_shape(matrices)
    return matrices


def is_device_matrix(matrix: Any) -> bool:
    """Return whether a matrix lies on a device."""
    return hasattr(matrix, "device_array")


def check_new_stack(matrices: list[Values], n_matrices: int, n_train: int) -> None:
    """Raise unless new rows have values of all kernels with all training rows."""
    if len(matrices) != n_matrices:
        raise ValueError(
            f"expected {n_matrices} given kernels as in fit, got {len(matrices)}; pass "
            f"them all in the same order."
        )
    if matrices[0].shape[1] != n_train:
        raise ValueError(
            f"expected {n_train} columns, one per training row, got "
            f"{matrices[0].shape[1]}; pass k(x, x_j) for all training rows x_j."
        )


def as_one_stack(matrices: Sequence[Values]) -> Values | None:
    """Return matrices that fill one array as a view (n, n, kernels); else None.

    Their values are interleaved, kernels last, or one matrix follows the other.

    >>> stack = np.zeros((5, 5, 3))
    >>> view = as_one_stack(read_stack(stack))
    >>> np.shares_memory(view, stack), view.strides == stack.strides
    (True, True)
    """
    first = matrices[0]
    if any(map(is_device_matrix, matrices)):
        return None
    # Separate arrays may happen to be neighbors in memory, but need not live as long.
    owners = {id(matrix if matrix.base is None else matrix.base) for matrix in matrices}
    if first.dtype not in (np.float32, np.float64) or len(owners) > 1:
        return None
    starts = [matrix.__array_interface__["data"][0] for matrix in matrices]
    n, size, n_kernels = len(first), first.itemsize, len(matrices)
    # Byte strides of an array (n, n, kernels), and of an array (kernels, n, n).
    last = (n * n_kernels * size, n_kernels * size, size)
    apart = (n * size, size, n * n * size)
    for strides in (last, apart):
        alike = {(m.strides, m.dtype) for m in matrices} == {(strides[:2], first.dtype)}
        steps = [start - starts[0] for start in starts]
        if alike and steps == [k * strides[2] for k in range(n_kernels)]:
            return as_strided(first, (n, n, n_kernels), strides)
    return None


def gather(stack: Values, rows: Values, columns: Values, dtype: Any = None) -> Values:
    """out[a, f, b] = stack[rows[a], columns[b], f].

    >>> gather(np.arange(8.0).reshape(2, 2, 2), np.array([1]), np.array([1, 0]))
    array([[[6., 4.],
            [7., 5.]]])
    """
    dtype = stack.dtype if dtype is None else dtype
    out = np.empty((len(rows), stack.shape[2], len(columns)), dtype)
    work = partial(gather_given, stack, rows, columns, out)
    in_slices(len(rows), SCATTERED * out.nbytes, work)
    return out


def check_matrices(
    matrices: Sequence[Values], names: Sequence[str], kernels: Sequence[Kernel]
) -> Values:
    """Raise unless all are finite, non-zero and symmetric up to a tolerance.

    Returns whether each matrix is symmetric up to rounding.
    """
    stack = as_one_stack(matrices)
    if stack is not None and stack.flags.c_contiguous:
        facts = _facts(stack)
    else:
        facts = np.concatenate([_facts_of_one(m) for m in matrices], axis=1)
    largest, gap, total = facts
    # Values that were stored in half precision are symmetric up to its rounding.
    rounded = np.array([HALF_EPS * (m.dtype == np.float16) for m in matrices])
    tolerance = np.maximum(VALUE_RTOL, rounded) * largest
    for f, (matrix, kernel) in enumerate(zip(matrices, kernels, strict=True)):
        if kernel.nonnegative:
            require_nonnegative(matrix, names[f])
        require_finite(total[f], names[f])
        if largest[f] == 0.0:
            raise ValueError(
                f"kernel {names[f]!r} must have a non-zero entry, got all zeros on the "
                f"training rows; leave it out."
            )
        if gap[f] > tolerance[f]:
            raise ValueError(
                f"kernel {names[f]!r} must be symmetric, got entries that differ from "
                f"their mirror image by {gap[f]:.2g}; pass (K + K.T) / 2 if this is "
                "rounding."
            )
    return np.asarray(gap <= np.maximum(SYMMETRY_ROUNDING, rounded) * largest)


def _facts(stack: Values) -> Array:
    """Return the largest value, the asymmetry, and a sum: finite if all values are."""
    n_rows, _, n_kernels = stack.shape
    tile = max(4, int((CHECK_BYTES / (n_kernels * stack.itemsize)) ** 0.5))
    bands = np.arange(0, n_rows, tile)
    # Every other band in turn: slices then have as much right of the diagonal.
    bands = np.concatenate([bands[::2], bands[1::2]])
    words = stack.view(np.uint32 if stack[0, 0].nbytes % 8 else np.uint64)
    work = partial(stack_facts, stack, words, tile, bands)
    parts = np.stack(in_slices(len(bands), stack.nbytes, work))
    with np.errstate(invalid="ignore"):
        return np.stack([*parts[:, :2].max(axis=0), parts[:, 2].sum(axis=0)])


def _facts_of_one(matrix: Values) -> Array:
    if is_device_matrix(matrix):
        return np.asarray(matrix.facts())[:, None]  # type: ignore[attr-defined]
    dtype = matrix.dtype if matrix.dtype == np.float32 else np.float64
    # A stack of one matrix: no copy if its rows are contiguous.
    return _facts(np.ascontiguousarray(matrix, dtype)[:, :, None])


def _require_same_shape(matrices: list[Values]) -> None:
    if not matrices:
        raise ValueError("expected at least one given kernel, got none; pass one.")
    for k, matrix in enumerate(matrices):
        if matrix.ndim != 2 or matrix.shape != matrices[0].shape:
            raise ValueError(
                f"given kernels must have the same shape, got {matrices[0].shape} for "
                f"kernel 0 and {matrix.shape} for kernel {k}; use the same rows."
            )
        if not np.issubdtype(matrix.dtype, np.number) and matrix.dtype != bool:
            raise TypeError(
                f"given kernels must hold numbers, got {matrix.dtype} in kernel {k}; "
                f"convert it to float."
            )
