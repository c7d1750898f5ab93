"""Tables and treebanks as inputs: CSV, NPZ, LIBSVM, Parquet, CoNLL-U."""

import gzip
import io
import zipfile
from functools import cache

import numpy as np

import manykernels as mk
from manykernels.cli.data_files import (
    read_delimited,
    read_libsvm,
    read_npz,
    read_parquet,
)
from manykernels.cli.roles import Roles, as_labels
from manykernels.structured.conllu import format_conllu, parse_conllu
from tests.fuzz.mutate import changed_cell, mutated, one_of

X = np.random.default_rng(0).normal(size=(12, 4)).round(3)
Y = np.array(["u", "v", "w"] * 4)
NAMES = ["a", "b one", "c", "d"]


def mutating(seeds, separator):
    """Inputs from seeds: other cells and lines, or other bytes."""

    def make(rng) -> bytes:
        seed = one_of(rng, seeds())
        if rng.random() < 0.6:
            return changed_cell(rng, seed, separator)
        return mutated(rng, seed)

    return make


# --- CSV ---------------------------------------------------------------------------


@cache
def csv_seeds() -> list[bytes]:
    rows = [",".join(map(str, row)) for row in X]
    named = [",".join([*NAMES, "y"]), *map(",".join, zip(rows, Y, strict=True))]
    numbered = [f"{row},{k % 2}" for k, row in enumerate(rows)]
    quoted = ['"a","b, c",y', '1,"2",x', '"3",4,"z ""q"""']
    return ["\n".join(lines).encode() for lines in (named, numbered, quoted)]


def read_csv(content: bytes) -> None:
    roles = Roles(target="y" if content[:200].find(b"y") >= 0 else "-1")
    as_labels(read_delimited(io.BytesIO(content), roles).y)


# --- NPZ ---------------------------------------------------------------------------


@cache
def npz_seeds() -> list[bytes]:
    return [
        _saved(np.savez, X=X, y=Y, names=np.array(NAMES)),
        _saved(np.savez_compressed, X=X.astype(np.float32), y=np.arange(12) % 2),
        _saved(np.savez, kernels=np.ones((4, 4, 2)), y=np.arange(4) % 2),
    ]


def _saved(save, **arrays) -> bytes:
    stream = io.BytesIO()
    save(stream, **arrays)
    return stream.getvalue()


HEADERS = [
    *(b"'<f8'", b"'|O'", b"'>f8'", b"'<U9'", b"'|b1'", b"'<M8[D]'", b"'V16'", b"'f2'"),
    *(b"(12, 4)", b"(12,)", b"()", b"(0, 4)", b"(12, 0)", b"(-1, 4)", b"(9999999, 4)"),
    *(b"(99999999999, 99999999999)", b"(1e3,)", b"True", b"False", b"None", b"(12"),
]


def make_npz(rng) -> bytes:
    """Other bytes, or whole archives of arrays with other headers, names and sizes."""
    whole = one_of(rng, npz_seeds())
    if rng.random() < 0.3:
        return mutated(rng, whole)
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        parts = [[name, archive.read(name)] for name in archive.namelist()]
    for _ in range(rng.geometric(0.6)):
        part = one_of(rng, parts)
        choice = rng.integers(5)
        if choice <= 1:
            part[1] = _with_header(rng, part[1])
        elif choice == 2:
            part[1] = mutated(rng, part[1])
        elif choice == 3:
            part[0] = one_of(rng, ["X.npy", "y.npy", "names.npy", "kernels.npy", "X"])
        else:
            parts = [p for p in parts if p is not part] or parts
    stream, packing = io.BytesIO(), one_of(rng, [zipfile.ZIP_STORED, 8, 12, 14])
    with zipfile.ZipFile(stream, "w", packing) as archive:
        for name, payload in parts:
            if name not in archive.namelist():
                archive.writestr(name, payload)
    return stream.getvalue()


def _with_header(rng, payload: bytes) -> bytes:
    """The description of an array with other words, as long as it was."""
    start, end = 10, payload.find(b"\n")
    words = {
        b"descr": payload[start:end].split(b"'descr': ")[-1].split(b", 'fort")[0],
        b"shape": payload[start:end].split(b"'shape': ")[-1].split(b", }")[0],
        b"order": b"False",
    }
    old = words[one_of(rng, list(words))]
    text = payload[start:end].replace(old, one_of(rng, HEADERS), 1).rstrip()
    return payload[:start] + text.ljust(end - start)[: end - start] + payload[end:]


def load_npz(content: bytes) -> None:
    as_labels(read_npz(io.BytesIO(content), Roles(target="y")).y)


# --- LIBSVM ------------------------------------------------------------------------


def libsvm_seeds() -> list[bytes]:
    return [
        b"1 1:0.5 3:2 7:-1e-3\n-1 2:1 # note\n+1 1:0.25 7:3\n",
        b"\n".join(
            b"%d " % (k % 3)
            + b" ".join(b"%d:%.3f" % (j + 1, v) for j, v in enumerate(row))
            for k, row in enumerate(X)
        ),
    ]


def load_libsvm(content: bytes) -> None:
    as_labels(read_libsvm(io.BytesIO(content), Roles()).y)


# --- Parquet -----------------------------------------------------------------------


@cache
def _columns():
    """Columns of every type that a Parquet file may have."""
    import pyarrow as pa

    n, floats = len(X), X[:, 0].tolist()
    return {
        "float": pa.array(floats),
        "half": pa.array(np.float16(X[:, 0])),
        "missing": pa.array([None, *floats[1:]]),
        "nothing": pa.array([None] * n),
        "infinite": pa.array([float("inf"), *floats[1:]]),
        "int": pa.array(list(range(n))),
        "huge": pa.array([2**62] * n),
        "bool": pa.array([True, False] * 6),
        "text": pa.array(Y.tolist()),
        "codes": pa.array(Y.tolist()).dictionary_encode(),
        "bytes": pa.array([b"a"] * n),
        "day": pa.array([0] * n, pa.date32()),
        "time": pa.array([0] * n, pa.timestamp("ns", tz="UTC")),
        "span": pa.array([1] * n, pa.duration("s")),
        "decimal": pa.array([1] * n).cast(pa.decimal128(30, 2)),
        "list": pa.array([[1.0]] * n),
        "struct": pa.array([{"a": 1}] * n),
        "map": pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int64())),
    }


def make_parquet(rng) -> bytes:
    """Whole files with columns of odd types and names, or other bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    known = _columns()
    kinds = ["float", "float", "text" if rng.random() < 0.5 else "int"]
    if rng.random() < 0.6:
        kinds.insert(int(rng.integers(3)), one_of(rng, list(known)))
    if rng.random() < 0.3:
        kinds[-1] = one_of(rng, list(known))
    names = [f"column {k}" for k in range(len(kinds) - 1)] + ["y"]
    if rng.random() < 0.2:
        names[int(rng.integers(len(names)))] = one_of(
            rng, ["y", "", "é", "a,b", "\x1b"]
        )
    table = pa.Table.from_arrays([known[kind] for kind in kinds], names)
    if rng.random() < 0.1:
        table = table.slice(0, int(rng.integers(2)))
    stream = io.BytesIO()
    pq.write_table(table, stream)
    content = stream.getvalue()
    return mutated(rng, content) if rng.random() < 0.4 else content


def load_parquet(content: bytes) -> None:
    as_labels(read_parquet(io.BytesIO(content), Roles(target="y")).y)


# --- CoNLL-U -----------------------------------------------------------------------


def conllu_seeds() -> list[bytes]:
    line = "{}\t{}\t_\t{}\t_\t_\t{}\tdep\t_\t_"
    words = [("the", "DET", 2), ("dog", "NOUN", 3), ("barks", "VERB", 0)]
    plain = [line.format(k + 1, *word) for k, word in enumerate(words)]
    ranged = ["# text = du", "1-2\tdu" + "\t_" * 8, *plain, "3.1\tnull" + "\t_" * 8]
    return [("\n".join(lines) + "\n\n").encode() * 2 for lines in (plain, ranged)]


def load_conllu(content: bytes) -> None:
    """Sentences that are accepted are written and read again."""
    sentences = list(parse_conllu(content))
    again = list(parse_conllu(format_conllu(sentences)))
    assert again == sentences, "another treebank after it was written and read"


# --- gene sets ----------------------------------------------------------------------


def gmt_seeds() -> list[bytes]:
    """Sets of genes, plain and packed."""
    plain = b"UP\tna\tTP53\tMYC\nDOWN\tfrom a paper\tATM\n\nONE\t\tTP53\n"
    return [plain, gzip.compress(plain, mtime=0)]


def load_gmt(content: bytes) -> None:
    """Every set has a name and genes, each once, and makes kernels."""
    sets = mk.read_gmt(io.BytesIO(content))
    assert sets and all(name.strip() and genes for name, genes in sets.items())
    assert all(len(set(genes)) == len(genes) for genes in sets.values())
    assert len(mk.group_kernels(sets)) == len(sets)
