"""Gene-set files: what is read, and what is refused in one sentence."""

import gzip
import io
import os
import tracemalloc

import numpy as np
import pytest

import manykernels as mk
from manykernels.inputs import gmt

TEXT = "HYPOXIA\tshort of oxygen\tVEGFA\tLDHA\tVEGFA\nREPAIR\t\tTP53\tATM\t\t\n\n"
SETS = {"HYPOXIA": ["VEGFA", "LDHA"], "REPAIR": ["TP53", "ATM"]}


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("pack", [lambda b: b, gzip.compress], ids=["plain", "gz"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["", "bom"])
def test_files_of_every_form(tmp_path, newline, pack, mark):
    path = tmp_path / "sets.gmt"  # no suffix says how it is packed
    path.write_bytes(pack(mark + TEXT.replace("\n", newline).encode()))
    assert mk.read_gmt(path) == mk.read_gmt(str(path)) == SETS
    with path.open("rb") as stream:
        assert mk.read_gmt(stream) == SETS


def test_text_streams_and_other_letters():
    assert mk.read_gmt(io.StringIO(TEXT)) == SETS
    assert mk.read_gmt(io.BytesIO("Größe\t-\tα\n".encode())) == {"Größe": ["α"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must hold gene sets, one per line, got none"),
        (b"\n \n", "must hold gene sets, one per line, got none"),
        (b"A,b,c\n", "line 1 of .* separated by tabs, got 'A,b,c'"),
        (b"A\t-\tb\nB\tonly a description\n", "line 2 of .* separated by tabs"),
        (b"\t-\tb\n", "line 1 of .* must be a name"),
        (b"A\t-\t\t \n", "line 1 of .* at least one gene, got none for the set 'A'"),
        (b"A\t-\tb\nB\t-\tb\nA\t-\tc\n", "'A' on lines 1 and 3"),
        (b"A\t-\tb\x00\n", "must be text in UTF-8, got the character '.x00'"),
        (
            b"\x89PNG\r\n\x1a\n\xff",
            "must be text in UTF-8, got bytes that are no UTF-8",
        ),
        (b"A\t-\t\xff\xfe\n", "no UTF-8 at position 4"),
        (
            gzip.compress(TEXT.encode(), mtime=0)[:-9],
            "pass a whole file, plain or gzipped",
        ),
        (b"\x1f\x8b" + b"junk" * 9, "pass a whole file, plain or gzipped"),
        (b"x" * 10**5, "got 'x{40}...'; correct"),
    ],
)
def test_what_is_no_gene_set_file_is_refused(tmp_path, content, message):
    path = tmp_path / "sets.gmt"
    path.write_bytes(content)
    for source in (path, io.BytesIO(content)):
        with pytest.raises(ValueError, match=message) as caught:
            mk.read_gmt(source)
        assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


def test_no_bytes_at_all_do_anything_else():
    """Junk is read or refused, never more."""
    rng = np.random.default_rng(0)
    letters = np.frombuffer(b"A\t-b\n\r \x00\xff\x1f\x8b#=", np.uint8)
    for size in rng.integers(0, 40, 2000):
        junk = rng.choice(letters, size).tobytes()
        try:
            found = mk.read_gmt(io.BytesIO(junk))
        except ValueError as error:
            assert str(error).endswith(".")
        else:
            assert found and all(found.values())


def test_a_missing_file_a_folder_and_a_pipe(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"got none; check the path\."):
        mk.read_gmt(tmp_path / "none.gmt")
    with pytest.raises(ValueError, match="no regular file"):
        mk.read_gmt(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ValueError, match="no regular file"):
            mk.read_gmt(tmp_path / "pipe")


@pytest.mark.parametrize("source", [None, 3, ["a.gmt"]])
def test_what_is_no_path(source):
    with pytest.raises(TypeError, match="path must be a path or an open file"):
        mk.read_gmt(source)


def test_a_stream_of_something_else():
    class Stream:
        def read(self, size):
            return ["A"]

    with pytest.raises(TypeError, match="must give bytes or text, got list"):
        mk.read_gmt(Stream())


def test_what_unpacks_to_too_much_is_refused_before_it_is_unpacked(monkeypatch):
    monkeypatch.setattr(gmt, "GMT_BYTES", 10**6)
    bomb = gzip.compress(b"A\t-\tb" + b"c" * 10**8)
    tracemalloc.start()
    with pytest.raises(ValueError, match="at most 0 MB of gene sets, got more"):
        mk.read_gmt(io.BytesIO(bomb))
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()
    monkeypatch.setattr(gmt, "GMT_GENES", 3)
    with pytest.raises(ValueError, match="at most 3 genes in all sets together"):
        mk.read_gmt(io.StringIO(TEXT))
