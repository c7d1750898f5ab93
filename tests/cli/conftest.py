"""Iris in every format, and one fitted model, for all commands."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file, load_iris
from typer.testing import CliRunner

from manykernels.cli import app

NAMES = ["sepal length", "sepal width", "petal length", "petal width"]


@dataclass(frozen=True)
class Iris:
    """Files of the same rows; training and test rows are apart."""

    folder: Path
    train: pd.DataFrame
    test: pd.DataFrame

    def path(self, name: str) -> str:
        return str(self.folder / name)


def write(frame: pd.DataFrame, folder: Path, name: str) -> None:
    """One frame as CSV, TSV, Parquet, NPZ and LIBSVM."""
    X, y = frame[NAMES].to_numpy(), frame["kind"].to_numpy(str)
    frame.to_csv(folder / f"{name}.csv", index=False)
    frame.to_csv(folder / f"{name}.csv.gz", index=False)
    frame.to_csv(folder / f"{name}.tsv", index=False, sep="\t")
    frame.to_parquet(folder / f"{name}.parquet", index=False)
    np.savez(folder / f"{name}.npz", X=X, y=y, names=np.array(NAMES))
    codes = pd.Categorical(y).codes
    dump_svmlight_file(X, codes, str(folder / f"{name}.libsvm"), zero_based=False)


@pytest.fixture(scope="session")
def iris(tmp_path_factory) -> Iris:
    folder = tmp_path_factory.mktemp("iris")
    data = load_iris()
    frame = pd.DataFrame(data.data, columns=NAMES)
    frame["kind"] = data.target_names[data.target]
    frame = frame.sample(frac=1.0, random_state=0).reset_index(drop=True)
    train, test = frame[:90], frame[90:]
    write(train, folder, "train")
    write(test, folder, "test")
    return Iris(folder, train, test)


@pytest.fixture(scope="session")
def call():
    """Run a command; the exit code must be as expected."""

    def run(*arguments, code=0, stdin=None):
        result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return run


@pytest.fixture(scope="session")
def refused(call):
    """Run a command that must end with one sentence that holds all the parts."""

    def run(*arguments, parts, stdin=None):
        result = call(*arguments, code=2, stdin=stdin)
        message = result.stderr.strip()
        assert message.startswith("Error: ") and message.endswith((".", "?")), message
        assert len(message.splitlines()) == 1, message
        for part in parts:
            assert part in message, message
        assert result.stdout == ""

    return run


@pytest.fixture(scope="session")
def model(iris, call) -> str:
    path = iris.path("model.mk")
    kernels = "rbf@sepal*; rbf@petal*; linear"
    call(
        *("fit", iris.path("train.csv"), "-t", "kind", "-k", kernels),
        *("--seed", 0, "-m", path, "--quiet"),
    )
    return path
