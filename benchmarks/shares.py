"""Which part of a fit one of its steps takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch


def share_inside(action: Callable[[], Any], step: str, repeats: int) -> list[float]:
    """Seconds inside of a function, given by its full name, by those of the action."""
    module, _, name = step.rpartition(".")
    inside = [0.0]

    def clocked(find: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return find(*arguments, **options)
            finally:
                inside[0] += time.perf_counter() - began

        return run

    found = []
    for _ in range(repeats):
        with patch(step, clocked(_named(module, name))):
            inside[0], began = 0.0, time.perf_counter()
            action()
            found.append(inside[0] / (time.perf_counter() - began))
    return found


def _named(module: str, name: str) -> Any:
    return getattr(__import__(module, fromlist=[name]), name)
