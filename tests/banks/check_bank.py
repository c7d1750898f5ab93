"""One check for every bank: it equals its dense twin."""

from __future__ import annotations

import numpy as np

from manykernels.banks import Bank


def check_bank(
    bank: Bank, stack: np.ndarray, rtol: float, subset: np.ndarray | None = None
) -> None:
    """Compare everything that a solver may ask of a bank with a float64 stack.

    Parameters
    ----------
    bank : Bank
    stack : array of shape (rows, blocks, rows)
        The dense twin.
    rtol : float
        Relative to the largest value of each answer.
    subset : array of int, optional
        Rows on which to check the bank's `take` in the same way.
    """
    n_rows, n_blocks, _ = stack.shape
    assert (bank.n_rows, bank.n_blocks) == (n_rows, n_blocks)
    assert len(bank.names) == n_blocks
    assert bank.nbytes > 0
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.0, 2.0, n_blocks)
    weights[rng.integers(n_blocks)] *= n_blocks == 1  # one block is switched off
    rows = rng.permutation(n_rows)[: max(1, n_rows // 2)]

    _same(bank.diagonals(), np.einsum("ifi->if", stack), rtol)
    _same(bank.rows(rows), stack[rows], rtol)
    combined = np.einsum("f,ifj->ij", weights, stack)
    _same(bank.combine(weights, rows), combined[rows], rtol)
    columns = rng.permutation(n_rows)[: max(1, n_rows // 3)]
    between = bank.combine_between(weights, rows, columns)
    _same(between, combined[np.ix_(rows, columns)], rtol)
    assert between.dtype == bank.dtype
    for sparse in (False, True):
        coef = rng.normal(size=(n_rows, 3))
        if sparse:
            coef[rng.permutation(n_rows)[1:]] = 0.0
        _check_products(bank, stack, coef, weights, rtol)
    _check_products(bank, stack, np.zeros((n_rows, 2)), weights, rtol)
    assert bank.rows(rows).dtype == bank.dtype
    assert bank.combine(weights, rows).dtype == bank.dtype
    for brief in () if subset is None else (False, True):
        part = bank.take(subset, brief)
        assert list(part.names) == list(bank.names)
        assert part.dtype == bank.dtype
        check_bank(part, stack[subset][:, :, subset], rtol)


def _check_products(
    bank: Bank, stack: np.ndarray, coef: np.ndarray, weights: np.ndarray, rtol: float
) -> None:
    scores = bank.scores(coef, weights)
    _same(scores, np.einsum("f,ifj,jk->ik", weights, stack, coef), rtol)
    some = np.arange(len(coef))[::-2]
    _same(bank.scores_at(some, coef, weights), scores[some], rtol)
    square_norms = bank.square_norms(coef)
    _same(square_norms, np.einsum("ik,ifj,jk->f", coef, stack, coef), rtol)
    assert scores.dtype == square_norms.dtype == np.float64
    block_scores = bank.block_scores(coef)
    _same(block_scores, np.einsum("ifj,jk->kfi", stack, coef), rtol)
    assert block_scores.dtype == bank.dtype


def _same(got: np.ndarray, expected: np.ndarray, rtol: float) -> None:
    assert got.shape == expected.shape
    scale = np.max(np.abs(expected), initial=0.0)
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=rtol * scale + 1e-300)
