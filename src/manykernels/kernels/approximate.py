"""Approximate kernels: k(x, y) is close to <phi(x), phi(y)> with few columns.

Maps are fitted once, in float64 whatever the storage; a fitted map is a few constants.
They are evaluated by the processor or by a device, where features may stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

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
from manykernels.device import HOST, Device, DeviceArray, quotient
from manykernels.device.base import EXPONENTIAL, Curve
from manykernels.device.host_views import DeviceTable
from manykernels.kernels.base import DEFAULT_RANK, Kernel, inverse_roots
from manykernels.kernels.columns import count_columns, row_factors
from manykernels.kernels.feature_group import (
    FeatureGroup,
    TableRows,
    read_columns,
)
from manykernels.kernels.landmarks import draw_landmarks
from manykernels.kernels.pairwise import (
    KERNEL_BLOCK_BYTES,
)

if TYPE_CHECKING:
    from manykernels.kernels.kernel_values import KernelValues

# Of the largest eigenvalue: smaller ones are rounding of a singular matrix.
SINGULAR_RTOL = 1e-12


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

    def features(self, device: Device, kernel: Kernel, values: Any) -> DeviceArray:
        """Return phi in float64 from k(x, L)."""
        return values @ device.put(self.whiten)

    def runs_on_device(self, kernel: Kernel, landmarks: TableRows) -> bool:
        """Return whether a device can compute phi: k(x, L) from inner products."""
        dense = isinstance(landmarks.values, np.ndarray)
        return dense and kernel.curve() is not None and kernel.form != "cosine"

    def fits(self, kernel: Kernel, n_landmarks: int, width: int) -> bool:
        """Return whether the map belongs to a kernel, its landmarks and columns."""
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

    def features(self, device: Device, kernel: Kernel, values: Any) -> DeviceArray:
        """Return phi in float64 from x."""
        xp = device.xp
        angles = values @ device.put(self.frequencies)
        phi = xp.concat([xp.cos(angles), xp.sin(angles)], axis=1)
        phi *= float(1.0 / np.sqrt(self.frequencies.shape[1]))
        return phi

    def runs_on_device(self, kernel: Kernel, landmarks: TableRows) -> bool:
        return True

    def fits(self, kernel: Kernel, n_landmarks: int, width: int) -> bool:
        has_waves = kernel.random_map in ("gaussian", "cauchy")
        return has_waves and len(self.frequencies) == width


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

    def features(self, device: Device, kernel: Any, values: Any) -> Values:
        """Return phi in float64 from x, on the processor."""
        product: Any = 1.0
        for buckets, signs in zip(self.buckets, self.signs, strict=True):
            scaled = signs * np.sqrt(kernel.gamma)
            scaled[-1] = signs[-1] * np.sqrt(kernel.coef0)
            # A product of spectra is a circular convolution of sketches.
            product = product * np.fft.rfft(self._sketch(values, buckets, scaled))
        return np.asarray(np.fft.irfft(product, self.n_columns))

    def runs_on_device(self, kernel: Kernel, landmarks: TableRows) -> bool:
        return False  # sketches are sparse products

    def fits(self, kernel: Kernel, n_landmarks: int, width: int) -> bool:
        shape = (getattr(kernel, "degree", None), width + 1)
        return kernel.random_map == "sketch" and self.buckets.shape == shape

    def require_sound(self) -> None:
        """Raise unless all signs are +1 or -1."""
        require_all("TensorSketch", {"signs": np.isin(self.signs, (-1.0, 1.0)).all()})

    def _sketch(self, values: Any, buckets: Values, signs: Values) -> Values:
        """Add up the entries of a row by bucket, and the constant."""
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
    rows=Part(TableRows),
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
    rows : TableRows
        phi of the reference rows, in the group's working precision.
    members : list of int
        Position of its kernel in the set.
    unit : bool
        Whether phi is scaled to unit length, before it is rounded to float32.
    """

    source: FeatureGroup
    map: FeatureMap
    rows: TableRows
    members: list[int]
    unit: bool

    family: ClassVar[str] = "dot"
    full: ClassVar[bool] = False
    rounding: ClassVar[float] = 0.0  # beyond that of the working precision

    @property
    def columns(self) -> Selection:
        """Positions in the table."""
        return self.source.columns

    @classmethod
    def fit(
        cls,
        fitted: KernelValues,
        columns: Selection,
        members: list[int],
        X: Any,
        copies: Values,
        rng: np.random.Generator,
        device: Device | None = None,
    ) -> MappedGroup:
        """Resolve the only member of the group, and fit its map on all the rows.

        With a device, phi is computed there and stays, where that is possible.
        """
        f = members[0]
        values = read_columns(fitted, X, columns, members)
        fitted.kernels[f] = kernel = fitted.kernels[f].resolve(values, copies)
        landmarks = draw_landmarks(kernel, fitted.names[f], values, copies, rng)
        source = FeatureGroup(kernel.family, columns, None, landmarks, [f])
        unit = kernel.normalize == "diagonal" and not kernel.center
        no_rows = TableRows.of(np.empty((0, 0)))
        group = cls(source, fit_map(fitted, source, rng), no_rows, [f], unit)
        dtype = np.dtype(np.float64) if kernel.center else fitted.dtype
        dense = isinstance(values, np.ndarray) and not kernel.center
        if not (device and dense and group.map.runs_on_device(kernel, landmarks)):
            device = HOST
        return replace(group, rows=group.mapped(fitted, values, dtype, device))

    def reference(self, ids: Selection) -> Any:
        return self.rows.take(ids)

    def new(self, fitted: KernelValues, X: Any) -> TableRows:
        if not self.members:
            return TableRows(np.empty((X.shape[0], 0)), np.zeros(X.shape[0]))
        values = read_columns(fitted, X, self.source.columns, self.members)
        rows = self.mapped(fitted, values, self.rows.values.dtype)
        rows.factors = row_factors(X, self.source.columns, self.source.family)
        return rows

    def mapped(
        self, fitted: KernelValues, values: Any, dtype: Any, device: Device = HOST
    ) -> TableRows:
        """Return phi of a table, computed in float64 a block at a time."""
        n, width = values.shape[0], self.map.n_columns
        out, squares = device.empty((n, width), dtype), np.empty(n)
        # Blocks that stay in the cache; a device is busy with larger ones only.
        block_bytes = KERNEL_BLOCK_BYTES * (1 if device is HOST else 16)
        size = max(1, block_bytes // (8 * max(1, width)))

        def work(begin: int, end: int) -> None:
            for start in range(begin, end, size):
                part = slice(start, min(start + size, end))
                phi, norms = self._map_block(fitted, values[part], device)
                out[part, ...] = device.xp.astype(phi, out.dtype, copy=False)
                squares[part] = norms

        if n <= size or device is not HOST:
            work(0, n)
        else:
            # A map costs about as much as twenty passes over phi.
            with one_blas_thread():
                in_slices(n, 20 * 8.0 * n * max(1, width), work)
        return TableRows(out if device is HOST else DeviceTable(device, out), squares)

    def _map_block(
        self, fitted: KernelValues, values: Any, device: Device
    ) -> tuple[DeviceArray, Values]:
        """Return phi of some rows, an array of the device, and its squared norms."""
        xp, kernel = device.xp, fitted.kernels[self.members[0]]
        if device is HOST:
            rows = TableRows.of(values, None, np.float64)
        else:
            on_device = device.precisely(device.put(values))
            rows = TableRows(on_device, xp.sum(on_device * on_device, axis=1))
        values = rows.values
        if isinstance(self.map, Whitening) and device is HOST:
            ((_, values),) = self.source.blocks(fitted, rows, self.source.rows)
        elif isinstance(self.map, Whitening):
            values = _curve_values(kernel, self.source.rows, rows, device)
        phi = self.map.features(device, kernel, values)
        if self.unit and self.map.n_columns:
            # The largest entry first: squares of tiny numbers would vanish.
            phi = quotient(xp, phi, xp.max(xp.abs(phi), axis=1)[:, None])
            phi = quotient(xp, phi, xp.sqrt(xp.sum(phi * phi, axis=1))[:, None])
        # Norms of unit rows are 1 to the bit, and 0 where phi vanishes.
        norms = device.get(xp.sum(phi * phi, axis=1))
        return phi, norms > 0.5 if self.unit else norms

    def blocks(
        self,
        fitted: KernelValues,
        a: TableRows,
        b: TableRows,
        members: Sequence[int] | None = None,
    ) -> Iterator[tuple[int, Values]]:
        """Yield (kernel position, products of phi)."""
        for f in self.members:
            yield f, np.asarray(a.values @ b.values.T)

    def diagonal(self, fitted: KernelValues, f: int, rows: TableRows) -> Values:
        return rows.squares.copy()

    def features(self, kernel: Kernel, rows: TableRows) -> Any:
        return rows.values

    def take(self, index: Values, support: Values, keep_all: bool) -> MappedGroup:
        """Keep the reference rows `index`; a model keeps none, on no device."""
        rows = self.rows.take(index)
        # An empty slice would keep the whole array of features alive.
        if not len(index):
            values = np.empty(rows.values.shape, rows.values.dtype)
            rows = TableRows(values, np.empty(0))
        return replace(self, rows=rows)

    def astype(self, dtype: Any) -> MappedGroup:
        return replace(self, rows=self.rows.astype(dtype))

    def fits(self, kernels: Sequence[Kernel], n_columns: int, support: Values) -> bool:
        kernel, source = kernels[self.members[0]], self.source
        width = count_columns(source.columns, n_columns)
        return (
            kernel.approximate is not None
            and source.members == self.members
            and source.fits(kernels, n_columns, support)
            and self.map.fits(kernel, len(source.rows), width)
            and self.rows.values.shape[1] == self.map.n_columns
        )


def _curve_values(
    kernel: Kernel, landmarks: TableRows, rows: TableRows, device: Device
) -> DeviceArray:
    """Return k(x, L) of rows on a device, where it is a curve of inner products."""
    curve, xp = kernel.curve(), device.xp
    assert curve is not None
    added, scale = landmarks.curve_terms(kernel, None)
    right = device.put(added + curve.offset), device.put(scale)
    # As in `TableRows.curve_terms`: there is no offset, and no cosine.
    factor = -0.5 * curve.slope if curve.degree == EXPONENTIAL else 0.0
    left = factor * rows.squares, xp.ones_like(rows.squares)
    dot = rows.values @ device.put(landmarks.values, np.float64).T
    curves = [Curve(curve.slope, curve.degree)]
    return device.add_curves(xp.zeros_like(dot), dot, curves, [left], [right])


def fit_map(
    fitted: KernelValues, source: FeatureGroup, rng: np.random.Generator
) -> FeatureMap:
    """Fit the map of the only kernel of `source`, whose rows are its landmarks."""
    kernel: Any = fitted.kernels[source.members[0]]
    if kernel.approximate == "nystroem":
        return _fit_whitening(*landmark_matrix(fitted, source))
    n_columns = int(source.rows.values.shape[1])
    rank = kernel.rank or DEFAULT_RANK
    if kernel.random_map == "sketch":
        shape = (kernel.degree, n_columns + 1)
        buckets = rng.integers(rank, size=shape)
        return TensorSketch(buckets, rng.choice([-1.0, 1.0], size=shape), rank)
    # Every frequency has a cosine and a sine.
    pairs = (rank + 1) // 2
    if kernel.random_map == "cauchy":
        return RandomFourier(kernel.gamma * rng.standard_cauchy((n_columns, pairs)))
    return RandomFourier(
        np.sqrt(2.0 * kernel.gamma) * orthogonal_normals(n_columns, pairs, rng)
    )


def landmark_matrix(
    fitted: KernelValues, source: FeatureGroup
) -> tuple[Values, Values]:
    """Return D k(L, L) D with a unit diagonal, exactly symmetric, and D's diagonal."""
    f = source.members[0]
    ((_, block),) = source.blocks(fitted, source.rows, source.rows)
    roots = inverse_roots(source.diagonal(fitted, f, source.rows))
    block = block * np.outer(roots, roots)
    np.fill_diagonal(block, roots > 0)
    return 0.5 * (block + block.T), roots


def orthogonal_normals(n_rows: int, n_columns: int, rng: np.random.Generator) -> Values:
    """Draw standard normal columns, orthogonal within each batch of `n_rows` of them.

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
    kept = values > SINGULAR_RTOL * max(float(values[-1]), 0.0)
    return Whitening(
        np.ascontiguousarray(roots[:, None] * vectors[:, kept] / np.sqrt(values[kept]))
    )
