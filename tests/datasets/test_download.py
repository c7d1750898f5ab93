"""Finding, downloading and checking data files."""

import gzip
import hashlib
import os
from pathlib import Path

import pytest

from manykernels.datasets import download
from manykernels.datasets.download import DataFile, data_root, locate


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_data_root_prefers_argument_then_environment_then_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MANYKERNELS_DATA", str(tmp_path / "env"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert data_root(tmp_path / "arg") == tmp_path / "arg"
    assert data_root() == tmp_path / "env"
    monkeypatch.delenv("MANYKERNELS_DATA")
    assert data_root() == tmp_path / "xdg" / "manykernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_root() == tmp_path / ".cache" / "manykernels"


def test_file_on_disk_is_used_without_a_download(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "urlopen", lambda *_, **__: pytest.fail("downloaded"))
    (tmp_path / "a.txt").write_bytes(b"here")
    assert locate(DataFile("a.txt", ("http://127.0.0.1/",)), tmp_path).is_file()


def test_missing_file_without_source_names_file_folder_and_variable(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        locate(DataFile("views/a.npz"), tmp_path)
    message = str(caught.value)
    assert str(tmp_path / "views" / "a.npz") in message
    assert "put the file a.npz into" in message
    assert "MANYKERNELS_DATA" in message


def test_download_converts_checks_packs_and_is_kept(tmp_path, serve, monkeypatch):
    urls = serve(b"one ", b"two")
    file = DataFile("new/a.txt.gz", tuple(urls), b"".join, digest(b"one two"))
    path = locate(file, tmp_path)
    assert gzip.decompress(path.read_bytes()) == b"one two"
    assert os.listdir(path.parent) == ["a.txt.gz"]  # no temporary file stays
    monkeypatch.setattr(download, "urlopen", lambda *_, **__: pytest.fail("again"))
    assert locate(file, tmp_path) == path


def test_wrong_checksum_is_refused_and_nothing_is_written(tmp_path, serve):
    file = DataFile("a.txt", tuple(serve(b"other")), sha256=digest(b"expected"))
    with pytest.raises(ValueError, match=r"damaged.*sha256 is \w+, expected \w+"):
        locate(file, tmp_path)
    assert not list(tmp_path.iterdir())


def test_unreachable_source_names_address_and_reason(tmp_path, serve):
    url = serve(b"")[0] + "/missing"
    with pytest.raises(FileNotFoundError) as caught:
        locate(DataFile("a.txt", (url,)), tmp_path)
    message = str(caught.value)
    assert url in message
    assert "404" in message
    assert str(tmp_path / "a.txt") in message


def test_download_waits_a_limited_time(tmp_path, monkeypatch):
    seen = {}

    def time_out(url, timeout):
        seen["timeout"] = timeout
        raise TimeoutError("timed out")

    monkeypatch.setattr(download, "urlopen", time_out)
    with pytest.raises(FileNotFoundError, match="timed out"):
        locate(DataFile("a.txt", ("http://127.0.0.1/",)), tmp_path)
    assert 0 < seen["timeout"] <= 60


def test_interrupted_write_leaves_no_file(tmp_path, serve, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(download.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        locate(DataFile("a.txt", tuple(serve(b"content"))), tmp_path)
    assert not list(tmp_path.iterdir())


def test_folder_that_cannot_be_written_is_named(tmp_path, serve):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(PermissionError, match="name a writable folder"):
        locate(DataFile("a.txt", tuple(serve(b"x"))), tmp_path / "file")


def test_home_is_expanded(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_root("~/data") == Path(tmp_path / "data")
