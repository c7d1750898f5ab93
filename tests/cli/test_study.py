"""``manykernels study`` and ``manykernels report``."""

import json

import numpy as np
import pandas as pd
import pytest

import manykernels as mk
from manykernels.study import methods
from tests.cli.conftest import NAMES

FAST = ("--cv", "3", "--pairs", "0", "--kernels", "rbf@0-1; rbf@2-3")


@pytest.fixture(autouse=True)
def small_forests(monkeypatch):
    monkeypatch.setattr(methods, "FOREST_TREES", 10)


def test_report_of_a_model(model, iris, call, tmp_path):
    page = tmp_path / "out.html"
    call("report", model, iris.path("test.csv"), "-t", "kind", "--out", page)
    loaded = mk.load(model)
    score = loaded.score(iris.test[NAMES], iris.test["kind"])
    text = page.read_text(encoding="utf-8")
    assert f"On 60 unseen rows the accuracy is {score:.1%}" in text
    assert "versicolor" in text


def test_report_names_rows_and_has_a_title(model, iris, call, tmp_path):
    page, rows = tmp_path / "out.html", tmp_path / "rows.csv"
    iris.test.assign(plant=[f"plant {i}" for i in range(60)]).to_csv(rows, index=False)
    options = ["-t", "kind", "--index", "plant", "--title", "Flowers", "-o", page]
    call("report", model, rows, *options)
    text = page.read_text(encoding="utf-8")
    assert "<title>Flowers</title>" in text and "plant 59" in text


def test_report_without_rows(model, call, tmp_path):
    call("report", model, "--out", tmp_path / "out.html")
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "Weights are no importance" in text


def test_a_page_is_html(model, iris, call, tmp_path):
    result = call("report", model, "--out", tmp_path / "out.pdf", code=2)
    assert "--out must end in .html, got 'out.pdf'; rename it." in result.stderr
    options = ["-t", "kind", "--report", tmp_path / "x.png"]
    assert (
        "--report must end in .html"
        in call("study", iris.path("train.csv"), *options, code=2).stderr
    )


def test_only_models_of_kernels_have_reports(call, tmp_path):
    X = np.random.default_rng(0).uniform(-1, 1, size=(40, 3))
    mk.PolynomialMKLRegressor().fit(X, X[:, 0] * X[:, 1]).save(tmp_path / "m.mk")
    result = call("report", tmp_path / "m.mk", "--out", tmp_path / "x.html", code=2)
    assert "got PolynomialMKLRegressor; see 'manykernels inspect'" in result.stderr


def test_study_is_that_of_python(iris, call, tmp_path):
    page, figures = tmp_path / "out.html", tmp_path / "out.json"
    options = ["-t", "kind", "-r", page, "--metrics", figures, "--seed", "1", *FAST]
    shown = call("study", iris.path("train.csv"), *options)
    content = json.loads(figures.read_text())
    X, y = iris.train[NAMES], iris.train["kind"].to_numpy(str)
    model = mk.MKLClassifier("rbf@0-1; rbf@2-3")
    study = mk.Study(model, cv=3, n_pairs=0, random_state=1).fit(X, y)
    assert content["verdict"] == study.verdict_ == shown.stdout.splitlines()[0]
    expected = study.summary_["score"].tolist()
    assert [line["score"] for line in content["methods"]] == expected
    assert content["chosen"] == {"p": study.p_, "C": study.C_}
    assert "logistic regression" in shown.stdout
    assert "fits of methods: 18 of 18" in shown.stderr
    assert study.verdict_ in page.read_text(encoding="utf-8")


def test_study_of_views_that_rows_lack(iris, call, tmp_path):
    names = [f"plant {i}" for i in range(90)]
    frame = iris.train.assign(plant=names)
    frame[["plant", "kind"]].to_csv(tmp_path / "rows.csv", index=False)
    frame[["plant", *NAMES[:2]]].to_csv(tmp_path / "sepal.csv", index=False)
    petal = frame[["plant", *NAMES[2:]]].iloc[10:]
    petal.sample(frac=1, random_state=0).to_csv(tmp_path / "petal.csv", index=False)
    result = call(
        "study",
        tmp_path / "rows.csv",
        *("-t", "kind", "--index", "plant", "--kernels", "rbf", "--json", "--quiet"),
        *("--view", f"sepal={tmp_path / 'sepal.csv'}"),
        *("--view", f"petal={tmp_path / 'petal.csv'}"),
        *("--cv", "2", "--pairs", "0", "--baseline", "single"),
    )
    content = json.loads(result.stdout)
    assert [line["name"] for line in content["views"]] == ["sepal", "petal"]
    assert [line["method"] for line in content["methods"]] == ["mkl", "uniform"] + [
        "single"
    ]
    assert {line["lacking"]: line["rows"] for line in content["missing"]} == {
        "none": 80,
        "petal": 10,
    }


def test_study_of_numbers_goes_on_from_its_folder(iris, call, tmp_path):
    frame = pd.DataFrame(iris.train[NAMES])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    options = ["--regression", "-t", NAMES[3], "--cv", "2", "--pairs", "0", "--json"]
    options += ["--kernels", "rbf", "--baseline", "linear", "-q"]
    options += ["--folder", tmp_path / "kept", "--jobs", "2"]
    first = json.loads(call("study", tmp_path / "rows.csv", *options).stdout)
    assert len(list((tmp_path / "kept").iterdir())) == 2
    again = json.loads(call("study", tmp_path / "rows.csv", *options).stdout)
    assert first["scores"] == again["scores"]  # seconds and all
    assert "of R²" in first["verdict"]


def test_study_of_times(iris, call, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    frame = pd.DataFrame(X, columns=["a", "b"])
    # Times without noise are interpolated, and some fits then take 200 epochs.
    frame["days"] = np.exp(X[:, 0] + rng.normal(size=60) / 2)
    frame["died"] = rng.integers(2, size=60)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    options = ["--survival", "--time", "days", "--event", "died", "--cv", "2", "-q"]
    options += ["--pairs", "0", "--kernels", "rbf@a; rbf@b", "--json"]
    content = json.loads(call("study", tmp_path / "rows.csv", *options).stdout)
    assert content["metric"] == "concordance"
    methods = {line["method"]: line["score"] for line in content["methods"]}
    assert list(methods) == ["mkl", "uniform", "single"]
    assert min(methods.values()) > 0.65
    shares = {line["name"]: line["share"] for line in content["views"]}
    assert shares["a"] > shares["b"]


def test_bad_options(iris, call):
    train = iris.path("train.csv")
    result = call("study", train, "-t", "kind", "--baseline", "svm", code=2)
    assert "baselines must be 'all' or some of" in result.stderr
    result = call("study", train, "-t", "kind", "--cv", "1", code=2)
    assert "cv must be a whole number of at least 2, got 1" in result.stderr
