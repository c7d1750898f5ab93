"""What a solver may ask of a bank."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from manykernels.base.arrays import Array, Index, Values


class Bank(Protocol):
    """Symmetric kernels K_f on the same rows, known through products only.

    `coef` has one row per training row and one column per output. Results that a
    certificate rests on (scores, square_norms) are float64 whatever the storage.
    """

    names: list[str]
    n_rows: int
    n_blocks: int
    dtype: np.dtype[Any]
    nbytes: int
    max_combined_rows: int  # rows whose combined kernel a solver may hold

    def diagonals(self) -> Array:
        """K_f(i, i), shape (rows, blocks)."""

    def rows(self, index: Index) -> Values:
        """K_f(i, j) for i in index, all f and j: shape (len(index), blocks, rows)."""

    def combine(self, weights: Array, rows: Index) -> Values:
        """sum_f weights_f K_f(i, j) for i in rows and all j."""

    def scores(self, coef: Array, weights: Array) -> Array:
        """sum_f weights_f K_f coef, shape (rows, outputs)."""

    def block_scores(self, coef: Array) -> Values:
        """K_f coef for every f, shape (outputs, blocks, rows)."""

    def square_norms(self, coef: Array) -> Array:
        """||theta_f||^2 = trace(coef' K_f coef), shape (blocks,)."""

    def subset(self, index: Index) -> Bank:
        """The same kernels on a subset of the rows."""


# Negative squares up to this share of the largest are rounding.
ROUNDING = 1e-4


def block_norms(bank: Bank, coef: Array) -> Array:
    """||theta_f|| of every block; a clearly negative square unmasks the kernel."""
    squares = bank.square_norms(coef)
    worst = int(np.argmin(squares))
    largest = np.max(np.abs(squares), initial=0.0)
    if squares[worst] < -ROUNDING * largest and not _is_noise(bank, coef, squares):
        raise ValueError(
            f"kernel {bank.names[worst]!r} must be positive semi-definite, got a "
            f"squared norm of {squares[worst]:.3g} while solving; pass psd='clip' to "
            "set its negative eigenvalues to zero."
        )
    return np.sqrt(np.maximum(squares, 0.0))


def _is_noise(bank: Bank, coef: Array, squares: Array) -> bool:
    """Whether rounded kernel values explain the negative squares.

    Coefficients that cancel leave a square far below the terms it is the sum of, and
    each term, at most ||coef_i|| ||coef_j|| sqrt(K_ii K_jj), is rounded.
    """
    lengths = np.linalg.norm(coef, axis=1)
    roots = np.sqrt(np.maximum(bank.diagonals(), 0.0))
    terms = np.square(lengths @ roots)
    return bool(np.all(squares >= -np.finfo(bank.dtype).eps * terms))


def support_of(coef: Array) -> Index:
    """Rows with a coefficient that is not zero."""
    return np.flatnonzero(np.any(coef != 0.0, axis=1))
