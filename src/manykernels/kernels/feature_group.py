"""Rows of a table, and the kernels that read the same columns of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Selection, Values
from manykernels.base.stored import (
    FLAG,
    TEXT,
    Count,
    Floats,
    ListOf,
    Maybe,
    Part,
    Table,
    storable,
)
from manykernels.base.tables import table_columns
from manykernels.device.base import EXPONENTIAL
from manykernels.kernels.base import (
    Kernel,
    inverse_roots,
    out_of_range,
    require_nonnegative,
    require_range,
)
from manykernels.kernels.columns import (
    count_columns,
    row_factors,
    select_columns,
)
from manykernels.kernels.pairwise import (
    PAIRWISE,
    derive,
    row_sums,
    scale_rows,
)

if TYPE_CHECKING:
    from manykernels.kernels.kernel_values import KernelValues

# gamma * ||x||^2 above which float32 inner products spoil the fifth digit of an RBF.
SAFE_EXPONENT = 16.0


@storable(
    values=Table("rows", "columns"),
    squares=Floats("rows", low=0.0),
    shifts=Maybe(Floats("rows")),
)
@dataclass
class TableRows:
    """Rows of one table on the columns of one group.

    Attributes
    ----------
    values : array or CSR of shape (n, d)
        Entries, minus the group's offset where there is one.
    squares : array of shape (n,)
        Squared norms of ``values``, float64.
    shifts : array of shape (n,) or None
        s(x) with <x, y> = <x - o, y - o> + s(x) + s(y) for the offset o.
    factors : array of shape (n,) or None
        Multiply each row in the kernels, zero where the row lacks the view. Reference
        rows have none: theirs are among the constants of the kernels.
    """

    values: Any
    squares: Values
    shifts: Values | None = None
    factors: Values | None = None

    @classmethod
    def of(
        cls, values: Any, offset: Values | None = None, dtype: Any = None
    ) -> TableRows:
        """Subtract the offset and compute squared norms in float64."""
        shifts = None
        if offset is not None:
            values = values - offset
            shifts = values @ offset + 0.5 * (offset @ offset)
        if isinstance(values, np.ndarray):  # without a float64 copy of the whole table
            squares = np.einsum("ij,ij->i", values, values, dtype=np.float64)
        else:
            doubles = values.astype(np.float64)
            squares = np.asarray(doubles.multiply(doubles).sum(axis=1)).ravel()
        rows = cls(values, squares, shifts)
        return rows if dtype in (None, values.dtype) else rows.astype(dtype)

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def take(self, index: Selection) -> TableRows:
        """Return the chosen rows (views if `index` is a slice)."""
        shifts = None if self.shifts is None else self.shifts[index]
        factors = None if self.factors is None else self.factors[index]
        return TableRows(self.values[index], self.squares[index], shifts, factors)

    def astype(self, dtype: Any) -> TableRows:
        """Return the rows in another precision; their norms stay as they are."""
        with np.errstate(over="ignore"):  # scores of such rows are refused
            values = self.values.astype(dtype, copy=False)
        if isinstance(values, np.ndarray):
            values = np.ascontiguousarray(values)
        return replace(self, values=values)

    def extend(self, new: TableRows) -> TableRows:
        """Append rows that were prepared with the same offset."""
        shifts = None
        if self.shifts is not None and new.shifts is not None:
            shifts = np.concatenate([self.shifts, new.shifts])
        if sp.issparse(self.values) or sp.issparse(new.values):
            values = sp.vstack([self.values, new.values], format="csr")
        else:
            values = np.concatenate([self.values, new.values])
        return TableRows(values, np.concatenate([self.squares, new.squares]), shifts)

    def plain_squares(self) -> Values:
        """Return squared norms with the offset put back."""
        if self.shifts is None:
            return self.squares
        return np.maximum(self.squares + 2.0 * self.shifts, 0.0)

    def curve_terms(
        self, kernel: Kernel, norms: Values | None
    ) -> tuple[Values, Values]:
        """Return l(x) and s(x) of a kernel with a curve, scaled by `norms`."""
        curve = kernel.curve()
        assert curve is not None
        scale = np.ones(len(self)) if norms is None else norms
        if curve.degree == EXPONENTIAL:
            added = -0.5 * curve.slope * self.squares
        elif self.shifts is not None:
            added = curve.slope * self.shifts
        else:
            added = np.zeros(len(self))
        if kernel.form == "cosine":
            scale = scale * inverse_roots(self.plain_squares())
        return added, scale


@storable(
    family=TEXT,
    columns=Part(np.ndarray, slice),
    offset=Maybe(Floats("columns")),
    rows=Part(TableRows),
    members=ListOf(Count()),
    full=FLAG,
)
@dataclass
class FeatureGroup:
    """Kernels of one family on the same columns of a feature table.

    Attributes
    ----------
    family : str
        The shared quantity, a key of `PAIRWISE`, or "custom".
    columns : array of int or slice
        Positions in the table.
    offset : array of shape (d,) or None
        Subtracted from the rows, so that distances lose no digits in float32.
    rows : TableRows
        Reference rows in the group's working precision.
    members : list of int
        Positions of its kernels in the set.
    full : bool
        Whether all training rows are held although the set keeps only some.
    """

    family: str
    columns: Selection
    offset: Values | None
    rows: TableRows
    members: list[int]
    full: bool = False

    rounding: ClassVar[float] = 0.0  # beyond that of the working precision

    @classmethod
    def fit(
        cls,
        fitted: KernelValues,
        columns: Selection,
        members: list[int],
        X: Any,
        copies: Values,
    ) -> FeatureGroup:
        """Resolve members of the set on a table, and prepare its rows.

        Rows are held in the cheapest precision that keeps five digits.
        """
        values = read_columns(fitted, X, columns, members)
        rows, offset = TableRows.of(values), None
        name, largest = fitted.names[members[0]], float(rows.squares.max(initial=0.0))
        # Squares of tiny numbers may all be zero although the row is not.
        vanished = rows.squares == 0.0
        if vanished.any() and abs(values[vanished]).max() > 0.0:
            raise out_of_range(name, fitted.dtype, np.finfo(np.float64).tiny)
        # Between two rows, a squared distance is at most four times a squared norm.
        with np.errstate(over="ignore"):
            require_range(4.0 * rows.squares, name, fitted.dtype)
        steepest, precise = 0.0, False
        known: dict[Any, float] = {}  # a median distance serves all the widths
        for f in members:
            kernel = fitted.kernels[f].resolve(values, copies, known)
            fitted.kernels[f] = kernel
            # Centering subtracts numbers of equal size, so it needs the digits.
            precise = precise or kernel.center
            if kernel.form == "squared_distance":
                # The root in a compact kernel has unbounded slope at zero.
                gamma = np.inf if kernel.compact else float(vars(kernel)["gamma"])
                steepest = max(steepest, gamma)
        tiny = np.finfo(float).tiny
        if steepest * max(tiny, largest) > SAFE_EXPONENT:
            # Around their mean, rows may be short enough for float32; sparse rows
            # would no longer be sparse.
            if not sp.issparse(values):
                offset = np.asarray(values.mean(axis=0, dtype=np.float64))
                rows = TableRows.of(values, offset)
            steep = steepest * max(tiny, float(rows.squares.max()))
            precise = precise or steep > SAFE_EXPONENT
        rows = rows.astype(np.float64 if precise else fitted.dtype)
        family = fitted.kernels[members[0]].family
        return cls(family, columns, offset, rows, members)

    def reference(self, ids: Selection) -> Any:
        """Return some reference rows."""
        return self.rows.take(ids)

    def new(self, fitted: KernelValues, X: Any) -> TableRows:
        """Select, check and prepare the columns of new rows."""
        values = read_columns(fitted, X, self.columns, self.members)
        rows = TableRows.of(values, self.offset, self.rows.values.dtype)
        rows.factors = row_factors(X, self.columns, self.family)
        return rows

    def blocks(
        self,
        fitted: KernelValues,
        a: TableRows,
        b: TableRows,
        members: Sequence[int] | None = None,
    ) -> Iterator[tuple[int, Values]]:
        """Yield (kernel position, new block) from one shared quantity."""
        members = self.members if members is None else members
        if self.family == "custom":
            for f in members:
                custom: Any = fitted.kernels[f]
                yield f, custom.block(fitted.names[f], a.values, b.values)
            return
        shared = PAIRWISE[self.family](a.values, b.values)
        by_form: dict[str, list[int]] = {}
        for f in members:
            by_form.setdefault(fitted.kernels[f].form, []).append(f)
        for form, (*others, last) in by_form.items():
            block = derive(form, shared, a, b)
            # `apply` overwrites: only the last kernel of a form needs no copy.
            for f in others:
                yield f, fitted.kernels[f].apply(block.copy())
            yield last, fitted.kernels[last].apply(block)

    def diagonal(self, fitted: KernelValues, f: int, rows: TableRows) -> Values:
        """Return k(x, x) in float64."""
        kernel: Any = fitted.kernels[f]
        if self.family == "custom":
            return np.asarray(kernel.diagonal(fitted.names[f], rows.values))
        if kernel.form == "dot":
            values = rows.plain_squares()
        elif kernel.form == "cosine":
            values = rows.plain_squares() > 0
        elif kernel.form == "intersection":
            values = row_sums(rows.values)
        elif kernel.unit_diagonal:
            return np.ones_like(rows.squares)
        else:  # of a distance
            values = np.zeros_like(rows.squares)
        return np.asarray(kernel.apply(np.array(values, dtype=np.float64)))

    def features(self, kernel: Kernel, rows: TableRows) -> Any:
        """Return phi(x) before centering and normalization, dense or CSR."""
        if kernel.form == "constant":
            return np.ones((len(rows), 1), dtype=rows.values.dtype)
        # Features are those of the table, whatever was subtracted for distances.
        values = rows.values if self.offset is None else rows.values + self.offset
        if kernel.form != "cosine":
            return values
        return scale_rows(values, inverse_roots(rows.plain_squares()))

    def take(self, index: Values, support: Values, keep_all: bool) -> FeatureGroup:
        """Keep the reference rows `index`."""
        # New rows need their values with all training rows, whichever are kept.
        if self.full or keep_all:
            return replace(self, full=True)
        return replace(self, rows=self.rows.take(index))

    def astype(self, dtype: Any) -> FeatureGroup:
        """Return the group with another working precision."""
        return replace(self, rows=self.rows.astype(dtype))

    def fits(self, kernels: Sequence[Kernel], n_columns: int, support: Values) -> bool:
        """Return whether rows and kernels agree with the columns of a table."""
        width = count_columns(self.columns, n_columns)
        return (
            self.rows.values.shape[1] == width
            and (self.offset is None or len(self.offset) == width)
            and all(kernels[f].family == self.family for f in self.members)
        )


def shared_columns(
    kernels: list[Kernel], X: Any, feature_names: Sequence[str] | None
) -> list[tuple[Selection, list[int]]]:
    """Return columns, and the kernels that share a quantity on them.

    Column selectors among `kernels` are replaced by what they choose. Approximate
    kernels share nothing.
    """
    shared: dict[tuple[Any, ...], tuple[Selection, list[int]]] = {}
    for f, kernel in enumerate(kernels):
        index = select_columns(kernel.columns, X, feature_names)
        chosen = np.arange(X.shape[1])[index]
        if callable(kernel.columns):
            # Fitted kernels are plain data: what the selector chose, not the selector.
            kernels[f] = replace(kernel, columns=chosen)
        # Kernels that need float64 must not slow the others down.
        precise = kernel.center or kernel.compact
        alone = None if kernel.approximate is None else f
        key = (kernel.family, precise, alone, chosen.tobytes())
        shared.setdefault(key, (index, []))[1].append(f)
    return list(shared.values())


def read_columns(
    fitted: KernelValues, X: Any, columns: Selection, members: Sequence[int]
) -> Any:
    """Return columns as numbers that all the members can read.

    A new C-ordered array, or CSR if X is sparse; in float32 if X is, else in float64.
    """
    dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
    try:
        if hasattr(X, "pick"):
            X, columns = X.pick(columns), slice(None)
        if isinstance(X, np.ndarray) and isinstance(columns, np.ndarray):
            # Several times as fast as X[:, columns], which also transposes in memory.
            values = X.take(columns, axis=1).astype(dtype, copy=False)
        else:
            values = table_columns(X, columns)
            if sp.issparse(values):
                values = values.astype(dtype)
            else:
                values = np.array(values, dtype=dtype, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"kernel columns must hold numbers, got {error}; encode text columns or "
            f"choose numeric ones."
        ) from error
    dense = isinstance(values, np.ndarray)
    for f in members:
        if not (dense or fitted.kernels[f].accepts_sparse):
            raise TypeError(
                f"kernel {fitted.names[f]!r} needs a dense table, got a sparse one; "
                f"call .toarray() on it first."
            )
        if fitted.kernels[f].nonnegative:
            require_nonnegative(values, fitted.names[f])
    return values
