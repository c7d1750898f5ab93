"""Data files: what is read, and what is refused in one sentence."""

import gzip
import io
import zipfile

import numpy as np
import pandas as pd
import pytest

from manykernels.cli.data_files import (
    RowSource,
    choose_format,
    is_header,
    read_delimited,
    read_libsvm,
    read_npz,
    read_parquet,
)
from manykernels.cli.roles import Roles, TableError, as_labels, labels_like


def csv(text, delimiter=",", header=None, **roles):
    stream = io.BytesIO(text.encode() if isinstance(text, str) else text)
    return read_delimited(stream, Roles(**roles), delimiter, header)


def npz(roles=None, **arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return read_npz(io.BytesIO(stream.getvalue()), roles or Roles())


def refused(*parts):
    """A sentence with these parts in this order, as a pattern."""
    return "(?s)^(?!.*\n).*" + ".*".join(parts) + r".*[.?]$"


# --- CSV -------------------------------------------------------------------------


def test_header_names_and_roles():
    text = "id,a,b,w,g,y\n7,1,2,0.5,p,yes\n8,3,4,1.5,q,no\n"
    sample = csv(text, target="y", weight="w", group="g", drop=["id"])
    assert sample.names == ["a", "b"]
    np.testing.assert_array_equal(sample.X, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(sample.weight, [0.5, 1.5])
    assert sample.y.tolist() == ["yes", "no"] and sample.group.tolist() == ["p", "q"]


@pytest.mark.parametrize(
    ("first", "roles", "expected"),
    [
        ("1,2,x", {"target": "-1"}, False),
        ("1,2,y", {"target": "y"}, True),
        ("a,b,c", {}, True),
        ("0,1,2", {"target": "2"}, True),
        ("0,1,3", {"target": "2"}, False),
        ("5,,x", {"target": "2"}, False),
        (",a,b", {}, True),
        (",1,b", {}, False),
        ("2019,2020,y", {"target": "y"}, True),
        ("3,1", {"features": ["1", "3"]}, True),
    ],
)
def test_header_is_found(first, roles, expected):
    assert is_header(first.split(","), Roles(**roles).wanted_names()) is expected


def test_header_can_be_said():
    assert csv("1,2\n3,4\n", header=True).names == ["1", "2"]
    assert csv("1,2\n3,4\n", header=False).X.shape == (2, 2)


def test_quotes_spaces_blank_lines_and_byte_order_mark():
    text = '\ufeffa,"b, c",y\n\n 1 , "2" ,"x, y"\n\n3,4,z\n'
    sample = csv(text.replace(' "2" ', ' "2"'), target="y")
    assert sample.names == ["a", "b, c"]
    assert sample.X.tolist() == [[1, 2], [3, 4]] and sample.y.tolist() == ["x, y", "z"]


def test_numbers_are_read_to_the_last_bit():
    values = np.random.default_rng(0).normal(size=(50, 3))
    text = pd.DataFrame(values, columns=list("abc")).to_csv(index=False)
    np.testing.assert_array_equal(csv(text).X, values)


def test_a_column_of_truth_values_is_zeros_and_ones():
    assert csv("a,b\nTrue,1\nFalse,2\n").X.tolist() == [[1, 1], [0, 2]]


@pytest.mark.parametrize(
    ("text", "roles", "parts"),
    [
        ("", {}, ["at least one row of data, got none"]),
        ("a,b\n", {}, ["at least one row of data, got none"]),
        ("a,b\n1,2\n3\n", {}, ["expected 2 cells", "got 1 in line 3"]),
        ("a,b\n1,\n", {}, ["a missing value in row 1 of column 'b'"]),
        ("a,b\n1,2\nNA,2\n", {}, ["a missing value in row 2 of column 'a'"]),
        ("1,2\n3,nan\n", {}, ["a missing value in row 2 of column '1'"]),
        ("a,b\n1,inf\n", {}, ["got infinity in row 1 of column 'b'"]),
        ("a,b,c\n1,u,v\n", {}, ["text such as 'u'", "columns 'b', 'c'", "--drop"]),
        ("a,b\n1,2_3\n", {}, ["text such as '2_3'"]),
        ("a,a\n1,2\n", {}, ["every column name once, got 'a' twice"]),
        (",a\n0,1\n", {"target": "a"}, ["got none for column 0", "--drop 0"]),
        ("a,y\n1,\n", {"target": "y"}, ["column 'y', got none in row 1"]),
        ("a,y\n1,2\n", {"target": "z"}, ["one of the columns 'a', 'y', got 'z'"]),
        ("1,2\n3,4\n", {"target": "5"}, ["between 0 and 1, got '5'", "without"]),
        ("a,w\n1,x\n", {"weight": "w"}, ["text such as 'x'", "'w'"]),
        ('a,b\n1,"2\n', {}, ["cannot be read", "quotes"]),
        (b"a,b\n1,\xff\n", {}, ["text in UTF-8", "0xff in line 2"]),
        ("a,b\n1,2\n", {"features": ["a", "c", "d"]}, ["none named 'c', 'd'"]),
        ("a,b\n1,2\n", {"n_features": 3}, ["expected 3 columns", "got 2"]),
    ],
)
def test_bad_tables_are_one_sentence(text, roles, parts):
    with pytest.raises(TableError, match=refused(*parts)):
        csv(text, **roles)


def test_long_lists_of_names_are_cut():
    names = [f"column{j}" for j in range(40)]
    text = ",".join(names) + "\n" + ",".join(["x"] * 40) + "\n"
    with pytest.raises(TableError, match="'column9' and 30 more"):
        csv(text)


# --- Parquet -----------------------------------------------------------------------


def parquet(frame, **roles):
    stream = io.BytesIO()
    frame.to_parquet(stream)
    return read_parquet(io.BytesIO(stream.getvalue()), Roles(**roles))


FRAME = pd.DataFrame(
    {
        "a": [1.5, 2.5, 3.5],
        "n": [1, 2, 3],
        "flag": [True, False, True],
        "y": ["u", "v", "u"],
        "k": pd.Categorical(["p", "q", "p"]),
    }
)


def test_parquet_columns():
    sample = parquet(FRAME, target="y", group="k", weight="n")
    assert sample.names == ["a", "flag"]
    np.testing.assert_array_equal(sample.X, [[1.5, 1], [2.5, 0], [3.5, 1]])
    assert as_labels(sample.y).tolist() == ["u", "v", "u"]
    assert list(map(str, sample.group)) == ["p", "q", "p"]
    np.testing.assert_array_equal(sample.weight, [1, 2, 3])


def test_bad_parquet_is_one_sentence():
    with pytest.raises(
        TableError, match=refused("text such as 'u' in the columns 'y', 'k'")
    ):
        parquet(FRAME)
    missing = FRAME.assign(a=[1.0, None, 3.0], y=["u", None, "v"])[["a", "y"]]
    with pytest.raises(TableError, match=refused("row 2 of column 'a'")):
        parquet(missing, target="y")
    with pytest.raises(TableError, match=refused("column 'y', got none in row 2")):
        parquet(missing.fillna({"a": 0.0}), target="y")
    with pytest.raises(TableError, match=refused("text such as 'u'", "'y'")):
        parquet(FRAME, weight="y", drop=["k"])
    with pytest.raises(TableError, match=refused("a whole Parquet file")):
        read_parquet(io.BytesIO(b"PAR1 and no more"), Roles())


# --- NPZ and LIBSVM ------------------------------------------------------------------


def test_npz_table_and_stack():
    X, y = np.arange(6).reshape(3, 2), np.array(["u", "v", "u"])
    sample = npz(Roles(target="y", drop=["b"]), X=X, y=y, names=np.array(["a", "b"]))
    assert sample.names == ["a"] and sample.X.tolist() == [[0], [2], [4]]
    assert sample.y.tolist() == ["u", "v", "u"]
    stack = npz(Roles(target="y"), kernels=np.ones((3, 3, 2)), y=y)
    assert stack.holds_kernels and stack.X.shape == (3, 3, 2)


@pytest.mark.parametrize(
    ("roles", "arrays", "parts"),
    [
        ({}, {"a": np.ones(3)}, ["an array 'X'", "got 'a'"]),
        ({}, {"X": np.ones(3)}, ["expected 2 dimensions in the array 'X', got 1"]),
        ({}, {"X": np.array([["a"]])}, ["expected numbers in the array 'X', got str_"]),
        (
            {},
            {"X": np.array([[None]])},
            ["expected numbers in the array 'X', got object_"],
        ),
        ({}, {"X": np.array([[np.nan]])}, ["a missing value in row 1 of column 0"]),
        ({}, {"X": np.ones((0, 2))}, ["at least one row of data"]),
        ({"target": "y"}, {"X": np.ones((2, 1))}, ["an array 'y'"]),
        (
            {"target": "y"},
            {"X": np.ones((2, 1)), "y": np.ones(3)},
            ["expected 2 entries in the array 'y'", "got 3"],
        ),
        (
            {},
            {"X": np.ones((2, 2)), "names": np.array(["a"])},
            ["2 entries in the array 'names'", "got 1"],
        ),
        ({"n_features": 5}, {"kernels": np.ones((2, 3, 1))}, ["5 columns", "got 3"]),
        (
            {"weight": "w"},
            {"X": np.ones((1, 1)), "w": np.array(["a"])},
            ["numbers in the array 'w'", "got str_"],
        ),
    ],
)
def test_bad_npz_is_one_sentence(roles, arrays, parts):
    with pytest.raises(TableError, match=refused(*parts)):
        npz(Roles(**roles), **arrays)


def test_npz_that_unfolds_beyond_memory_is_refused(monkeypatch):
    """Zeros of any number take next to no place in a packed file."""
    monkeypatch.setattr("manykernels.base.disk.allowed_bytes", lambda limit: 10**6)
    stream = io.BytesIO()
    np.savez_compressed(stream, X=np.zeros((1000, 1000)))
    assert len(stream.getvalue()) < 10_000
    with pytest.raises(MemoryError, match=refused("an array 'X'", "0.008 GB", "; rea")):
        read_npz(io.BytesIO(stream.getvalue()), Roles())


def test_npz_sizes_are_not_believed():
    """A header that promises more than there is must not cost memory."""
    array, stream = io.BytesIO(), io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**3)}
    np.lib.format.write_array_header_1_0(array, shape)
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("X.npy", array.getvalue() + bytes(80))
    with pytest.raises(
        TableError, match=refused("expected 8000000000000 bytes", "'X'")
    ):
        read_npz(stream, Roles())


def test_libsvm_counts_from_one_or_zero():
    text = b"1 1:0.5 3:2\n-1 2:1 # comment\n"
    sample = read_libsvm(io.BytesIO(text), Roles())
    assert sample.X.toarray().tolist() == [[0.5, 0, 2], [0, 1, 0]]
    assert as_labels(sample.y).tolist() == [1, -1]
    assert read_libsvm(io.BytesIO(text), Roles(), True).X.shape == (2, 4)
    wide = read_libsvm(io.BytesIO(text), Roles(n_features=7)).X
    assert wide.shape == (2, 7) and wide[0, 2] == 2


@pytest.mark.parametrize(
    ("text", "roles", "parts"),
    [
        (b"", {}, ["at least one row of data"]),
        (b"1 0:2\n", {}, ["index 0", "count from 0, read it with --format libsvm0"]),
        (b"hello world\n", {}, ["expected LIBSVM rows such as"]),
        (b"1 1:nan\n", {}, ["a missing value in row 1 of column 0"]),
        (b"nan 1:1\n", {}, ["an entry in every row of the labels, got none in row 1"]),
        (b"1 99999999:1\n", {}, ["indices up to 10000000, got 99999999"]),
        (b"1 3:1\n", {"n_features": 2}, ["indices up to 2, got 3"]),
        (b"1 1:1\n", {"target": "y"}, ["expected no --target", "'y'"]),
        (b"1 1:1\n", {"drop": ["a", "b"]}, ["expected no --drop", "'a, b'"]),
    ],
)
def test_bad_libsvm_is_one_sentence(text, roles, parts):
    with pytest.raises(TableError, match=refused(*parts)):
        read_libsvm(io.BytesIO(text), Roles(**roles))


# --- formats and labels ---------------------------------------------------------------


def test_format_from_the_name():
    names = ["a.CSV", "a.tsv.gz", "a.pq", "a.svm", "a.npz"]
    expected = ["csv", "tsv", "parquet", "libsvm", "npz"]
    assert [choose_format(name) for name in names] == expected
    with pytest.raises(TableError, match=refused("ends in one of .csv", "'a.xlsx'")):
        choose_format("a.xlsx")


def test_broken_gzip(tmp_path):
    whole = gzip.compress(b"a,b\n1,2\n" * 100)
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(whole[:-20])
    with pytest.raises(TableError, match=refused("a whole gzip file")):
        RowSource(str(path)).read(Roles())


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2"], [1, 2]),
        (["+1", "-1.0"], [1, -1]),
        (["01", "02"], ["01", "02"]),
        (["1", "x"], ["1", "x"]),
        (["True", "False"], ["True", "False"]),
        (["9" * 30, "1"], ["9" * 30, "1"]),
    ],
)
def test_labels_from_text(values, expected):
    assert as_labels(np.array(values, dtype=object)).tolist() == expected


@pytest.mark.parametrize("values", [["0.5", "1.5"], [0.5, 1.5], ["1e3", "2.5"]])
def test_fractions_are_no_labels(values):
    with pytest.raises(TableError, match=refused("whole numbers or text as labels")):
        as_labels(np.array(values, dtype=object if values[0] == "0.5" else None))


def test_labels_are_found_among_the_classes():
    classes = np.array([False, True])
    values = np.array(["True", "False"], dtype=object)
    assert labels_like(values, classes).tolist() == [True, False]
    with pytest.raises(TableError, match=refused("'maybe' in row 1")):
        labels_like(np.array(["maybe"], dtype=object), classes)
