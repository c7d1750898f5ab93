"""Which storage is chosen, and what is said about it beforehand."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from manykernels.banks import (
    BlockBank,
    GramBank,
    OnDemandBank,
    Storage,
    StoredBank,
    build,
    build_bank,
)
from manykernels.base import machine
from manykernels.kernels import RBF, ChiSquared, Kernel, Laplacian, Linear, Polynomial
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet

X = np.random.default_rng(5).uniform(size=(60, 100))
CHEAP: list[Kernel] = [RBF(0.3), Polynomial(2), RBF(0.5, columns=[0, 3])]
DEAR: list[Kernel] = [ChiSquared(), Laplacian()]


def fitted(kernels: list[Kernel]) -> KernelSet:
    return KernelSet.fit(kernels, X)


def given() -> KernelSet:
    stack = np.moveaxis(fitted(CHEAP).stack(), 0, -1)
    return KernelSet.fit(as_kernels("precomputed"), stack)


@pytest.fixture(autouse=True)
def real_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary folders may live in memory where the tests run."""
    monkeypatch.setattr(build, "is_memory_disk", lambda folder: False)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: fitted(DEAR), StoredBank),
        (given, StoredBank),
        (lambda: fitted(CHEAP), OnDemandBank),
        (lambda: fitted([Linear()]), BlockBank),
    ],
    ids=["dear", "given", "cheap", "explicit"],
)
def test_what_does_not_fit(make: Callable[[], KernelSet], kind: type) -> None:
    kernels = make()
    limit = build.gram_bytes(kernels)
    assert isinstance(build_bank(kernels, memory_limit=limit), GramBank)
    assert isinstance(build_bank(kernels, memory_limit=limit - 1), kind)


def test_half_precision_fits_where_single_does_not() -> None:
    many: list[Kernel] = [RBF(0.01 * (k + 1)) for k in range(30)]
    kernels = fitted(many)
    limit = build.half_bytes(kernels)
    assert limit < build.gram_bytes(kernels)
    bank = build_bank(kernels, storage="float16", memory_limit=limit)
    assert isinstance(bank, StoredBank)
    assert isinstance(bank.store, np.ndarray)
    less = build_bank(kernels, storage="float16", memory_limit=limit - 1)
    assert isinstance(less, OnDemandBank)
    assert less.dtype == np.float32


@pytest.mark.parametrize("reason", ["full", "in memory"])
def test_without_room_on_the_disk_values_are_computed(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = fitted(DEAR)
    limit = build.gram_bytes(kernels) - 1
    if reason == "full":
        size = build.file_bytes(kernels)
        monkeypatch.setattr(build, "free_disk_bytes", lambda folder: size - 1)
    else:
        monkeypatch.setattr(build, "is_memory_disk", lambda folder: True)
    assert isinstance(build_bank(kernels, memory_limit=limit), OnDemandBank)


@pytest.mark.parametrize("storage", ["auto", "memmap"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_limit_too_small_for_one_block_is_refused(storage: str, dtype: str) -> None:
    with pytest.raises(MemoryError, match=r"2 kernels of 60 rows .* needs about .* GB"):
        build_bank(fitted(DEAR), Storage(storage, dtype), memory_limit="1KB")


@pytest.mark.parametrize(
    ("storage", "said"),
    [
        ("gram", ["as gram: about 7.2e-05 GB of memory", "s to compute"]),
        ("gram:float16", ["as gram in half precision: about"]),
        ("memmap", ["as memmap: about", "2.9e-05 GB of disk", "compute and wr"]),
        ("memmap:float16", ["in half precision: about", "1.4e-05 GB of disk"]),
        ("on_demand", ["as on_demand: about", "s to compute all values once"]),
    ],
)
def test_the_choice_and_its_cost_are_logged_before_it_starts(
    storage: str,
    said: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels = fitted(DEAR)

    def stop(*arguments: object, **options: object) -> None:
        raise InterruptedError

    for name in ("_gram_bank", "_stored_bank", "_on_demand_bank"):
        monkeypatch.setattr(build, name, stop)
    with caplog.at_level(logging.INFO, "manykernels"), pytest.raises(InterruptedError):
        build_bank(kernels, storage)
    for part in ["storing 2 kernels as", *said]:
        assert part in caplog.text


# --- what a value costs -------------------------------------------------------


def test_kernels_on_the_same_columns_share_their_cost() -> None:
    one = build.pair_ns(fitted([RBF(0.1)]))
    shared = build.pair_ns(fitted([RBF(0.1), RBF(0.2)]))
    apart = build.pair_ns(fitted([RBF(0.1), RBF(0.2, columns=slice(0, 99))]))
    assert one < shared < apart < 2 * one + build.VALUE_NS


def test_cost_grows_with_columns_precision_and_clipping() -> None:
    narrow = KernelSet.fit([RBF(0.1)], X[:, :10])
    double = KernelSet.fit([RBF(0.1)], X, dtype=np.float64)
    base = build.pair_ns(fitted([RBF(0.1)]))
    assert build.pair_ns(narrow) < base < build.pair_ns(double)
    indefinite = np.array([[0.0, 1.0], [1.0, 0.0]])
    sets = [
        KernelSet.fit(as_kernels("precomputed"), indefinite + np.eye(2) / 2, psd=psd)
        for psd in ("skip", "clip")
    ]
    assert build.pair_ns(sets[0]) < build.pair_ns(sets[1])


def test_half_precision_is_not_faster_to_read() -> None:
    kernels = fitted(CHEAP)
    assert build.read_ns(kernels, 2) == build.read_ns(kernels, 4)
    assert build.read_ns(kernels, 4) < build.read_ns(kernels, 8)


# --- disks --------------------------------------------------------------------


def test_a_folder_that_is_not_there_yet_has_the_disk_of_its_parent(
    tmp_path: Path,
) -> None:
    free = machine.free_disk_bytes(tmp_path / "a" / "b" / "file.bin")
    assert free == pytest.approx(machine.free_disk_bytes(tmp_path), rel=0.1)
    assert machine.free_disk_bytes(None) > 0


def test_disks_in_memory_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = "proc /proc proc rw 0 0\ntmpfs /ram tmpfs rw 0 0\n/dev/a / ext4 rw 0 0\n"
    monkeypatch.setattr(Path, "read_text", lambda self: mounts)
    assert machine.is_memory_disk(Path("/ram/deep/folder"))
    assert not machine.is_memory_disk(Path("/home/folder"))
    assert not machine.is_memory_disk(Path("/ramble"))
