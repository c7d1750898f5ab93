"""The smallest bank: rows, diagonals and parts of plain Gram matrices."""

from __future__ import annotations

import numpy as np

from manykernels.banks import Bank


class ToyBank(Bank):
    """Kernels as a list of matrices; everything else is the base class's answer."""

    def __init__(self, grams: list[np.ndarray]) -> None:
        names = [f"toy {f}" for f in range(len(grams))]
        super().__init__(len(grams[0]), names, grams[0].dtype)
        self.grams = grams

    def diagonals(self) -> np.ndarray:
        """K_f(i, i), shape (rows, blocks)."""
        return np.stack([np.diag(gram) for gram in self.grams], axis=1)

    def rows(self, index: np.ndarray) -> np.ndarray:
        """K_f(i, j) for i in index, shape (len(index), blocks, rows)."""
        return np.stack([gram[index] for gram in self.grams], axis=1)

    def take(self, index: np.ndarray, brief: bool = False) -> ToyBank:
        """The same kernels on fewer rows."""
        return ToyBank([gram[np.ix_(index, index)] for gram in self.grams])

    @classmethod
    def of(cls, stack: np.ndarray) -> ToyBank:
        """The kernels of a stack of shape (rows, blocks, rows)."""
        return cls([stack[:, f, :].copy() for f in range(stack.shape[1])])
