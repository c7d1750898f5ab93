"""Loops that numba compiles, or reads from its cache, when they are first called.

Importing numba takes as long as importing numpy and scipy together, and who only
loads a model and predicts needs no loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache, update_wrapper
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Any

logger = logging.getLogger(__name__)
_making = RLock()  # two threads would compile everything twice


class Loop:
    """A function of arrays and plain numbers, compiled at its first call."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._options = options
        self._ready: Any = None  # numba's own object, and those that it calls as well

    def __call__(self, *arguments: Any) -> Any:
        return (self._ready or self.compiled())(*arguments)

    def compiled(self) -> Any:
        """Numba's own object; it looks for the loops it calls among the globals."""
        with _making:
            if self._ready is None:
                _make(self)
        return self._ready


def _make(first: Loop) -> None:
    """Hand a loop, and all that it may call, to numba."""
    from numba import njit

    _tell_of_compilation()
    made: dict[Loop, Any] = {}
    ahead = [first]
    while ahead:
        loop = ahead.pop()
        if loop not in made:
            made[loop] = loop._ready or njit(**loop._options)(loop.py_func)
            names = loop.py_func.__globals__
            ahead += [value for value in names.values() if isinstance(value, Loop)]
    for loop in made:
        names = loop.py_func.__globals__
        near = {key: one for key, one in names.items() if isinstance(one, Loop)}
        names.update({key: made[one] for key, one in near.items()})
    for loop, ready in made.items():
        _watch_sources(ready)
        loop._ready = ready


def njit(**options: Any) -> Callable[[Callable[..., Any]], Loop]:
    """As numba's decorator, without importing numba yet."""
    return lambda function: Loop(function, options)


def _watch_sources(made: Any) -> None:
    """Let the cache notice changes in all files whose loops this one may call.

    numba itself looks at the file of the loop alone: after an upgrade it would go on
    with an old copy of a loop from another file.
    """
    # Without a cache, or with NUMBA_DISABLE_JIT, there is nothing to compare.
    cached = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if cached is not None:
        near = made.py_func.__globals__.values()
        codes = [loop.py_func.__code__ for loop in near if hasattr(loop, "py_func")]
        files = {code.co_filename for code in [made.py_func.__code__, *codes]}
        cached._source_stamp = [_digest(path) for path in sorted(files)]


@cache
def _digest(path: str) -> str:
    return sha256(Path(path).read_bytes()).hexdigest()


@cache
def _tell_of_compilation() -> None:
    """Tell of the first loop that is not in the cache: who fits now has to wait.

    As a warning of the log, which is shown where nobody has configured logging.
    """
    from numba.core import event

    class Teller(event.Listener):  # type: ignore[misc]
        told = False

        def on_start(self, start: Any) -> None:
            module = start.data["dispatcher"].py_func.__module__
            if not self.told and module.startswith(__package__):
                self.told = True
                logger.warning(
                    "manykernels: compiling loops for this machine: some seconds, once"
                )

        def on_end(self, end: Any) -> None:
            """Nothing to say."""

    event.register("numba:compile", Teller())
