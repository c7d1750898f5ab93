"""Positive semi-definiteness of kernels that come from outside: check or clip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from scipy.linalg import eigh, eigvalsh

from manykernels.base.arrays import Selection, Values
from manykernels.base.stored import Floats, storable
from manykernels.kernels.maps import MappedGroup, Whitening, landmark_matrix
from manykernels.kernels.scaling import final_matrix

if TYPE_CHECKING:
    from manykernels.kernels.fitted import KernelSet

Psd: TypeAlias = Literal["check", "clip", "skip"]

SAMPLE_ROWS = 256
TOLERANCE = 1e-5


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
    for f, kernel in enumerate(fitted.kernels):
        if psd == "skip" or not kernel.check_psd:
            continue
        group = fitted.group_of(f)
        if isinstance(group, MappedGroup):
            # An approximation as such is never indefinite, but its kernel may be.
            if psd == "check" and isinstance(group.map, Whitening):
                exact, _ = landmark_matrix(fitted.kernels, fitted.names, group.source)
                rows = sample_rows(len(exact))
                check_matrix(exact[np.ix_(rows, rows)], fitted.names[f])
        elif psd == "check":
            some = sample_rows(fitted.n_train)
            check_matrix(final_matrix(fitted, f, some), fitted.names[f])
        else:
            whole = final_matrix(fitted, f, np.arange(fitted.n_train))
            clip = fitted.clips[f] = clip_matrix(whole, copies)
            if clip is not None:
                fitted.scalings[f].diagonal = np.square(clip.features).sum(axis=1)


def sample_rows(n: int) -> Values:
    """Return all rows if there are few, otherwise 256 drawn with a fixed seed."""
    if n <= SAMPLE_ROWS:
        return np.arange(n)
    drawn = np.random.default_rng(0).choice(n, SAMPLE_ROWS, replace=False)
    return np.sort(drawn)


def check_matrix(matrix: Values, name: str) -> None:
    """Raise if a principal submatrix has a negative eigenvalue.

    By interlacing, the whole matrix then has one at least as negative.
    """
    if _clearly_positive(matrix):
        return
    values = eigvalsh(matrix.astype(np.float64))
    if values[0] < -TOLERANCE * np.abs(values).max():
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
    largest = max(float(matrix.sum(axis=1).mean()), float(np.diagonal(matrix).max()))
    shifted = matrix.astype(np.float64)
    shifted[np.diag_indices_from(shifted)] += TOLERANCE * largest
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return False
    return True


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
