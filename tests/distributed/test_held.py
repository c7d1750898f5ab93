"""Which rows are held where not all can be, and how often rows are made."""

import ctypes
import logging
import pickle
import re
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest

import manykernels as mk
from manykernels.distributed import memory
from manykernels.distributed.engine import Engine
from manykernels.distributed.focus import Focus, chances, join_rows, row_heights
from manykernels.distributed.near import NearSystem
from manykernels.distributed.rows import Block, HeldRows
from manykernels.distributed.sums import (
    SCALES,
    Correction,
    bend_over,
    pass_over,
    scores_at,
)
from tests.distributed.data import COMMON, in_parts, table


class Given:
    """Rows whose features are there already."""

    def __init__(self, rows, number):
        self.rows, self.C = rows, 1.0
        self.pieces = [SimpleNamespace(number=number)]
        kernels = SimpleNamespace(dtype=rows.phi.dtype)
        self.reader = SimpleNamespace(n_columns=rows.phi.shape[1], kernels=kernels)

    def blocks(self):
        yield Block(self.rows.phi, self.rows.target, self.rows.bound)


def rows_and_point(n_rows=3000, n_columns=6):
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(n_rows, n_columns))
    w = 3.0 * rng.normal(size=(n_columns, 3))
    target = (phi @ w + rng.gumbel(size=(n_rows, 3))).argmax(axis=1)
    return HeldRows(phi, target, np.ones(n_rows)), w


def curvature(rows, loss, w):
    """Phi' diag(b h) Phi."""
    heights = row_heights(rows.phi, rows, loss, w)
    return (rows.phi * heights[:, None]).T @ rows.phi


def test_a_fifth_of_the_rows_has_nearly_the_curvature_of_all():
    rows, w = rows_and_point()
    loss, whole = mk.losses.Softmax(), None
    parts = [HeldRows(*(v[k::4] for v in vars(rows).values())) for k in range(4)]
    whole = curvature(rows, loss, w)
    errors = []
    for seed in range(5):
        sources = [Given(part, k) for k, part in enumerate(parts)]
        focus = Focus(Engine(), sources, [], loss, rows, 3000, 600, 2, seed)
        sums = focus.draw(w)
        held = join_rows(dask.compute(*focus.held))
        assert 450 < len(held.bound) < 650
        assert held.bound.max() < 2.5 * 3000 / 600  # not much above a plain sample's
        np.testing.assert_allclose(sums.gradient, pass_over(rows, loss, w).gradient)
        scales = np.linalg.eigvals(np.linalg.solve(whole, curvature(held, loss, w)))
        errors.append(np.abs(scales.real - 1.0).max())
    assert np.median(errors) < 0.2


def test_chances_are_those_of_the_curvature():
    found = chances(np.array([0.0, 1.0, 4.0, 40.0]), 2.0, 0.1)
    np.testing.assert_allclose(found, [0.2, 0.2, 0.4, 1.0])


@pytest.mark.parametrize("light", [1e-12, 0.0])
def test_the_system_of_the_sample_is_solved(light):
    rng = np.random.default_rng(0)
    phi, rest = rng.normal(size=(30, 8)), rng.normal(size=(8, 3))
    weights = np.array([2.0, 2.0, 0.5, 0.5, 0.5, light, light, light])[:, None]
    G = phi.T @ phi
    system = NearSystem(G.astype(np.float32), np.sqrt(weights))
    expected = np.linalg.solve(np.eye(8) + G * weights.T, rest)
    np.testing.assert_allclose(system.solve(rest), expected, atol=1e-4)


class Told(logging.Handler):
    """What a fit says."""

    def __init__(self):
        super().__init__()
        self.said = []

    def emit(self, record):
        self.said.append(record.getMessage())

    @property
    def passes(self):
        """Over all rows, and over those held."""
        last = next(text for text in reversed(self.said) if text.startswith("pass"))
        return [int(number) for number in re.findall(r"(\d+) over", last)]


@pytest.fixture
def told():
    logger = logging.getLogger("manykernels.distributed")
    handler, level = Told(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


LOSSES = ["log", "squared_hinge", "smoothed_hinge"]


@pytest.mark.parametrize("p", [1.0, 1.1, 2.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_third_of_the_rows_in_memory_needs_few_passes(loss, p, told):
    X, y = table(3000)
    parts, settings = (in_parts(X, 5), in_parts(y, 5)), {**COMMON, "tol": 1e-3}
    one = mk.MKLClassifier(loss=loss, p=p, **settings).fit(*parts)
    model = mk.MKLClassifier(loss=loss, p=p, memory_limit=288_000, **settings)
    model.fit(*parts)  # 1000 rows of 36 columns in float64
    assert model.duality_gap_ <= 1e-3 * model.objective_
    assert model.objective_ == pytest.approx(one.objective_, rel=2e-3)
    assert told.passes[0] == model.n_iter_ <= 12
    assert not any("do not help" in text for text in told.said)


def test_too_few_rows_in_memory_and_all_rows_are_asked(told):
    X, y = table(2000)
    parts, settings = (in_parts(X, 5), in_parts(y, 5)), {**COMMON, "tol": 1e-3}
    model = mk.MKLClassifier(loss="squared_hinge", memory_limit=6_000, **settings)
    model.set_params(C=1e4).fit(*parts)  # 20 rows
    assert any("do not help" in text for text in told.said)
    assert model.duality_gap_ <= 1e-3 * model.objective_


def test_a_fit_whose_features_do_not_fit_goes_on_where_it_was(tmp_path):
    X, y = table(3000)
    parts = in_parts(X, 5), in_parts(y, 5)
    settings = {**COMMON, "loss": "log", "tol": 1e-5, "memory_limit": 150_000}
    one = mk.MKLClassifier(**settings).fit(*parts)
    settings["checkpoint"], seen = tmp_path / "state", []
    mk.MKLClassifier(**settings, callback=lambda line: line.epoch == 3).fit(*parts)
    model = mk.MKLClassifier(**settings, callback=seen.append).fit(*parts)
    assert seen[0].epoch == 4
    assert model.duality_gap_ <= 1e-5 * model.objective_
    assert model.objective_ == pytest.approx(one.objective_, rel=2e-5)


def test_epochs_on_held_rows(told):
    X, y = table(3000)
    parts, settings = (in_parts(X, 5), in_parts(y, 5)), {**COMMON, "tol": 1e-2}
    model = mk.MKLClassifier(loss="log", solver="svrg", p=1.5, **settings)
    model.set_params(memory_limit=288_000).fit(*parts)
    assert model.duality_gap_ <= 1e-2 * model.objective_
    assert told.passes[0] <= 12


def test_a_correction_makes_held_losses_those_of_all_rows_at_its_center():
    rows, w = rows_and_point(300)
    loss, part = mk.losses.Softmax(), HeldRows(*(v[::3] for v in vars(rows).values()))
    there = w + 0.1
    whole, here = pass_over(rows, loss, w), pass_over(part, loss, w)
    fix = Correction(w, whole.gradient - here.gradient, whole.loss - here.loss)
    found = fix.added_to(here, w)
    assert found.loss == pytest.approx(whole.loss)
    np.testing.assert_allclose(found.gradient, whole.gradient)
    # Young's inequality with the conjugate, and equality at the center.
    conjugate = found.conjugates[SCALES == 1.0][0]
    pairing = np.vdot(found.gradient, w)
    assert found.loss + conjugate == pytest.approx(pairing)
    other = fix.added_to(pass_over(part, loss, there), there)
    assert other.loss + conjugate >= np.vdot(found.gradient, there)
    assert np.isinf(found.conjugates[SCALES != 1.0]).all()


def test_what_makes_rows_and_targets_runs_once_for_both():
    X, y = table()
    made = []

    def draw(start):
        made.append(start)
        return X[start : start + 80], y[start : start + 80]

    rows, labels = [], []
    for start in (0, 80, 160):
        both = dask.delayed(draw, nout=2)(start)
        rows.append(da.from_delayed(both[0], (80, 5), float))
        labels.append(da.from_delayed(both[1], (80,), int))
    parts = da.concatenate(rows), da.concatenate(labels)
    model = mk.MKLClassifier(loss="log", **{**COMMON, "tol": 0.1}).fit(*parts)
    assert sorted(made) == [0, 80, 160]
    assert model.duality_gap_ <= 0.1 * model.objective_


@pytest.mark.parametrize("n_rows", [100, 3000])
def test_what_travels_is_columns_times_outputs_whatever_the_rows(n_rows):
    rows, w = rows_and_point(n_rows, 50)
    loss = mk.losses.Softmax()
    sums = pass_over(rows, loss, w)
    product = bend_over(rows, scores_at(rows, w), loss, w[None])
    for travels in (w, sums, product):
        assert 0 <= len(pickle.dumps(travels, 5)) - 8 * 50 * 3 < 1000


def test_random_features():
    X, y = table()
    kernels = ["rbf:gamma=0.5@0-2", "rbf:gamma=0.1"]
    changes = {"kernels": kernels, "approximate": "random_features:20"}
    settings = {**COMMON, **changes, "loss": "log", "tol": 1e-5}
    one = mk.MKLClassifier(**settings).fit(X, y)
    model = mk.MKLClassifier(**settings).fit(in_parts(X, 3), in_parts(y, 3))
    assert model.objective_ == pytest.approx(one.objective_, rel=2e-5)


def test_memory_is_kept_in_workers_alone(monkeypatch):
    asked = []
    library = SimpleNamespace(mallopt=lambda *words: asked.append(words))
    monkeypatch.setattr(memory, "_library", lambda: library)
    monkeypatch.delenv(memory.THRESHOLD, raising=False)
    with memory.reused_memory():
        assert asked == []
    monkeypatch.setenv(memory.THRESHOLD, "65536")
    with memory.reused_memory():
        assert asked == [(memory.TRIM, memory.KEPT), (memory.MMAP, memory.LARGE)]
    assert asked[2:] == [(memory.TRIM, 65536), (memory.MMAP, memory.USUAL)]


def test_systems_without_that_library(monkeypatch):
    def fail(name):
        raise OSError(name)

    memory._library.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", fail)
    monkeypatch.setenv(memory.THRESHOLD, "65536")
    with memory.reused_memory():
        assert memory._library() is None
    memory._library.cache_clear()
