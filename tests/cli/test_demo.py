"""The demonstration: its table, picture, JSON and error messages."""

import json

import numpy as np
import pytest
from sklearn.utils import Bunch
from typer.testing import CliRunner

import manykernels
from manykernels.cli import app
from manykernels.cli.demo import DemoKernels, DemoResult, best_single_kernel, conclusion
from manykernels.datasets import load_noisy_digits

runner = CliRunner()


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """One small run, printed as JSON."""
    picture = tmp_path_factory.mktemp("demo") / "picture.png"
    arguments = ["demo", "--train", "60", "--noise", "6", "--json"]
    result = runner.invoke(app, [*arguments, "--output", str(picture)])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), picture, result.stderr


def test_first_line_says_what_happens(outcome):
    first = outcome[2].splitlines()[0]
    assert first.startswith("Learning to read digits from 60 images")


def test_json_has_every_contender(outcome):
    results = outcome[0]["results"]
    assert [(r["method"], r["kernels"]) for r in results] == [
        ("MKL, p = 1", "12 useful + 6 noise"),
        ("MKL, p = 1.25", "12 useful + 6 noise"),
        ("SVM, averaged kernel", "12 useful + 6 noise"),
        ("SVM, best single kernel", "12 useful + 6 noise"),
        ("MKL, p = 1", "12 useful"),
        ("SVM, averaged kernel", "12 useful"),
    ]
    assert all(0.2 < r["accuracy"] <= 1.0 for r in results)
    assert outcome[0]["compile_seconds"] > 0.0


def test_learnt_weights_come_with_a_gap(outcome):
    for result in outcome[0]["results"]:
        learned = result["method"].startswith("MKL")
        assert (result["gap"] is not None) == learned
        if learned:
            assert 0.0 <= result["gap"] <= 1e-2


def test_sparser_norm_puts_less_weight_on_noise(outcome):
    sparse, mild, mean = outcome[0]["results"][:3]
    assert sparse["noise_weight"] < mild["noise_weight"] < mean["noise_weight"]
    assert mean["noise_weight"] == pytest.approx(6 / 18)


def test_picture_is_written(outcome):
    assert outcome[1].read_bytes().startswith(b"\x89PNG")


def test_table_for_people(tmp_path):
    picture = tmp_path / "small.svg"
    result = runner.invoke(
        app, ["demo", "--train", "40", "--noise", "0", "--output", str(picture)]
    )
    assert result.exit_code == 0, result.output
    for words in ("accuracy", "certified gap", "averaged kernel", "Picture:"):
        assert words in result.output
    assert "not counted below" in result.output
    assert "…" not in result.output  # nothing is cut off at 80 columns
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train", "5"], "--train must lie between 30 and 1500, got 5;"),
        (["--noise", "-1"], "--noise must lie between 0 and 500, got -1;"),
        (["--seed", "-3"], "--seed must lie between 0 and 2147483647, got -3;"),
        (["--output", "demo.txt"], "must end in one of .pdf, .png, .svg, got"),
        (["--output", "no/such/folder/a.png"], "must lie in an existing folder"),
    ],
)
def test_bad_options_are_one_sentence(arguments, message):
    result = runner.invoke(app, ["demo", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_picture_that_cannot_be_written(tmp_path):
    (tmp_path / "taken.png").mkdir()
    arguments = ["demo", "--train", "30", "--noise", "0"]
    result = runner.invoke(app, [*arguments, "--output", str(tmp_path / "taken.png")])
    assert result.exit_code == 2
    assert "--output must be writable" in result.stderr


def test_version():
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.strip() == f"manykernels {manykernels.__version__}"


def test_help_names_the_command_and_its_options():
    assert "demo" in runner.invoke(app, ["--help"]).output
    text = runner.invoke(app, ["demo", "--help"], env={"COLUMNS": "100"}).output
    for option in ("--train", "--noise", "--seed", "--output", "--json"):
        assert option in text


def test_best_single_kernel_is_chosen_without_the_test_rows():
    digits = load_noisy_digits(60, 2, 0)
    kernels = DemoKernels.build(digits, 0)
    shuffled = {**digits, "target_test": digits.target_test[::-1]}
    other = DemoKernels.build(Bunch(**shuffled), 0)
    note = best_single_kernel(kernels).note
    assert note == best_single_kernel(other).note in kernels.names


def test_stack_is_unit_diagonal_and_ordered_like_the_names():
    digits = load_noisy_digits(40, 3, 0)
    kernels = DemoKernels.build(digits, 0)
    assert kernels.train.shape == (40, 40, 15)
    assert kernels.test.shape == (len(digits.target_test), 40, 15)
    np.testing.assert_allclose(np.diagonal(kernels.train), 1.0, rtol=1e-5)
    assert kernels.names[0] == "linear top left" and kernels.names[-1] == "noise 3"
    assert kernels.useful().train.shape[-1] == 12


@pytest.mark.parametrize(
    ("learned", "mean", "words"),
    [
        (0.90, 0.80, "gains 10.0 points"),
        (0.90, 0.895, "averaging is as good as learning weights (+0.5 points)"),
        (0.70, 0.80, "loses 10.0 points"),
    ],
)
def test_conclusion_follows_the_numbers(learned, mean, words):
    results = [
        DemoResult("MKL, p = 1", "2 useful", learned, 0.1, 1.0),
        DemoResult("SVM, averaged kernel", "2 useful", mean, 0.1, 1.0),
    ]
    assert words in conclusion(results)
