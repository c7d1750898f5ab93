"""Feature blocks: working sets as Gram stacks, products in parts and in threads."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from manykernels.banks import (
    BlockBank,
    FeatureBlock,
    GramBank,
    SparseGramBlock,
    blocks,
    build,
    build_bank,
)
from manykernels.base import machine
from manykernels.base.machine import stack_bytes
from manykernels.kernels import RBF, Kernel, Laplacian, Linear
from manykernels.kernels.kernel_set import KernelSet
from tests.banks.check_bank import check_bank

N = 21
SUBSET = np.array([4, 0, 20, 7, 9])
rng = np.random.default_rng(0)
PHI = [rng.normal(size=(N, 5)), rng.normal(size=(N, 30))]
STACK = np.stack([phi @ phi.T for phi in PHI], axis=1)
APPROXIMATE: list[Kernel] = [
    RBF(0.3, approximate="nystroem", rank=6),
    Laplacian(0.3, approximate="random_features", rank=8),
    Linear(),
]


def bank_of(dtype: type = np.float64, **options: int) -> BlockBank:
    parts = [FeatureBlock(phi.astype(dtype)) for phi in PHI]
    return BlockBank(parts, dtype=dtype, **options)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 3e-6)])
def test_a_subset_becomes_a_stack_where_there_is_room(dtype: type, rtol: float) -> None:
    needed = stack_bytes(len(SUBSET), 2, np.dtype(dtype).itemsize)
    for room, kind in ((needed, GramBank), (needed - 1, BlockBank)):
        bank = bank_of(dtype, bytes_free=room, max_combined_rows=7)
        assert isinstance(bank.take(SUBSET), kind)
        assert bank.max_combined_rows == 7
        check_bank(bank, STACK, rtol, SUBSET)
    assert bank_of().max_combined_rows == N


def test_products_in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "FLOAT64_VALUES", 1)
    check_bank(bank_of(), STACK, 1e-12, SUBSET)


def test_products_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "WORTHWHILE_BYTES", 0)
    monkeypatch.setattr(machine, "available_threads", lambda: 3)
    check_bank(bank_of(np.float32), STACK, 3e-6, SUBSET)
    csr = sp.csr_array(np.where(PHI[0] > 0.0, PHI[0], 0.0))
    band = sp.csr_array(np.eye(N))
    mixed = BlockBank([FeatureBlock(csr), SparseGramBlock(band)])
    check_bank(
        mixed, np.stack([(csr @ csr.T).toarray(), band.toarray()], axis=1), 1e-12
    )


def test_squared_norms_of_features_are_never_negative() -> None:
    phi = np.ones((N, 1), np.float32) + 1e-4 * rng.normal(size=(N, 1))
    coef = rng.normal(size=(N, 2))
    coef -= phi @ np.linalg.lstsq(phi, coef, rcond=None)[0]  # the model is zero
    assert 0.0 <= BlockBank([FeatureBlock(phi)]).square_norms(coef)[0] < 1e-20


@pytest.mark.parametrize("storage", ["auto", "gram", "features", "on_demand"])
def test_every_storage_of_approximate_kernels(storage: str) -> None:
    X = rng.normal(size=(N, 4))
    exact = KernelSet.fit(APPROXIMATE, X, dtype=np.float64, random_state=0)
    stack = exact.stack().transpose(1, 0, 2)
    check_bank(build_bank(exact, storage), stack, 1e-12, SUBSET)
    single = KernelSet.fit(APPROXIMATE, X, random_state=0)
    check_bank(build_bank(single, storage), stack, 3e-6, SUBSET)


def test_auto_takes_features_instead_of_a_large_stack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = rng.normal(size=(N, 4))
    few = KernelSet.fit(APPROXIMATE, X, random_state=0)
    assert sum(few.n_feature_columns()) < N
    many = KernelSet.fit([*APPROXIMATE, *APPROXIMATE], X, random_state=0)
    mixed = KernelSet.fit([*APPROXIMATE, RBF()], X, random_state=0)
    assert isinstance(build_bank(few), GramBank)
    monkeypatch.setattr(build, "LARGE_BYTES", build.gram_bytes(few) - 1)
    assert isinstance(build_bank(few), BlockBank)
    assert isinstance(build_bank(many), GramBank)
    assert isinstance(build_bank(mixed), GramBank)


def test_memory_bounds_the_working_sets_of_features() -> None:
    kernels = KernelSet.fit([Linear()], rng.normal(size=(5000, 2)))
    held = 5000 * 2 * 4
    tight = build_bank(kernels, "features", memory_limit=held + 4 * 4 * 2500**2)
    assert isinstance(tight, BlockBank)
    assert (tight.max_combined_rows, tight.bytes_free) == (2500, 2 * 4 * 2500**2)
    assert build_bank(kernels, "features", memory_limit=held).max_combined_rows == 2000
