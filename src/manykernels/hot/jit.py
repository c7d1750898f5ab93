"""Loops that numba compiles, or reads from its cache, when they are first called.

Importing numba takes as long as importing numpy and scipy together, and to load a
model and predict needs no loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from threading import RLock
from typing import Any

_compiling = RLock()  # two threads would compile everything twice


class Loop:
    """A function of arrays and plain numbers, compiled at its first call."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._options = options
        self._dispatcher: Any = None  # numba's object for this loop

    def __call__(self, *arguments: Any) -> Any:
        return (self._dispatcher or self.compiled())(*arguments)

    def compiled(self) -> Any:
        """Numba's dispatcher for this loop, once those it calls have theirs."""
        with _compiling:
            if self._dispatcher is None:
                made: dict[Loop, Any] = {}
                self._hand_over(made)
                for loop, dispatcher in made.items():
                    loop._dispatcher = dispatcher
        return self._dispatcher

    def _hand_over(self, made: dict[Loop, Any]) -> None:
        from numba import njit

        made[self] = self._dispatcher or njit(**self._options)(self.py_func)
        # Numba looks for the loops that this one calls among its globals.
        names = self.py_func.__globals__
        for name, loop in list(names.items()):
            if isinstance(loop, Loop):
                if loop not in made:
                    loop._hand_over(made)
                names[name] = made[loop]


def njit(**options: Any) -> Callable[[Callable[..., Any]], Loop]:
    """As numba's decorator, without importing numba yet."""
    return lambda function: Loop(function, options)
