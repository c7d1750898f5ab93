"""From kernels to banks, for every storage."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.banks import (
    BlockBank,
    GramBank,
    OnDemandBank,
    StoredBank,
    build,
    build_bank,
)
from manykernels.banks import base as bank_base
from manykernels.kernels import RBF, BSpline, Constant, Cosine, Kernel, Linear
from manykernels.kernels.kernel_set import KernelSet
from tests.banks.check_bank import check_bank

X = np.random.default_rng(5).normal(size=(19, 6))
SUBSET = np.array([4, 0, 18, 7, 9])
EXPLICIT: list[Kernel] = [Linear(), Cosine(columns=[0, 1, 2]), Constant()]
COMPACT: list[Kernel] = [BSpline(), BSpline(columns=[1, 2])]
ANY: list[Kernel] = [Linear(), RBF(0.3), RBF(0.5, columns=[0, 3])]


def twin(kernels: KernelSet) -> np.ndarray:
    return np.asarray(kernels.stack(), dtype=np.float64).transpose(1, 0, 2)


@pytest.mark.parametrize(
    ("kernels", "storage", "kind"),
    [
        (ANY, "auto", GramBank),
        (ANY, "gram", GramBank),
        (EXPLICIT, "auto", GramBank),
        (EXPLICIT, "features", BlockBank),
        (EXPLICIT, "gram", GramBank),
        (COMPACT, "auto", BlockBank),
        (COMPACT, "sparse", BlockBank),
        (COMPACT, "gram", GramBank),
        (ANY, "memmap", StoredBank),
        (EXPLICIT, "memmap", StoredBank),
        (COMPACT, "memmap", StoredBank),
        (ANY, "on_demand", OnDemandBank),
        (EXPLICIT, "on_demand", OnDemandBank),
    ],
)
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 3e-6), (np.float64, 1e-12)])
def test_every_storage_holds_the_same_values(
    kernels: list[Kernel], storage: str, kind: type, dtype: type, rtol: float
) -> None:
    fitted = KernelSet.fit(kernels, X, dtype=dtype)
    bank = build_bank(fitted, storage)
    assert isinstance(bank, kind)
    assert bank.dtype == dtype
    assert list(bank.names) == fitted.names
    check_bank(bank, twin(KernelSet.fit(kernels, X, dtype=np.float64)), rtol, SUBSET)


def test_values_that_do_not_fit_are_refused_before_they_are_computed() -> None:
    fitted = KernelSet.fit(ANY, X)
    with pytest.raises(MemoryError, match="storing 3 kernels of 19 x 19 values needs"):
        build_bank(fitted, "gram", memory_limit="1KB")


def test_auto_computes_on_demand_where_values_do_not_fit() -> None:
    fitted = KernelSet.fit(ANY, X)
    limit = build.gram_bytes(fitted) - 1
    assert limit >= build.on_demand_bytes(fitted)
    bank = build_bank(fitted, memory_limit=limit)
    assert isinstance(bank, OnDemandBank)
    assert isinstance(bank.take(np.arange(2)), GramBank)
    assert isinstance(bank.take(np.arange(18)), OnDemandBank)
    with pytest.raises(MemoryError, match="3 kernels of 19 rows on demand needs"):
        build_bank(fitted, memory_limit="1KB")


def test_on_demand_rows_in_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bank_base, "ROW_BLOCK_BYTES", 1)
    kernels = KernelSet.fit(ANY, X, dtype=np.float64)
    check_bank(OnDemandBank(kernels), twin(kernels), 1e-12, SUBSET)


def test_unknown_storage_is_refused() -> None:
    with pytest.raises(ValueError, match="storage must be one of auto, gram.*'disk'"):
        build_bank(KernelSet.fit(ANY, X), "disk")


def test_features_need_explicit_kernels() -> None:
    with pytest.raises(ValueError, match="needs linear.*use storage='gram'"):
        build_bank(KernelSet.fit(ANY, X), "features")
