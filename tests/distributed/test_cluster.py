"""Fits on worker processes: the same results, also when workers or schedulers die."""

import os
import signal
import time
from threading import Timer

import dask
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from joblib import parallel_config
from sklearn.model_selection import GridSearchCV
from typer.testing import CliRunner

import manykernels as mk
from manykernels.cli.main import app
from manykernels.distributed.engine import (
    Engine,
    LostClusterError,
    WorkerMemoryError,
)
from tests.distributed.data import COMMON, in_parts, table

QUICK = {
    "distributed.comm.timeouts.connect": "2s",
    "distributed.scheduler.allowed-failures": 1,
    "distributed.worker.memory.terminate": 0.9,
}
PROCESSES = {
    "n_workers": 2,
    "threads_per_worker": 1,
    "memory_limit": "800MB",
    "dashboard_address": ":0",
}


@pytest.fixture(scope="module")
def cluster():
    with dask.config.set(QUICK), LocalCluster(**PROCESSES) as found:
        yield found


@pytest.fixture
def client(cluster):
    with Client(cluster) as found:
        yield found


@pytest.fixture(scope="module")
def here():
    X, y = table()
    parts = in_parts(X, 4), in_parts(y, 4)
    return X, parts, mk.MKLClassifier(loss="log", **COMMON).fit(*parts)


def test_processes_find_what_threads_find(client, here):
    X, parts, one = here
    model = mk.MKLClassifier(loss="log", **COMMON).fit(*parts)
    assert model.objective_ == pytest.approx(one.objective_, rel=1e-7)
    lazy = model.predict_proba(parts[0])
    np.testing.assert_allclose(lazy.compute(), one.predict_proba(X), atol=1e-3)


def test_memory_is_that_of_all_workers_whatever_the_client_remembers(
    client, monkeypatch
):
    monkeypatch.setattr(client, "scheduler_info", lambda *_, **__: {"workers": {}})
    assert Engine().memory() == int(0.4 * 2 * 800e6)


def test_a_worker_is_killed_in_the_middle_of_a_fit(client, here):
    _, parts, _ = here
    one = mk.MKLClassifier(loss="log", **COMMON).fit(*parts)
    killed = []

    def kill(line):
        if not killed:
            pids = client.run(os.getpid)
            killed.append(next(iter(pids.values())))
            Timer(0.1, os.kill, [killed[0], signal.SIGKILL]).start()

    model = mk.MKLClassifier(loss="log", callback=kill, **COMMON).fit(*parts)
    assert killed[0] not in client.run(os.getpid).values()
    assert len(model.history_) > 2
    assert model.objective_ == pytest.approx(one.objective_, rel=1e-9)
    assert model.duality_gap_ <= 1e-7 * model.objective_


def count_builds(dask_worker):
    """From now on a worker remembers how often it builds kernels."""
    from manykernels.mkl.estimator import BankRecipe

    dask_worker.built, build = 0, BankRecipe.build

    def counted(self, *options):
        dask_worker.built += 1
        return build(self, *options)

    BankRecipe.build = counted


def test_a_search_builds_kernels_once_in_every_worker(client, here):
    X, y = table()
    client.run(count_builds)
    settings = {"ps": [1.5, 2.0], "Cs": [0.1, 1.0], "cv": 6, "random_state": 0}
    one = mk.MKLClassifierCV(["rbf@0-2", "rbf@3-4"], **settings).fit(X, y)
    with parallel_config(backend="dask"):
        model = mk.MKLClassifierCV(["rbf@0-2", "rbf@3-4"], **settings).fit(X, y)
    built = client.run(lambda dask_worker: dask_worker.built)
    assert sorted(built.values()) == [1, 1]
    assert model.best_C_ == one.best_C_
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(model.cv_results_[name], one.cv_results_[name])


def test_searches_keep_to_their_number_of_jobs(client, here, monkeypatch):
    X, y = table()
    submit, sent, waiting = client.submit, [], []

    def counted(*args, **options):
        waiting.append(sum(not future.done() for future in sent))
        sent.append(submit(*args, **options))
        return sent[-1]

    monkeypatch.setattr(client, "submit", counted)
    search = mk.MKLRegressorCV("rbf", ps=[2.0], Cs=[1.0], cv=4, n_jobs=1)
    with parallel_config(backend="dask"):
        search.fit(X, y.astype(float))
        assert len(waiting) == 4
        assert max(waiting) == 0
        grid = GridSearchCV(mk.MKLClassifier("rbf"), {"C": [0.1, 1.0]}, cv=2)
        assert grid.fit(X, y).best_params_["C"] in (0.1, 1.0)


def test_the_command_line(client, cluster, here, tmp_path):
    X, y = table(120, 2)
    frame = pd.DataFrame(X, columns=list("abcde")).assign(kind=y)
    for k in range(3):
        frame[k::3].to_parquet(tmp_path / f"part-{k}.parquet")
    path = tmp_path / "model.mk"
    words = ["fit", str(tmp_path / "part-*.parquet"), "--target", "kind", "-m", path]
    words += ["--engine", "dask", "--scheduler", cluster.scheduler_address]
    words += ["--kernels", "rbf; linear", "--approximate", "nystroem:9"]
    words += ["--loss", "log", "--test", tmp_path / "part-1.parquet", "--seed", 0]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    assert "dashboard: http" in done.output
    assert "test rows" in done.output
    model = mk.load(path)
    assert model.feature_names_in_.tolist() == list("abcde")
    assert model.duality_gap_ <= 1e-2 * model.objective_
    for odd, message in (
        (["--cv", "3"], "--engine dask has no --cv"),
        (["--workers", "2"], "--scheduler or --workers, got both"),
        (["--engine", "spark"], "expected --engine dask, got 'spark'"),
        (["--loss", "hinge"], "needs a smooth loss, got 'hinge'"),
    ):
        failed = CliRunner().invoke(app, [*map(str, words), *odd])
        assert failed.exit_code == 2
        assert message in failed.output


def test_the_command_line_starts_workers_of_its_own(here, tmp_path):
    X, y = table(60, 2)
    frame = pd.DataFrame(X, columns=list("abcde")).assign(kind=y)
    for k in range(2):
        frame[k::2].to_csv(tmp_path / f"part-{k}.csv", index=False)
    path = tmp_path / "model.mk"
    words = ["fit", tmp_path / "part-*.csv", "--target", "kind", "-m", path]
    words += ["--engine", "dask", "--workers", 1, "--memory-limit", "1GB"]
    words += ["--kernels", "rbf", "--approximate", "nystroem:5", "--loss", "log"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    assert "dashboard: http" in done.output
    assert mk.load(path).classes_.tolist() == [0, 1]


def spilled(dask_worker):
    """How many results a worker has written to its disk."""
    return len(dask_worker.data.slow) if hasattr(dask_worker.data, "slow") else 0


def test_a_worker_that_is_full_spills_and_the_fit_goes_on():
    """Other people's data fill most of the only worker's memory."""
    full = {**PROCESSES, "n_workers": 1, "memory_limit": "1GB"}
    X, y = table(4000)
    with dask.config.set(QUICK), LocalCluster(**full) as cluster, Client(cluster) as me:
        ballast = [me.submit(np.ones, 6_000_000 + k) for k in range(14)]
        me.gather([me.submit(len, one) for one in ballast])
        model = mk.MKLClassifier(loss="log", **COMMON | {"tol": 1e-3})
        model.fit(in_parts(X, 8), in_parts(y, 8))
        assert sum(me.run(spilled).values()) > 0
        assert model.duality_gap_ <= 1e-3 * model.objective_


def too_large(block):
    ballast = np.ones(120_000_000)  # more than the limit of a worker
    time.sleep(1.0)
    return block + ballast[0] - 1.0


def test_a_worker_over_its_memory(client, here):
    _, (X, y), _ = here
    model = mk.MKLClassifier(loss="log", **COMMON)
    with pytest.raises(WorkerMemoryError, match="for memory.*use smaller partitions"):
        model.fit(X.map_blocks(too_large, dtype=float), y)


def test_a_lost_scheduler(here, tmp_path):
    _, parts, one = here
    path = tmp_path / "state"
    settings = {**COMMON, "loss": "log", "checkpoint": path}
    # A limit would be that of this process, which has run other tests before.
    inside = {**PROCESSES, "n_workers": 1, "memory_limit": None}
    with dask.config.set(QUICK):
        cluster = LocalCluster(processes=False, **inside)
        client = Client(cluster)

    def lose(line):
        if line.epoch == 2:
            cluster.close()

    with pytest.raises(LostClusterError, match="got none.*call fit again"):
        mk.MKLClassifier(**settings, callback=lose).fit(*parts)
    client.close()
    assert path.exists()
    seen = []
    model = mk.MKLClassifier(**settings, callback=seen.append).fit(*parts)
    assert seen[0].epoch in (2, 3)  # the state of the second may have come too soon
    assert model.objective_ == pytest.approx(one.objective_, rel=1e-7)
    assert model.duality_gap_ <= 1e-7 * model.objective_
