"""Kernel rows for loops that need a few of them, in an order known only as they run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manykernels.banks.base import Bank, Index, Values
from manykernels.banks.gram import GramBank

CACHE_BYTES = 256 << 20
PREFETCH = 32  # rows computed together, so that products are matrix-matrix


class RowCache:
    """rows[slots[i]] is kernel row i where slots[i] >= 0.

    A stored Gram stack is its own cache. Other banks compute rows when they are
    missed, a batch at a time; a full cache starts over.
    """

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.rows: Values
        if isinstance(bank, GramBank):
            self.rows = bank.stack
            self.slots: NDArray[np.int64] = np.arange(bank.n_rows)
            return
        row_bytes = bank.n_blocks * bank.n_rows * bank.dtype.itemsize
        capacity = int(min(bank.n_rows, max(PREFETCH, CACHE_BYTES // row_bytes)))
        self.rows = np.empty((capacity, bank.n_blocks, bank.n_rows), bank.dtype)
        self.slots = np.full(bank.n_rows, -1)
        self._used = 0

    def fill(self, wanted: Index) -> None:
        """Compute the rows `wanted`, the first of which is needed now."""
        missing = wanted[self.slots[wanted] < 0]
        _, first = np.unique(missing, return_index=True)
        batch = missing[np.sort(first)][:PREFETCH]
        if self._used + len(batch) > len(self.rows):
            self.slots[:] = -1
            self._used = 0
        places = np.arange(self._used, self._used + len(batch))
        self.rows[places] = self.bank.rows(batch)
        self.slots[batch] = places
        self._used += len(batch)
