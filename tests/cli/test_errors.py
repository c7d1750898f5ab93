"""Which errors are told in one sentence, and which keep their traceback."""

import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from manykernels import MKLClassifier
from manykernels.cli import app
from manykernels.cli.errors import BAD_INPUT, one_line, one_sentence_errors
from manykernels.cli.outputs import write_table
from manykernels.kernels import RBF


def raising(error):
    def command():
        raise error

    return one_sentence_errors()(command)


@pytest.mark.parametrize("end", ["", ".", "?", "!"])
@pytest.mark.parametrize("kind", [ValueError, TypeError, MemoryError])
def test_refusals_are_told_whatever_their_last_character(kind, end, capsys):
    with pytest.raises(typer.Exit) as caught:
        raising(kind(f"expected this,\n got that{end}"))()
    assert caught.value.exit_code == BAD_INPUT
    told = capsys.readouterr().err
    assert told == f"Error: expected this, got that{end or '.'}\n"


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: None + 1,
        lambda: len(3),
        lambda: one_line(),
        lambda: np.ones(3).reshape("x"),
    ],
)
def test_mistakes_of_the_program_keep_their_traceback(mistake, capsys):
    with pytest.raises(TypeError):
        one_sentence_errors()(mistake)()
    assert capsys.readouterr().err == ""


def test_interruption(capsys):
    with pytest.raises(typer.Exit) as caught:
        raising(KeyboardInterrupt())()
    assert caught.value.exit_code == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_a_kernel_of_dense_tables_on_sparse_rows(refused, tmp_path):
    """A type error of the library, met by way of the command."""
    (tmp_path / "rows.libsvm").write_text("0 1:1\n1 2:1\n" * 10)
    refused(
        *("fit", tmp_path / "rows.libsvm", "-k", "chi_squared", "-m", tmp_path / "m"),
        parts=["needs a dense table, got a sparse one"],
    )


@pytest.mark.parametrize("other", ["--weight", "--group"])
@pytest.mark.parametrize("name", ["train.csv", "train.npz"])
def test_one_column_has_one_role(other, name, iris, refused, tmp_path):
    column = "y" if name.endswith("npz") else "kind"
    refused(
        *("fit", iris.path(name), "-t", column, other, column),
        *("-m", tmp_path / "m"),
        parts=[f"a column of its own for {other}, got that of --target"],
    )


def test_escape_sequences_are_shown_and_not_obeyed(iris, call, tmp_path):
    """A file from a stranger may say anything, but not to the terminal."""
    path = tmp_path / "hostile.mk"
    X, y = iris.train[["sepal length"]], iris.train["kind"].astype(object)
    y[y == "setosa"] = "\x1b[31msetosa\x07"
    kernel = RBF(name="rbf\x1b]0;owned\x07\u202e\n100.0%  linear")
    MKLClassifier([kernel]).fit(X, y).save(path)
    shown = call("inspect", path).stdout
    assert all(c.isprintable() or c == "\n" for c in shown), shown
    assert "rbf\\x1b]0;owned\\x07\\u202e\\n100.0%  linear" in shown
    assert "\\x1b[31msetosa\\x07" in shown


def test_predictions_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    write_table("-", ["prediction", "score"], [["\x1b[2Ja", 1.5]])
    assert capsys.readouterr().out == "prediction,score\n\\x1b[2Ja,1.5\n"


FIT = ("fit", "train.csv", "-t", "kind", "-m", "model.mk")


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("fit",),
        ("fit", "--nope"),
        ("label",),
        ("parse", "train.csv"),
        ("predict", "nofile.mk", "train.csv"),
        ("predict", "nofile.mk", "train.csv", "--out", "./train.csv"),
        ("label", "train.csv", "-m", "model.mk", "--out", "train.csv"),
        ("parse", "--train", "train.csv", "-m", "train.csv"),
        ("inspect", "train.csv"),
        ("fit", ".", "-t", "kind", "-m", "model.mk"),
        ("fit", "train.csv", "-t", "99", "-m", "model.mk"),
        ("fit", "train.csv", "-t", "kind", "-m", "nowhere/model.mk"),
        *(
            (*FIT, *options)
            for options in [
                ("--p", "abc"),
                ("--C", "1e-320"),
                ("--class-weight", "even"),
                ("--seed", "-1"),
                ("--seed", "9" * 20),
                ("--max-iter", "0"),
                ("--tol", "nan"),
                ("--kernels", "rbf:gamma=1e400"),
                ("--kernels", "polynomial:degree=-1"),
                ("--kernels", ";"),
                ("--kernels", "precomputed"),
                ("--storage", "nope"),
                ("--approximate", "nope"),
                ("--loss", "nope"),
                ("--weight", "kind"),
                ("--drop", "*"),
                ("--checkpoint", "."),
                ("--model", "train.csv"),
                ("--checkpoint", "train.csv"),
                ("--checkpoint", "./model.mk"),
                ("--metrics", "model.mk"),
            ]
        ),
        ("demo", "--train", "x"),
    ],
    ids=" ".join,
)
def test_every_bad_command_line_is_one_sentence(words, iris, refused, monkeypatch):
    monkeypatch.chdir(iris.folder)
    refused(*words, parts=[";"])


def test_nothing_at_all_shows_the_help():
    result = CliRunner().invoke(app, [])
    assert "Usage" in result.output and "fit" in result.output
