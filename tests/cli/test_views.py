"""Several files as views, scaling, searches and gene sets from the command line."""

import json

import numpy as np
import pandas as pd
import pytest

import manykernels as mk

IDS = [f"p{i}" for i in range(60)]


@pytest.fixture
def files(tmp_path):
    """A table of labels, two views in other orders, and gene sets."""
    rng = np.random.default_rng(0)
    label = np.arange(60) % 3
    genes = rng.normal(size=(60, 6))
    genes[:, :3] += 4 * label[:, None]
    tables = {
        "patients": pd.DataFrame(
            {"id": IDS, "kind": np.array(["x", "y", "z"])[label], "age": 50.0 + label}
        ),
        "genes": pd.DataFrame(genes, columns=[f"g{j}" for j in range(6)]).assign(
            id=IDS
        ),
        "proteins": pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"]).assign(
            id=IDS
        ),
    }
    tables["genes"] = tables["genes"].sample(frac=1, random_state=0)
    tables["proteins"] = tables["proteins"].iloc[5:45]
    tables["patients"].to_csv(tmp_path / "patients.csv", index=False)
    tables["genes"].to_csv(tmp_path / "genes.csv", index=False)
    tables["proteins"].to_parquet(tmp_path / "proteins.parquet")
    (tmp_path / "sets.gmt").write_text("up\tna\tg0\tg1\tg9\nrest\tna\tg3\tg4\tg5\n")
    options = (
        *("--index", "id", "--view", f"genes={tmp_path / 'genes.csv'}"),
        *("--view", f"proteins={tmp_path / 'proteins.parquet'}"),
    )
    return tmp_path, tables, options


def python_views(tables):
    data = tables["patients"].set_index("id")
    views = {
        "data": data[["age"]],
        "genes": tables["genes"].set_index("id"),
        "proteins": tables["proteins"].set_index("id"),
    }
    return mk.Views(views, rows=IDS), data["kind"]


def test_the_same_model_as_in_python(files, call):
    folder, tables, options = files
    path = folder / "model.mk"
    said = call(
        *("fit", folder / "patients.csv", "-t", "kind", *options, "-k", "rbf"),
        *("--scale", "genes=robust", "--missing", "zero", "--seed", 0, "-m", path),
    )
    X, y = python_views(tables)
    expected = mk.MKLClassifier(
        "rbf", scale={"genes": "robust"}, missing="zero", random_state=0
    ).fit(X, y)
    loaded = mk.load(path)
    scores = expected.decision_function(X)
    assert np.array_equal(loaded.decision_function(X), scores)
    assert loaded.view_counts_ == {"data": 60, "genes": 60, "proteins": 40}
    assert "proteins" in said.stdout and "40" in said.stdout
    call("predict", path, folder / "patients.csv", *options, "-o", folder / "out.csv")
    out = pd.read_csv(folder / "out.csv")
    assert out["id"].tolist() == IDS
    assert out["prediction"].tolist() == expected.predict(X).tolist()
    few = options[2:4]  # without the proteins; the model knows its index
    call("predict", path, folder / "patients.csv", *few, "-o", folder / "few.csv")
    left = {k: X.sources[k].table for k in ("data", "genes")}
    found = pd.read_csv(folder / "few.csv")["prediction"].tolist()
    assert found == expected.predict(mk.Views(left, rows=IDS)).tolist()
    shown = call(
        *("evaluate", path, folder / "patients.csv", "-t", "kind", *options, "--json")
    )
    assert json.loads(shown.stdout)["accuracy"] == expected.score(X, y)


def test_names_of_rows_as_pandas_and_r_write_them(files, call):
    folder, tables, options = files
    fit = ("fit", folder / "patients.csv", "-t", "kind", *options, "--seed", 0)
    call(*fit, "-m", folder / "a.mk")
    genes, proteins = (tables[name].set_index("id") for name in ("genes", "proteins"))
    genes.rename_axis(None).to_csv(folder / "genes.csv")  # the corner is empty
    for index in (proteins, proteins.rename_axis(None)):
        index.to_parquet(folder / "proteins.parquet")
        call(*fit, "-m", folder / "b.mk")
        one, other = mk.load(folder / "a.mk"), mk.load(folder / "b.mk")
        assert np.array_equal(one.dual_coef_, other.dual_coef_)


def test_columns_that_no_kernel_reads_may_be_text(files, call):
    folder, tables, options = files
    path, kernels = folder / "model.mk", "rbf@genes:g*; rbf@data:age"
    fit = ("fit", folder / "patients.csv", "-t", "kind", *options, "--seed", 0)
    fit = (*fit, "-m", path, "-k")
    call(*fit, kernels)
    expected = mk.load(path).dual_coef_
    tables["genes"].assign(note="hello").to_csv(folder / "genes.csv", index=False)
    tables["patients"].assign(ward="west").to_csv(folder / "patients.csv", index=False)
    call(*fit, kernels)
    assert np.array_equal(mk.load(path).dual_coef_, expected)
    call("predict", path, folder / "patients.csv", *options)
    said = call(*fit, "rbf@genes", code=2)
    assert "view 'genes' must hold numbers" in said.stderr and "'note'" in said.stderr
    said = call(*fit, kernels, "--weight", "ward", code=2)
    assert "expected numbers to learn from, got text such as 'west'" in said.stderr


def test_the_columns_of_data_alone_predict_too(files, call):
    folder, tables, options = files
    path, out = folder / "model.mk", folder / "out.csv"
    call("fit", folder / "patients.csv", "-t", "kind", *options, "-m", path)
    call("predict", path, folder / "patients.csv", "-o", out)
    X = {"data": tables["patients"].set_index("id")[["age"]]}
    assert pd.read_csv(out)["prediction"].tolist() == mk.load(path).predict(X).tolist()


def test_holdout_test_and_search(files, call):
    folder, tables, options = files
    tables["patients"].iloc[:15].to_csv(folder / "new.csv", index=False)
    tables["patients"].iloc[15:].to_csv(folder / "old.csv", index=False)
    said = call(
        *("fit", folder / "old.csv", "-t", "kind", "--drop", "age", *options),
        *("--test", folder / "new.csv", "--holdout", 0.2, "--cv", 3, "--p", 1.1),
        *("--seed", 0, "-m", folder / "model.mk", "--json"),
    )
    content = json.loads(said.stdout)
    assert content["estimator"] == "MKLClassifierCV" and content["best"]["p"] == 1.1
    assert content["test"]["accuracy"] > 0.8 and content["holdout"]["accuracy"] > 0.7


def test_gene_sets(files, call):
    folder, tables, options = files
    call(
        *("fit", folder / "patients.csv", "-t", "kind", *options, "-k", "linear; rbf"),
        *("--gene-sets", folder / "sets.gmt", "--gene-set-view", "genes"),
        *("--min-set-size", 2, "--seed", 0, "-m", folder / "model.mk"),
    )
    model = mk.load(folder / "model.mk")
    names = ["linear@up", "rbf@up", "linear@rest", "rbf@rest"]
    assert model.kernel_names_ == names
    assert model.kernel_weights_[:2].sum() > 0.6
    X, y = python_views(tables)
    sets = mk.read_gmt(folder / "sets.gmt")
    kernels = mk.group_kernels(sets, X, "linear; rbf", view="genes")
    expected = mk.MKLClassifier(kernels, random_state=0).fit(X, y)
    scores = expected.decision_function(X)
    assert np.array_equal(model.decision_function(X), scores)
    alone = tables["genes"].set_index("id").loc[IDS]
    plain = mk.MKLClassifier(
        mk.group_kernels(sets, alone, "linear; rbf"), scale="standard", random_state=0
    ).fit(alone, y)
    np.testing.assert_allclose(plain.decision_function(alone), scores, atol=1e-5)


def test_regression_and_survival_of_views(files, call):
    folder, tables, options = files
    data = tables["patients"].assign(
        dose=tables["genes"].set_index("id").loc[IDS, "g0"].to_numpy(),
        months=np.exp(tables["genes"].set_index("id").loc[IDS, "g1"].to_numpy() / 4),
        died=(np.arange(60) % 4 > 0).astype(int),
    )
    data.to_csv(folder / "more.csv", index=False)
    drop = ("--drop", "kind", "--drop", "age")
    said = call(
        *("fit", folder / "more.csv", "-t", "dose", "--regression", *options, *drop),
        *("--drop", "months", "--drop", "died", "--cv", 3, "--seed", 0),
        *("-m", folder / "dose.mk", "--json"),
    )
    assert json.loads(said.stdout)["estimator"] == "MKLRegressorCV"
    call(
        *(
            "fit",
            folder / "more.csv",
            "--survival",
            "--time",
            "months",
            *options,
            *drop,
        ),
        *("--event", "died", "--drop", "dose", "--cv", 3, "--seed", 0, "-k", "linear"),
        *("--epsilon", 0.05, "--time-scale", "linear", "-m", folder / "time.mk"),
    )
    model = mk.load(folder / "time.mk")
    assert (model.epsilon, model.time_scale) == (0.05, "linear")
    said = call(
        *("evaluate", folder / "time.mk", folder / "more.csv", "--time", "months"),
        *("--event", "died", *options, "--json"),
    )
    assert json.loads(said.stdout)["concordance"] > 0.8


@pytest.mark.parametrize(
    "change, message",
    [
        (("--view", "genes"), "--view must be NAME=FILE, got 'genes'"),
        (
            ("--view", "genes=x.csv"),
            "--view must come once for every view, got 'genes'",
        ),
        (
            ("--scale", "a=b", "--scale", "none"),
            "--scale must be NAME=SCALE, got 'none'",
        ),
        (("--scale", "best"), "scale must be 'auto', some of"),
        (("--missing", "drop"), "missing must be 'rescale'"),
        (("--cv", 1), "--cv must be a number of folds from 2 on, got 1"),
        (("--min-set-size", 2), "--min-set-size is for gene sets, got none"),
        (("--gene-set-view", "genes"), "--gene-set-view is for gene sets, got none"),
    ],
)
def test_refusals(files, call, change, message):
    folder, _, options = files
    said = call(
        *("fit", folder / "patients.csv", "-t", "kind", *options, *change),
        *("-m", folder / "model.mk"),
        code=2,
    )
    assert message in said.stderr and "Traceback" not in said.stderr
    assert said.stderr.count("\n") == 1 and not (folder / "model.mk").exists()


def test_models_and_files_must_be_of_one_sort(files, call):
    folder, _, options = files
    path = folder / "model.mk"
    call(
        "fit",
        folder / "patients.csv",
        "-t",
        "kind",
        *options,
        "--drop",
        "age",
        "-m",
        path,
    )
    said = call("predict", path, folder / "patients.csv", code=2)
    assert "expected --view for some of genes, proteins, got none" in said.stderr
    call("fit", folder / "patients.csv", "-t", "kind", "--drop", "id", "-m", path)
    said = call("predict", path, folder / "patients.csv", *options, code=2)
    assert "--view is for models of several views" in said.stderr
