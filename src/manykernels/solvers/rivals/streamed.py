"""Passes over the rows that OM-2 and UFO-MKL make on the cache of mirror descent."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from manykernels.hot.mirror import MirrorRule
from manykernels.solvers.mirror import MirrorDescent


class StreamedDescent(MirrorDescent):
    """Mirror descent whose steps are another compiled loop's."""

    @abstractmethod
    def visit(
        self, rule: MirrorRule, order: NDArray[np.int64], begin: int
    ) -> tuple[int, int]:
        """Visit rows; returns the position reached and the updates.

        A position short of the end asks for the kernel row of order[position].
        """

    def run_pass(self, rule: MirrorRule, order: NDArray[np.int64]) -> int:
        """Visit the rows in this order; returns the number of updates."""
        position, updates = self.visit(rule, order, 0)
        while position < len(order):
            ahead = order[position:]
            wanted = self._likely(ahead)
            wanted[0] = True  # the loop waits for it, whatever rounding says here
            self.cache.fill(ahead[wanted])
            position, new = self.visit(rule, order, position)
            updates += new
        return int(updates)
