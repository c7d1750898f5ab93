"""The size of a file bounds what reading it takes; nothing in it is believed."""

import hashlib
import json
import os
import tracemalloc

import numpy as np
import pytest

from manykernels.files import ModelFileError, read_container, write_container
from manykernels.files.container import READ_EXTRA_BYTES, READ_FACTOR, _unfolded


def forge(path, document, payload=b"", length=None, version=3):
    """A file with any document and any bytes, and a checksum that fits."""
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    length = len(text) if length is None else length
    whole = f"manykernels {version}\n{length:016x}\n".encode() + text + payload
    path.write_bytes(whole + hashlib.sha256(whole).digest())
    return path


def described(dtype="<f8", shape=(1,), order="C"):
    return {"dtype": dtype, "shape": list(shape), "order": order}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def test_content_and_arrays_come_back(path):
    arrays = [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
        np.array(["a", "é", "😀"]),
        np.array([True, False]),
        np.zeros((0, 5), np.float32),
        np.array(3.5),
    ]
    content = {"text": "é😀\ud800", "numbers": [1, 2.5, float("inf"), None, True]}
    write_container(path, content, arrays)
    found, back = read_container(path)
    assert found == content
    for before, after in zip(arrays, back, strict=True):
        assert after.dtype == before.dtype and after.flags.writeable
        assert after.flags.f_contiguous == before.flags.f_contiguous
        np.testing.assert_array_equal(after, before)


def test_the_document_must_name_every_byte_once(path):
    one = described()
    for arrays, payload, message in [
        ([one], bytes(7), "too few"),
        ([one, one], bytes(8), "too few"),
        ([one], bytes(9), "1 of its bytes belong to no array"),
        ([], bytes(100), "100 of its bytes belong to no array"),
    ]:
        forge(path, {"content": 0, "arrays": arrays}, payload)
        with pytest.raises(ModelFileError, match=message):
            read_container(path)


@pytest.mark.parametrize(
    "odd",
    [
        described("O"),
        described(">f8"),
        described("<f16"),
        described("<M8[D]"),
        described("V8"),
        described("<U0", (10**18,)),
        described(shape=(0, 10**18)),
        described(shape=(-1, -1)),
        described(shape=(1.0,)),
        described(shape=(True,)),
        described(shape=(1,) * 5),
        described(shape=(10**18, 10**18)),
        described(order="K"),
        described("|b1", (8,)),
        described("<U2"),
        {"dtype": "<f8"},
        None,
    ],
)
def test_arrays_that_nobody_wrote_are_refused(odd, path):
    forge(path, {"content": 0, "arrays": [odd]}, b"\xff" * 8)
    with pytest.raises(ModelFileError, match=r"got .*, but .*; copy the original"):
        read_container(path)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        "é".encode(),
        b'{"content": 1, "arrays": 3}',
        b'{"content": %s, "arrays": []}' % (b"9" * 10_000),
    ],
)
def test_documents_that_nobody_wrote_are_refused(document, path):
    with pytest.raises(
        ModelFileError, match="whole manykernels model file, got .*, but "
    ):
        read_container(forge(path, document))


def test_no_length_is_believed(path):
    for length in (10**6, 2**63, 2**64 - 1):
        with pytest.raises(ModelFileError, match="ends too early"):
            read_container(forge(path, {"content": 0, "arrays": []}, length=length))


def test_documents_that_unfold_are_refused_before_they_do(path):
    """Two bytes in a file may be a list of 64 bytes in memory."""
    document = b'{"arrays":[],"content":[%s]}'
    many, few = (b",".join([b"[]"] * n) for n in (700_000, 10_000))
    with pytest.raises(ModelFileError, match="needs at most .* memory_limit if you tr"):
        read_container(forge(path, document % many))
    with pytest.raises(ModelFileError, match="needs at most 0.001 GB"):
        read_container(forge(path, document % few), "1MB")
    assert len(read_container(path, "3MB")[0]) == 10_000


def test_a_limit_is_kept(path):
    write_container(path, {}, [np.zeros(10**6)])
    assert len(read_container(path, "20MB")[1][0]) == 10**6
    with pytest.raises(ModelFileError, match="at most 0.01 GB of .* need 0.016 GB"):
        read_container(path, "10MB")
    with pytest.raises(ValueError, match="memory_limit must be a positive number"):
        read_container(path, "much")


@pytest.mark.parametrize(
    "content",
    [
        [[0]] * 30_000,
        [{"dict": {"": 0}}] * 20_000,
        {str(i): i for i in range(50_000)},
        [i / 7 for i in range(50_000)],
        [f"word {i}" for i in range(50_000)],
        ["\u4e2d\u4e2f"] * 50_000,
        ["a" * 500_000 + "😀"],
    ],
    ids=["lists", "dicts", "keys", "numbers", "texts", "wide", "wider"],
)
def test_what_a_document_takes_is_known_beforehand(content):
    text = json.dumps(content, separators=(",", ":")).encode()
    tracemalloc.start()
    json.loads(text.decode())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= _unfolded(text)


def test_memory_is_a_small_multiple_of_the_file(path):
    write_container(path, {}, [np.ones(400_000), np.ones((1000, 400))])
    tracemalloc.start()
    kept = read_container(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = path.stat().st_size
    assert kept and size < peak < 2.2 * size < READ_FACTOR * size + READ_EXTRA_BYTES


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", tmp_path, "/dev/zero", "/dev/null"):
        with pytest.raises(ModelFileError, match="no regular file"):
            read_container(odd)


def test_huge_holes_are_not_read(path):
    """A file may claim any size without taking any place."""
    path.write_bytes(b"manykernels 3\n" + b"0" * 15 + b"1\n")
    os.truncate(path, 10**12)
    with pytest.raises(ModelFileError, match="needs at most 1 GB"):
        read_container(path, "1GB")
    with pytest.raises(ModelFileError, match=r"may need 2e\+03 GB"):
        read_container(path)
