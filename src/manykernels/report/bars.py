"""Which kernels get a bar of their own, and which share one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Bar(NamedTuple):
    """One bar: its label, its length and the group that gives its color."""

    label: str
    weight: float
    group: str


def weight_bars(
    names: Sequence[str], weights: Sequence[float], groups: Sequence[str], limit: int
) -> list[Bar]:
    """The `limit` largest weights, largest first, then one sum per group of the rest.

    Nothing is left out, so the bars always add up to the sum of the weights.

    Examples
    --------
    >>> bars = weight_bars(["a", "b", "c"], [0.5, 0.1, 0.4], ["x", "y", "y"], limit=2)
    >>> [(bar.label, bar.weight) for bar in bars]
    [('a', 0.5), ('c', 0.4), ('1 other (y)', 0.1)]
    """
    order = np.argsort(-np.asarray(weights, dtype=float), kind="stable")
    shown, rest = order[:limit], order[limit:]
    bars = [Bar(names[f], float(weights[f]), groups[f]) for f in shown]
    for group in dict.fromkeys(groups):
        members = [f for f in rest if groups[f] == group]
        if members:
            label = f"{len(members)} other" + (f" ({group})" if group else "")
            bars.append(Bar(label, float(sum(weights[f] for f in members)), group))
    return bars
