"""Errors in one sentence, and the exit codes of these."""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from manykernels.base.imports import MissingLibraryError

BAD_INPUT = 2
RAISE_OPCODE = dis.opmap["RAISE_VARARGS"]
INTERRUPTED = 130  # what shells report after Ctrl-C
MOST_LISTED = 10  # names, classes and the like that one line lists


def show(line: str, err: bool = False) -> None:
    """Print one line; control characters in it are escaped."""
    typer.echo(printable(line), err=err)


def printable(text: str) -> str:
    r"""Escape what a terminal would execute instead of showing it.

    Examples
    --------
    >>> print(printable("rbf \x1b[2J"))
    rbf \x1b[2J
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


def fail(message: str) -> NoReturn:
    """End the command with one sentence."""
    end = "" if message.endswith((".", "?", "!")) else "."
    show(f"Error: {message}{end}", err=True)
    raise typer.Exit(BAD_INPUT)


def one_line(error: BaseException | str) -> str:
    r"""A message without line breaks.

    Examples
    --------
    >>> one_line(ValueError("two\n  lines"))
    'two lines'
    """
    return " ".join(str(error).split())


@contextmanager
def one_sentence_errors() -> Iterator[None]:
    """Context manager and decorator: print errors of the user as one sentence.

    Errors of the program keep their traceback.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output, such as head, has enough
        _discard_output()
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        show("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        fail(_about_file(error))
    except (ValueError, MemoryError, MissingLibraryError) as error:
        fail(one_line(error))
    except TypeError as error:
        if not _is_written_for_users(error):
            raise
        fail(one_line(error))


def _is_written_for_users(error: TypeError) -> bool:
    """Whether a raise statement made the error.

    An error of the program, such as None + 1, comes from the operation itself.
    """
    # The innermost frame made the error: by a raise statement, or by an operation.
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == RAISE_OPCODE


def _about_file(error: OSError) -> str:
    if error.filename is None:
        return one_line(error)
    return (
        f"expected a file that can be opened, got '{error.filename}' "
        f"({error.strerror}); check the path"
    )


def _discard_output() -> None:
    """Drop what is buffered: without a reader it would raise at the end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):
        pass  # output that is no file needs no care
