"""Kernel rows for loops that need a few of them, in an order known only as they run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manykernels.banks.base import Bank
from manykernels.base.arrays import Index, Values
from manykernels.solvers.state import State

CACHE_BYTES = 256 << 20
PREFETCH = 32  # rows computed together, so that products are matrix-matrix


class RowCache:
    """rows[slots[i]] is kernel row i where slots[i] >= 0.

    A stored Gram stack is its own cache. Other banks compute rows when they are
    missed, a batch at a time, into a ring of as many rows as `bank.cache_bytes`
    holds: a pass visits every row once, so the row computed first is the one not
    needed for longest.
    """

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.rows: Values
        stored = bank.stored_rows()
        self.stored = stored is not None
        if stored is not None:
            self.rows = stored
            self.slots: NDArray[np.int64] = np.arange(bank.n_rows)
            return
        row_bytes = bank.n_blocks * bank.n_rows * bank.dtype.itemsize
        n_bytes = bank.cache_bytes or CACHE_BYTES
        capacity = int(min(bank.n_rows, max(PREFETCH, n_bytes // row_bytes)))
        self.rows = np.empty((capacity, bank.n_blocks, bank.n_rows), bank.dtype)
        self.slots = np.full(bank.n_rows, -1)
        self._owners = np.full(capacity, -1)  # the row in each place
        self._next = 0  # place of the next row
        self._batches: list[tuple[int, Index]] = []  # first place, rows

    def fill(self, wanted: Index) -> None:
        """Compute the rows `wanted`, the first of which is needed now."""
        missing = wanted[self.slots[wanted] < 0]
        _, first = np.unique(missing, return_index=True)
        batch = missing[np.sort(first)][:PREFETCH]
        self._forget_batches(len(batch))
        self._take(self._next, batch)

    def _take(self, place: int, batch: Index) -> None:
        places = (place + np.arange(len(batch))) % len(self.rows)
        old = self._owners[places]
        self.slots[old[old >= 0]] = -1
        self.rows[places] = self.bank.rows(batch)
        self.slots[batch] = places
        self._owners[places] = batch
        self._next = int(places[-1] + 1) % len(self.rows)
        self._batches.append((place, batch))

    def _forget_batches(self, coming: int) -> None:
        """Drop the batches of which the coming rows leave nothing."""
        room = len(self.rows) - coming
        kept: list[tuple[int, Index]] = []
        for place, batch in reversed(self._batches):
            if room <= 0:
                break
            kept.append((place, batch))
            room -= len(batch)
        self._batches = kept[::-1]

    def state(self) -> State:
        """Which rows are at hand. Rounding depends on the rows computed together."""
        return {"batches": [] if self.stored else list(self._batches)}

    def restore(self, state: State) -> None:
        """Compute the same rows again, in the same batches."""
        if self.stored:
            return
        self.slots[:] = -1
        self._owners[:] = -1
        self._batches = []
        for place, batch in state["batches"]:
            self._take(int(place), batch)
