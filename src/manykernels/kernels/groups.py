"""Kernels that read the same rows, evaluated together block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Values
from manykernels.base.stored import (
    FLAG,
    TEXT,
    Count,
    Floats,
    ListOf,
    Maybe,
    Part,
    Wholes,
    storable,
)
from manykernels.kernels.base import Kernel
from manykernels.kernels.columns import take_columns
from manykernels.kernels.custom import custom_block, custom_diagonal
from manykernels.kernels.maps import (
    FeatureMap,
    RandomFourier,
    TensorSketch,
    Whitening,
)
from manykernels.kernels.rows import (
    Rows,
    derive,
    form_diagonal,
    inverse_roots,
    pairwise,
    prepare_rows,
    squared_norms,
)
from manykernels.kernels.stacks import GivenRows, require_finite, require_nonnegative

MAP_BYTES = 2**24  # of mapped rows at a time


@storable(
    family=TEXT,
    columns=Part(np.ndarray, slice),
    offset=Maybe(Floats("columns")),
    rows=Part(Rows),
    members=ListOf(Count()),
    full=FLAG,
)
@dataclass
class FeatureGroup:
    """Kernels of one family on the same columns of a feature table.

    Attributes
    ----------
    family : str
        The shared quantity, a key of `rows.pairwise`, or "custom".
    columns : array of int or slice
        Positions in the table.
    offset : array of shape (d,) or None
        Subtracted from the rows, so that distances lose no digits in float32.
    rows : Rows
        Reference rows in the group's working precision.
    members : list of int
        Positions of its kernels in the set.
    full : bool
        Whether all training rows are held although the set keeps only some.
    """

    family: str
    columns: Values | slice
    offset: Values | None
    rows: Rows
    members: list[int]
    full: bool = False

    def everything(self) -> Any:
        """Return all reference rows."""
        return self.rows

    def reference(self, ids: Values | slice) -> Any:
        """Return some reference rows."""
        return self.rows.take(ids)

    def new(self, X: Any, kernels: Sequence[Kernel], names: Sequence[str]) -> Rows:
        """Select, check and prepare the columns of new rows."""
        values = read_values(X, self.columns)
        for f in self.members:
            check_values(kernels[f], names[f], values)
        return prepare_rows(values, self.offset, self.rows.values.dtype)

    def blocks(
        self, kernels: Sequence[Kernel], names: Sequence[str], a: Rows, b: Rows
    ) -> Iterator[tuple[int, Values]]:
        """Yield (kernel position, new block) from one shared quantity."""
        if self.family == "custom":
            for f in self.members:
                yield f, custom_block(kernels[f], names[f], a.values, b.values)
            return
        shared = pairwise(self.family, a, b)
        for f in self.members:
            yield f, kernels[f].apply(derive(kernels[f].form, shared, a, b))

    def diagonal(self, kernel: Kernel, name: str, rows: Rows) -> Values:
        """k(x, x) in float64."""
        if self.family == "custom":
            return custom_diagonal(kernel, name, rows.values)
        return kernel.diagonal_of(form_diagonal(kernel.form, rows))

    def restrict(self, index: Values, support: Values, keep_all: bool) -> FeatureGroup:
        """Keep the reference rows `index`."""
        if self.full or keep_all:
            return replace(self, full=True)
        return replace(self, rows=self.rows.take(index))

    def astype(self, dtype: Any) -> FeatureGroup:
        """The same group with another working precision."""
        values = self.rows.values.astype(dtype, copy=False)
        return replace(self, rows=replace(self.rows, values=values))

    def fits(self, kernels: Sequence[Kernel], n_columns: int, support: Values) -> bool:
        """Whether rows and kernels are what the columns of a table say."""
        width = _count_columns(self.columns, n_columns)
        return (
            self.rows.values.shape[1] == width
            and (self.offset is None or len(self.offset) == width)
            and all(kernels[f].family == self.family for f in self.members)
        )


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
        Its rows and columns of the reference rows; a view of what was given until the
        set is restricted.
    ids : array of int or None
        Training positions of the reference rows once restricted.
    dtype : dtype
        Working precision.
    members : list of int
        Positions of its kernels in the set.
    full : bool
        True once restricted: new rows always come with all training columns.
    """

    position: int
    matrix: Values
    dtype: Any
    members: list[int]
    ids: Values | None = None
    full: bool = False

    offset: ClassVar[None] = None

    def everything(self) -> Any:
        """Return all training columns."""
        return GivenRows(self.matrix, slice(None))

    def reference(self, ids: Values | slice) -> Any:
        """Return some reference rows, named by their training positions."""
        local = ids if self.ids is None else _positions_in(self.ids, ids)
        return GivenRows(self.matrix[local], local)

    def new(self, X: Any, kernels: Sequence[Kernel], names: Sequence[str]) -> GivenRows:
        """Pick this group's matrix of new rows; `X` is a sequence of matrices."""
        matrix = X[self.position]
        for f in self.members:
            require_finite(matrix, names[f])
            if kernels[f].nonnegative:
                require_nonnegative(matrix, names[f])
        return GivenRows(matrix, slice(None))

    def blocks(
        self,
        kernels: Sequence[Kernel],
        names: Sequence[str],
        a: GivenRows,
        b: GivenRows,
    ) -> Iterator[tuple[int, Values]]:
        """Yield (kernel position, copy of the given block as kernel values)."""
        for f in self.members:
            block = np.array(a.values[:, b.ids], dtype=self.dtype, order="C")
            yield f, kernels[f].apply(block)

    def diagonal(self, kernel: Kernel, name: str, rows: GivenRows) -> Values:
        """k(x, x) of training rows in float64."""
        return kernel.diagonal_of(np.diagonal(rows.values))

    def restrict(self, index: Values, support: Values, keep_all: bool) -> GivenGroup:
        """Keep the matrix of the reference rows only."""
        matrix = np.array(self.matrix[np.ix_(index, index)])
        return replace(self, matrix=matrix, ids=support, full=True)

    def astype(self, dtype: Any) -> GivenGroup:
        """The same group with another working precision."""
        return replace(self, dtype=np.dtype(dtype))

    def forget(self, support: Values) -> GivenGroup:
        """Keep no matrix at all: new rows bring their values with them."""
        return replace(self, matrix=np.empty((0, 0)), ids=support, full=True)

    def fits(self, kernels: Sequence[Kernel], n_columns: int, support: Values) -> bool:
        """Whether the matrix is one of those given."""
        return (
            self.position < n_columns
            and self.full
            and np.array_equal(self.ids, support)  # type: ignore[arg-type]
            and all(kernels[f].family == "given" for f in self.members)
        )


@storable(
    source=Part(FeatureGroup),
    map=Part(Whitening, RandomFourier, TensorSketch),
    rows=Part(Rows),
    members=ListOf(Count(), 1),
    unit=FLAG,
)
@dataclass
class MappedGroup:
    """One approximate kernel: rows are kept as phi(x), and its values are products.

    Attributes
    ----------
    source : FeatureGroup
        The exact kernel; its rows are the landmarks of Nyström.
    map : FeatureMap
        From rows of the source to phi.
    rows : Rows
        phi of the reference rows, in the group's working precision.
    members : list of int
        Position of its kernel in the set.
    unit : bool
        Whether phi is scaled to unit length, before it is rounded to float32.
    """

    source: FeatureGroup
    map: FeatureMap
    rows: Rows
    members: list[int]
    unit: bool

    family: ClassVar[str] = "dot"
    offset: ClassVar[None] = None
    full: ClassVar[bool] = False

    def everything(self) -> Any:
        """Return all reference rows."""
        return self.rows

    def reference(self, ids: Values | slice) -> Any:
        """Return some reference rows."""
        return self.rows.take(ids)

    def new(self, X: Any, kernels: Sequence[Kernel], names: Sequence[str]) -> Rows:
        """Select and check the columns of new rows, and map them."""
        if not self.members:
            return Rows(np.empty((X.shape[0], 0)), np.zeros(X.shape[0]))
        values = read_values(X, self.source.columns)
        for f in self.members:
            check_values(kernels[f], names[f], values)
        return self.mapped(values, kernels, names, self.rows.values.dtype)

    def mapped(
        self, values: Any, kernels: Sequence[Kernel], names: Sequence[str], dtype: Any
    ) -> Rows:
        """phi of a table, in float64 a block at a time."""
        n = values.shape[0]
        out = Rows(np.empty((n, self.map.n_columns), dtype), np.empty(n))
        size = max(1, MAP_BYTES // (8 * max(1, self.map.n_columns)))
        for start in range(0, n, size):
            part = slice(start, start + size)
            rows = prepare_rows(values[part], None, np.float64)
            phi = self.map.features(kernels, names, self.source, rows)
            if self.unit:
                phi = _unit_rows(phi)
            out.values[part] = phi
            out.squares[part] = squared_norms(phi)
            if self.unit:
                out.squares[part] = out.squares[part] > 0.5
        return out

    def blocks(
        self, kernels: Sequence[Kernel], names: Sequence[str], a: Rows, b: Rows
    ) -> Iterator[tuple[int, Values]]:
        """Yield (kernel position, products of phi)."""
        for f in self.members:
            yield f, pairwise("dot", a, b)

    def diagonal(self, kernel: Kernel, name: str, rows: Rows) -> Values:
        """||phi(x)||^2 in float64."""
        return rows.squares.copy()

    def restrict(self, index: Values, support: Values, keep_all: bool) -> MappedGroup:
        """Keep the reference rows `index`."""
        return replace(self, rows=self.rows.take(index))

    def astype(self, dtype: Any) -> MappedGroup:
        """The same group with another working precision."""
        values = self.rows.values.astype(dtype, copy=False)
        return replace(self, rows=replace(self.rows, values=values))

    def fits(self, kernels: Sequence[Kernel], n_columns: int, support: Values) -> bool:
        """Whether map, kernel and columns belong together."""
        kernel, source = kernels[self.members[0]], self.source
        width = _count_columns(source.columns, n_columns)
        return (
            kernel.approximate is not None
            and source.members == self.members
            and source.fits(kernels, n_columns, support)
            and self.map.fits(kernel, len(source.rows), width)
            and self.rows.values.shape[1] == self.map.n_columns
        )


# All evaluate blocks between `reference` rows, or of `new` rows against `everything`.
Group: TypeAlias = FeatureGroup | GivenGroup | MappedGroup


def read_values(X: Any, columns: Values | slice) -> Any:
    """The columns in float32 if X is, else in float64."""
    single = getattr(X, "dtype", None) == np.float32
    return take_columns(X, columns, np.float32 if single else np.float64)


def check_values(kernel: Kernel, name: str, values: Any) -> None:
    """Raise where a kernel cannot read these values."""
    if sp.issparse(values) and not kernel.accepts_sparse:
        raise TypeError(
            f"kernel {name!r} needs a dense table, got a sparse one; call .toarray() "
            f"on it first."
        )
    if kernel.nonnegative:
        require_nonnegative(values, name)


def _unit_rows(phi: Values) -> Values:
    """Rows of unit length; a row of zeros stays."""
    # The largest entry first: squares of tiny numbers would vanish.
    largest = np.abs(phi).max(axis=1, initial=0.0, keepdims=True)
    phi = np.divide(phi, largest, out=np.zeros_like(phi), where=largest > 0)
    return phi * inverse_roots(squared_norms(phi))[:, None]


def _count_columns(columns: Values | slice, n_columns: int) -> int:
    """How many columns are chosen; counted, as a file may claim any number of them."""
    if isinstance(columns, slice):
        return len(range(n_columns)[columns])
    Wholes(None, low=0, below=n_columns).check("columns of a kernel", columns, {})
    return len(columns)


def _positions_in(ids: Values, wanted: Any) -> Values:
    """Where each wanted id stands in `ids`."""
    order = np.argsort(ids)
    return order[np.searchsorted(ids, wanted, sorter=order)]
