"""Rooms that stand above the one that asks for them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def room(name: str) -> ModuleType:
    """A room by its name, imported when it is asked for.

    Imports go down. What an estimator offers from above, such as its report, is fetched
    by name at the moment it is called, and nothing is imported the other way round.

    Examples
    --------
    >>> room("norms").__name__
    'manykernels.norms'
    """
    return import_module(f"manykernels.{name}")
