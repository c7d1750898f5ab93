"""`manykernels label` on files of tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import manykernels as mk
from manykernels import SequenceLabeler
from manykernels.cli import app

WORDS = {"det": ["the", "a"], "noun": ["cat", "dog", "fish"], "verb": ["sees", "eats"]}


def write(path: Path, n: int, seed: int, labels: bool = True) -> str:
    rng = np.random.default_rng(seed)
    text = ""
    for _ in range(n):
        for kind in ("det", "noun", "verb", "det", "noun"):
            word = rng.choice(WORDS[kind])
            text += f"{word}\t{word[-1]}" + (f"\t{kind}" if labels else "") + "\n"
        text += "\n"
    path.write_text(text)
    return str(path)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["label", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("label")
    path = str(folder / "model")
    train = write(folder / "train.txt", 10, 0)
    out = run("--train", train, "--model", path, "--seed", "0", "--json")
    assert json.loads(out)["labels"] == ["det", "noun", "verb"]
    return path


def test_labels_are_added_as_a_column(model: str, tmp_path: Path) -> None:
    bare = write(tmp_path / "new.txt", 3, 1, labels=False)
    labeled = write(tmp_path / "truth.txt", 3, 1)
    run(bare, "--model", model, "--out", str(tmp_path / "out.txt"))
    assert (tmp_path / "out.txt").read_text().strip() == Path(
        labeled
    ).read_text().strip()
    scores = json.loads(run(labeled, "--model", model, "--score", "--json"))
    assert (scores["tokens"], scores["sequences"]) == (1.0, 1.0)
    assert all(line["f1"] == 1.0 for line in scores["labels"])


def test_chunks_are_counted_by_type(tmp_path: Path) -> None:
    train, model = tmp_path / "train.txt", str(tmp_path / "model")
    train.write_text("the B-NP\ncat I-NP\nsleeps B-VP\n. O\n\ncats B-NP\nbark B-VP\n")
    run("--train", str(train), "--model", model, "--seed", "0")
    (tmp_path / "new.txt").write_text("the B-NP\ncat I-NP\nsleeps B-NP\n. O\n")
    shown = run(str(tmp_path / "new.txt"), "--model", model, "--score")
    assert shown.split("type ")[1].split("\n")[1].split() == [
        *("NP", "2", "1", "1.0000", "0.5000", "0.6667")
    ]
    told = run(str(tmp_path / "new.txt"), "--model", model, "--score", "--json")
    assert json.loads(told)["chunk_f1"] == pytest.approx(0.5)


def test_numbers_are_arrays_and_kernels_can_be_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = ""
    for _ in range(20):
        for k in (0, 1, 2):
            point = np.eye(3)[k] + 0.2 * rng.normal(size=3)
            text += " ".join(f"{v:.3f}" for v in point) + f" {k}\n"
        text += "\n"
    train = tmp_path / "train.txt"
    train.write_text(text)
    path = str(tmp_path / "model")
    options = [
        "--kernels",
        "rbf; linear",
        "--loss",
        "crf",
        "--epochs",
        "5",
        "--seed",
        "0",
    ]
    told = run("--train", str(train), "--model", path, *options)
    assert "rbf" in told
    assert "epochs        5" in told
    scored = run(str(train), "--model", path, "--score")
    assert float(scored.splitlines()[0].split()[1]) > 0.9


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("the det\ncat\n", ["--train"], "expected 2 columns in every line"),
        ("\n\n", ["--train"], "at least one token"),
        ("the\ncat\n", ["--train"], "expected labels in the last column"),
        ("a b c d e\n", ["--use"], "expected lines with 2 columns"),
        ("the e\n", ["--use", "--score"], "expected labels after"),
        ("the e det\n", ["--train", "--window", "-1"], "--window must be"),
        (
            "the e det\ncat t noun\n",
            ["--train", "--loss", "log"],
            "loss must be 'hinge' or 'crf'",
        ),
    ],
)
def test_mistakes_are_told_in_one_sentence(
    model: str, tmp_path: Path, text: str, options: list[str], message: str
) -> None:
    path = tmp_path / "tokens.txt"
    path.write_text(text)
    place = model if options[0] == "--use" else str(tmp_path / "new")
    first = [str(path)] if options[0] == "--use" else ["--train", str(path)]
    result = CliRunner().invoke(app, ["label", *first, "--model", place, *options[1:]])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_something_must_be_given(model: str) -> None:
    result = CliRunner().invoke(app, ["label", "--model", model])
    assert result.exit_code == 2
    assert "got neither" in result.stderr


def test_an_interrupted_command_keeps_its_model_and_exits_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = SequenceLabeler.fit

    def interrupted(labeler: SequenceLabeler, X: Any, y: Any) -> Any:
        def stop(line: Any) -> None:
            raise KeyboardInterrupt

        return fit(labeler.set_params(callback=stop), X, y)

    monkeypatch.setattr(SequenceLabeler, "fit", interrupted)
    path = tmp_path / "model"
    train = write(tmp_path / "train.txt", 10, 0)
    arguments = ["label", "--train", train, "--model", str(path), "--seed", "0"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 130, result.output
    assert "Warning: " in result.stderr and "nterrupted after 1" in result.stderr
    assert mk.load(path).n_iter_ == 1


def test_a_parser_is_no_labeler(tmp_path: Path) -> None:
    path = tmp_path / "parser.mk"
    sentence = mk.structured.Sentence.of(["a", "b"], ["X", "Y"], [2, 0])
    mk.DependencyParser(["h.upos m.upos"], n_epochs=1, memory_limit="1MB").fit(
        [sentence]
    ).save(path)
    bare = write(tmp_path / "new.txt", 1, 1, labels=False)
    result = CliRunner().invoke(app, ["label", bare, "--model", str(path)])
    assert result.exit_code == 2
    assert "expected the file of a labeler, got one of DependencyParser" in " ".join(
        result.stderr.split()
    )
