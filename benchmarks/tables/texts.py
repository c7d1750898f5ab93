"""Numbers as they are written in tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from figures import rounded


def two(number: float | None) -> str:
    """Two significant digits."""
    return "-" if number is None or not np.isfinite(number) else rounded(number, 2)


def hundreds(number: float) -> str:
    return f"{round(number, -2):,.0f}"


def percent(share: float, places: int = 1) -> str:
    """A share as per cent."""
    return f"{100 * share:.{places}f} %"


def spread(values: Sequence[float], places: int = 1) -> str:
    """Mean and standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.{places}f} ± {error:.{places}f}"


def range_of(values: Sequence[float], places: int = 1) -> str:
    """Lowest to highest."""
    return f"{min(values):.{places}f} to {max(values):.{places}f}"


def bold_best(values: Sequence[float], texts: Sequence[str], best: Any) -> list[str]:
    """Texts of values, those that look like the best in bold."""
    winner = texts[int(best(values))]
    return [f"**{text}**" if text == winner else text for text in texts]


def with_quartiles(one: dict[str, Any]) -> str:
    """Median seconds and, of several runs, their quartiles."""
    spread = one.get("spread", {"repeats": 1})
    if spread["repeats"] == 1:
        return two(one["seconds"])
    return f"{two(one['seconds'])} ({two(spread['q25'])} to {two(spread['q75'])})"
