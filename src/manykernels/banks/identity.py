"""How much of a kernel matrix is the identity: copies of rows, smallest eigenvalues."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cholesky, eigvalsh, eigvalsh_tridiagonal
from scipy.sparse.csgraph import connected_components

from manykernels.banks.base import Bank
from manykernels.base.arrays import Array, Index, Values

EXACT_ROWS = 600  # up to which all eigenvalues are computed
LANCZOS_STEPS = 40  # beyond them
# Of the mean diagonal: a smaller eigenvalue counts as zero, as it takes too many steps
# to find, and a kernel of which less is left would be mostly rounding.
NEGLIGIBLE_SHARE = 1e-2
SAFETY = 8.0  # times the precision and the largest eigenvalue: taken off a lower bound
COPY_RTOL = 1e-6  # relative difference of what rounding makes of the same sums
COPY_NEIGHBORS = (1, 2, 3)  # in order of these sums: another row may lie between copies

Product = Callable[[Array], Array]  # K_f v_f of every f: (kernels, rows) in and out


def copies_of_rows(bank: Bank) -> sp.csr_array:
    """E with E(i, j) = 1 where i and j are the same to all kernels, else 0.

    Copies of a row have the same values with all rows: two random sums of these tell
    them apart.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> rows = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0]])
    >>> copies_of_rows(GramBank((rows @ rows.T)[:, None, :])).toarray()
    array([[1., 0., 1.],
           [0., 1., 0.],
           [1., 0., 1.]])
    """
    n_rows = bank.n_rows
    coef = np.random.default_rng(0).normal(size=(n_rows, 2))
    marks = bank.scores(coef, np.ones(bank.n_blocks))
    order = np.argsort(marks[:, 0], kind="stable")
    tolerance = COPY_RTOL * float(np.abs(marks).max())
    neighbors = sp.coo_array((n_rows, n_rows))
    for step in COPY_NEIGHBORS:
        left, right = order[:-step], order[step:]
        pairs = np.abs(marks[left] - marks[right]).max(axis=1) <= tolerance
        entries = (np.ones(pairs.sum()), (left[pairs], right[pairs]))
        neighbors = neighbors + sp.coo_array(entries, shape=(n_rows, n_rows))
    _, kind = connected_components(neighbors, directed=False)
    members = sp.csr_array((np.ones(n_rows), (np.arange(n_rows), kind)))
    copies = (members @ members.T).tocsr()
    copies.sort_indices()
    return copies


def identity_parts(bank: Bank, distinct: Array) -> Array:
    r"""The largest :math:`\lambda_f` that leaves K_f - lambda_f I without negative
    eigenvalues, or a little less; shape (blocks,).

    Smallest eigenvalues, exactly for few rows and by Lanczos' method for many. Its
    values come from above, and for the end of a spectrum the error falls at least as 1
    / steps^2: what the second half of the steps gained is three times what may be left,
    and is taken off.

    Parameters
    ----------
    bank : Bank
    distinct : bool array of shape (rows, blocks)
        Rows to look at, for every kernel: others are zero, or copies.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> bank = GramBank(np.stack([np.eye(2) + 1.0, np.ones((2, 2))], axis=1))
    >>> identity_parts(bank, np.ones((2, 2), dtype=bool)).round(6).tolist()
    [1.0, 0.0]
    """
    scale = _means(bank.diagonals(), distinct)
    if bank.n_rows <= EXACT_ROWS:
        return np.array(
            [
                _smallest(
                    _matrix(bank, f, np.flatnonzero(own)), NEGLIGIBLE_SHARE * scale[f]
                )
                for f, own in enumerate(distinct.T)
            ]
        )
    found = np.zeros(bank.n_blocks)
    left = _promising(bank, distinct, scale)
    if bank.n_rows > bank.max_combined_rows:  # values are computed in every step
        found[left] = _lanczos(_together(bank, left), distinct[:, left].T, bank.dtype)
        left = []
    for f in left:  # held one after the other
        values = bank.combine(_only(bank, f), np.arange(bank.n_rows))
        found[f] = _lanczos(_held(values), distinct[:, [f]].T, bank.dtype)[0]
    return np.where(found > NEGLIGIBLE_SHARE * scale, found, 0.0)


def _means(diagonals: Array, chosen: Array) -> Array:
    return np.asarray((diagonals * chosen).sum(axis=0) / np.maximum(chosen.sum(0), 1))


def _promising(bank: Bank, distinct: Array, scale: Array) -> list[int]:
    """Kernels that some rows do not show to be singular: more rows have less."""
    rng, left = np.random.default_rng(0), []
    for f, own in enumerate(distinct.T):
        rows = np.sort(rng.permutation(np.flatnonzero(own))[:EXACT_ROWS])
        if _is_definite(_matrix(bank, f, rows), NEGLIGIBLE_SHARE * scale[f]):
            left.append(f)
    return left


def _smallest(matrix: Array, least: float) -> float:
    """The smallest eigenvalue less its rounding, or zero if it is below `least`."""
    if not _is_definite(matrix, least):  # much faster, and most kernels end here
        return 0.0
    values = eigvalsh(matrix, check_finite=False)
    eps = float(np.finfo(np.float64).eps)
    return float(values[0] - SAFETY * len(matrix) * eps * values[-1])


def _is_definite(matrix: Array, least: float) -> bool:
    """Whether all eigenvalues are above `least`."""
    try:
        cholesky(matrix - least * np.eye(len(matrix)), check_finite=False)
    except LinAlgError:
        return False
    return True


def _matrix(bank: Bank, f: int, rows: Index) -> Array:
    return np.asarray(bank.combine(_only(bank, f), rows)[:, rows], np.float64)


def _only(bank: Bank, f: int) -> Array:
    weights = np.zeros(bank.n_blocks)
    weights[f] = 1.0
    return weights


def _held(values: Values) -> Product:
    """Products with a kernel that is held in memory."""
    return lambda vectors: (values @ vectors[0].astype(values.dtype))[None]


def _together(bank: Bank, chosen: list[int]) -> Product:
    """Products of some kernels at once: their values are computed side by side."""

    def product(vectors: Array) -> Array:
        coefs = np.zeros((bank.n_blocks, 1, bank.n_rows))
        coefs[chosen, 0] = vectors
        return np.asarray(bank.block_products(coefs)[chosen, 0])

    return product


def _lanczos(product: Product, among: Array, dtype: np.dtype) -> Array:
    """Lower bounds of the smallest eigenvalues, on the rows `among` of every kernel."""
    rng = np.random.default_rng(0)
    now = np.where(among, rng.normal(size=among.shape), 0.0)
    now /= np.linalg.norm(now, axis=1, keepdims=True)
    before, size = np.zeros_like(now), np.zeros((len(now), 1))
    diagonal, beside = [], []
    for _ in range(min(LANCZOS_STEPS, int(among.sum(axis=1).min()))):
        next_one = np.where(among, product(now), 0.0) - size * before
        diagonal.append(np.einsum("fi,fi->f", now, next_one))
        next_one -= diagonal[-1][:, None] * now
        size = np.linalg.norm(next_one, axis=1, keepdims=True)
        beside.append(size[:, 0])
        before, now = now, next_one / np.maximum(size, np.finfo(float).tiny)
    eps = SAFETY * float(np.finfo(dtype).eps)
    ends = zip(np.transpose(diagonal), np.transpose(beside), strict=True)
    return np.array([_bound(a, b, eps) for a, b in ends])


def _bound(diagonal: Array, beside: Array, eps: float) -> float:
    """From the tridiagonal matrices after half of the steps and after all of them."""
    half = len(diagonal) // 2
    values = eigvalsh_tridiagonal(diagonal, beside[:-1])
    earlier = eigvalsh_tridiagonal(diagonal[:half], beside[: half - 1])
    return float(2.0 * values[0] - earlier[0] - eps * values[-1])
