"""Errors in one sentence, and the exit codes that go with them."""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NoReturn

import typer

from manykernels.base.extras import MissingLibraryError

BAD_INPUT = 2
RAISE = dis.opmap["RAISE_VARARGS"]
INTERRUPTED = 130  # what shells report after Ctrl-C


def show(line: str, err: bool = False) -> None:
    """One line for people, whatever was in the file that it speaks of."""
    typer.echo(printable(line), err=err)


def printable(text: str) -> str:
    r"""The same text; what a terminal would obey instead of show is spelled out.

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


def plain_errors(command: Callable[..., None]) -> Callable[..., None]:
    """The same command; what the user can mend is told in one sentence.

    Anything else is a mistake of the program and keeps its traceback.
    """

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        with _one_sentence_errors():
            command(*args, **options)
            sys.stdout.flush()

    return run


def one_line(error: BaseException | str) -> str:
    r"""A message without line breaks.

    Examples
    --------
    >>> one_line(ValueError("two\n  lines"))
    'two lines'
    """
    return " ".join(str(error).split())


@contextmanager
def _one_sentence_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
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
        if not _is_refusal(error):
            raise
        fail(one_line(error))


def _is_refusal(error: TypeError) -> bool:
    """Whether a raise statement wrote the error for people to read.

    A mistake of the program, such as None + 1, comes from the operation itself.
    """
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return False
    return place.tb_frame.f_code.co_code[place.tb_lasti] == RAISE


def _about_file(error: OSError) -> str:
    if error.filename is None:
        return one_line(error)
    return (
        f"expected a file that can be opened, got '{error.filename}' "
        f"({error.strerror}); check the path"
    )


def _discard_output() -> None:
    """Nobody reads any more: what is still buffered must not raise at the end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):
        pass  # output that is no file needs no care
