"""Banks on a device equal their dense twins, on every device that is there."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.banks import Storage, build_bank
from manykernels.banks.row_kernels import on_rows
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from tests.banks.check_bank import check_bank
from tests.device.devices import every_device

CURVES = "rbf:gamma=0.2; linear; polynomial:degree=5@0-2; rbf@1-3; cosine; linear@0-2"
OTHERS = "laplacian; rbf:gamma=0.5,center=true; rbf; constant"


def table(n_rows: int = 37) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n_rows, 5)).astype(np.float32)


def twin(kernels: KernelSet) -> np.ndarray:
    return np.moveaxis(kernels.astype(np.float64).stack(), 0, 1)


@pytest.fixture(params=every_device())
def device(request):
    return request.param()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("text", [CURVES, OTHERS])
@pytest.mark.parametrize("kind", ["auto", "gram", "on_demand"])
def test_equals_its_dense_twin(device, text, kind, dtype):
    kernels = KernelSet.fit(as_kernels(text), table(), dtype=dtype)
    bank = build_bank(kernels, Storage(kind, dtype), device=device)
    rtol = 2e-6 if dtype == "float32" else 1e-12
    check_bank(bank, twin(kernels), rtol, subset=np.array([3, 30, 7, 11, 0]))


def test_curves_are_computed_from_rows_and_others_by_the_processor():
    assert on_rows(KernelSet.fit(as_kernels(CURVES), table()))
    assert not on_rows(KernelSet.fit(as_kernels(OTHERS), table()))


def test_features_are_never_multiplied_out_for_products(device):
    kernels = KernelSet.fit(as_kernels("linear; linear@0-1"), table())
    bank = build_bank(kernels, "features", device=device)
    check_bank(bank, twin(kernels), 2e-6, subset=np.array([3, 30, 7]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_given_matrices_keep_their_precision(device, dtype):
    if dtype == np.float16 and device.name == "strict":
        pytest.skip("the standard knows no float16")
    kernels = KernelSet.fit(as_kernels("rbf; linear"), table())
    stack = np.moveaxis(kernels.stack(), 0, -1).astype(dtype)
    given = KernelSet.fit(as_kernels("precomputed"), stack)
    bank = build_bank(given, device=device)
    there = bank.on_device().matrices[0]
    assert device.numpy_dtype(there) == dtype
    check_bank(bank, twin(given), 2e-6, subset=np.array([3, 30, 7]))


def test_half_precision_is_stored_as_such(device):
    if device.name == "strict":
        pytest.skip("the standard knows no float16")
    kernels = KernelSet.fit(as_kernels(CURVES), table())
    bank = build_bank(kernels, "gram:float16", device=device)
    assert device.numpy_dtype(bank.on_device().matrices[0]) == np.float16
    check_bank(bank, twin(kernels), 1e-3)


def test_storage_of_the_processor_is_refused(device):
    kernels = KernelSet.fit(as_kernels("rbf"), table())
    with pytest.raises(ValueError, match="storage='memmap' keeps kernel values with"):
        build_bank(kernels, "memmap", device=device)


def test_a_limit_that_is_too_small_says_what_is_needed(device):
    kernels = KernelSet.fit(as_kernels("rbf"), table())
    with pytest.raises(MemoryError, match="raise memory_limit, or use"):
        build_bank(kernels, "gram", "1MB", device=device)
