"""Rows of tables, and kernels on the same columns that share a pairwise quantity.

One quantity per family is computed for all kernels on the same columns: the inner
products serve Linear, Polynomial, Cosine, RBF and BSpline alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import additive_chi2_kernel

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
    Wholes,
    storable,
)
from manykernels.base.tables import table_columns
from manykernels.kernels.base import Kernel, require_nonnegative, require_range
from manykernels.kernels.columns import select_columns

# gamma * ||x||^2 above which float32 inner products spoil the fifth digit of an RBF.
SAFE_EXPONENT = 16.0
BLOCK_BYTES = 2**22  # of one kernel's values at a time
# Not a power of two: rows of a tile would then compete for the same cache lines.
TILE = 384


@storable(
    values=Table("rows", "columns"),
    squares=Floats("rows", low=0.0),
    shifts=Maybe(Floats("rows")),
)
@dataclass
class Rows:
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
        What multiplies each row in the kernels, zero where it is not there. Reference
        rows have none: theirs are among the constants of the kernels.
    """

    values: Any
    squares: Values
    shifts: Values | None = None
    factors: Values | None = None

    def __len__(self) -> int:
        """Count the rows."""
        return int(self.values.shape[0])

    def take(self, index: Selection) -> Rows:
        """Return the chosen rows (views if `index` is a slice)."""
        shifts = None if self.shifts is None else self.shifts[index]
        factors = None if self.factors is None else self.factors[index]
        return Rows(self.values[index], self.squares[index], shifts, factors)

    def astype(self, dtype: Any) -> Rows:
        """The same rows in another precision; their norms stay as they are."""
        with np.errstate(over="ignore"):  # scores of such rows are refused
            values = self.values.astype(dtype, copy=False)
        if isinstance(values, np.ndarray):
            values = np.ascontiguousarray(values)
        return Rows(values, self.squares, self.shifts, self.factors)

    def plain_squares(self) -> Values:
        """Squared norms with the offset put back."""
        if self.shifts is None:
            return self.squares
        return np.maximum(self.squares + 2.0 * self.shifts, 0.0)


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
        The shared quantity, a key of `PAIRWISE`, or "custom".
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
    columns: Selection
    offset: Values | None
    rows: Rows
    members: list[int]
    full: bool = False

    rounding: ClassVar[float] = 0.0  # beyond that of the working precision

    @classmethod
    def fit(
        cls,
        columns: Selection,
        members: list[int],
        kernels: list[Kernel],
        names: Sequence[str],
        X: Any,
        copies: Values,
        dtype: Any,
    ) -> FeatureGroup:
        """Resolve the members among `kernels` on a table, and prepare its rows.

        Rows are held in the cheapest precision that keeps five digits.
        """
        values = read_columns(X, columns, members, kernels, names)
        rows, offset = prepare_rows(values), None
        largest = float(rows.squares.max(initial=0.0))
        _require_range(rows, names[members[0]], dtype)
        steepest, precise = 0.0, False
        known: dict[Any, float] = {}  # a median distance serves all the widths
        for f in members:
            kernels[f] = kernel = kernels[f].resolve(values, copies, known)
            # Centering subtracts numbers of equal size, so it needs the digits.
            precise = precise or kernel.center
            if kernel.form == "squared_distance":
                # The root in a compact kernel has unbounded slope at zero.
                gamma = np.inf if kernel.compact else float(vars(kernel)["gamma"])
                steepest = max(steepest, gamma)
        tiny = np.finfo(float).tiny
        if steepest * max(tiny, largest) > SAFE_EXPONENT:
            if not sp.issparse(values):
                offset = np.asarray(values.mean(axis=0, dtype=np.float64))
                rows = prepare_rows(values, offset)
            steep = steepest * max(tiny, float(rows.squares.max()))
            precise = precise or steep > SAFE_EXPONENT
        working = rows.astype(np.float64 if precise else dtype)
        return cls(kernels[members[0]].family, columns, offset, working, members)

    def reference(self, ids: Selection) -> Any:
        """Return some reference rows."""
        return self.rows.take(ids)

    def new(self, X: Any, kernels: Sequence[Kernel], names: Sequence[str]) -> Rows:
        """Select, check and prepare the columns of new rows."""
        values = read_columns(X, self.columns, self.members, kernels, names)
        rows = prepare_rows(values, self.offset, self.rows.values.dtype)
        rows.factors = row_factors(X, self.columns, self.family)
        return rows

    def shared(self, a: Rows, b: Rows) -> Values:
        """The pairwise quantity that the kernels are functions of."""
        return PAIRWISE[self.family](a.values, b.values)

    def blocks(
        self, kernels: Sequence[Kernel], names: Sequence[str], a: Rows, b: Rows
    ) -> Iterator[tuple[int, Values]]:
        """Yield (kernel position, new block) from one shared quantity."""
        if self.family == "custom":
            for f in self.members:
                custom: Any = kernels[f]
                yield f, custom.block(names[f], a.values, b.values)
            return
        shared = self.shared(a, b)
        if len(self.members) == 1:  # one row may need many such groups
            (f,) = self.members
            yield f, kernels[f].apply(derive(kernels[f].form, shared, a, b))
            return
        by_form: dict[str, list[int]] = {}
        for f in self.members:
            by_form.setdefault(kernels[f].form, []).append(f)
        for form, (*others, last) in by_form.items():
            block = derive(form, shared, a, b)
            for f in others:
                yield f, kernels[f].apply(block.copy())
            yield last, kernels[last].apply(block)

    def diagonal(self, kernel: Kernel, name: str, rows: Rows) -> Values:
        """k(x, x) in float64."""
        if self.family == "custom":
            custom: Any = kernel
            return np.asarray(custom.diagonal(name, rows.values))
        if kernel.form == "dot":
            values = rows.plain_squares()
        elif kernel.form == "cosine":
            values = rows.plain_squares() > 0
        elif kernel.form == "intersection":
            values = _row_sums(rows.values)
        else:
            values = np.full_like(rows.squares, kernel.form == "constant")
        return kernel.apply(np.array(values, dtype=np.float64))

    def features(self, kernel: Kernel, rows: Rows) -> Any:
        """phi(x) before centering and normalization, dense or CSR."""
        if kernel.form == "constant":
            return np.ones((len(rows), 1), dtype=rows.values.dtype)
        values = rows.values if self.offset is None else rows.values + self.offset
        if kernel.form != "cosine":
            return values
        return scale_rows(values, inverse_roots(rows.plain_squares()))

    def take(self, index: Values, support: Values, keep_all: bool) -> FeatureGroup:
        """Keep the reference rows `index`."""
        if self.full or keep_all:
            return replace(self, full=True)
        return replace(self, rows=self.rows.take(index))

    def astype(self, dtype: Any) -> FeatureGroup:
        """The same group with another working precision."""
        return replace(self, rows=self.rows.astype(dtype))

    def fits(self, kernels: Sequence[Kernel], n_columns: int, support: Values) -> bool:
        """Whether rows and kernels are what the columns of a table say."""
        width = count_columns(self.columns, n_columns)
        return (
            self.rows.values.shape[1] == width
            and (self.offset is None or len(self.offset) == width)
            and all(kernels[f].family == self.family for f in self.members)
        )


def count_columns(columns: Selection, n_columns: int) -> int:
    """How many columns are chosen; counted, as a file may claim any number of them."""
    if isinstance(columns, slice):
        return len(range(n_columns)[columns])
    Wholes(None, low=0, below=n_columns).check("columns of a kernel", columns, {})
    return len(columns)


def as_table(X: Any) -> Any:
    """X with two dimensions: array, sparse matrix or data frame as it is."""
    table = X if hasattr(X, "shape") else np.asarray(X)
    if len(table.shape) != 2:
        raise ValueError(
            f"kernels on feature columns need X of shape (n_samples, n_features), got "
            f"{len(table.shape)} dimensions; use Precomputed for a stack of kernels."
        )
    return table


def read_columns(
    X: Any,
    index: Selection,
    members: list[int],
    kernels: Sequence[Kernel],
    names: Sequence[str],
) -> Any:
    """The chosen columns as numbers that all the members among the kernels can read.

    A new C-ordered array, or CSR if X is sparse; in float32 if X is, else in float64.
    """
    dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
    try:
        values = _choose_columns(X, index, dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"kernel columns must hold numbers, got {error}; encode text columns or "
            f"choose numeric ones."
        ) from error
    dense = isinstance(values, np.ndarray)
    for f in members:
        if not (dense or kernels[f].accepts_sparse):
            raise TypeError(
                f"kernel {names[f]!r} needs a dense table, got a sparse one; call "
                f".toarray() on it first."
            )
        if kernels[f].nonnegative:
            require_nonnegative(values, names[f])
    return values


def row_factors(X: Any, columns: Selection, family: str) -> Values | None:
    """What multiplies the rows of a table in kernels of a family on some columns.

    Only tables that know of rows which lack a view have such factors, and a constant
    reads no column.
    """
    if family == "constant" or not hasattr(X, "factors"):
        return None
    factors: Values | None = X.factors(columns)
    return factors


def _choose_columns(X: Any, index: Selection, dtype: Any) -> Any:
    """A new C-ordered array of some columns, or CSR if X is sparse."""
    if hasattr(X, "pick"):
        X, index = X.pick(index), slice(None)
    if isinstance(X, np.ndarray) and isinstance(index, np.ndarray):
        # Several times as fast as X[:, index], which also transposes in memory.
        return X.take(index, axis=1).astype(dtype, copy=False)
    chosen = table_columns(X, index)
    if sp.issparse(chosen):
        return chosen.astype(dtype)
    return np.array(chosen, dtype=dtype, order="C")


def shared_columns(
    kernels: list[Kernel], X: Any, feature_names: Sequence[str] | None
) -> list[tuple[Selection, list[int]]]:
    """Columns, and the kernels that share a quantity on them; maps share nothing.

    Column selectors among `kernels` are replaced by what they choose.
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


def row_blocks(n_rows: int, n_columns: int, itemsize: int, n_bytes: int) -> list[slice]:
    """Row slices of blocks with `n_columns` columns that fit in `n_bytes`."""
    size = max(1, n_bytes // max(1, n_columns * itemsize))
    if 0 < n_rows <= size:
        return [slice(0, n_rows)]
    starts = range(0, n_rows, size)
    return list(map(slice, starts, [*starts[1:], n_rows]))


def symmetric_tiles(n: int, size: int = TILE) -> list[tuple[slice, slice]]:
    """Tiles on and above the diagonal of an n x n matrix.

    >>> symmetric_tiles(3, 2)
    [(slice(0, 2, None), slice(0, 2, None)), (slice(0, 2, None), slice(2, 3, None)), \
(slice(2, 3, None), slice(2, 3, None))]
    """
    starts = range(0, n, size)
    parts = map(slice, starts, [*starts[1:], n])
    return list(combinations_with_replacement(parts, 2))


def prepare_rows(values: Any, offset: Values | None = None, dtype: Any = None) -> Rows:
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
    rows = Rows(values, squares, shifts)
    return rows if dtype in (None, values.dtype) else rows.astype(dtype)


def _require_range(rows: Rows, name: str, dtype: Any) -> None:
    """Raise if a precision cannot hold the squares of the rows."""
    if not len(rows):
        return
    vanished = rows.squares == 0.0
    if vanished.any() and abs(rows.values[vanished]).max() > 0.0:
        require_range(np.full(1, np.finfo(np.float64).tiny), name, dtype)
    # Between two rows, a squared distance is at most four times a squared norm.
    with np.errstate(over="ignore"):
        require_range(4.0 * rows.squares, name, dtype)


def derive(form: str, shared: Values, a: Rows, b: Rows) -> Values:
    """A new block of one kernel's form from the shared quantity."""
    if form == "squared_distance":
        block = shared * shared.dtype.type(-2.0)
        add_outer(block, a.squares, b.squares)
        # Rounding may leave a tiny negative number between equal rows.
        return np.maximum(block, 0.0, out=block)
    block = shared.copy()
    if form in ("dot", "cosine") and a.shifts is not None and b.shifts is not None:
        add_outer(block, a.shifts, b.shifts)
    if form == "cosine":
        roots = inverse_roots(a.plain_squares()), inverse_roots(b.plain_squares())
        scale_outer(block, *roots)
    return block


def add_outer(block: Values, left: Values, right: Values) -> None:
    """block[i, j] += left[i] + right[j], in place and in the block's precision."""
    block += left.astype(block.dtype, copy=False)[:, None]
    block += right.astype(block.dtype, copy=False)


def scale_outer(block: Values, left: Values, right: Values) -> None:
    """block[i, j] *= left[i] * right[j], in place and in the block's precision."""
    block *= left.astype(block.dtype, copy=False)[:, None]
    block *= right.astype(block.dtype, copy=False)


def inverse_roots(squares: Values, floor: float = 0.0) -> Values:
    """1 / sqrt(s), and 0 where s is not above the floor."""
    roots = np.sqrt(np.where(squares > floor, squares, 0.0))
    return np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)


def scale_rows(phi: Any, factors: Values) -> Any:
    """Row i times factors[i], dense or CSR."""
    if sp.issparse(phi):
        return sp.csr_array(sp.diags_array(factors.astype(phi.dtype)) @ phi)
    return phi * factors.astype(phi.dtype)[:, None]


def _dot(a: Any, b: Any) -> Values:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.dot(a, b.T)  # for a single row faster than @
    product = sp.csr_array(a) @ sp.csr_array(b).T
    return product.toarray() if sp.issparse(product) else np.asarray(product)


def _manhattan(a: Values, b: Values) -> Values:
    return cdist(a, b, "cityblock").astype(a.dtype, copy=False)


def _chi_squared(a: Values, b: Values) -> Values:
    return -additive_chi2_kernel(a, b)


def _intersection(a: Values, b: Values) -> Values:
    # min(x, y) = (x + y - |x - y|) / 2 turns the sum into an L1 distance.
    total = cdist(a, b, "cityblock")
    total *= -0.5
    add_outer(total, 0.5 * _row_sums(a), 0.5 * _row_sums(b))
    return np.maximum(total, 0.0, out=total).astype(a.dtype, copy=False)


def _constant(a: Any, b: Any) -> Values:
    return np.ones((a.shape[0], b.shape[0]), dtype=a.dtype)


def _row_sums(values: Values) -> Values:
    return np.asarray(values.sum(axis=1, dtype=np.float64))


PAIRWISE = {
    "dot": _dot,
    "manhattan": _manhattan,
    "chi_squared": _chi_squared,
    "intersection": _intersection,
    "constant": _constant,
}
