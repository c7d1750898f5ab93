"""Gram stacks in files: equal to the bit, resumed, repaired, refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from manykernels.banks import GramFileError, Storage, build_bank, gramfile
from manykernels.banks.fingerprint import fingerprint
from manykernels.banks.gramfile import BAND_ROWS, GramFile, bands, stored_file
from manykernels.base import machine
from manykernels.kernels import RBF, Custom, Kernel, Laplacian, Linear
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet

N = 2 * BAND_ROWS + 50
X = np.random.default_rng(3).normal(size=(N, 5))
KERNELS: list[Kernel] = [RBF(0.2), Laplacian(columns=[0, 1]), RBF(0.4, center=True)]
EVERY = np.arange(N)


def fitted(dtype: type = np.float32) -> KernelSet:
    return KernelSet.fit(KERNELS, X, dtype=dtype)


def row_first(kernels: KernelSet) -> np.ndarray:
    rows = build_bank(kernels, "gram").stored_rows()
    assert rows is not None
    return rows


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """First rows of the bands that are computed from here on."""
    seen: list[int] = []
    original = gramfile.fill_right

    def counting(kernels: KernelSet, rows: slice, out: np.ndarray) -> None:
        seen.append(rows.start)
        original(kernels, rows, out)

    monkeypatch.setattr(gramfile, "fill_right", counting)
    return seen


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_file_equals_the_stack_to_the_bit(dtype: type) -> None:
    kernels = fitted(dtype)
    file = stored_file(kernels)
    values = file[EVERY]
    np.testing.assert_array_equal(values, row_first(kernels))
    np.testing.assert_array_equal(values, values.transpose(2, 1, 0))
    assert file.path.stat().st_size == file.disk_bytes == values.nbytes


def test_restricted_sets_and_given_matrices_equal_their_stack() -> None:
    part = fitted().take(np.arange(0, N, 2))
    every = np.arange(part.n_reference)
    np.testing.assert_array_equal(stored_file(part)[every], row_first(part))
    given = np.moveaxis(fitted(np.float64).stack(), 0, -1)
    kernels = KernelSet.fit(as_kernels("precomputed"), given)
    np.testing.assert_array_equal(stored_file(kernels)[EVERY], row_first(kernels))


def test_half_precision_rounds_once() -> None:
    kernels = fitted(np.float64)
    values = stored_file(kernels, np.float16)[EVERY]
    np.testing.assert_array_equal(values, row_first(kernels).astype(np.float16))


@pytest.mark.parametrize(
    "index",
    [[], [5], [5, 6, 7], [7, 6, 5], [3, 3, 4], [N - 1, 0, BAND_ROWS, BAND_ROWS - 1]],
)
def test_rows_are_read_in_any_order(index: list[int]) -> None:
    file = stored_file(fitted())
    wanted = np.array(index, dtype=np.intp)
    np.testing.assert_array_equal(file[wanted], file[EVERY][wanted])


# --- temporary files ----------------------------------------------------------


def test_a_temporary_file_goes_with_its_last_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bank = build_bank(fitted(), "memmap")
    part = bank.take(np.arange(5, 30))
    assert len(list(tmp_path.iterdir())) == 1
    del bank, part
    assert list(tmp_path.iterdir()) == []


def test_a_failed_build_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def broken(*arguments: object) -> None:
        raise RuntimeError("broken kernel")

    monkeypatch.setattr(gramfile, "fill_right", broken)
    with pytest.raises(RuntimeError, match="broken kernel"):
        stored_file(fitted())
    assert list(tmp_path.iterdir()) == []


# --- files that are kept ------------------------------------------------------


def test_a_finished_file_is_found_again(tmp_path: Path, computed: list[int]) -> None:
    folder = tmp_path / "new" / "folder"
    first = stored_file(fitted(), folder=folder)
    assert computed == [band.start for band in bands(N)]
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    second = stored_file(fitted(), folder=folder)
    assert len(computed) == len(bands(N))
    assert second.path == first.path
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    np.testing.assert_array_equal(second[EVERY], row_first(fitted()))


def test_a_finished_file_may_be_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = stored_file(fitted(), folder=tmp_path)
    expected = file[EVERY]

    def refused(*arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    for path in tmp_path.iterdir():
        path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        monkeypatch.setattr(GramFile, "_write", refused)
        monkeypatch.setattr(GramFile, "_describe", refused)
        again = stored_file(fitted(), folder=tmp_path)
        np.testing.assert_array_equal(again[EVERY], expected)
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.parametrize(
    "other",
    [
        KernelSet.fit([RBF(0.2001), *KERNELS[1:]], X),
        KernelSet.fit(KERNELS, X + 1e-3),
        KernelSet.fit([RBF(0.2, normalize="trace"), *KERNELS[1:]], X),
        fitted(np.float64),
        fitted().take(np.arange(N - 1)),
    ],
    ids=["parameter", "data", "scaling", "precision", "rows"],
)
def test_other_kernels_have_another_fingerprint(other: KernelSet) -> None:
    assert fingerprint(fitted()) == fingerprint(fitted())
    assert fingerprint(other) != fingerprint(fitted())


def test_the_fingerprint_notices_other_code_of_the_same_name() -> None:
    def sets(factor: float) -> KernelSet:
        def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
            return factor * A @ B.T

        return KernelSet.fit([Custom(kernel, normalize=None)], X[:20])

    assert fingerprint(sets(1.0)) == fingerprint(sets(1.0))
    assert fingerprint(sets(1.0)) != fingerprint(sets(2.0))


def test_half_and_single_precision_live_side_by_side(tmp_path: Path) -> None:
    files = {stored_file(fitted(), t, tmp_path).path for t in (np.float16, np.float32)}
    assert len(files) == 2


BUILD_AND_DIE = """
import os, signal, sys
from tests.banks.test_gramfile import fitted
from manykernels.banks.gramfile import BAND_ROWS, GramFile, bands, stored_file

written, original = [], GramFile._write

def write(self, rows, values):
    if len(written) == int(sys.argv[2]):
        values[len(values) // 2 :] = 0  # half a band reaches the disk
        original(self, rows, values)
        os.kill(os.getpid(), signal.SIGKILL)
    written.append(rows)
    original(self, rows, values)

GramFile._write = write
stored_file(fitted(), folder=sys.argv[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs kill -9")
@pytest.mark.parametrize("finished", [0, 2])
def test_a_killed_build_goes_on_where_it_stopped(
    finished: int, tmp_path: Path, computed: list[int]
) -> None:
    command = [sys.executable, "-c", BUILD_AND_DIE, str(tmp_path), str(finished)]
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "src"), str(root)])
    killed = subprocess.run(command, env={**os.environ, "PYTHONPATH": path})
    assert killed.returncode == -9
    file = stored_file(fitted(), folder=tmp_path)
    assert computed == [band.start for band in bands(N)][finished:]
    np.testing.assert_array_equal(file[EVERY], row_first(fitted()))


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    file = stored_file(fitted(), folder=tmp_path)
    os.truncate(file.path, file.disk_bytes - 1)
    message = rf"expected {file.disk_bytes} bytes .* got {file.disk_bytes - 1}; delete"
    with pytest.raises(GramFileError, match=message):
        stored_file(fitted(), folder=tmp_path)


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path: Path) -> None:
    file = stored_file(fitted(), folder=tmp_path)
    os.truncate(file.path, file.row_bytes)
    with pytest.raises(GramFileError, match="got another size; fit again"):
        file[np.array([4])]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "not JSON",
        "[]",
        "{}",
        '{"finished_rows": 3}',
        '{"finished_rows": 384, "format": "another"}',
    ],
)
def test_a_foreign_description_is_refused(text: str | None, tmp_path: Path) -> None:
    file = stored_file(fitted(), folder=tmp_path)
    if text is None:
        file.description_path.unlink()
    else:
        file.description_path.write_text(text)
    with pytest.raises(GramFileError, match="expected the description of these kern"):
        stored_file(fitted(), folder=tmp_path)


def test_pipes_are_refused_without_waiting(tmp_path: Path) -> None:
    file = stored_file(fitted(), folder=tmp_path)
    file.description_path.unlink()
    os.mkfifo(file.description_path)
    with pytest.raises(GramFileError, match="expected the description of these kern"):
        stored_file(fitted(), folder=tmp_path)
    file.path.unlink()
    os.mkfifo(file.path)
    with pytest.raises(GramFileError, match="which is a folder or a device; delete it"):
        stored_file(fitted(), folder=tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", 3),
        ("kernels", "0" * 32),
        ("shape", [N, 3, N + 1]),
        ("dtype", "float64"),
        ("finished_rows", N + 1),
        ("finished_rows", 5),
        ("finished_rows", -1),
        ("finished_rows", "0"),
        ("finished_rows", [0]),
        ("finished_rows", False),
        ("another", 1),
    ],
)
def test_every_entry_of_a_description_is_checked(
    key: str, value: object, tmp_path: Path
) -> None:
    file = stored_file(fitted(), folder=tmp_path)
    content = json.loads(file.description_path.read_text())
    file.description_path.write_text(json.dumps({**content, key: value}))
    with pytest.raises(GramFileError, match="expected the description of these kern"):
        stored_file(fitted(), folder=tmp_path)


def test_threads_that_want_the_same_file_all_have_it(tmp_path: Path) -> None:
    files: list[GramFile] = []

    def build() -> None:
        files.append(stored_file(fitted(), folder=tmp_path))

    workers = [threading.Thread(target=build) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expected = row_first(fitted())
    assert len(files) == 3
    for file in [*files, stored_file(fitted(), folder=tmp_path)]:
        np.testing.assert_array_equal(file[EVERY], expected)
    assert len(list(tmp_path.iterdir())) == 2


# --- disk and memory ----------------------------------------------------------


@pytest.mark.parametrize("own_folder", [True, False])
def test_a_full_disk_is_noticed_beforehand(
    own_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(10**6, 0, 10**6))
    message = (
        rf"storing 3 kernels of {N} x {N} values on disk needs about 0.00803 GB, more "
        rf"than the 0.001 GB free in '{tmp_path}'; choose another folder"
    )
    with pytest.raises(OSError, match=message):
        stored_file(fitted(), folder=tmp_path if own_folder else None)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_needs_no_more_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = stored_file(fitted(), folder=tmp_path)
    if not hasattr(os.stat(file.path), "st_blocks"):
        pytest.skip("the system does not tell what a file takes")
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(0, 0, 0))
    os.sync()  # blocks are counted once they are allocated
    assert machine.free_disk_bytes(file.path) >= file.disk_bytes
    np.testing.assert_array_equal(
        stored_file(fitted(), folder=tmp_path)[EVERY], file[EVERY]
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of file sizes")
def test_a_write_that_fails_says_where_and_what_to_do(tmp_path: Path) -> None:
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 * 10**6, limits[1]))
    try:
        with pytest.raises(OSError, match="must be written to .*'File too large'"):
            stored_file(fitted(), folder=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


MEASURE = """
import re
import numpy as np
from manykernels.banks import build_bank
from manykernels.kernels import RBF
from manykernels.kernels.kernel_set import KernelSet

def now(key):
    status = open("/proc/self/status").read()
    return 1024 * int(re.search(key + r":\\s+(\\d+)", status)[1])

def use(n):
    X = np.random.default_rng(0).normal(size=(n, 4))
    kernels = [RBF(0.1 * (k + 1)) for k in range(8)]
    bank = build_bank(KernelSet.fit(kernels, X), "memmap")
    coef = np.random.default_rng(1).normal(size=(n, 3))
    bank.scores(coef, np.ones(8))
    bank.square_norms(coef)
    bank.combine(np.ones(8), np.arange(n // 4))
    return bank.store.disk_bytes

use(400)  # imports and compiled code
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
before = now("VmRSS")
size = use(3000)
print(size, now("VmHWM") - before)
"""


@pytest.mark.skipif(
    not os.path.exists("/proc/self/clear_refs"), reason="needs Linux to measure memory"
)
def test_memory_stays_far_below_the_size_of_the_file() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE],
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    size, peak = map(int, done.stdout.split())
    assert size == 3000 * 3000 * 8 * 4
    assert 0 < peak < 0.55 * size


def test_linear_kernels_keep_their_names(tmp_path: Path) -> None:
    kernels = KernelSet.fit([Linear(name="a"), RBF(0.1, name="b")], X)
    assert build_bank(kernels, Storage("memmap", folder=tmp_path)).names == ["a", "b"]
