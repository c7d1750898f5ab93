"""Figures that a notebook shows as the last line of a cell."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure of its own, without pyplot and its global state.

    Notebooks draw figures that pyplot knows; this one draws itself.

    Examples
    --------
    >>> ShownFigure()._repr_png_()[1:4]
    b'PNG'
    """

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format="png")
        return stream.getvalue()
