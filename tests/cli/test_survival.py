"""Times until an event from files: fit, predict and evaluate, and what is refused."""

import io
import json

import numpy as np
import pandas as pd
import pytest

import manykernels as mk

NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same 90 rows as CSV, Parquet and NPZ, and 60 others."""
    folder = tmp_path_factory.mktemp("survival")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(150, 3)), columns=NAMES)
    time, end = np.exp(frame["a"] + frame["b"] ** 2), rng.exponential(3.0, 150)
    frame["days"], frame["died"] = np.minimum(time, end), (time <= end).astype(int)
    frame["weight"] = rng.uniform(0.5, 2.0, 150)
    train, test = frame[:90], frame[90:]
    train.to_csv(folder / "train.csv", index=False)
    train.to_parquet(folder / "train.parquet")
    train.assign(died=train["died"] > 0).to_csv(folder / "words.csv", index=False)
    np.savez(
        folder / "train.npz",
        **{name: train[name].to_numpy() for name in ("days", "died", "weight")},
        X=train[NAMES].to_numpy(),
        names=np.array(NAMES),
    )
    test.to_csv(folder / "test.csv", index=False)
    return folder, train, test


COLUMNS = ["--time", "days", "--event", "died"]
FIT = ["--survival", *COLUMNS, "--weight", "weight", "--seed", 0, "-C", 3]


@pytest.mark.parametrize(
    "name", ["train.csv", "train.parquet", "train.npz", "words.csv"]
)
def test_every_format_gives_the_model_of_the_estimator(files, name, call, tmp_path):
    folder, train, test = files
    path = tmp_path / "m"
    call("fit", folder / name, *FIT, "-m", path, "--quiet")
    y = train["days"], train["died"]
    expected = mk.MKLSurvival(C=3.0, random_state=0)
    expected.fit(train[NAMES], y, sample_weight=train["weight"])
    loaded = mk.load(path)
    assert loaded.feature_names_in_.tolist() == NAMES
    np.testing.assert_array_equal(
        loaded.predict(test[NAMES]), expected.predict(test[NAMES])
    )


def test_reports_predictions_and_evaluations(files, call, tmp_path):
    folder, train, test = files
    path, data = tmp_path / "m", folder / "train.csv"
    checks = ["--holdout", 0.2, "--test", folder / "test.csv"]
    done = call("fit", data, *FIT, *checks, "-m", path, "--json")
    content = json.loads(done.stdout)
    assert content["estimator"] == "MKLSurvival" and content["rows"] == 72
    share = content["holdout"]["events"] / 18
    assert share == pytest.approx(train["died"].mean(), abs=0.05)
    model, y = mk.load(path), (test["days"], test["died"])
    found = content["test"]["concordance"]
    assert found == model.score(test[NAMES], y, sample_weight=test["weight"]) > 0.7
    text = call("evaluate", path, folder / "test.csv", *COLUMNS).stdout
    assert f"concordance  {model.score(test[NAMES], y):.4f}" in text
    out = call("predict", path, folder / "test.csv", "--scores").stdout
    table = pd.read_csv(io.StringIO(out), dtype=str).astype(float)
    assert list(table.columns) == ["prediction", "risk"]
    np.testing.assert_array_equal(table["prediction"], model.predict(test[NAMES]))
    np.testing.assert_array_equal(table["risk"], model.predict_risk(test[NAMES]))
    shown = call("fit", data, *FIT, "-m", path).stdout
    assert "MKLSurvival (" in shown and "weight  kernel" in shown


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--survival"], ["expected --time and --event for survival, got neither"]),
        (["--survival", "--time", "days"], ["got --time alone"]),
        (["--survival", "--event", "died"], ["got --event alone"]),
        (["--survival", *COLUMNS, "-t", "a"], ["got --target; name both columns"]),
        (
            ["-t", "a", "--event", "died"],
            ["got --event", "learn these with --survival"],
        ),
        (["--survival", "--regression", *COLUMNS], ["--regression or --survival, got"]),
        (
            ["--survival", "--time", "died", "--event", "died"],
            ["a column of its own for --event, got that of --time"],
        ),
        (
            ["--survival", "--time", "died", "--event", "days"],
            ["expected 1 or true", "in row 1; name another column as --event"],
        ),
        (
            ["--survival", "--time", "a", "--event", "died"],
            ["expected positive times, got '-", "name another column as --time"],
        ),
        (["--survival", "--time", "day", "--event", "died"], ["did you mean 'days'?"]),
        (["--survival", *COLUMNS, "--loss", "hinge"], ["--loss, which it does not"]),
    ],
)
def test_refusals(files, options, parts, refused, tmp_path):
    data = files[0] / "train.csv"
    refused("fit", data, *options, "-m", tmp_path / "m", parts=parts)


def test_models_know_which_columns_they_need(files, call, refused, tmp_path):
    folder = files[0]
    call("fit", folder / "train.csv", *FIT, "-m", tmp_path / "m", "--quiet")
    numbers = ["--regression", "-t", "days", "-m", tmp_path / "r", "--quiet"]
    call("fit", folder / "train.csv", *numbers)
    data = folder / "test.csv"
    refused(
        *("evaluate", tmp_path / "m", data, "-t", "days"),
        parts=["expected --time and --event for survival, got --target"],
    )
    refused(
        *("evaluate", tmp_path / "r", data, "-t", "days", "--time", "days"),
        parts=["expected --target, got --time"],
    )


def test_rows_without_names_of_columns_have_no_times(refused, tmp_path):
    path = tmp_path / "rows.libsvm"
    path.write_text("1 1:0.5\n0 1:2\n")
    refused(
        *("fit", path, "--survival", "--time", "t", "--event", "e"),
        *("-m", tmp_path / "m"),
        parts=["expected no --time for a LIBSVM file"],
    )
