"""Fits on worker processes: the same results, also when workers or schedulers die."""

import os
import signal
import time
from threading import Timer

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster

import manykernels as mk
from manykernels.distributed.engine import LostClusterError, WorkerMemoryError
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
    assert model.objective_ == pytest.approx(one.objective_, rel=1e-9)
    lazy = model.predict_proba(parts[0])
    np.testing.assert_allclose(lazy.compute(), one.predict_proba(X), atol=1e-3)


def test_a_worker_is_killed_in_the_middle_of_a_fit(client, here):
    _, parts, one = here
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


def too_large(block):
    ballast = np.ones(200_000_000)  # twice the limit of a worker
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
    with dask.config.set(QUICK):
        cluster = LocalCluster(processes=False, **{**PROCESSES, "n_workers": 1})
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
    assert model.objective_ == pytest.approx(one.objective_, rel=1e-9)
    assert model.duality_gap_ <= 1e-7 * model.objective_
