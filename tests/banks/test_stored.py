"""Banks that read stored rows: files, and half precision in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manykernels.banks import (
    GramBank,
    Storage,
    StoredBank,
    build_bank,
    gram_bank,
    gramfile,
)
from manykernels.banks import base as bank_base
from manykernels.banks.base import block_norms, without_noise
from manykernels.base import machine
from manykernels.kernels import RBF, Constant, Kernel, Linear
from manykernels.kernels.kernel_set import KernelSet
from manykernels.solvers import Auto
from tests.banks.check_bank import check_bank
from tests.oracles.toys import make_problem

N = 41
X = np.random.default_rng(5).normal(size=(N, 6))
KERNELS: list[Kernel] = [Linear(), RBF(0.3), RBF(0.5, columns=[0, 3]), Constant()]
SUBSET = np.array([4, 0, 40, 7, 9, 33])
SINGLE, DOUBLE = 3e-6, 1e-12
UNIT = 2.0**-11  # relative rounding of half precision

each_storage = pytest.mark.parametrize("storage", ["gram", "memmap"])


def values_of(bank: StoredBank) -> np.ndarray:
    return np.asarray(bank.store[np.arange(bank.n_rows)], dtype=np.float64)


def bank_of(
    kind: str, dtype: str = "float64", memory_limit: int | str | None = None
) -> StoredBank:
    storage = Storage(kind, dtype)
    kernels = KernelSet.fit(KERNELS, X, dtype=storage.working_dtype)
    bank = build_bank(kernels, storage, memory_limit)
    assert isinstance(bank, StoredBank)
    return bank


@each_storage
def test_half_precision_equals_its_rounded_twin(storage: str) -> None:
    bank = bank_of(storage, "float16")
    assert bank.dtype == np.float32
    assert bank.store.dtype == np.float16
    check_bank(bank, values_of(bank), SINGLE, SUBSET)


@each_storage
def test_half_precision_rounds_every_value_by_one_part_in_2048(storage: str) -> None:
    exact = KernelSet.fit(KERNELS, X, dtype=np.float64).stack().transpose(1, 0, 2)
    got = values_of(bank_of(storage, "float16"))
    assert np.all(np.abs(got - exact) <= UNIT * np.abs(exact) + 1e-7)
    np.testing.assert_array_equal(got, got.transpose(2, 1, 0))


@pytest.mark.parametrize("room", [0, 10**9])
@pytest.mark.parametrize(
    ("dtype", "rtol"), [(np.float32, SINGLE), (np.float64, DOUBLE)]
)
def test_a_read_only_memory_map_is_a_store(
    dtype: type, rtol: float, room: int, tmp_path: Path
) -> None:
    stack = KernelSet.fit(KERNELS, X, dtype=np.float64).stack().transpose(1, 0, 2)
    np.save(tmp_path / "stack.npy", stack.astype(dtype))
    mapped = np.load(tmp_path / "stack.npy", mmap_mode="r")
    bank = StoredBank(mapped, np.einsum("ifi->if", stack), bytes_free=room)
    assert bank.dtype == dtype
    check_bank(bank, stack, rtol, SUBSET)
    target = np.arange(N) % 3
    assert Auto(tol=1e-2, random_state=0).solve(make_problem(bank, target)).converged


@each_storage
@pytest.mark.parametrize("room", [0, 10**9])
def test_subsets_of_subsets(storage: str, room: int) -> None:
    bank = bank_of(storage, "float16")
    bank.bytes_free = room
    part = bank.take(SUBSET)
    assert isinstance(part, GramBank if room else StoredBank)
    twin = values_of(bank)[SUBSET][:, :, SUBSET]
    check_bank(part, twin, SINGLE, np.array([5, 1, 2]))


@each_storage
def test_rows_in_small_pieces_and_threads(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank_base, "ROW_BLOCK_BYTES", 1)
    monkeypatch.setattr(gram_bank, "CONVERTED_BYTES", 1)
    monkeypatch.setattr(machine, "WORTHWHILE_BYTES", 0)
    monkeypatch.setattr(machine, "available_threads", lambda: 3)
    bank = bank_of(storage, "float16")
    check_bank(bank, values_of(bank), SINGLE, SUBSET)


@pytest.mark.parametrize("size", [7, 20, 41])
def test_many_bands(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bank_of("memmap")
    monkeypatch.setattr(gramfile, "BAND_ROWS", size)
    for storage, dtype in (
        ("memmap", "float64"),
        ("gram", "float16"),
        ("memmap", "float16"),
    ):
        bank = bank_of(storage, dtype)
        got = values_of(bank)
        np.testing.assert_array_equal(got, got.transpose(2, 1, 0))
        atol = UNIT if dtype == "float16" else 1e-14
        np.testing.assert_allclose(got, values_of(whole), atol=atol)
        check_bank(bank, got, SINGLE, SUBSET)


# --- the range of half precision ----------------------------------------------


@each_storage
@pytest.mark.parametrize("factor", [1e3, 1e-3])
def test_kernels_out_of_range_are_refused(storage: str, factor: float) -> None:
    kernels = KernelSet.fit([Linear(normalize=None, name="raw")], factor * X)
    message = r"largest k\(x, x\) between 0.001 and 60000, got .* for 'raw'; normalize"
    with pytest.raises(ValueError, match=message):
        build_bank(kernels, f"{storage}:float16")


@each_storage
def test_values_out_of_range_off_the_diagonal_are_refused(storage: str) -> None:
    indefinite = np.array([[1.0, 1e6], [1e6, 1.0]])
    kernels = KernelSet.fit(_precomputed(), indefinite, psd="skip")
    with pytest.raises(ValueError, match="float16 holds values up to 6.55e.04, got la"):
        build_bank(kernels, f"{storage}:float16")


def _precomputed() -> list[Kernel]:
    from manykernels.kernels import Precomputed

    return [Precomputed(normalize=None)]


@pytest.mark.parametrize("storage", ["features", "sparse", "on_demand"])
def test_half_precision_needs_something_stored(storage: str) -> None:
    kernels = KernelSet.fit(KERNELS, X)
    with pytest.raises(ValueError, match=f"got storage='{storage}', which stores none"):
        build_bank(kernels, f"{storage}:float16")


# --- squared norms ------------------------------------------------------------


@pytest.mark.parametrize("room", [0, 10**9])
def test_rounding_does_not_look_like_an_indefinite_kernel(room: int) -> None:
    """Coefficients that a linear kernel of two columns cannot see."""
    points = np.random.default_rng(0).normal(size=(300, 2))
    kernels = KernelSet.fit([Linear(), Linear(normalize=None)], points)
    bank = build_bank(kernels, "gram:float16")
    assert isinstance(bank, StoredBank)
    bank.bytes_free = room
    features = [block.astype(np.float64) for block in kernels.features() or []]
    seen = np.linalg.qr(np.hstack(features))[0]
    rng = np.random.default_rng(1)
    negative = 0
    for part in (bank, bank.take(np.arange(300))):
        for _ in range(10):
            coef = rng.normal(size=(300, 2))
            coef -= seen @ (seen.T @ coef)
            raw = np.einsum("ik,ifj,jk->f", coef, bank.rows(np.arange(300)), coef)
            negative += np.sum(raw < 0.0)
            assert np.all(block_norms(part, coef) >= 0.0)
    assert negative > 0  # so the test has met what it is about


def test_only_small_negative_squares_are_noise() -> None:
    coef = np.ones((2, 1))
    squares = np.array([-1.0, -0.001, 0.0, 1e-9, 3.0])
    np.testing.assert_array_equal(
        without_noise(squares, coef, 1e-3), [-1.0, 0.0, 0.0, 1e-9, 3.0]
    )
    np.testing.assert_array_equal(without_noise(squares, coef, 0.0), squares)
