"""Identity parts of kernels, and the bank that moves them into one nugget."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.banks import Bank, build_bank
from manykernels.banks import identity as smallest
from manykernels.banks.identity import copies_of_rows, identity_parts
from manykernels.banks.shared_nugget import shared_nugget
from manykernels.kernels import RBF, BSpline, Linear
from manykernels.kernels.kernel_set import KernelSet
from tests.banks.check_bank import check_bank
from tests.banks.toy_bank import ToyBank

COPIES = [3, 7, 40]  # the same row thrice
STORAGES = ["gram", "on_demand", "memmap", "features", "sparse"]


def kernel_set(n_rows: int = 50, dtype=np.float64, storage: str = "gram") -> KernelSet:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 80))
    X[COPIES] = X[COPIES[0]]
    few, many = [0, 1], list(range(2, 80))
    kind = {"features": Linear, "sparse": BSpline}.get(storage, RBF)
    kernels = [kind(columns=few), kind(columns=many)]
    return KernelSet.fit(kernels, X, dtype=dtype)


def by_hand(stack: np.ndarray, copies: list[int] = COPIES) -> np.ndarray:
    """K_f - lambda_f E with the mean diagonal as before, and E; kernels in the middle.

    `stack` has the kernels first.
    """
    one = np.setdiff1d(np.arange(stack.shape[1]), copies[1:])
    same = np.eye(stack.shape[1])
    same[np.ix_(copies, copies)] = 1.0
    out = []
    for matrix in stack:
        part = np.linalg.eigvalsh(matrix[np.ix_(one, one)])[0]
        part = part if part > 1e-3 else 0.0
        mean = np.diag(matrix).mean()
        out.append((matrix - part * same) * mean / (mean - part))
    return np.stack([*out, same], axis=1)


@pytest.mark.parametrize("storage", STORAGES)
def test_equals_its_dense_twin(storage: str) -> None:
    kernels = kernel_set(storage=storage)
    bank = shared_nugget(build_bank(kernels, f"{storage}:float64"), np.ones(50))
    twin = by_hand(kernels.stack())
    check_bank(bank, twin, 1e-9, np.arange(0, 50, 2))
    coefs = np.random.default_rng(1).normal(size=(3, 2, 50))
    expected = np.einsum("ifj,fkj->fki", twin, coefs)
    np.testing.assert_allclose(bank.block_products(coefs), expected, atol=1e-8)
    weights, rows = np.array([0.2, 0.5, 0.3]), np.array([3, 40, 8])
    bank.scores(coefs[0].T, weights)  # what it leaves behind must stay as it is
    for _ in range(2):
        got = bank.combine_precisely(weights, rows)
        expected = np.einsum("f,ifj->ij", weights, twin)[rows]
        np.testing.assert_allclose(got, expected, atol=1e-9)


@pytest.mark.parametrize("storage", ["gram:float32", "gram:float16"])
def test_lower_precision(storage: str) -> None:
    kernels = kernel_set(dtype=np.float32)
    bank = shared_nugget(build_bank(kernels, storage), np.ones(50))
    check_bank(bank, by_hand(kernels.stack()), 4e-3 if "16" in storage else 1e-5)


def test_a_bank_of_forty_lines_has_one() -> None:
    stack = kernel_set().stack()
    bank = shared_nugget(ToyBank(list(stack)), np.ones(50))
    check_bank(bank, by_hand(stack), 1e-9)


def test_a_kernel_without_an_identity_part_stays() -> None:
    kernels = kernel_set()
    bank = shared_nugget(build_bank(kernels), np.ones(50))
    assert bank.nugget.parts[0] == 0.0 < bank.nugget.parts[1]
    np.testing.assert_allclose(
        bank.rows(np.arange(50))[:, 0], kernels.stack()[0], atol=1e-12
    )


def test_an_identity_is_not_blown_up() -> None:
    """What is left of a kernel that is the identity, up to rounding, is rounding."""
    noisy = np.eye(30) + 1e-9 * np.ones((30, 30))
    bank = shared_nugget(ToyBank([noisy]), np.ones(30))
    assert np.abs(bank.rows(np.arange(30))[:, 0]).max() < 1e-6


def test_rows_that_a_kernel_does_not_see_do_not_count() -> None:
    seen = np.arange(40) % 4 != 0
    own = np.zeros((40, 40))
    own[np.ix_(seen, seen)] = 0.5 + 0.5 * np.eye(30)
    bank = shared_nugget(ToyBank([own, np.ones((40, 40))]), np.ones(40))
    np.testing.assert_allclose(bank.nugget.parts, [0.5, 0.0], atol=1e-9)
    left = bank.rows(np.arange(40))[:, 0]
    np.testing.assert_allclose(left[np.ix_(seen, seen)], 1.0, atol=1e-7)
    assert not left[~seen].any()


def test_weights_of_rows_count_in_the_mean() -> None:
    """As copies would: the scale is the same for one row thrice and of weight 3."""
    lengths = np.array([1.0, 2.0, 3.0])
    matrix = np.diag(lengths) + 1.0
    weighted = shared_nugget(ToyBank([matrix]), np.array([1.0, 1.0, 3.0]))
    copied = [0, 1, 2, 2, 2]
    repeated = ToyBank([matrix[np.ix_(copied, copied)]])
    found = shared_nugget(repeated, np.ones(5))
    np.testing.assert_allclose(found.nugget.parts, weighted.nugget.parts)
    np.testing.assert_allclose(found.nugget.scales, weighted.nugget.scales)
    np.testing.assert_allclose(
        found.rows(np.arange(5)), weighted.rows(np.array(copied))[:, :, copied]
    )


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("columns", [12, 60, 400])
def test_many_rows(columns: int, held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanczos' method stays below the smallest eigenvalue, and near it."""
    X = np.random.default_rng(columns).normal(size=(500, columns))
    X[1] = X[0] + 1e-3  # nearly a copy, far from it in `apart`
    apart = np.delete(X, 1, axis=0)
    monkeypatch.setattr(smallest, "EXACT_ROWS", 100)
    for rows in (X, apart):
        kernels = KernelSet.fit([RBF(), Linear()], rows, dtype=np.float32)
        bank: Bank = build_bank(kernels, "gram" if held else "on_demand")
        if not held:
            bank.max_combined_rows = 100
        found = identity_parts(bank, np.ones((len(rows), 2), dtype=bool))
        true = np.linalg.eigvalsh(kernels.stack().astype(np.float64))[:, 0]
        assert np.all(found <= np.maximum(true, 0.0))
        assert np.all(found >= true - np.maximum(0.1 * true, 0.02))


def test_finds_copies_whatever_lies_between(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = kernel_set(dtype=np.float32)
    for storage in ("gram", "on_demand"):
        same = copies_of_rows(build_bank(kernels, storage)).toarray()
        expected = np.eye(50)
        expected[np.ix_(COPIES, COPIES)] = 1.0
        np.testing.assert_array_equal(same, expected)
