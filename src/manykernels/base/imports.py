"""Imports that wait until they are needed: optional libraries, and higher rooms."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class MissingLibraryError(ImportError):
    """A library that comes with an extra is not installed."""


def require_library(module: str, extra: str) -> ModuleType:
    """A module of a library, or one sentence that says how to install it.

    Examples
    --------
    >>> require_library("no_such_library.parts", "plot")
    Traceback (most recent call last):
        ...
    manykernels.base.imports.MissingLibraryError: expected the library \
no_such_library, which is not installed; call pip install "manykernels[plot]".
    """
    library = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != library:
            raise
        raise MissingLibraryError(
            f"expected the library {library}, which is not installed; call "
            f'pip install "manykernels[{extra}]".'
        ) from error


def room(name: str) -> ModuleType:
    """A room above the caller's, imported when it is used.

    Imports go down. What an estimator offers from above, such as its report, is
    imported by name when it is called, so that nothing is imported upwards.

    Examples
    --------
    >>> room("norms").__name__
    'manykernels.norms'
    """
    return import_module(f"manykernels.{name}")
