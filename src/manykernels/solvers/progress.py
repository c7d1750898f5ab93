"""A line per epoch for people who watch a fit."""

from __future__ import annotations

import sys
from typing import TextIO

import numpy as np

from manykernels.solvers.loop import Epoch

ENOUGH = 0.5  # a gap that has hardly moved says nothing about the time left


class ProgressPrinter:
    """Print epoch, objective, gap and an estimate of the time left.

    Examples
    --------
    >>> printer = ProgressPrinter(tol=1e-2, stream=sys.stdout)
    >>> printer(Epoch(1, 0.5, 0.25, 0.3, 120))
    epoch   1   objective 0.25       gap 3.0e-01   updates 120       0.5 s
    """

    def __init__(self, tol: float, stream: TextIO | None = None) -> None:
        self.tol = tol
        self.stream = stream or sys.stderr
        self._first: Epoch | None = None

    def __call__(self, line: Epoch) -> None:
        """Print one line."""
        self._first = self._first or line
        text = (
            f"epoch {line.epoch:3d}   objective {line.objective:<10.6g} "
            f"gap {line.gap:.1e}   updates {line.updates:<8d} {line.time:5.1f} s"
        )
        left = self._seconds_left(line)
        if left is not None:
            text += f"   about {left:.1f} s left"
        print(text, file=self.stream, flush=True)

    def _seconds_left(self, line: Epoch) -> float | None:
        """Extrapolate the gap, which falls about geometrically."""
        first = self._first
        if first is None or not 0.0 < self.tol < line.gap < ENOUGH * first.gap:
            return None
        rate = np.log(first.gap / line.gap) / max(line.time - first.time, 1e-9)
        return float(np.log(line.gap / self.tol) / rate)
