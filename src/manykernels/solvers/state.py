"""Searches that can be put away and taken up again."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

State = dict[str, Any]  # numbers, text, arrays, and lists and dicts of them


class Remembers:
    """`state` and `restore` for objects whose future depends on a few attributes.

    Among them may be random generators and other objects that remember.

    Examples
    --------
    >>> class Counter(Remembers):
    ...     remembered = ("count",)
    ...     count = 3
    >>> other = Counter()
    >>> other.restore({"count": 5})
    >>> other.state()
    {'count': 5}
    """

    remembered: ClassVar[tuple[str, ...]] = ()

    def state(self) -> State:
        """All that the future depends on, as plain data and arrays."""
        return {key: _put_away(getattr(self, key)) for key in self.remembered}

    def restore(self, state: State) -> None:
        """Go on from `state` as if there had been no interruption."""
        for key in self.remembered:
            part = getattr(self, key)
            if isinstance(part, Remembers):
                part.restore(state[key])
            elif isinstance(part, np.random.Generator):
                part.bit_generator.state = state[key]
            else:
                setattr(self, key, state[key])


def _put_away(part: Any) -> Any:
    if isinstance(part, Remembers):
        return part.state()
    if isinstance(part, np.random.Generator):
        return part.bit_generator.state
    return part
