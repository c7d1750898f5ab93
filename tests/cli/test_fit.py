"""``manykernels fit``: the same model as in Python, from every sort of file."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

import manykernels as mk
from tests.cli.conftest import NAMES

KERNELS = "rbf@0-1; rbf@2-3; linear"


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "parquet", "npz", "libsvm"])
def test_every_format_gives_the_model_of_the_python_api(suffix, iris, call, tmp_path):
    path = tmp_path / "model.mk"
    target = ["-t", "kind"] if suffix not in ("npz", "libsvm") else []
    call(
        *("fit", iris.path(f"train.{suffix}"), *target, "-k", KERNELS),
        *("--C", 10, "--p", 1.5, "--seed", 0, "-m", path),
    )
    loaded = mk.load(path)
    X, y, new = iris.train[NAMES].to_numpy(), iris.train["kind"], iris.test[NAMES]
    new = new.to_numpy()
    if suffix == "libsvm":
        X, y, new = sp.csr_matrix(X), pd.Categorical(y).codes, sp.csr_matrix(new)
    expected = mk.MKLClassifier(KERNELS, C=10, p=1.5, random_state=0).fit(X, y)
    if hasattr(loaded, "feature_names_in_"):
        new = pd.DataFrame(new, columns=NAMES)
    plain = new.to_numpy() if isinstance(new, pd.DataFrame) else new
    np.testing.assert_array_equal(loaded.predict(new), expected.predict(plain))
    np.testing.assert_array_equal(
        loaded.decision_function(new), expected.decision_function(plain)
    )


def test_names_and_globs_choose_columns_and_stay_in_the_model(model, iris):
    loaded = mk.load(model)
    assert loaded.feature_names_in_.tolist() == NAMES
    assert loaded.kernel_names_ == ["rbf@sepal*", "rbf@petal*", "linear"]
    expected = mk.MKLClassifier("rbf@sepal*; rbf@petal*; linear", random_state=0)
    expected.fit(iris.train[NAMES], iris.train["kind"])
    np.testing.assert_array_equal(
        loaded.decision_function(iris.test[NAMES]),
        expected.decision_function(iris.test[NAMES]),
    )


def test_only_options_that_were_given_are_set(model):
    defaults = mk.MKLClassifier().get_params()
    params = mk.load(model).get_params()
    changed = {k for k in defaults if params[k] != defaults[k]}
    assert changed == {"kernels", "random_state"}


def test_given_kernels(iris, call, tmp_path):
    X, new = iris.train[NAMES].to_numpy(), iris.test[NAMES].to_numpy()
    stack = np.stack([rbf_kernel(X), laplacian_kernel(X)], axis=-1)
    other = np.stack([rbf_kernel(new, X), laplacian_kernel(new, X)], axis=-1)
    y = iris.train["kind"].to_numpy(str)
    np.savez(tmp_path / "train.npz", kernels=stack, y=y)
    np.savez(tmp_path / "new.npz", kernels=other)
    path = tmp_path / "model.mk"
    call("fit", tmp_path / "train.npz", "--seed", 0, "-m", path)
    out = call("predict", path, tmp_path / "new.npz").stdout.split()
    expected = mk.MKLClassifier("precomputed", random_state=0).fit(stack, y)
    assert out[1:] == expected.predict(other).tolist()


def test_json_is_one_object_and_equals_the_metrics_file(iris, call, tmp_path):
    metrics = tmp_path / "metrics.json"
    result = call(
        *("fit", iris.path("train.csv"), "-t", "kind", "-m", tmp_path / "m", "--seed"),
        *(0, "--test", iris.path("test.csv"), "--metrics", metrics, "--json"),
    )
    content = json.loads(result.stdout)
    assert content == json.loads(metrics.read_text())
    assert content["rows"] == 90 and content["features"] == 4
    assert content["classes"] == ["setosa", "versicolor", "virginica"]
    assert content["certificate"]["reached"] is True
    assert sum(kernel["weight"] for kernel in content["kernels"]) == pytest.approx(1.0)
    model = mk.load(tmp_path / "m")
    new, y = iris.test[NAMES], iris.test["kind"]
    measured, predicted = content["test"], model.predict(new)
    assert measured["accuracy"] == accuracy_score(y, predicted)
    assert measured["balanced_accuracy"] == balanced_accuracy_score(y, predicted)
    assert measured["log_loss"] == pytest.approx(log_loss(y, model.predict_proba(new)))


def test_hold_out_keeps_groups_together(iris, call, tmp_path):
    frame = iris.train.assign(person=np.arange(90) // 9)
    frame.to_csv(tmp_path / "train.csv", index=False)
    result = call(
        *("fit", tmp_path / "train.csv", "-t", "kind", "--group", "person"),
        *("--holdout", 0.2, "--seed", 0, "-m", tmp_path / "m", "--json"),
    )
    content = json.loads(result.stdout)
    assert content["feature_names"] == NAMES  # the group is no feature
    assert content["rows"] == 72 and content["holdout"]["rows"] == 18


def test_hold_out_is_stratified_without_groups(iris, call, tmp_path):
    result = call(
        *("fit", iris.path("train.csv"), "-t", "kind", "--holdout", 0.3),
        *("--seed", 0, "-m", tmp_path / "m", "--json"),
    )
    rows = [line["rows"] for line in json.loads(result.stdout)["holdout"]["classes"]]
    whole = iris.train["kind"].value_counts().sort_index().to_numpy()
    assert sum(rows) == 27
    assert np.abs(np.array(rows) - 0.3 * whole).max() <= 1.0


def test_weights_count(iris, call, tmp_path):
    weights = np.random.default_rng(0).uniform(0.1, 2.0, size=90)
    iris.train.assign(w=weights).to_csv(tmp_path / "train.csv", index=False)
    path = tmp_path / "m"
    call(
        *("fit", tmp_path / "train.csv", "-t", "kind", "--weight", "w"),
        *("--seed", 0, "-m", path),
    )
    expected = mk.MKLClassifier(random_state=0)
    expected.fit(iris.train[NAMES], iris.train["kind"], weights)
    assert mk.load(path).objective_ == pytest.approx(expected.objective_, rel=1e-6)


def test_columns_can_be_left_out(iris, call, tmp_path):
    path = tmp_path / "m"
    call(
        *("fit", iris.path("train.csv"), "-t", "-1", "--drop", "sepal*"),
        *("--drop", "petal width", "-m", path),
    )
    assert mk.load(path).feature_names_in_.tolist() == ["petal length"]


def test_convergence_warning_is_one_line(iris, call, tmp_path):
    result = call(
        *("fit", iris.path("train.csv"), "-t", "kind", "--tol", 1e-9),
        *("--max-iter", 1, "-m", tmp_path / "m", "--json"),
    )
    lines = [line for line in result.stderr.splitlines() if "Warning:" in line]
    assert len(lines) == 1 and "The relative duality gap is" in lines[0]
    assert json.loads(result.stdout)["certificate"]["reached"] is False


def test_verbose_prints_epochs_and_quiet_prints_nothing(iris, call, tmp_path):
    arguments = ["fit", iris.path("train.csv"), "-t", "kind", "-m", tmp_path / "m"]
    loud = call(*arguments, "-v")
    assert "epoch   1   objective" in loud.stderr
    assert "weight  kernel" in loud.stdout
    quiet = call(*arguments, "--quiet")
    assert quiet.stdout == "" and quiet.stderr == ""
    assert mk.load(tmp_path / "m").verbose == 0


def test_interruption_saves_the_best_model_and_exits_130(
    iris, call, tmp_path, monkeypatch
):
    learn = mk.MKLClassifier.fit

    def interrupted(model, X, y, **others):
        def stop(line):
            raise KeyboardInterrupt

        return learn(model.set_params(callback=stop), X, y, **others)

    monkeypatch.setattr(mk.MKLClassifier, "fit", interrupted)
    path = tmp_path / "m"
    arguments = ["fit", iris.path("train.csv"), "-t", "kind", "-m", path]
    result = call(*arguments, code=130)
    assert "Warning: The fit was interrupted after 1 epochs" in result.stderr
    assert len(mk.load(path).history_) == 1


def test_checkpoint_is_kept_and_gone_on_from(iris, call, tmp_path):
    state, path = tmp_path / "state", tmp_path / "m"
    arguments = ["fit", iris.path("train.csv"), "-t", "kind", "--seed", 0, "-m", path]
    call(*arguments)
    plain = mk.load(path).objective_
    call(*arguments, "--checkpoint", state)
    assert state.exists()
    call(*arguments, "--checkpoint", state)
    assert mk.load(path).objective_ == plain


# --- what is refused -----------------------------------------------------------


def fit(iris, tmp_path, *options):
    return ["fit", iris.path("train.csv"), "-m", tmp_path / "m", *options]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ([], ["expected --target", "got none"]),
        (["-t", "knd"], ["expected one of the columns", "did you mean 'kind'?"]),
        (["-t", "sepal width"], ["got text such as", "'kind'", "--drop"]),
        (["-t", "kind", "--drop", "x*"], ["expected one of the columns", "'x*'"]),
        (["-t", "kind", "--drop", "*l*"], ["expected columns to learn from, got none"]),
        (["-t", "kind", "-k", "rbff"], ["kernel kind must be one of", "'rbf'"]),
        (["-t", "kind", "-k", "rbf@leaf*"], ["column 'leaf*' is not among"]),
        (["-t", "kind", "-k", "no.toml"], ["'no.toml'", "No such file"]),
        (["-t", "kind", "--p", "3"], ["p must be a number in [1, 2]", "3.0"]),
        (["-t", "kind", "--C", "-1"], ["C must be a number", "-1.0"]),
        (["-t", "kind", "--solver", "magic"], ["solver must be", "'magic'"]),
        (["-t", "kind", "--memory-limit", "x"], ["memory_limit must be", "'x'"]),
        (["-t", "kind", "--holdout", "1"], ["--holdout must be a share"]),
        (["-t", "kind", "--holdout", "0.999"], ["--holdout 0.999 must leave rows"]),
        (["-t", "kind", "--test", "none.csv"], ["'none.csv'", "No such file"]),
        (["-t", "kind", "--metrics", "no/such/x"], ["--metrics must lie in"]),
        (["-t", "kind", "--format", "xls"], ["expected a format among csv", "'xls'"]),
        (["-t", "kind", "--format", "npz"], ["expected a whole NPZ file"]),
        (["-t", "kind", "--format", "parquet"], ["expected a whole Parquet file"]),
        (["--format", "libsvm"], ["expected LIBSVM rows such as"]),
    ],
)
def test_bad_options_are_one_sentence(options, parts, iris, refused, tmp_path):
    refused(*fit(iris, tmp_path, *options), parts=parts)
    assert not (tmp_path / "m").exists()


def test_output_is_checked_before_the_data_are_read(refused, tmp_path):
    path = tmp_path / "no" / "model"
    refused("fit", "missing.csv", "-m", path, parts=["--model must lie in an existing"])
    refused("fit", "missing.csv", "-m", tmp_path, parts=["--model must be writable"])


def test_only_one_file_from_standard_input(refused, tmp_path):
    refused(
        *("fit", "-", "--test", "-", "-t", "y", "-m", tmp_path / "m"),
        parts=["at most one file from standard input"],
    )


def test_labels_of_the_test_file_must_be_known(iris, refused, tmp_path):
    test = tmp_path / "test.csv"
    iris.test.assign(kind="rose").to_csv(test, index=False)
    refused(
        *fit(iris, tmp_path, "-t", "kind", "--test", test),
        parts=["expected labels that the model knows", "'rose' in row 1"],
    )


def test_options_of_another_estimator_are_refused(iris, refused, tmp_path):
    refused(
        *fit(iris, tmp_path, "-t", "-2", "--regression", "--class-weight", "balanced"),
        parts=["expected options of MKLRegressor, got --class-weight"],
    )
