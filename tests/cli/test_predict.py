"""``manykernels predict``: columns by name, CSV out, equal to the Python API."""

import io

import numpy as np
import pandas as pd
import pytest

import manykernels as mk
from tests.cli.conftest import NAMES


@pytest.fixture(scope="module")
def expected(model, iris):
    loaded = mk.load(model)
    rows = iris.test[NAMES]
    return loaded, loaded.predict(rows), loaded.predict_proba(rows)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "parquet", "npz"])
def test_every_format(suffix, model, iris, call, expected):
    out = call("predict", model, iris.path(f"test.{suffix}")).stdout
    assert out.splitlines() == ["prediction", *expected[1]]


def test_libsvm(iris, call, tmp_path):
    path = tmp_path / "m"
    call("fit", iris.path("train.libsvm"), "-m", path, "--seed", 0)
    out = call("predict", path, iris.path("test.libsvm")).stdout.split()
    rows = iris.test[NAMES].to_numpy()
    assert out[1:] == [str(label) for label in mk.load(path).predict(rows)]


def test_probabilities_and_scores_are_exact(model, iris, call, expected):
    loaded, labels, proba = expected
    out = call("predict", model, iris.path("test.csv"), "--proba", "--scores").stdout
    # Read as text: Python's own float() keeps every digit.
    table = pd.read_csv(io.StringIO(out), dtype=str)
    kinds = ["setosa", "versicolor", "virginica"]
    assert list(table.columns) == [
        "prediction",
        *(f"probability_{kind}" for kind in kinds),
        *(f"score_{kind}" for kind in kinds),
    ]
    np.testing.assert_array_equal(table["prediction"].to_numpy(str), labels)
    np.testing.assert_array_equal(table.iloc[:, 1:4].astype(float).to_numpy(), proba)
    decision = loaded.decision_function(iris.test[NAMES])
    np.testing.assert_array_equal(table.iloc[:, 4:].astype(float).to_numpy(), decision)


def test_two_classes_have_one_score(iris, call, tmp_path):
    two = iris.train[iris.train["kind"] != "setosa"]
    two.to_csv(tmp_path / "two.csv", index=False)
    path = tmp_path / "m"
    call("fit", tmp_path / "two.csv", "-t", "kind", "-m", path)
    out = call("predict", path, tmp_path / "two.csv", "--scores").stdout
    table = pd.read_csv(io.StringIO(out))
    assert list(table.columns) == ["prediction", "score_virginica"]
    positive = table["score_virginica"] > 0
    assert (positive == (table["prediction"] == "virginica")).all()


def test_columns_are_matched_by_name(model, iris, call, expected, tmp_path):
    shuffled = iris.test[["kind", *NAMES[::-1]]].assign(note="text is no matter")
    shuffled.to_csv(tmp_path / "other.csv", index=False)
    out = call("predict", model, tmp_path / "other.csv").stdout.split()
    assert out[1:] == expected[1].tolist()


def test_columns_without_names_are_matched_by_position(model, iris, call, expected):
    text = iris.test[NAMES].to_csv(index=False, header=False)
    out = call("predict", model, "-", stdin=text).stdout.split()
    assert out[1:] == expected[1].tolist()
    text = iris.test.to_csv(index=False, header=False)
    out = call("predict", model, "-", "--drop", "-1", stdin=text).stdout.split()
    assert out[1:] == expected[1].tolist()


def test_file_instead_of_standard_output(model, iris, call, expected, tmp_path):
    for name in ("out.csv", "out.tsv"):
        result = call("predict", model, iris.path("test.csv"), "-o", tmp_path / name)
        assert result.stdout == ""
        lines = (tmp_path / name).read_text().splitlines()
        assert lines == ["prediction", *expected[1]]


def test_labels_with_commas_are_quoted(iris, call, tmp_path):
    frame = iris.train.assign(kind="a, b")
    frame.loc[:40, "kind"] = 'c "d"'
    frame.to_csv(tmp_path / "odd.csv", index=False)
    call("fit", tmp_path / "odd.csv", "-t", "kind", "-m", tmp_path / "m")
    out = call("predict", tmp_path / "m", tmp_path / "odd.csv").stdout
    assert set(pd.read_csv(io.StringIO(out))["prediction"]) <= {"a, b", 'c "d"'}


def test_missing_columns_are_named(model, iris, refused, tmp_path):
    less = iris.test.drop(columns=["petal width", "sepal length"])
    less.to_csv(tmp_path / "less.csv", index=False)
    refused(
        *("predict", model, tmp_path / "less.csv"),
        parts=["expected all 4 columns", "'sepal length', 'petal width'"],
    )


def test_wrong_number_of_columns(model, refused):
    refused(
        *("predict", model, "-"),
        stdin="1,2,3\n4,5,6\n",
        parts=["expected 4 columns as in training, got 3"],
    )


def test_kernel_values_for_a_model_of_columns(model, refused, tmp_path):
    np.savez(tmp_path / "stack.npz", kernels=np.ones((3, 4, 2)))
    refused(
        *("predict", model, tmp_path / "stack.npz"),
        parts=["expected columns as in training, got kernel values"],
    )


def test_outputs_that_are_no_tables(model, iris, refused):
    refused(
        *("predict", model, iris.path("test.csv"), "-o", "x.parquet"),
        parts=["--out must be - or end in", "'x.parquet'"],
    )


def test_models_that_are_none(iris, refused, tmp_path):
    rows = iris.path("test.csv")
    refused("predict", rows, rows, parts=["expected a whole manykernels model"])
    refused("predict", tmp_path / "none", rows, parts=["No such file", "none"])
