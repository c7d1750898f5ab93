"""From raw kernel values to final ones: centering, normalization, clipping.

The constants come from the training rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import eigh, eigvalsh
from scipy.linalg.lapack import dpotrf, spotrf

from manykernels.base.arrays import Selection, Values
from manykernels.base.stored import FLAG, Floats, Maybe, Part, Real, storable
from manykernels.kernels.approximate import (
    SINGULAR_RTOL,
    MappedGroup,
    Whitening,
    landmark_matrix,
)
from manykernels.kernels.base import VALUE_RTOL, Kernel, inverse_roots, require_range
from manykernels.kernels.matrices import gather
from manykernels.kernels.pairwise import (
    KERNEL_BLOCK_BYTES,
    make_symmetric,
    row_blocks,
)

if TYPE_CHECKING:
    from manykernels.kernels.kernel_set import Group, KernelSet

Psd: TypeAlias = Literal["check", "clip", "skip"]

# Of the largest k(x, x): a smaller value is only rounding of the centering.
CENTERED_RTOL = 1e-10
PSD_SAMPLE_ROWS = 256  # of a principal submatrix: eigenvalues in some milliseconds
FACTORIZE = {np.float32: spotrf, np.float64: dpotrf}


class RowScaling(NamedTuple):
    """What the rows of one side of a block bring to its scaling.

    Attributes
    ----------
    means : array of shape (n,) or None
        Mean of k(x, .) over the training rows.
    norms : array of shape (n,) or None
        1 / sqrt of the centered k(x, x), times the factors.
    factors : array of shape (n,) or None
        Of rows of views, zero where a row lacks the view.
    clipped : array of shape (n, rank) or None
        Coordinates in the space of a clipped kernel, whose products are its values.
    """

    means: Values | None = None
    norms: Values | None = None
    factors: Values | None = None
    clipped: Values | None = None

    def take(self, index: Selection) -> RowScaling:
        """Return the constants of some rows."""
        return RowScaling(*(None if v is None else v[index] for v in self))

    @classmethod
    def concatenate(cls, parts: Sequence[RowScaling]) -> RowScaling:
        """Join the constants of consecutive rows."""
        columns: Any = zip(*parts, strict=True)
        return cls(*(None if v[0] is None else np.concatenate(v) for v in columns))


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


@storable(
    diagonal=Floats("rows"),
    factor=Real(),
    norms=Maybe(Floats("rows", low=0.0)),
    means=Maybe(Floats("rows")),
    total=Real(),
    noise=Real(low=0.0),
    direction=Maybe(Floats(None)),
    shares=Maybe(Floats(None, low=0.0)),
    unit=FLAG,
    clip=Maybe(Part(Clip)),
)
@dataclass
class Scaling:
    r"""From k to :math:`\hat k`: subtract means, divide by norms, clip.

    Attributes
    ----------
    diagonal : array of shape (n,)
        Final values of reference rows with themselves, float64.
    factor : float
        Multiplies every value ("trace", or a constant diagonal).
    norms : array of shape (n,) or None
        1 / sqrt of the centered k(x_j, x_j) ("diagonal"), times the rows' factors.
    means : array of shape (n,) or None
        Mean of k(x_j, .) over all training rows.
    total : float
        Mean of ``means`` over all training rows.
    noise : float
        Centered k(x, x) up to this size count as zero.
    direction : array of shape (d,) or None
        Mean feature vector, where the kernel has explicit features.
    shares : array of shape (n_train,) or None
        Of the training rows in means, where new rows need their values with all.
    unit : bool
        Whether every row is divided by its norm ("diagonal").
    clip : Clip or None
        Projection of a kernel that was made positive semi-definite.
    """

    diagonal: Values
    factor: float = 1.0
    norms: Values | None = None
    means: Values | None = None
    total: float = 0.0
    noise: float = 0.0
    direction: Values | None = None
    shares: Values | None = None
    unit: bool = False
    clip: Clip | None = None

    @property
    def is_factor(self) -> bool:
        """Whether values are multiplied by the factor and nothing else."""
        return self.means is None and self.norms is None and self.clip is None

    def of_rows(self, ids: Selection) -> RowScaling:
        """Return the constants of some reference rows."""
        return RowScaling(
            means=None if self.means is None else self.means[ids],
            norms=None if self.norms is None else self.norms[ids],
            clipped=None if self.clip is None else self.clip.features[ids],
        )

    def centered(self, diagonal: Values, means: Values | None) -> Values:
        """k(x, x) - 2 mu(x) + mean of mu."""
        return diagonal if means is None else diagonal - 2.0 * means + self.total

    def finish(self, block: Values, left: RowScaling, right: RowScaling) -> Values:
        """Return final values from raw ones, which are overwritten.

        A kernel is clipped where the rows of both sides have their coordinates.
        """
        if left.clipped is not None and right.clipped is not None:
            return left.clipped @ right.clipped.T
        # k(x, y) - mu(x) - mu(y) + mean of mu, and then times the inverse norms.
        if left.means is not None and right.means is not None:
            block -= left.means.astype(block.dtype)[:, None]
            block -= (right.means - self.total).astype(block.dtype)[None, :]
        if left.norms is not None:
            block *= left.norms.astype(block.dtype, copy=False)[:, None]
        if right.norms is not None:
            block *= right.norms.astype(block.dtype, copy=False)
        if self.factor != 1.0:
            block *= self.factor
        return block

    def final_diagonal(self, diagonal: Values, rows: RowScaling) -> Values:
        """Return final values of rows with themselves from raw ones."""
        if rows.clipped is not None:
            return np.asarray(np.square(rows.clipped).sum(axis=1))
        final = self.centered(diagonal, rows.means)
        # Divided by itself, a value is 1, or 0 if it vanishes.
        if self.unit:
            final = (final > self.noise).astype(np.float64)
        final = final * self.factor
        return final if rows.factors is None else final * np.square(rows.factors)

    def take(self, index: Values) -> Scaling:
        """Keep the constants of the reference rows `index`."""
        means = None if self.means is None else self.means[index]
        norms = None if self.norms is None else self.norms[index]
        return replace(self, diagonal=self.diagonal[index], norms=norms, means=means)

    def extend(self, rows: RowScaling, diagonal: Values) -> Scaling:
        """Append the constants of new reference rows."""
        norms, new_norms, means = self.norms, rows.norms, self.means
        if rows.factors is not None and norms is None:  # the first rows without a view
            norms = np.ones(len(self.diagonal))
        elif norms is not None and new_norms is None:
            new_norms = np.ones(len(diagonal))
        if norms is not None and new_norms is not None:
            norms = np.concatenate([norms, new_norms])
        if means is not None and rows.means is not None:
            means = np.concatenate([means, rows.means])
        diagonal = np.concatenate([self.diagonal, diagonal])
        return replace(self, diagonal=diagonal, norms=norms, means=means)

    def normalize(self, kernel: Kernel, name: str, shares: Values) -> None:
        """Complete the training constants from k(x, x) and the row means."""
        diagonal = self.diagonal
        if kernel.normalize == "diagonal" and float(diagonal.min()) < 0:
            raise ValueError(
                f"kernel {name!r} needs k(x, x) >= 0 for normalize='diagonal', got "
                f"{float(diagonal.min()):.4g}; use normalize='trace' or another kernel."
            )
        centered = diagonal
        if self.means is not None:
            self.total = float(shares @ self.means)
            self.noise = CENTERED_RTOL * float(diagonal.max())
            centered = self.centered(diagonal, self.means)
        # A kernel that vanishes on all rows would divide by zero below.
        if not (centered > self.noise).any():
            centering = " after centering" if kernel.center else ""
            raise ValueError(
                f"kernel {name!r} must have k(x, x) > 0 on some training row, got "
                f"none{centering}; leave it out or change its columns."
            )
        # Features of an approximate kernel come with unit length where they can.
        unit = kernel.unit_diagonal or kernel.approximate is not None
        if kernel.normalize == "trace":
            self.factor = _inverse_mean(name, centered, shares)
        elif kernel.normalize == "diagonal" and kernel.family == "given":
            self.factor = _inverse_constant(name, centered)
        elif kernel.normalize == "diagonal" and (self.means is not None or not unit):
            self.norms, self.unit = inverse_roots(centered, self.noise), True
            centered = self.norms > 0
        self.diagonal = np.asarray(centered * self.factor, dtype=np.float64)


def fit_scalings(
    fitted: KernelSet, group: Group, copies: Values, factors: Values | None
) -> None:
    """Fit the training constants of a group's kernels.

    Parameters
    ----------
    fitted : KernelSet
        Gets the constants.
    group : FeatureGroup, GivenGroup or MappedGroup
    copies : array of shape (n,)
        How many copies of each training row count: none of rows without the view.
    factors : array of shape (n,) or None
        Multiply each row.
    """
    shares = np.asarray(copies / copies.sum())
    means: dict[int, Values] = {}
    everything: Any = group.rows
    for f in group.members:
        kernel, name = fitted.kernels[f], fitted.names[f]
        with np.errstate(over="ignore"):
            diagonal = group.diagonal(fitted, f, everything)
        require_range(diagonal, name, fitted.dtype, kernel.family)
        fitted.scalings[f] = scaling = Scaling(diagonal)
        if kernel.center and kernel.has_features:
            # Means of values are values with the mean feature vector.
            phi = group.features(kernel, everything)
            scaling.direction = np.asarray(phi.T @ shares, dtype=np.float64)
            scaling.means = np.asarray(phi @ scaling.direction)
        elif kernel.center:
            # One product serves all the centered kernels of a group.
            means = means or _implicit_means(fitted, group, shares)
            scaling.means, scaling.shares = means[f], shares
        scaling.normalize(kernel, name, shares)
        # Factors of rows come last: they are no part of normalization.
        if factors is not None:
            norms = scaling.norms
            scaling.norms = factors if norms is None else norms * factors
            scaling.diagonal = scaling.diagonal * np.square(factors)


def _implicit_means(
    fitted: KernelSet, group: Group, shares: Values
) -> dict[int, Values]:
    """Return mean values with the training rows, of kernels without features."""
    everything: Any = group.rows
    centered = [f for f in group.members if fitted.kernels[f].center]
    members = [f for f in centered if not fitted.kernels[f].has_features]
    means = {f: np.empty(len(shares)) for f in members}
    for part in row_blocks(len(shares), len(shares), 8, KERNEL_BLOCK_BYTES):
        rows = group.reference(part)
        for f, block in group.blocks(fitted, rows, everything, members):
            means[f][part] = block @ shares
    return means


def _inverse_mean(name: str, centered: Values, shares: Values) -> float:
    mean = float(shares @ centered)
    if mean <= 0:
        raise ValueError(
            f"kernel {name!r} needs a positive mean of k(x, x) for normalize='trace', "
            f"got {mean:.4g}; use normalize=None or another kernel."
        )
    return 1.0 / mean


def _inverse_constant(name: str, centered: Values) -> float:
    low, high = float(centered.min()), float(centered.max())
    # Far above rounding in float32, and far below what a real diagonal varies by.
    if high - low > 1e-4 * high:
        raise ValueError(
            f"kernel {name!r} can have normalize='diagonal' only with a constant "
            f"training diagonal because k(x, x) of new rows is not given, got values "
            f"from {low:.4g} to {high:.4g}; use normalize='trace' or normalize the "
            f"matrices yourself."
        )
    return 1.0 / float(centered.mean())


# --- positive semi-definite -----------------------------------------------------


def make_psd(fitted: KernelSet, psd: Psd, copies: Values) -> None:
    """Check or clip the kernels of a set whose formula does not promise it.

    Parameters
    ----------
    fitted : KernelSet
    psd : {"check", "clip", "skip"}
    copies : array of shape (n_train,)
        How many copies each training row stands for.
    """
    if psd == "skip":
        return
    doubtful = [f for f, kernel in enumerate(fitted.kernels) if kernel.check_psd]
    if psd == "check":
        for f, matrix in _samples(fitted, doubtful):
            tolerance = max(VALUE_RTOL, fitted.group_of(f).rounding)
            check_matrix(matrix, fitted.names[f], tolerance)
        return
    for f in doubtful:
        # Products of features are positive semi-definite already.
        if not isinstance(fitted.group_of(f), MappedGroup):
            whole = _final_matrix(fitted, f, np.arange(fitted.n_train))
            clip = fitted.scalings[f].clip = clip_matrix(whole, copies)
            if clip is not None:
                fitted.scalings[f].diagonal = np.square(clip.features).sum(axis=1)


def _samples(fitted: KernelSet, kernels: list[int]) -> Iterator[tuple[int, Values]]:
    """Yield matrices of some rows, up to a positive factor."""
    rows = sample_rows(fitted.n_train)
    given = fitted.stack_as_given()
    if given is not None:  # the values of all kernels for a pair lie side by side
        values = gather(given[0], rows, rows)
        yield from ((f, values[:, f]) for f in kernels)
        return
    for f in kernels:
        group = fitted.group_of(f)
        if not isinstance(group, MappedGroup):
            yield f, _final_matrix(fitted, f, rows)
        elif isinstance(group.map, Whitening):  # of a kernel that may be indefinite
            exact, _ = landmark_matrix(fitted, group.source)
            some = sample_rows(len(exact))
            yield f, exact[np.ix_(some, some)]


def _final_matrix(fitted: KernelSet, f: int, ids: Values) -> Values:
    """Return the symmetric matrix of one kernel on some training rows, float64."""
    group, scaling = fitted.group_of(f), fitted.scalings[f]
    rows, sides = group.reference(ids), scaling.of_rows(ids)
    ((_, block),) = group.blocks(fitted, rows, rows, [f])
    block = scaling.finish(block, sides, sides).astype(np.float64)
    make_symmetric(block, scaling.diagonal[ids])
    return block


def sample_rows(n: int) -> Values:
    """Return all rows if there are few, otherwise 256 drawn with a fixed seed."""
    if n <= PSD_SAMPLE_ROWS:
        return np.arange(n)
    drawn = np.random.default_rng(0).choice(n, PSD_SAMPLE_ROWS, replace=False)
    return np.sort(drawn)


def check_matrix(matrix: Values, name: str, tolerance: float = VALUE_RTOL) -> None:
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
    """Return whether a Cholesky factor exists, at a tenth of the cost of eigenvalues.

    The shift is at most the tolerance times the largest eigenvalue, which is at least
    the mean of the row sums and the largest diagonal entry.
    """
    largest = max(float(matrix.sum()) / len(matrix), float(np.diagonal(matrix).max()))
    # In single precision first, if the values are: rounding is below the tolerance.
    dtypes = [np.float32, np.float64] if matrix.dtype == np.float32 else [np.float64]
    for dtype in dtypes:
        shifted = np.array(matrix, dtype, order="C").T  # symmetric: columns are rows
        np.einsum("ii->i", shifted)[:] += VALUE_RTOL * largest  # a view of the diagonal
        options = {"lower": True, "clean": False, "overwrite_a": True}
        _, failure = FACTORIZE[dtype](shifted, **options)
        if failure == 0:
            return True
    return False


def clip_matrix(matrix: Values, copies: Values) -> Clip | None:
    """Return the projection for an indefinite matrix, None if there is no need."""
    # The matrix of all the copies has the same eigenvalues, apart from zeros.
    roots = np.sqrt(copies)
    values, vectors = eigh(matrix.astype(np.float64) * np.outer(roots, roots))
    limit = VALUE_RTOL * float(np.abs(values).max())
    if values[0] >= -limit:
        return None
    # Directions with rounding-size eigenvalues only amplify noise in `whiten`.
    kept = values > SINGULAR_RTOL * values[-1]
    whiten = roots[:, None] * vectors[:, kept] / np.sqrt(values[kept])
    return Clip(whiten, matrix @ whiten)
