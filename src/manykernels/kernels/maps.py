"""Approximate feature maps: k(x, y) is close to <phi(x), phi(y)> with few columns.

Fitted once, in float64 whatever the storage; afterwards a map is a few constants.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from manykernels.base.arrays import Values
from manykernels.base.stored import Count, Floats, Wholes, require_all, storable
from manykernels.base.threads import one_blas_thread
from manykernels.kernels.base import DEFAULT_RANK, Kernel
from manykernels.kernels.rows import Rows, inverse_roots, prepare_rows

if TYPE_CHECKING:
    from manykernels.kernels.groups import FeatureGroup

# Eigenvalues below this share of the largest are rounding of a singular matrix.
FLOOR = 1e-12

logger = logging.getLogger(__name__)


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


def draw_landmarks(
    kernel: Kernel, name: str, values: Any, rng: np.random.Generator
) -> Rows:
    """Training rows drawn for Nyström, in float64; none for random features."""
    n = values.shape[0]
    rank = kernel.rank or DEFAULT_RANK
    if kernel.approximate != "nystroem":
        return prepare_rows(values[:0], None, np.float64)
    if rank > n:
        logger.info("kernel %r: rank %d lowered to the %d rows", name, rank, n)
    chosen = np.arange(n)
    if rank < n:
        chosen = np.sort(rng.choice(n, rank, replace=False))
    return prepare_rows(values[chosen], None, np.float64)


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
    roots = inverse_roots(
        np.maximum(source.diagonal(kernels[f], names[f], source.rows), 0.0)
    )
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
