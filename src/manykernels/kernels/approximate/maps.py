"""Approximate kernels: k(x, y) is close to <phi(x), phi(y)> with few columns.

Fitted once, in float64 whatever the storage; afterwards a map is a few constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from manykernels.base.arrays import Selection, Values
from manykernels.base.machine import in_slices, one_blas_thread
from manykernels.base.stored import (
    FLAG,
    Count,
    Floats,
    ListOf,
    Part,
    Wholes,
    require_all,
    storable,
)
from manykernels.device import Device
from manykernels.kernels.approximate.landmarks import draw_landmarks
from manykernels.kernels.approximate.there import (
    LinearMap,
    kernel_there,
    mapped_there,
    waves_there,
)
from manykernels.kernels.base import DEFAULT_RANK, Kernel
from manykernels.kernels.rows import (
    FeatureGroup,
    Rows,
    count_columns,
    inverse_roots,
    prepare_rows,
    read_columns,
    row_factors,
)

# Eigenvalues below this share of the largest are rounding of a singular matrix.
FLOOR = 1e-12
MAP_BYTES = 2**22  # of mapped rows at a time, by each thread
MAP_PASSES = 20  # over mapped rows, that a map is worth


@storable(whiten=Floats("landmarks", "columns of phi"))
@dataclass
class Whitening:
    r"""Nyström, :math:`\phi(x) = k(x, L)\, D U \Lambda^{-1/2}` for landmarks L.

    :math:`D k(L, L) D = U \Lambda U^\top` has a unit diagonal; eigenvalues that are
    only rounding are left out, so equal landmarks do no harm.

    Attributes
    ----------
    whiten : array of shape (landmarks, columns of phi)

    References
    ----------
    Williams and Seeger (2001), Using the Nyström method to speed up kernel machines.
    """

    whiten: Values

    @property
    def n_columns(self) -> int:
        """Columns of phi."""
        return int(self.whiten.shape[1])

    def features(
        self,
        kernels: Sequence[Kernel],
        names: Sequence[str],
        source: FeatureGroup,
        rows: Rows,
    ) -> Values:
        """phi of rows in float64; the landmarks are the rows of `source`."""
        ((_, block),) = source.blocks(kernels, names, rows, source.rows)
        return np.asarray(block @ self.whiten)

    def on_device(
        self, device: Device, kernel: Kernel, landmarks: Rows
    ) -> LinearMap | None:
        """From rows there to phi there; None where only the processor can."""
        values = kernel_there(device, kernel, landmarks)
        whiten = device.put(self.whiten)
        return None if values is None else lambda rows: values(rows) @ whiten

    def fits(self, kernel: Kernel, n_landmarks: int, width: int) -> bool:
        """Whether it belongs to a kernel with so many landmarks."""
        return kernel.approximate == "nystroem" and len(self.whiten) == n_landmarks


@storable(frequencies=Floats("columns", "frequencies"))
@dataclass
class RandomFourier:
    r"""Random Fourier features, :math:`\phi = [\cos Wx, \sin Wx] / \sqrt{m}`.

    m frequencies, the columns of W; every row has unit length.

    Attributes
    ----------
    frequencies : array of shape (columns of x, m)

    References
    ----------
    Rahimi and Recht (2007), Random features for large-scale kernel machines;
    Yu et al. (2016), Orthogonal random features.
    """

    frequencies: Values

    @property
    def n_columns(self) -> int:
        """Columns of phi."""
        return 2 * int(self.frequencies.shape[1])

    def features(
        self,
        kernels: Sequence[Kernel],
        names: Sequence[str],
        source: FeatureGroup,
        rows: Rows,
    ) -> Values:
        """phi of rows in float64."""
        angles = np.asarray(rows.values @ self.frequencies)
        phi = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        phi *= 1.0 / np.sqrt(self.frequencies.shape[1])
        return phi

    def on_device(self, device: Device, kernel: Kernel, landmarks: Rows) -> LinearMap:
        """From rows there to phi there."""
        return waves_there(device, self.frequencies)

    def fits(self, kernel: Kernel, n_landmarks: int, width: int) -> bool:
        """Whether it belongs to a kernel on so many columns."""
        known = kernel.random_map in ("gaussian", "cauchy")
        return known and len(self.frequencies) == width


@storable(
    n_columns=Count(low=1, size="columns of phi"),
    buckets=Wholes("degree", "entries", low=0, below="columns of phi"),
    signs=Floats("degree", "entries"),
)
@dataclass
class TensorSketch:
    r"""Count sketches of x, multiplied as polynomials: E phi(x).phi(y) = (x.y)^degree.

    x stands for :math:`[\sqrt\gamma\, x, \sqrt{c_0}]`, so that this is the polynomial
    kernel.

    Attributes
    ----------
    buckets : int array of shape (degree, columns of x + 1)
        Where each entry goes, once per factor.
    signs : array of the same shape
        +1 or -1.
    n_columns : int
        Columns of phi.

    References
    ----------
    Pham and Pagh (2013), Fast and scalable polynomial kernels via explicit feature
    maps.
    """

    buckets: Values
    signs: Values
    n_columns: int

    def features(
        self,
        kernels: Sequence[Kernel],
        names: Sequence[str],
        source: FeatureGroup,
        rows: Rows,
    ) -> Values:
        """phi of rows in float64."""
        kernel: Any = kernels[source.members[0]]
        product: Any = 1.0
        for buckets, signs in zip(self.buckets, self.signs, strict=True):
            scaled = signs * np.sqrt(kernel.gamma)
            scaled[-1] = signs[-1] * np.sqrt(kernel.coef0)
            product = product * np.fft.rfft(self._sketch(rows.values, buckets, scaled))
        return np.asarray(np.fft.irfft(product, self.n_columns))

    def on_device(self, device: Device, kernel: Kernel, landmarks: Rows) -> None:
        """Only the processor sketches."""

    def fits(self, kernel: Kernel, n_landmarks: int, width: int) -> bool:
        """Whether it belongs to a kernel on so many columns."""
        shape = (getattr(kernel, "degree", None), width + 1)
        return kernel.random_map == "sketch" and self.buckets.shape == shape

    def require_sound(self) -> None:
        """Signs are nothing else."""
        require_all("TensorSketch", {"signs": np.isin(self.signs, (-1.0, 1.0)).all()})

    def _sketch(self, values: Any, buckets: Values, signs: Values) -> Values:
        """Entries of a row added up by bucket, and the constant in its own."""
        places = (np.arange(len(buckets) - 1), buckets[:-1])
        shape = (len(buckets) - 1, self.n_columns)
        table = sp.csr_array(sp.coo_array((signs[:-1], places), shape=shape))
        if sp.issparse(values):
            out = np.asarray((sp.csr_array(values) @ table).toarray())
        else:
            out = np.asarray((table.T @ values.T).T)
        out[:, buckets[-1]] += signs[-1]
        return out


FeatureMap: TypeAlias = Whitening | RandomFourier | TensorSketch


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
    rounding: ClassVar[float] = 0.0  # beyond that of the working precision

    @property
    def columns(self) -> Selection:
        """Positions in the table."""
        return self.source.columns

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
        rng: np.random.Generator,
        device: Device | None = None,
    ) -> MappedGroup:
        """Resolve the only member among `kernels`, and fit its map on all the rows.

        With a device, phi is computed there and stays, where that is possible.
        """
        f = members[0]
        values = read_columns(X, columns, members, kernels, names)
        kernels[f] = kernel = kernels[f].resolve(values, copies)
        landmarks = draw_landmarks(kernel, names[f], values, copies, rng)
        source = FeatureGroup(kernel.family, columns, None, landmarks, [f])
        unit = kernel.normalize == "diagonal" and not kernel.center
        no_rows = prepare_rows(np.empty((0, 0)))
        group = cls(source, fit_map(kernels, names, source, rng), no_rows, [f], unit)
        precision = np.dtype(np.float64) if kernel.center else dtype
        if device is not None and isinstance(values, np.ndarray) and not kernel.center:
            features = group.map.on_device(device, kernel, landmarks)
            if features is not None:
                rows = mapped_there(device, features, values, precision, unit)
                return replace(group, rows=rows)
        return replace(group, rows=group.mapped(values, kernels, names, precision))

    def reference(self, ids: Selection) -> Any:
        """Return some reference rows."""
        return self.rows.take(ids)

    def new(self, X: Any, kernels: Sequence[Kernel], names: Sequence[str]) -> Rows:
        """Select and check the columns of new rows, and map them."""
        if not self.members:
            return Rows(np.empty((X.shape[0], 0)), np.zeros(X.shape[0]))
        values = read_columns(X, self.source.columns, self.members, kernels, names)
        rows = self.mapped(values, kernels, names, self.rows.values.dtype)
        rows.factors = row_factors(X, self.source.columns, self.source.family)
        return rows

    def mapped(
        self, values: Any, kernels: Sequence[Kernel], names: Sequence[str], dtype: Any
    ) -> Rows:
        """phi of a table, in float64 a block at a time."""
        n, width = values.shape[0], max(1, self.map.n_columns)
        out = Rows(np.empty((n, self.map.n_columns), dtype), np.empty(n))
        size = max(1, MAP_BYTES // (8 * width))

        def work(begin: int, end: int) -> None:
            for start in range(begin, end, size):
                self._map_rows(
                    values, slice(start, min(start + size, end)), kernels, names, out
                )

        if n <= size:
            work(0, n)
        else:
            with one_blas_thread():
                in_slices(n, MAP_PASSES * 8.0 * n * width, work)
        return out

    def _map_rows(
        self,
        values: Any,
        part: slice,
        kernels: Sequence[Kernel],
        names: Sequence[str],
        out: Rows,
    ) -> None:
        """phi of some rows, into `out`."""
        rows = prepare_rows(values[part], None, np.float64)
        phi = self.map.features(kernels, names, self.source, rows)
        if self.unit:
            phi = _unit_rows(phi)
        out.values[part] = phi
        out.squares[part] = prepare_rows(phi).squares
        if self.unit:
            out.squares[part] = out.squares[part] > 0.5

    def blocks(
        self, kernels: Sequence[Kernel], names: Sequence[str], a: Rows, b: Rows
    ) -> Iterator[tuple[int, Values]]:
        """Yield (kernel position, products of phi)."""
        for f in self.members:
            yield f, np.asarray(a.values @ b.values.T)

    def diagonal(self, kernel: Kernel, name: str, rows: Rows) -> Values:
        """||phi(x)||^2 in float64."""
        return rows.squares.copy()

    def features(self, kernel: Kernel, rows: Rows) -> Any:
        """phi(x), which is what the rows are kept as."""
        return rows.values

    def take(self, index: Values, support: Values, keep_all: bool) -> MappedGroup:
        """Keep the reference rows `index`; a model keeps none, on no device."""
        rows = self.rows.take(index)
        if not len(index):
            rows = Rows(np.empty(rows.values.shape, rows.values.dtype), np.empty(0))
        return replace(self, rows=rows)

    def astype(self, dtype: Any) -> MappedGroup:
        """The same group with another working precision."""
        return replace(self, rows=self.rows.astype(dtype))

    def fits(self, kernels: Sequence[Kernel], n_columns: int, support: Values) -> bool:
        """Whether map, kernel and columns belong together."""
        kernel, source = kernels[self.members[0]], self.source
        width = count_columns(source.columns, n_columns)
        return (
            kernel.approximate is not None
            and source.members == self.members
            and source.fits(kernels, n_columns, support)
            and self.map.fits(kernel, len(source.rows), width)
            and self.rows.values.shape[1] == self.map.n_columns
        )


def fit_map(
    kernels: Sequence[Kernel],
    names: Sequence[str],
    source: FeatureGroup,
    rng: np.random.Generator,
) -> FeatureMap:
    """The map of the only kernel of `source`, whose rows are its landmarks."""
    kernel: Any = kernels[source.members[0]]
    if kernel.approximate == "nystroem":
        return _fit_whitening(*landmark_matrix(kernels, names, source))
    n_columns = int(source.rows.values.shape[1])
    rank = kernel.rank or DEFAULT_RANK
    if kernel.random_map == "sketch":
        shape = (kernel.degree, n_columns + 1)
        buckets = rng.integers(rank, size=shape)
        return TensorSketch(buckets, rng.choice([-1.0, 1.0], size=shape), rank)
    pairs = (rank + 1) // 2
    if kernel.random_map == "cauchy":
        return RandomFourier(kernel.gamma * rng.standard_cauchy((n_columns, pairs)))
    return RandomFourier(
        np.sqrt(2.0 * kernel.gamma) * orthogonal_normals(n_columns, pairs, rng)
    )


def landmark_matrix(
    kernels: Sequence[Kernel], names: Sequence[str], source: FeatureGroup
) -> tuple[Values, Values]:
    """D k(L, L) D with a unit diagonal, exactly symmetric, and the diagonal of D."""
    f = source.members[0]
    ((_, block),) = source.blocks(kernels, names, source.rows, source.rows)
    roots = inverse_roots(source.diagonal(kernels[f], names[f], source.rows))
    block = block * np.outer(roots, roots)
    np.fill_diagonal(block, roots > 0)
    return 0.5 * (block + block.T), roots


def orthogonal_normals(n_rows: int, n_columns: int, rng: np.random.Generator) -> Values:
    """Standard normal columns, orthogonal within each batch of `n_rows` of them.

    Each column is a normal vector, so means over columns stay unbiased; columns of a
    batch avoid each other, which lowers the variance.
    """
    batches = []
    for _ in range(0, n_columns, n_rows):
        q, r = np.linalg.qr(rng.standard_normal((n_rows, n_rows)))
        # With the signs of the diagonal, q is uniform among the orthogonal matrices.
        lengths = np.sqrt(rng.chisquare(n_rows, size=n_rows))
        batches.append(q * (np.sign(np.diagonal(r)) * lengths))
    return np.ascontiguousarray(np.concatenate(batches, axis=1)[:, :n_columns])


def _fit_whitening(matrix: Values, roots: Values) -> Whitening:
    # Threads of BLAS wait for each other in small eigenproblems.
    with one_blas_thread():
        values, vectors = eigh(matrix)
    kept = values > FLOOR * max(float(values[-1]), 0.0)
    return Whitening(
        np.ascontiguousarray(roots[:, None] * vectors[:, kept] / np.sqrt(values[kept]))
    )


def _unit_rows(phi: Values) -> Values:
    """Rows of unit length; a row of zeros stays."""
    # The largest entry first: squares of tiny numbers would vanish.
    largest = np.abs(phi).max(axis=1, initial=0.0, keepdims=True)
    phi = np.divide(phi, largest, out=np.zeros_like(phi), where=largest > 0)
    return phi * inverse_roots(prepare_rows(phi).squares)[:, None]
