"""Which errors are told in one sentence, and which keep their traceback."""

import numpy as np
import pytest
import typer

from manykernels.cli.errors import BAD_INPUT, plain_errors


def raising(error):
    def command():
        raise error

    return plain_errors(command)


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
        lambda: plain_errors(),
        lambda: np.ones(3).reshape("x"),
    ],
)
def test_mistakes_of_the_program_keep_their_traceback(mistake, capsys):
    with pytest.raises(TypeError):
        plain_errors(mistake)()
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
