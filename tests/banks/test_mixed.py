"""Blocks of two banks."""

import numpy as np
import pytest

from manykernels.banks import build_bank
from manykernels.banks.composed import ExchangedBank
from manykernels.kernels import RBF, KernelSet, Linear
from tests.banks.check_bank import check_bank


@pytest.mark.parametrize("storage", ["gram:float64", "on_demand:float64"])
def test_equals_its_dense_twin(storage: str) -> None:
    X = np.random.default_rng(0).normal(size=(30, 4))
    kernels = KernelSet.fit([RBF(), Linear(), RBF(columns=[0])], X, dtype=np.float64)
    order = np.random.default_rng(1).permutation(30)
    stack = kernels.stack()
    stack[1] = stack[1][np.ix_(order, order)]
    bank = build_bank(kernels, storage)
    chosen = np.array([False, True, False])
    mixed = ExchangedBank(bank, bank.take(order), chosen)
    check_bank(mixed, np.moveaxis(stack, 0, 1), 1e-9, np.arange(0, 30, 2))
