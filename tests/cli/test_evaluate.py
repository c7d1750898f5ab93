"""``manykernels evaluate`` and ``manykernels inspect``."""

import json
import os

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    classification_report,
    confusion_matrix,
    log_loss,
)

import manykernels as mk
from tests.cli.conftest import NAMES


@pytest.fixture(scope="module")
def predicted(model, iris):
    loaded = mk.load(model)
    rows = iris.test[NAMES]
    return iris.test["kind"], loaded.predict(rows), loaded.predict_proba(rows)


def test_figures_are_those_of_scikit_learn(model, iris, call, predicted):
    y, labels, proba = predicted
    arguments = ["evaluate", model, iris.path("test.csv"), "-t", "kind", "--json"]
    content = json.loads(call(*arguments).stdout)
    assert content["rows"] == len(y)
    assert content["accuracy"] == accuracy_score(y, labels)
    assert content["balanced_accuracy"] == balanced_accuracy_score(y, labels)
    assert content["log_loss"] == pytest.approx(log_loss(y, proba))
    assert content["confusion"] == confusion_matrix(y, labels).tolist()
    report = classification_report(y, labels, output_dict=True)
    for line in content["classes"]:
        assert line["precision"] == report[line["label"]]["precision"]
        assert line["recall"] == report[line["label"]]["recall"]


def test_weights(model, iris, call, predicted, tmp_path):
    y, labels, _ = predicted
    weights = np.random.default_rng(0).uniform(size=len(y))
    iris.test.assign(w=weights).to_csv(tmp_path / "test.csv", index=False)
    arguments = [
        "evaluate",
        model,
        tmp_path / "test.csv",
        "-t",
        "kind",
        "--weight",
        "w",
    ]
    content = json.loads(call(*arguments, "--json").stdout)
    expected = accuracy_score(y, labels, sample_weight=weights)
    assert content["accuracy"] == pytest.approx(expected)


def test_table_for_people(model, iris, call, predicted):
    text = call("evaluate", model, iris.path("test.csv"), "-t", "kind").stdout
    y, labels, _ = predicted
    assert f"accuracy           {accuracy_score(y, labels):.4f}" in text
    for word in ("balanced accuracy", "log loss", "precision", "predicted", "setosa"):
        assert word in text


def test_a_class_that_does_not_occur(model, iris, call, tmp_path):
    some = iris.test[iris.test["kind"] != "setosa"]
    some.to_csv(tmp_path / "some.csv", index=False)
    arguments = ["evaluate", model, tmp_path / "some.csv", "-t", "kind", "--json"]
    result = call(*arguments)
    content = json.loads(result.stdout)
    assert [line["rows"] for line in content["classes"]][0] == 0
    labels = mk.load(model).predict(some[NAMES])
    assert content["accuracy"] == accuracy_score(some["kind"], labels)
    assert result.stderr == ""


def test_number_labels_as_text_or_numbers(iris, call, tmp_path):
    """Labels 6 in training and +6.0 in the test file are the same."""
    frame = iris.train.assign(kind=iris.train["kind"].map(len))
    frame.to_csv(tmp_path / "train.csv", index=False)
    call("fit", tmp_path / "train.csv", "-t", "kind", "-m", tmp_path / "m", "--seed", 0)
    assert mk.load(tmp_path / "m").classes_.dtype == np.int64
    arguments = ["evaluate", tmp_path / "m", tmp_path / "test.csv", "-t", "kind"]
    outputs = set()
    lengths = iris.test["kind"].map(len)
    for labels in (lengths, lengths.map("+{}.0".format)):
        iris.test.assign(kind=labels).to_csv(tmp_path / "test.csv", index=False)
        outputs.add(call(*arguments).stdout)
    assert len(outputs) == 1


def test_unknown_labels_and_columns(model, iris, refused, tmp_path):
    iris.test.assign(kind="rose").to_csv(tmp_path / "test.csv", index=False)
    refused(
        *("evaluate", model, tmp_path / "test.csv", "-t", "kind"),
        parts=["expected labels that the model knows", "'rose' in row 1"],
    )
    refused("evaluate", model, iris.path("test.csv"), parts=["expected --target"])
    refused(
        *("evaluate", model, iris.path("test.csv"), "-t", "color"),
        parts=["expected one of the columns", "'color'"],
    )


# --- inspect ---------------------------------------------------------------------


def test_inspect_as_json(model, call):
    content = json.loads(call("inspect", model, "--json").stdout)
    loaded = mk.load(model)
    assert content["bytes"] == os.path.getsize(model)
    assert content["manykernels"] == mk.__version__
    assert content["classes"] == loaded.classes_.tolist()
    assert content["feature_names"] == NAMES
    assert content["support_rows"] == len(loaded.support_)
    weights = {k["name"]: k["weight"] for k in content["kernels"]}
    expected = zip(loaded.kernel_names_, loaded.kernel_weights_.tolist(), strict=True)
    assert weights == dict(expected)
    assert list(weights.values()) == sorted(weights.values(), reverse=True)
    certificate = content["certificate"]
    assert certificate["objective"] == loaded.objective_
    assert certificate["duality_gap"] == loaded.duality_gap_


def test_inspect_for_people(model, call):
    text = call("inspect", model).stdout
    for words in ("above the optimum", "setosa", "rbf@petal*", "support rows", "bytes"):
        assert words in text


def test_picture(model, call, refused, tmp_path):
    call("inspect", model, "--plot", tmp_path / "fit.png")
    assert (tmp_path / "fit.png").read_bytes().startswith(b"\x89PNG")
    refused(
        *("inspect", model, "--plot", tmp_path / "fit.doc"),
        parts=["--plot must end in one of .pdf, .png, .svg"],
    )
