"""Every bank against its dense twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from manykernels.banks import (
    BlockBank,
    FeatureBlock,
    GramBank,
    SparseGramBlock,
    build_bank,
)
from manykernels.banks.base import block_norms
from manykernels.banks.composed import ExchangedBank
from manykernels.base import machine
from manykernels.kernels import RBF, Linear
from manykernels.kernels.kernel_set import KernelSet
from manykernels.solvers import Auto
from tests.banks.check_bank import check_bank
from tests.oracles.toys import make_problem

N = 23
SUBSET = np.array([17, 2, 3, 11, 0, 22, 5])
DOUBLE, SINGLE = 1e-12, 2e-6

rng = np.random.default_rng(0)
DENSE = rng.normal(size=(N, 4))
WIDE = rng.normal(size=(N, 40))
CSR = sp.random_array((N, 12), density=0.3, rng=1, format="csr")
BAND = sp.csr_array(np.eye(N) + 0.4 * np.eye(N, k=2) + 0.4 * np.eye(N, k=-2))
GRAMS = [DENSE @ DENSE.T, WIDE @ WIDE.T, (CSR @ CSR.T).toarray(), BAND.toarray()]
STACK = np.stack(GRAMS, axis=1)


def blocks(dtype: type) -> dict[str, list]:
    dense = [FeatureBlock(DENSE.astype(dtype)), FeatureBlock(WIDE.astype(dtype))]
    csr = FeatureBlock(CSR.astype(dtype))
    band = SparseGramBlock(BAND.astype(dtype))
    return {"dense": dense, "csr": [csr], "band": [band], "mixed": [*dense, csr, band]}


PARTS = {"dense": [0, 1], "csr": [2], "band": [3], "mixed": [0, 1, 2, 3]}
each_dtype = pytest.mark.parametrize(
    ("dtype", "rtol"), [(np.float64, DOUBLE), (np.float32, SINGLE)]
)


@each_dtype
def test_gram_bank(dtype: type, rtol: float) -> None:
    bank = GramBank(STACK.astype(dtype))
    assert bank.nbytes == STACK.size * np.dtype(dtype).itemsize
    check_bank(bank, STACK, rtol, SUBSET)


@each_dtype
@pytest.mark.parametrize("kind", list(PARTS))
def test_block_bank(kind: str, dtype: type, rtol: float) -> None:
    bank = BlockBank(blocks(dtype)[kind], dtype=dtype)
    check_bank(bank, STACK[:, PARTS[kind]], rtol, SUBSET)


@each_dtype
def test_gram_bank_in_threads(
    dtype: type, rtol: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "WORTHWHILE_BYTES", 0)
    monkeypatch.setattr(machine, "available_threads", lambda: 3)
    check_bank(GramBank(STACK.astype(dtype)), STACK, rtol, SUBSET)


@pytest.mark.parametrize("most", [5 * N, 1 << 22])
def test_rows_that_scores_combined_are_combined_once(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manykernels.banks.base.FLOAT64_VALUES", most)
    bank, weights = GramBank(STACK), np.arange(1.0, 5.0)
    coef = np.zeros((N, 2))
    coef[SUBSET] = rng.normal(size=(len(SUBSET), 2))
    rows, matrix = np.sort(SUBSET), np.einsum("f,ifj->ij", weights, STACK)
    np.testing.assert_allclose(bank.scores(coef, weights), matrix @ coef, rtol=1e-10)
    weights[0] = 7.0  # somebody else's from now on
    found = bank.combine_precisely(np.arange(1.0, 5.0), rows)
    np.testing.assert_allclose(found, matrix[rows], rtol=1e-12)
    once = most > 5 * N
    assert (found is bank.combine_precisely(np.arange(1.0, 5.0), rows)) == once
    other = np.einsum("f,ifj->ij", weights, STACK)[rows]
    np.testing.assert_allclose(bank.combine_precisely(weights, rows), other)


def test_one_row_and_one_block() -> None:
    check_bank(GramBank(np.full((1, 1, 1), 2.0)), np.full((1, 1, 1), 2.0), DOUBLE)
    check_bank(BlockBank([FeatureBlock(np.ones((1, 1)))]), np.ones((1, 1, 1)), DOUBLE)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_read_only_memory_map_is_a_stack(tmp_path: Path, dtype: type) -> None:
    path = tmp_path / "stack.npy"
    np.save(path, STACK.astype(dtype))
    mapped = np.load(path, mmap_mode="r")
    bank = GramBank(mapped)
    assert np.shares_memory(bank.stack, mapped)
    check_bank(bank, STACK, SINGLE, SUBSET)
    result = Auto(tol=1e-2, random_state=0).solve(make_problem(bank, np.arange(N) % 3))
    assert result.converged


def test_matrices_one_after_the_other_are_not_copied() -> None:
    matrices = np.stack(GRAMS)
    bank = GramBank(matrices.transpose(1, 0, 2))
    assert np.shares_memory(bank.values, matrices)
    check_bank(bank, STACK, DOUBLE, SUBSET)


def test_a_strided_stack_is_made_contiguous() -> None:
    strided = np.repeat(STACK, 2, axis=1)[:, ::2]
    assert not strided.flags.c_contiguous
    bank = GramBank(strided)
    assert bank.stack.flags.c_contiguous
    check_bank(bank, STACK, DOUBLE, SUBSET)


@each_dtype
@pytest.mark.parametrize("given", [np.float32, np.float64])
@pytest.mark.parametrize("kernels_last", [True, False])
@pytest.mark.parametrize("scaled", [True, False])
def test_stacks_as_they_were_given(
    dtype: type, rtol: float, given: type, kernels_last: bool, scaled: bool
) -> None:
    factors = (
        np.arange(1.0, 1.0 + STACK.shape[1]) if scaled else np.ones(STACK.shape[1])
    )
    stack = STACK.transpose(0, 2, 1) if kernels_last else STACK.transpose(1, 0, 2)
    stack = np.ascontiguousarray(stack, given)
    stack = stack if kernels_last else stack.transpose(1, 2, 0)
    middle = stack.transpose(0, 2, 1)
    bank = GramBank(middle, list(map(str, factors)), dtype=dtype, factors=factors)
    expected = STACK * factors[:, None]
    check_bank(
        bank, expected, max(rtol, SINGLE if given == np.float32 else 0.0), SUBSET
    )
    assert np.shares_memory(bank.values, stack)
    np.testing.assert_allclose(bank.stored_rows(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 3), (3, 2, 4), (2, 3, 3)])
def test_wrong_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"has shape \(rows, blocks, rows\), got"):
        GramBank(np.zeros(shape))


def test_blocks_of_different_rows_are_refused() -> None:
    different = [FeatureBlock(np.ones((3, 1))), FeatureBlock(np.ones((4, 1)))]
    with pytest.raises(ValueError, match=r"same rows, got \[3, 4\] rows"):
        BlockBank(different)


@pytest.mark.parametrize("storage", ["gram", "on_demand"])
def test_rounding_of_cancelling_coefficients_is_no_indefinite_kernel(
    storage: str,
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 1)).astype(np.float32)
    bank = build_bank(KernelSet.fit([Linear()], X), storage)
    # Unit diagonal leaves the signs of x only: any two rows of one sign are the same.
    coef = rng.normal(size=(800, 2))
    for sign in (X[:, 0] > 0.0, X[:, 0] <= 0.0):
        coef[sign] -= coef[sign].mean(axis=0)
    assert block_norms(bank, coef)[0] < 1e-2 * np.abs(coef).sum()


@pytest.mark.parametrize("storage", ["gram:float64", "on_demand:float64"])
def test_exchanged_kernels(storage: str) -> None:
    X = np.random.default_rng(0).normal(size=(30, 4))
    kernels = KernelSet.fit([RBF(), Linear(), RBF(columns=[0])], X, dtype=np.float64)
    order = np.random.default_rng(1).permutation(30)
    stack = kernels.stack()
    stack[1] = stack[1][np.ix_(order, order)]
    bank = build_bank(kernels, storage)
    chosen = np.array([False, True, False])
    exchanged = ExchangedBank(bank, bank.take(order), chosen)
    check_bank(exchanged, np.moveaxis(stack, 0, 1), 1e-9, np.arange(0, 30, 2))
