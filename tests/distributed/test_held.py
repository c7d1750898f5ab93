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
from manykernels.distributed.partitioned_problem import (
    hessian_product_over,
    pass_over,
    scores_at,
)
from manykernels.distributed.preconditioner import PreconditionerSample
from manykernels.distributed.shards import HeldShard
from manykernels.losses import Softmax, SquaredHinge
from tests.distributed.data import COMMON, in_parts, table


def rows_and_point(n_rows=3000, n_columns=6):
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(n_rows, n_columns))
    w = rng.normal(size=(n_columns, 3))
    target = (phi @ w + rng.gumbel(size=(n_rows, 3))).argmax(axis=1)
    return HeldShard(phi, target, np.ones(n_rows)), w


@pytest.mark.parametrize("light", [1e-12, 0.0])
def test_the_preconditioner_inverts_the_system_of_its_own_rows(light):
    rows, w = rows_and_point()
    weights = np.array([2.0, 2.0, 0.5, 0.5, light, light])[:, None]
    rest = np.random.default_rng(1).normal(size=w.shape)
    # The squared hinge has no curvature between outputs: only light rows are left out.
    loss, scores = SquaredHinge(), scores_at(rows, w)
    product = hessian_product_over(rows, scores, loss, (weights * rest)[None])[0]
    inverse = PreconditionerSample(rows, 3000.0).inverse(loss, w, weights)
    solved = inverse(rest + product)
    error = np.sqrt(weights) * (solved - rest)
    assert np.linalg.norm(error) < 0.02 * np.linalg.norm(np.sqrt(weights) * rest)
    # What the log loss ignores has no curvature.
    inverse = PreconditionerSample(rows, 3000.0).inverse(Softmax(), w, weights)
    shift = np.repeat(rest[:, :1], 3, axis=1)
    np.testing.assert_allclose(inverse(shift), shift, rtol=1e-6)


class Log(logging.Handler):
    """Messages of a fit."""

    def __init__(self):
        super().__init__()
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())

    @property
    def passes(self):
        """Over all rows, and over those held."""
        last = next(text for text in reversed(self.messages) if text.startswith("pass"))
        return [int(number) for number in re.findall(r"(\d+) over", last)]


@pytest.fixture
def log():
    logger = logging.getLogger("manykernels.distributed")
    handler, level = Log(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


TRIM, MMAP = memory.M_TRIM_THRESHOLD, memory.M_MMAP_THRESHOLD
LOSSES = ["log", "squared_hinge", "smoothed_hinge"]


@pytest.mark.parametrize("p", [1.0, 1.1, 2.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_third_of_the_rows_in_memory_needs_few_passes(loss, p, log):
    X, y = table(3000)
    parts, settings = (in_parts(X, 5), in_parts(y, 5)), {**COMMON, "tol": 1e-3}
    one = mk.MKLClassifier(loss=loss, p=p, **settings).fit(*parts)
    model = mk.MKLClassifier(loss=loss, p=p, memory_limit=288_000, **settings)
    model.fit(*parts)  # 1000 rows of 36 columns in float64
    assert model.duality_gap_ <= 1e-3 * model.objective_
    assert model.objective_ == pytest.approx(one.objective_, rel=2e-3)
    over_all, over_sample = log.passes
    assert over_all <= 16 and over_sample > 0


def test_too_few_rows_in_memory_and_all_rows_give_the_curvature(log):
    X, y = table(2000)
    parts, settings = (in_parts(X, 5), in_parts(y, 5)), {**COMMON, "tol": 1e-3}
    model = mk.MKLClassifier(loss="squared_hinge", memory_limit=6_000, **settings)
    model.set_params(C=1e2).fit(*parts)  # 20 rows
    over_all, over_sample = log.passes
    assert 0 < over_sample and 20 < over_all < 150
    assert model.duality_gap_ <= 1e-3 * model.objective_


def test_a_fit_whose_features_do_not_fit_goes_on_where_it_was(tmp_path):
    X, y = table(3000)
    parts = in_parts(X, 5), in_parts(y, 5)
    settings = {**COMMON, "loss": "log", "tol": 1e-5, "memory_limit": 150_000}
    one = mk.MKLClassifier(**settings).fit(*parts)
    settings["checkpoint"], seen = tmp_path / "state", []
    mk.MKLClassifier(**settings, callback=lambda line: line.epoch == 1).fit(*parts)
    model = mk.MKLClassifier(**settings, callback=seen.append).fit(*parts)
    assert seen[0].epoch == 2
    assert model.duality_gap_ <= 1e-5 * model.objective_
    assert model.objective_ == pytest.approx(one.objective_, rel=2e-5)


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
    product = hessian_product_over(rows, scores_at(rows, w), loss, w[None])
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
    monkeypatch.delenv(memory.TRIM_VARIABLE, raising=False)
    with memory.reused_memory():
        assert asked == []
    monkeypatch.setenv(memory.TRIM_VARIABLE, "65536")
    with memory.reused_memory():
        assert asked == [
            (memory.M_TRIM_THRESHOLD, memory.TASK_FREE_BYTES),
            (memory.M_MMAP_THRESHOLD, memory.TASK_MMAP_BYTES),
        ]
    assert asked[2:] == [
        (memory.M_TRIM_THRESHOLD, 65536),
        (memory.M_MMAP_THRESHOLD, memory.USUAL_MMAP_BYTES),
    ]


def test_systems_without_that_library(monkeypatch):
    def fail(name):
        raise OSError(name)

    memory._library.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", fail)
    monkeypatch.setenv(memory.TRIM_VARIABLE, "65536")
    with memory.reused_memory():
        assert memory._library() is None
    memory._library.cache_clear()
