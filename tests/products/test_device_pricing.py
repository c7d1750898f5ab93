"""All products looked at on a device: the same as by the processor."""

import os
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from sklearn import config_context

import manykernels as mk
from manykernels.products import ColumnGeneration
from manykernels.products.base import RankOneKernels
from manykernels.products.pricing import Pricing, device_pricing
from tests.device.devices import DEVICES, cuda, every_device, require_torch
from tests.products.toys import BASES, columns, energies

RHO = np.array([1.5, 1.0, 0.8, 1.2, 0.9])


@pytest.fixture(params=every_device())
def device(request):
    return request.param()


def both(base, device, *args, **options):
    coef = np.random.default_rng(2).normal(size=base.n_rows)
    there = replace(base, device=device)
    return [
        Pricing(one, *args, **options).search(coef, 12) for one in (base, there)
    ] + [coef]


@pytest.mark.parametrize("degree", [2, 3, 4])
@pytest.mark.parametrize("name", BASES)
def test_the_best_products_are_those_of_the_processor(device, name, degree):
    here, there, _ = both(BASES[name](), device, RHO[: degree + 1])
    np.testing.assert_allclose(there.energies, here.energies, rtol=1e-9)
    assert there.largest == pytest.approx(here.largest, rel=1e-9)


def test_columns_that_may_not_be_repeated_are_not(device):
    base = RankOneKernels(columns(30, 5), limits=np.array([1, 2, 1, 3, 1]))
    here, there, coef = both(base, device, RHO, 1)
    assert set(there.products) == set(here.products)
    np.testing.assert_allclose(there.energies, here.energies)
    listed = energies(base, coef, RHO)
    assert there.energies == pytest.approx([listed[i] for i in there.products])


@pytest.mark.parametrize("around_mean", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_normalized_products_with_a_flat_one(device, around_mean, single):
    X = columns(40, 7)
    X[:, 3] = 1.0  # has no size around its mean, and makes copies of products
    base = RankOneKernels(X, normalized=True, around_mean=around_mean)
    here, there, _ = both(base, device, np.ones(4), 1, single=single)
    np.testing.assert_allclose(there.energies, here.energies)
    assert there.largest == pytest.approx(here.largest, rel=1e-6)


def test_little_memory_means_more_and_smaller_batches(device, monkeypatch):
    base = RankOneKernels(columns(3000, 6), normalized=True)
    seen = []
    known = device_pricing.DevicePricing._products

    def counted(self, rows, batch, v, first, squared=False):
        seen.append((len(batch), self._piece_rows(len(batch) * (6 - first))))
        return known(self, rows, batch, v, first, squared)

    monkeypatch.setattr(device_pricing.DevicePricing, "_products", counted)
    here, there, _ = both(base, device, RHO, memory_limit="3KB")
    assert there.products == here.products
    least = device_pricing.MIN_PIECE_ROWS
    assert {size for size, _ in seen} == {1} and {n for _, n in seen} == {least}
    seen.clear()
    both(base, device, RHO, memory_limit="1GB")
    assert max(size for size, _ in seen) == 21


@pytest.mark.parametrize("rows, r, limit", [(1000, 200, 20e6), (3000, 60, 8e6)])
def test_all_arrays_together_keep_to_the_limit(rows, r, limit):
    base = RankOneKernels(columns(rows, r), True, device=DEVICES["numpy"]())
    pricing = Pricing(base, np.ones(4), single=True, memory_limit=int(limit))
    tracemalloc.start()
    found = pricing.search(base.columns[:, 0] * base.columns[:, 7], 3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.products[0] == (0, 7)
    assert peak <= limit


@pytest.mark.parametrize("rows, limit", [(1000, 20e6), (30_000, 160e6)])
def test_a_card_keeps_to_the_limit(rows, limit):
    torch, there = require_torch(), cuda()
    base = RankOneKernels(columns(rows, 200), True, device=there)
    pricing = Pricing(base, np.ones(4), single=True, memory_limit=int(limit))
    square = torch.ones((64, 64), device="cuda", dtype=torch.float64)
    assert (square @ square).sum() + (square.float() @ square.float()).sum() > 0.0
    before = torch.cuda.memory_allocated()  # with what matrix products keep
    torch.cuda.reset_peak_memory_stats()
    found = pricing.search(base.columns[:, 0] * base.columns[:, 7], 3)
    assert found.products[0] == (0, 7)
    assert torch.cuda.max_memory_allocated() - before <= limit


def test_sizes_are_computed_once(device, monkeypatch):
    base = RankOneKernels(columns(30, 6), True, device=device)
    calls = []
    known = device_pricing.DevicePricing._products
    monkeypatch.setattr(
        device_pricing.DevicePricing,
        "_products",
        lambda *args, **options: calls.append(1) or known(*args, **options),
    )
    pricing = Pricing(base, np.ones(4))
    for expected in (6, 2):  # degrees 2 and 3, with their sizes the first time
        calls.clear()
        pricing.search(np.ones(30), 3)
        assert len(calls) == expected


def test_sums_over_all_products_stay_with_the_processor(device):
    base = RankOneKernels(columns(20, 4))
    coef = np.random.default_rng(0).normal(size=20)
    here = Pricing(base, RHO).search(coef, 3, power=2.0)
    there = Pricing(replace(base, device=device), RHO).search(coef, 3, power=2.0)
    assert there.power_sum == here.power_sum


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 12))
    X[:, 5] = rng.integers(0, 2, 200)
    return X, 2.0 * X[:, 0] * X[:, 3] - X[:, 5] * X[:, 7] + 0.1 * rng.normal(size=200)


@pytest.mark.parametrize("C", ["auto", 1.0])
def test_a_regressor_is_the_one_of_the_processor(C, tmp_path):
    require_torch()
    X, y = data()
    here = mk.PolynomialMKLRegressor(C=C, random_state=0).fit(X, y)
    there = mk.PolynomialMKLRegressor(C=C, random_state=0, device="cpu").fit(X, y)
    assert there.kernel_names_ == here.kernel_names_
    np.testing.assert_allclose(there.predict(X), here.predict(X))
    assert 0.0 <= there.duality_gap_ <= 1e-3 * there.objective_
    there.save(tmp_path / "model.mk")
    loaded = mk.load(tmp_path / "model.mk")
    assert loaded.device is None
    np.testing.assert_array_equal(loaded.predict(X), there.predict(X))


def test_a_classifier_is_the_one_of_the_processor():
    require_torch()
    X, y = data()
    labels = np.where(y > 0.0, "up", "down")
    solver = ColumnGeneration(tol=1e-4)
    models = [
        mk.PolynomialMKLClassifier(C=1.0, solver=solver, device=device).fit(X, labels)
        for device in (None, "cpu")
    ]
    assert models[0].kernel_names_ == models[1].kernel_names_
    np.testing.assert_allclose(*(model.decision_function(X) for model in models))


def test_tensors_come_in():
    torch = require_torch()
    X, y = data()
    labels = (y > 0.0).astype(int)
    table = torch.tensor(X, requires_grad=True)
    regressor = mk.PolynomialMKLRegressor(degree=2, C=1.0, device="cpu")
    regressor.fit(table, torch.tensor(y), sample_weight=torch.ones(len(y)))
    close = mk.PolynomialMKLRegressor(degree=2, C=1.0).fit(X, y).predict(X)
    found = regressor.predict(torch.tensor(X))
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, close)
    classifier = mk.PolynomialMKLClassifier(degree=2, C=1.0, device="cpu")
    classifier.fit(table, torch.tensor(labels))
    assert classifier.score(torch.tensor(X), labels) > 0.8
    if os.environ.get("SCIPY_ARRAY_API") == "1":
        with config_context(array_api_dispatch=True):
            for name in ("predict", "decision_function", "predict_proba"):
                assert isinstance(getattr(classifier, name)(table), torch.Tensor)
            assert isinstance(regressor.predict(table), torch.Tensor)


@pytest.mark.parametrize("p", [4 / 3, "blend"])
def test_other_norms_have_no_device(p):
    X, y = data()
    with pytest.raises(ValueError, match=r"device needs p = 1, .* got p=.*; use dev"):
        mk.PolynomialMKLRegressor(p=p, device="cpu").fit(X, y)


def test_unknown_devices_are_refused():
    X, y = data()
    with pytest.raises(ValueError, match="device must be 'cuda'.* got 'gpu'"):
        mk.PolynomialMKLRegressor(device="gpu").fit(X, y)


def test_a_gpu_affords_more():
    base = RankOneKernels(columns(100, 300))
    slow = mk.device.Device("slow", np)
    fast = mk.device.Device("fast", np)
    fast.seconds_per_value = 1e-10
    few = 100 * 300**3 / 3 - 1
    for device, exhaustive in ((None, False), (slow, False), (fast, True)):
        there = replace(base, device=device)
        assert Pricing(there, np.ones(4), affordable=few).exhaustive is exhaustive
