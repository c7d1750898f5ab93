"""How much of a kernel matrix is the identity: copies of rows, smallest eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cholesky, eigvalsh, eigvalsh_tridiagonal
from scipy.sparse.csgraph import connected_components

from manykernels.banks.base import Bank
from manykernels.base.arrays import Array, Values

EXACT_ROWS = 600  # up to which all eigenvalues are computed
LANCZOS_STEPS = 40  # beyond them
# Of the mean diagonal: a smaller eigenvalue counts as zero, as it takes too many steps
# to find, and a kernel of which less remains would be mostly rounding.
NEGLIGIBLE_SHARE = 1e-2
SAFETY = 8.0  # times the precision and the largest eigenvalue: taken off a lower bound
COPY_RTOL = 1e-6  # relative difference of what rounding makes of equal sums
COPY_NEIGHBORS = (1, 2, 3)  # in order of these sums: another row may lie between copies


def copies_of_rows(bank: Bank) -> sp.csr_array:
    """E with E(i, j) = 1 where i and j are the same to all kernels, else 0.

    Copies of a row have the same values with all rows: two random sums of these
    differ between other rows.

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
    sums = bank.scores(coef, np.ones(bank.n_blocks))
    order = np.argsort(sums[:, 0], kind="stable")
    tolerance = COPY_RTOL * float(np.abs(sums).max())
    equal = sp.coo_array((n_rows, n_rows))
    for step in COPY_NEIGHBORS:
        first, second = order[:-step], order[step:]
        pairs = np.abs(sums[first] - sums[second]).max(axis=1) <= tolerance
        entries = (np.ones(pairs.sum()), (first[pairs], second[pairs]))
        equal = equal + sp.coo_array(entries, shape=(n_rows, n_rows))
    _, group = connected_components(equal, directed=False)
    members = sp.csr_array((np.ones(n_rows), (np.arange(n_rows), group)))
    copies = (members @ members.T).tocsr()
    copies.sort_indices()
    return copies


def identity_parts(bank: Bank, distinct: Array) -> Array:
    r"""The largest :math:`\lambda_f` that leaves K_f - lambda_f I without negative
    eigenvalues, or a little less; shape (blocks,).

    Smallest eigenvalues, exactly for few rows and by Lanczos' method for many.

    Parameters
    ----------
    bank : Bank
    distinct : bool array of shape (rows, blocks)
        Rows that count, for every kernel: others are zero, or copies.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> bank = GramBank(np.stack([np.eye(2) + 1.0, np.ones((2, 2))], axis=1))
    >>> identity_parts(bank, np.ones((2, 2), dtype=bool)).round(6).tolist()
    [1.0, 0.0]
    """
    counts = np.maximum(distinct.sum(axis=0), 1)
    least = NEGLIGIBLE_SHARE * (bank.diagonals() * distinct).sum(axis=0) / counts
    parts, blocks = np.zeros(bank.n_blocks), np.eye(bank.n_blocks)
    rng, candidates = np.random.default_rng(0), []
    for f, counted in enumerate(distinct.T):
        rows = np.flatnonzero(counted)
        is_sample = bank.n_rows > EXACT_ROWS
        if is_sample:
            rows = np.sort(rng.permutation(rows)[:EXACT_ROWS])
        values = bank.combine_between(blocks[f], rows, rows).astype(np.float64)
        if not _is_definite(values, least[f]):  # fast, and most kernels end here
            continue
        if is_sample:  # more rows have smaller eigenvalues
            candidates.append(f)
        else:
            eigenvalues = eigvalsh(values, check_finite=False)
            rounding = SAFETY * len(values) * float(np.finfo(np.float64).eps)
            parts[f] = eigenvalues[0] - rounding * eigenvalues[-1]
    if bank.n_rows > bank.max_combined_rows:  # values are computed in every step
        product = partial(_block_products, bank, candidates)
        parts[candidates] = _lanczos(product, distinct[:, candidates].T, bank.dtype)
        candidates = []
    for f in candidates:  # each is in memory for its turn only
        product = partial(_product, bank.combine(blocks[f], np.arange(bank.n_rows)))
        parts[f] = _lanczos(product, distinct[:, [f]].T, bank.dtype)[0]
    return np.where(parts > least, parts, 0.0)


def _is_definite(matrix: Array, least: float) -> bool:
    """Whether all eigenvalues are above `least`."""
    try:
        cholesky(matrix - least * np.eye(len(matrix)), check_finite=False)
    except LinAlgError:
        return False
    return True


def _product(values: Values, vectors: Array) -> Array:
    return np.asarray(values @ vectors[0].astype(values.dtype))[None]


def _block_products(bank: Bank, blocks: list[int], vectors: Array) -> Array:
    """K_f v_f of some kernels at once: their values are computed side by side."""
    coefs = np.zeros((bank.n_blocks, 1, bank.n_rows))
    coefs[blocks, 0] = vectors
    return np.asarray(bank.block_products(coefs)[blocks, 0])


def _lanczos(
    product: Callable[[Array], Array], counted: Array, dtype: np.dtype[Any]
) -> Array:
    """Lower bounds of the smallest eigenvalues, on the rows `counted` of every kernel.

    `product` is K_f v_f of every kernel: (kernels, rows) in and out.
    """
    rng = np.random.default_rng(0)
    now = np.where(counted, rng.normal(size=counted.shape), 0.0)
    now /= np.linalg.norm(now, axis=1, keepdims=True)
    before, size = np.zeros_like(now), np.zeros((len(now), 1))
    diagonal, beside = [], []
    for _ in range(min(LANCZOS_STEPS, int(counted.sum(axis=1).min()))):
        after = np.where(counted, product(now), 0.0) - size * before
        diagonal.append(np.einsum("fi,fi->f", now, after))
        after -= diagonal[-1][:, None] * now
        size = np.linalg.norm(after, axis=1, keepdims=True)
        beside.append(size[:, 0])
        before, now = now, after / np.maximum(size, np.finfo(float).tiny)
    safety = SAFETY * float(np.finfo(dtype).eps)
    ends = zip(np.transpose(diagonal), np.transpose(beside), strict=True)
    return np.array([_lower_bound(a, b, safety) for a, b in ends])


def _lower_bound(diagonal: Array, beside: Array, safety: float) -> float:
    """From the tridiagonal matrices after half of the steps and after all of them.

    Lanczos' values come from above, and for the end of a spectrum the error falls at
    least as 1 / steps^2: the gain of the second half of the steps is three times the
    error that may remain, and is taken off.
    """
    half = len(diagonal) // 2
    values = eigvalsh_tridiagonal(diagonal, beside[:-1])
    earlier = eigvalsh_tridiagonal(diagonal[:half], beside[: half - 1])
    return float(2.0 * values[0] - earlier[0] - safety * values[-1])
