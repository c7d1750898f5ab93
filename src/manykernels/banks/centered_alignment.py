"""Centered alignment: how alike kernels are to each other and to a target."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from manykernels.banks.base import ROW_BLOCK_BYTES, Bank
from manykernels.base.arrays import Array, Index


def alignments(bank: Bank) -> Array:
    r"""<K_f, K_g> / (|K_f| |K_g|) of the centered kernels, shape (blocks, blocks).

    Centered means :math:`H K H` with :math:`H = I - 1 1^\top / N`: the kernel of the
    features less their mean. Kernels that are constant have alignment zero.

    References
    ----------
    Cortes, Mohri and Rostamizadeh (2012), Algorithms for learning kernels based on
    centered alignment.

    Examples
    --------
    >>> from manykernels.banks import GramBank
    >>> same, other = np.diag([1.0, 1.0, 0.0]), np.diag([0.0, 0.0, 1.0])
    >>> bank = GramBank(np.stack([same, 2 * same, other], axis=1))
    >>> alignments(bank).round(2)
    array([[1.  , 1.  , 0.32],
           [1.  , 1.  , 0.32],
           [0.32, 0.32, 1.  ]])
    """
    products = centered_products(bank, _equal_shares(bank))
    lengths = np.sqrt(np.diag(products))
    return ratio(products, np.outer(lengths, lengths))


def target_alignments(bank: Bank, target: Array) -> Array:
    """Centered alignment of every kernel with target target', shape (blocks,).

    `target` has shape (rows, outputs): numbers, or a column of zeros and ones per
    class.
    """
    share = _equal_shares(bank)
    centered = target - share @ target
    lengths = np.sqrt(np.diag(centered_products(bank, share)))
    length = float(np.linalg.norm(centered.T @ centered)) / bank.n_rows
    return ratio(bank.square_norms(share[:, None] * centered), lengths * length)


def ratio(values: Array, scale: Array) -> Array:
    """values / scale, and zero where the scale is zero."""
    safe = np.where(scale > 0.0, scale, 1.0)
    return np.asarray(np.where(scale > 0.0, values / safe, 0.0))


def centered_products(bank: Bank, share: Array) -> Array:
    """sum_ij share_i share_j K_f(i, j) K_g(i, j) for kernels less their means.

    Means count rows by their shares, too, which sum to one.
    """
    # H K H = K less the means of rows and columns plus the mean of all: two passes over
    # the rows, one for the means and one for the products.
    means = np.concatenate([rows @ share for _, rows in _blocks(bank)])
    total = share @ means  # (blocks,)
    products = np.zeros((bank.n_blocks, bank.n_blocks))
    roots = np.sqrt(share)
    for index, rows in _blocks(bank):
        rows -= means[index][:, :, None]
        rows -= (means - total).T[None]
        rows *= roots[index][:, None, None] * roots
        flat = np.moveaxis(rows, 1, 0).reshape(bank.n_blocks, -1)
        products += flat @ flat.T
    return products


def _equal_shares(bank: Bank) -> Array:
    return np.full(bank.n_rows, 1.0 / bank.n_rows)


def _blocks(bank: Bank) -> Iterator[tuple[Index, Array]]:
    """Some rows of all kernels at a time, in float64."""
    step = max(1, ROW_BLOCK_BYTES // (8 * bank.n_blocks * bank.n_rows))
    for start in range(0, bank.n_rows, step):
        index = np.arange(start, min(start + step, bank.n_rows))
        yield index, np.array(bank.rows(index), dtype=np.float64)
