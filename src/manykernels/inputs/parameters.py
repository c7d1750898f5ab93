"""Parameters checked in one place: ranges and random states."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def require_number(
    name: str, value: Any, low: float, high: float = np.inf, *, low_ok: bool = False
) -> float:
    """A finite number in (low, high], or [low, high] if `low_ok`.

    Examples
    --------
    >>> require_number("C", 10, 0.0)
    10.0
    """
    good = isinstance(value, Real) and not isinstance(value, bool)
    if good:
        above = value >= low if low_ok else value > low
        good = above and value <= high and np.isfinite(value)
    if not good:
        start = "[" if low_ok else "("
        end = "inf)" if np.isinf(high) else f"{high:g}]"
        raise ValueError(
            f"{name} must be a number in {start}{low:g}, {end}, got {value!r}; choose "
            "one in that range."
        )
    return float(value)


def choose_generator(random_state: Any) -> np.random.Generator:
    """A NumPy generator from what scikit-learn calls a random state."""
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return np.random.default_rng(seed)
