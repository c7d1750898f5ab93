"""Errors in one sentence, and the exit codes that go with them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NoReturn

import typer

BAD_INPUT = 2
INTERRUPTED = 130  # what shells report after Ctrl-C


def fail(message: str) -> NoReturn:
    """End the command with one sentence."""
    typer.echo(f"Error: {message.rstrip('.')}.", err=True)
    raise typer.Exit(BAD_INPUT)


def plain_errors(command: Callable[..., None]) -> Callable[..., None]:
    """The same command; what the user can mend is told in one sentence.

    Anything else is a mistake of the program and keeps its traceback.
    """

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        with _told():
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
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        _discard_output()
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        fail(_about_file(error))
    except (ValueError, MemoryError) as error:
        fail(one_line(error))
    except TypeError as error:
        # The library's refusals are sentences; Python's own type errors are not.
        if not str(error).endswith("."):
            raise
        fail(one_line(error))


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
