"""Tables as columns by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.base.imports import require_library


class ResultTable(dict[str, Any]):
    """Columns of equal length by name; `to_frame` makes a pandas data frame of them.

    Examples
    --------
    >>> table = ResultTable(method=["mkl", "uniform"], score=np.array([0.9, 0.85]))
    >>> table
    method   score
    mkl      0.9
    uniform  0.85
    >>> table.n_rows, table.lines()[0]
    (2, {'method': 'mkl', 'score': 0.9})
    """

    @property
    def n_rows(self) -> int:
        """Of all columns."""
        return len(next(iter(self.values()), ()))

    @classmethod
    def of(cls, lines: list[dict[str, Any]]) -> ResultTable:
        """From one dict per row, all with the same keys."""
        return cls({name: _column([line[name] for line in lines]) for name in lines[0]})

    def lines(self) -> list[dict[str, Any]]:
        """One dict per row."""
        columns = [np.asarray(column).tolist() for column in self.values()]
        return [dict(zip(self, one, strict=True)) for one in zip(*columns, strict=True)]

    def to_frame(self) -> Any:
        """A pandas data frame."""
        return require_library("pandas", "cli").DataFrame(dict(self))

    def __repr__(self) -> str:
        """A line per row, numbers to four digits."""
        rows = [list(self)] + [list(map(_text, one.values())) for one in self.lines()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(map(str.ljust, one, widths)).rstrip() for one in rows
        )


def _column(values: list[Any]) -> np.ndarray:
    if all(isinstance(one, bool | int | float | np.number) for one in values):
        return np.array(values)
    # NumPy would make an array of several dimensions of values of equal length.
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
