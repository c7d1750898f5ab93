"""Searches that can be put away and taken up again."""

from __future__ import annotations

from typing import Any, ClassVar

State = dict[str, Any]  # numbers, text, arrays, and lists and dicts of them


class Remembers:
    """`state` and `restore` for objects whose future depends on a few attributes.

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
        return {key: getattr(self, key) for key in self.remembered}

    def restore(self, state: State) -> None:
        """Go on from `state` as if there had been no interruption."""
        for key in self.remembered:
            setattr(self, key, state[key])
