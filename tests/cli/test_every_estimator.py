"""inspect, predict and evaluate answer for every estimator that can be saved."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier

import manykernels as mk
from manykernels.structured import Sentence, read_conllu, write_conllu
from tests.all_estimators import ESTIMATORS
from tests.cli.conftest import NAMES

QUICK = {
    "DependencyParser": {"templates": ["h.upos m.upos"], "memory_limit": "1MB"},
    "PolynomialMKLClassifier": {"degree": 2},
    "PolynomialMKLRegressor": {"degree": 2},
    "MKLClassifierCV": {"ps": [1.5], "Cs": [1.0], "cv": 2},
    "MKLRegressorCV": {"ps": [1.5], "Cs": [1.0], "cv": 2},
}
SENTENCES = [
    Sentence.of(["the", "dog", "barks"], ["DET", "NOUN", "VERB"], [2, 3, 0]),
    Sentence.of(["dogs", "bark"], ["NOUN", "VERB"], [2, 0]),
]
TOKENS = "the\te\tdet\ndog\tg\tnoun\n\na\ta\tdet\ncat\tt\tnoun\n"


def estimator_of(name):
    return ESTIMATORS[name](**QUICK.get(name, {}))


@pytest.fixture(scope="module", params=sorted(ESTIMATORS))
def saved(request, iris, tmp_path_factory, call):
    """A fitted estimator, its file, a file to predict and how to evaluate it."""
    folder = tmp_path_factory.mktemp(request.param)
    path = folder / "model.mk"
    model = estimator_of(request.param)
    if model.input_kind == "sequences":
        data = folder / "tokens.txt"
        data.write_text(TOKENS)
        call("label", "--train", data, "-m", path, "--seed", 0)
        return mk.load(path), path, data, []
    if model.input_kind == "sentences":
        data = folder / "sentences.conllu"
        write_conllu(data, SENTENCES)
        model.fit(SENTENCES).save(path)
        return model, path, data, []
    target = "kind" if is_classifier(model) else "petal width"
    names = [name for name in NAMES if name != "petal width"]
    if isinstance(model, mk.MKLSurvival):
        for name, rows in (("train", iris.train), ("test", iris.test)):
            seen = rows.assign(seen=np.arange(len(rows)) % 3 > 0)
            seen.to_csv(folder / f"{name}.csv", index=False)
        columns = ["--time", target, "--event", "seen"]
        arguments = ["--survival", *columns, "--drop", "kind", "--seed", 0, "--quiet"]
        call("fit", folder / "train.csv", *arguments, "-m", path)
        return mk.load(path), path, folder / "test.csv", columns
    model.fit(iris.train[names], iris.train[target]).save(path)
    return model, path, iris.path("test.csv"), ["-t", target]


def test_inspect(saved, call, tmp_path):
    model, path, _, _ = saved
    content = json.loads(call("inspect", path, "--json").stdout)
    assert content["estimator"] == type(model).__name__
    assert content["bytes"] == path.stat().st_size
    expected = json.loads(json.dumps(model.summary(), default=str))
    assert {k: content[k] for k in expected} == expected
    text = call("inspect", path).stdout
    assert f"{type(model).__name__} (" in text and "weight  " in text
    call("inspect", path, "--plot", tmp_path / "model.png")
    assert (tmp_path / "model.png").read_bytes().startswith(b"\x89PNG")


def test_predict(saved, call, iris, tmp_path):
    model, path, data, _ = saved
    out = tmp_path / "out.csv"
    call("predict", path, data, "-o", out)
    if model.input_kind == "sequences":
        lines = out.read_text().split("\n")
        assert [line.rpartition("\t")[0] for line in lines] == [
            line for line in TOKENS.split("\n")
        ]
        assert {line.split("\t")[-1] for line in lines if line} <= {"det", "noun"}
    elif model.input_kind == "sentences":
        assert read_conllu(out) == model.predict(SENTENCES)
    else:
        rows = iris.test[model.feature_names_in_]
        table = pd.read_csv(io.StringIO(out.read_text()), dtype=str)
        expected = model.predict(rows)
        found = table["prediction"].astype(expected.dtype.type).to_numpy()
        np.testing.assert_array_equal(found, expected)


def test_evaluate(saved, call, iris):
    model, path, data, target = saved
    content = json.loads(call("evaluate", path, data, *target, "--json").stdout)
    if model.input_kind == "sequences":
        assert set(content) == {"tokens", "sequences", "labels"}
        assert 0.0 <= content["sequences"] <= content["tokens"] <= 1.0
    elif model.input_kind == "sentences":
        scores = model.evaluate(SENTENCES)._asdict()
        assert content == {k: v for k, v in scores.items() if not np.isnan(v)}
    elif isinstance(model, mk.MKLSurvival):
        rows = pd.read_csv(data)
        y = rows["petal width"], rows["seen"]
        expected = model.score(rows[model.feature_names_in_], y)
        assert content == {"rows": 60, "events": 40, "concordance": expected}
    else:
        rows, truth = iris.test[model.feature_names_in_], iris.test[target[1]]
        name = "accuracy" if is_classifier(model) else "R2"
        assert content[name] == pytest.approx(model.score(rows, truth))
    text = call("evaluate", path, data, *target).stdout
    for name, value in content.items():
        if isinstance(value, float):
            assert f"{name.replace('_', ' ')} " in text and f"{value:.4f}" in text


def test_options_that_say_nothing_to_a_model_are_refused(saved, refused):
    model, path, data, target = saved
    if model.input_kind != "rows":
        refused(
            *("predict", path, data, "--proba"),
            parts=["--proba is for models of rows", f"reads {model.input_kind}"],
        )
        refused(
            *("evaluate", path, data, "-t", "kind"),
            parts=["--target is for models of rows"],
        )
    elif not hasattr(model, "predict_proba"):
        refused(
            *("predict", path, data, "--proba"),
            parts=["--proba needs a classifier", type(model).__name__],
        )


def test_regression_from_a_file(iris, call, refused, tmp_path):
    path = tmp_path / "m"
    arguments = ["fit", iris.path("train.csv"), "-t", "petal width", "--drop", "kind"]
    arguments += ["--regression", "--seed", 0, "-m", path, "--holdout", 0.2, "--json"]
    content = json.loads(call(*arguments, "--test", iris.path("test.csv")).stdout)
    assert content["estimator"] == "MKLRegressor" and content["rows"] == 72
    assert content["holdout"]["rows"] == 18
    names = [name for name in NAMES if name != "petal width"]
    loaded, rows = mk.load(path), iris.test[names]
    predicted, truth = loaded.predict(rows), iris.test["petal width"]
    assert content["test"]["R2"] == pytest.approx(loaded.score(rows, truth))
    error = np.sqrt(np.mean((predicted - truth) ** 2))
    assert content["test"]["RMSE"] == pytest.approx(error)
    refused(
        *("fit", iris.path("train.csv"), "-t", "kind", "--regression", "-m", path),
        parts=["expected finite numbers to predict, got", "in row 1"],
    )


def test_many_targets_have_a_column_each(iris, call, refused, tmp_path):
    X, Y = iris.train[NAMES[:2]], iris.train[NAMES[2:]]
    model = mk.MKLRegressor("rbf").fit(X, Y)
    model.save(tmp_path / "m")
    out = call("predict", tmp_path / "m", iris.path("test.csv")).stdout
    table = pd.read_csv(io.StringIO(out), dtype=str).astype(float)
    assert list(table.columns) == ["prediction_0", "prediction_1"]
    np.testing.assert_array_equal(table, model.predict(iris.test[NAMES[:2]]))
    refused(
        *("evaluate", tmp_path / "m", iris.path("test.csv"), "-t", "petal width"),
        parts=["expected a model of one target, got one with 2"],
    )
