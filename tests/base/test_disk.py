"""Files that are written whole or not at all, as `open` would write them."""

import gzip
import io
import os
import stat

import pytest

from manykernels.base import disk
from manykernels.base.disk import (
    TooLargeError,
    file_name,
    read_whole,
    replacing,
    unpacked,
)


def write(path, content=b"new"):
    with replacing(path) as stream:
        stream.write(content)


def permissions(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_the_umask_counts(umask, tmp_path):
    write(tmp_path / "file")
    assert permissions(tmp_path / "file") == 0o666 & ~umask


def test_an_earlier_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write(path)
    assert permissions(path) == 0o640 and path.read_bytes() == b"new"


def test_a_link_keeps_its_place(tmp_path):
    real, link = tmp_path / "folder" / "real", tmp_path / "link"
    real.parent.mkdir()
    link.symlink_to(real)
    for content in (b"new", b"newer"):  # first where the link leads nowhere
        write(link, content)
        assert link.is_symlink() and real.read_bytes() == content
        assert os.listdir(real.parent) == ["real"]


def test_devices_and_folders_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", tmp_path, "/dev/null"):
        with pytest.raises(FileExistsError, match="a folder or a device; choose ano"):
            write(odd)
    assert os.listdir(tmp_path) == ["pipe"]


def test_read_only_files_are_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(disk.os, "access", lambda *_: False)  # root may do anything
    with pytest.raises(PermissionError, match="which is read-only; choose another"):
        write(path)
    assert path.read_bytes() == b"old"


def test_file_and_folder_are_synced_around_the_rename(tmp_path, monkeypatch):
    seen = []

    def fsync(handle):
        kind = "folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"
        seen.append(f"sync {kind}")

    def replace(*names):
        seen.append("rename")
        rename(*names)

    rename = os.replace
    monkeypatch.setattr(disk.os, "fsync", fsync)
    monkeypatch.setattr(disk.os, "replace", replace)
    write(tmp_path / "file")
    assert seen == ["sync file", "rename", "sync folder"]


def test_an_interrupted_block_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as stream:
        stream.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected to write .*'No such file"):
        write(tmp_path / "nowhere" / "file")


@pytest.mark.parametrize("odd", [None, 3, 0.5, [], {}, object(), "", "a\0b", b""])
def test_what_is_no_name_of_a_file(odd):
    with pytest.raises((TypeError, ValueError), match=r"state must be the name of a f"):
        file_name(odd, "state")
    with pytest.raises((TypeError, ValueError), match="path must be .*, got .*; wri"):
        write(odd)


@pytest.mark.parametrize("name", ["file/below", "x" * 5000])
def test_places_that_no_file_can_have(name, tmp_path):
    write(tmp_path / "file")
    with pytest.raises(OSError, match="^expected to write .*; choose another") as found:
        write(tmp_path / name)
    assert len(str(found.value)) < 500


def test_names_may_be_bytes(tmp_path):
    write(os.fsencode(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == b"new"


class Endless:
    """A device."""

    def read(self, size):
        return bytes(size)


def test_devices_that_never_end_are_left(monkeypatch):
    monkeypatch.setattr(disk, "allowed_bytes", lambda limit: 10**9)
    with pytest.raises(TooLargeError, match="expected a table of at most 1 GB, .*; re"):
        read_whole(Endless(), "a table")


def test_what_unfolds_beyond_memory_is_not_unfolded(monkeypatch):
    """Twice a gibibyte of zeros in two megabytes."""
    monkeypatch.setattr(disk, "allowed_bytes", lambda limit: 10**9)
    zeros = gzip.compress(bytes(2**30), 1)
    assert len(zeros) < 10_000_000
    with pytest.raises(TooLargeError, match=r"an unpacked table of at most 1 GB"):
        unpacked(zeros, "an unpacked table")
    assert unpacked(gzip.compress(b"a") + gzip.compress(b"b"), "two members") == b"ab"
    assert read_whole(io.BytesIO(b"x" * 3_000_000), "a file") == b"x" * 3_000_000
