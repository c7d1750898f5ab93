"""Values that are stored once they have been asked for often."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import manykernels as mk
from manykernels.banks import GramBank, build, build_bank, ondemand
from manykernels.banks.ondemand import DeferredBank
from manykernels.kernels import RBF, ChiSquared, Kernel, Polynomial
from manykernels.kernels.kernel_set import KernelSet
from tests.banks.check_bank import check_bank

rng = np.random.default_rng(3)
X = rng.uniform(size=(60, 6))
y = (X[:, 0] + X[:, 3] > 1.0).astype(int)
CHEAP: list[Kernel] = [RBF(0.3), Polynomial(2), RBF(5.0, columns=[0, 3])]
SOME = np.arange(0, 60, 3)
ONES = np.ones(3)


class Store:
    """Stores, and counts how often it was asked to."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, kernels: KernelSet) -> GramBank:
        self.calls += 1
        return GramBank(np.moveaxis(kernels.stack(), 0, 1), kernels.names)


def new_bank(dtype: type = np.float64) -> tuple[DeferredBank, Store]:
    store = Store()
    return DeferredBank(KernelSet.fit(CHEAP, X, dtype=dtype), store), store


@pytest.mark.parametrize("stored", [False, True])
def test_answers_are_those_of_the_stack(stored: bool) -> None:
    bank, store = new_bank()
    stack = store(bank.computing.kernels).stack
    if stored:
        assert bank.stored_rows() is not None
    check_bank(bank, stack, 1e-12, SOME)


def test_few_values_are_not_stored_and_many_are_once() -> None:
    bank, store = new_bank()
    for _ in range(5):  # a fifth of all pairs each
        bank.combine(ONES, np.arange(12))
    assert store.calls == 0 and bank.computes_anew
    for _ in range(10):
        bank.combine(ONES, np.arange(12))
    assert store.calls == 1 and not bank.computes_anew


def test_whoever_asks_for_all_of_them_has_them_stored() -> None:
    bank, store = new_bank()
    bank.combine(ONES, np.arange(60))
    assert store.calls == 1
    assert bank.share_computed == 0.0


@pytest.mark.parametrize(
    ("kernels", "dtype", "options", "kind"),
    [
        (CHEAP, np.float32, {}, DeferredBank),
        (CHEAP, np.float32, {"storage": "gram"}, GramBank),
        (CHEAP, np.float32, {"defer": False}, GramBank),
        (CHEAP, np.float64, {}, GramBank),  # not computed in one pass
        ([ChiSquared()], np.float32, {}, GramBank),
    ],
)
def test_large_cheap_stacks_wait(
    monkeypatch: pytest.MonkeyPatch,
    kernels: list[Kernel],
    dtype: type,
    options: dict[str, object],
    kind: type,
) -> None:
    fitted = KernelSet.fit(kernels, X, dtype=dtype)
    assert isinstance(build_bank(fitted), GramBank)  # a small one
    monkeypatch.setattr(build, "LARGE_BYTES", 0)
    assert type(build_bank(fitted, **options)) is kind


@pytest.mark.parametrize("patience", [0.0, 0.3, np.inf])
@pytest.mark.parametrize(("loss", "p"), [("hinge", 1.1), ("hinge", 1.0), ("log", 1.1)])
def test_fits_do_not_depend_on_it(
    monkeypatch: pytest.MonkeyPatch, patience: float, loss: str, p: float
) -> None:
    def fit(storage: str) -> mk.MKLClassifier:
        model = mk.MKLClassifier(CHEAP, p=p, C=10, loss=loss, tol=1e-3, random_state=0)
        return model.set_params(storage=storage).fit(X, y)

    monkeypatch.setattr(build, "LARGE_BYTES", 0)
    monkeypatch.setattr(ondemand, "PAIRS_BEFORE_STORING", patience)
    waited, stored = fit("auto"), fit("gram")
    assert waited.duality_gap_ <= 1e-3 * waited.objective_
    assert waited.objective_ == pytest.approx(stored.objective_, rel=1.1e-3)


def test_a_fit_that_may_be_resumed_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """When values are stored decides about last digits."""
    monkeypatch.setattr(build, "LARGE_BYTES", 0)
    monkeypatch.setattr(build, "DeferredBank", None)  # would fail
    model = mk.MKLClassifier(CHEAP, random_state=0, checkpoint=tmp_path / "state")
    assert model.fit(X, y).duality_gap_ <= 1e-2 * model.objective_
