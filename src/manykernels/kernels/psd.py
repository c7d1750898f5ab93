"""Positive semi-definiteness of kernels that come from outside: check or clip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from scipy.linalg import eigh, eigvalsh
from scipy.linalg.lapack import dpotrf, spotrf

from manykernels.base.arrays import Selection, Values
from manykernels.base.machine import one_blas_thread
from manykernels.base.stored import Floats, storable
from manykernels.kernels.approximate.maps import MappedGroup, Whitening, landmark_matrix
from manykernels.kernels.given import gather
from manykernels.kernels.scaling import final_matrix

if TYPE_CHECKING:
    from manykernels.kernels.fitted import KernelSet

Psd: TypeAlias = Literal["check", "clip", "skip"]

SAMPLE_ROWS = 256
TOLERANCE = 1e-5
FACTORIZE = {np.float32: spotrf, np.float64: dpotrf}


@storable(whiten=Floats("rows", "rank"), features=Floats("rows", "rank"))
@dataclass
class Clip:
    r"""Projection on the eigenvectors with positive eigenvalues.

    With :math:`W^{1/2} K W^{1/2} = U \Lambda U^\top` restricted to
    :math:`\lambda > 0`, where W holds the copies of every row, a row
    :math:`r = k(x, \cdot)` becomes
    :math:`(r\, W^{1/2} U \Lambda^{-1/2}) (W^{-1/2} U \Lambda^{1/2})^\top`: what
    clipping the matrix of all the copies would give.

    Attributes
    ----------
    whiten : array of shape (n_train, rank)
        The first factor's constants.
    features : array of shape (n_train, rank)
        The second factor, K times `whiten`.
    """

    whiten: Values
    features: Values

    def between(self, rows: Selection, columns: Selection) -> Values:
        """Clipped values between reference rows."""
        return self.features[rows] @ self.features[columns].T

    def against(self, block: Values) -> Values:
        """Clipped values of new rows, given their values with all training rows."""
        return (block @ self.whiten) @ self.features.T


def make_psd(fitted: KernelSet, psd: Psd, copies: Values) -> None:
    """Check or clip the kernels of a set whose formula does not promise it."""
    if psd == "skip":
        return
    doubtful = [f for f, kernel in enumerate(fitted.kernels) if kernel.check_psd]
    if psd == "check":
        # Threads of BLAS gain nothing here, and spin for a while in the way of ours.
        with one_blas_thread():
            for f, matrix in _samples(fitted, doubtful):
                tolerance = max(TOLERANCE, fitted.group_of(f).rounding)
                check_matrix(matrix, fitted.names[f], tolerance)
        return
    for f in doubtful:
        # An approximation as such is never indefinite.
        if not isinstance(fitted.group_of(f), MappedGroup):
            whole = final_matrix(fitted, f, np.arange(fitted.n_train))
            clip = fitted.clips[f] = clip_matrix(whole, copies)
            if clip is not None:
                fitted.scalings[f].diagonal = np.square(clip.features).sum(axis=1)


def _samples(fitted: KernelSet, kernels: list[int]) -> Iterator[tuple[int, Values]]:
    """Matrices of some rows, up to a positive factor."""
    rows = sample_rows(fitted.n_train)
    given = fitted.stack_as_given()
    if given is not None:  # all kernels of a pair at once
        values = gather(given[0], rows, rows)
        yield from ((f, values[:, f]) for f in kernels)
        return
    for f in kernels:
        group = fitted.group_of(f)
        if not isinstance(group, MappedGroup):
            yield f, final_matrix(fitted, f, rows)
        elif isinstance(group.map, Whitening):  # of a kernel that may be indefinite
            exact, _ = landmark_matrix(fitted.kernels, fitted.names, group.source)
            some = sample_rows(len(exact))
            yield f, exact[np.ix_(some, some)]


def sample_rows(n: int) -> Values:
    """Return all rows if there are few, otherwise 256 drawn with a fixed seed."""
    if n <= SAMPLE_ROWS:
        return np.arange(n)
    drawn = np.random.default_rng(0).choice(n, SAMPLE_ROWS, replace=False)
    return np.sort(drawn)


def check_matrix(matrix: Values, name: str, tolerance: float = TOLERANCE) -> None:
    """Raise if a principal submatrix has a negative eigenvalue.

    By interlacing, the whole matrix then has one at least as negative.
    """
    if _clearly_positive(matrix):
        return
    values = eigvalsh(matrix.astype(np.float64))
    if values[0] < -tolerance * np.abs(values).max():
        raise ValueError(
            f"kernel {name!r} must be positive semi-definite, got a smallest "
            f"eigenvalue of {values[0]:.4g} next to a largest of {values[-1]:.4g}; "
            f"pass psd='clip' to set negative eigenvalues to zero."
        )


def _clearly_positive(matrix: Values) -> bool:
    """Whether a Cholesky factor exists, at a tenth of the price of eigenvalues.

    The shift is at most the tolerance times the largest eigenvalue, which is at least
    the mean of the row sums and the largest diagonal entry.
    """
    largest = max(float(matrix.sum()) / len(matrix), float(np.diagonal(matrix).max()))
    # In single precision first, if the values are: rounding is below the tolerance.
    dtypes = [np.float32, np.float64] if matrix.dtype == np.float32 else [np.float64]
    for dtype in dtypes:
        shifted = np.array(matrix, dtype, order="C").T  # symmetric: columns are rows
        np.einsum("ii->i", shifted)[:] += TOLERANCE * largest  # a view of the diagonal
        options = {"lower": True, "clean": False, "overwrite_a": True}
        _, failure = FACTORIZE[dtype](shifted, **options)
        if failure == 0:
            return True
    return False


def clip_matrix(matrix: Values, copies: Values) -> Clip | None:
    """Return the projection for an indefinite matrix, None if there is no need."""
    roots = np.sqrt(copies)
    values, vectors = eigh(matrix.astype(np.float64) * np.outer(roots, roots))
    limit = TOLERANCE * float(np.abs(values).max())
    if values[0] >= -limit:
        return None
    # Directions with rounding-size eigenvalues only amplify noise in `whiten`.
    kept = values > 1e-12 * values[-1]
    whiten = roots[:, None] * vectors[:, kept] / np.sqrt(values[kept])
    return Clip(whiten, matrix @ whiten)
