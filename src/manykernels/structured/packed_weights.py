"""Weights of which most are zero, as a file holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.base.machine import require_memory
from manykernels.base.stored import (
    Bytes,
    Count,
    Either,
    Floats,
    Halves,
    require_all,
    storable,
)


@storable(
    size=Count(),
    mask=Bytes("bytes"),
    values=Either(Floats("weights"), Halves("weights")),
)
@dataclass(frozen=True)
class PackedWeights:
    """One bit for every weight, and the values of those that are not zero.

    Values that half precision holds without loss are stored so; see
    `DependencyParser.compressed`.

    Examples
    --------
    >>> packed = PackedWeights.of(np.array([0.0, 0.5, 0.0], np.float32))
    >>> packed.values, packed.weights()
    (array([0.5], dtype=float16), array([0. , 0.5, 0. ], dtype=float32))
    """

    size: int
    mask: NDArray[np.uint8]
    values: NDArray[Any]

    @classmethod
    def of(cls, weights: NDArray[np.float32]) -> PackedWeights:
        """Weights in any shape."""
        flat = weights.ravel()
        values = flat[flat != 0.0]
        half = in_half_precision(values)
        exact = np.array_equal(half.astype(np.float32), values)
        return cls(flat.size, np.packbits(flat != 0.0), half if exact else values)

    def weights(self) -> NDArray[np.float32]:
        """All of them again, one after the other."""
        require_memory(5 * self.size, None, "reading the weights of a parser")
        found = np.zeros(self.size, np.float32)
        found[self._is_there()] = self.values
        return found

    def require_sound(self) -> None:
        """Raise where the bits and the values disagree."""
        require_all("weights", {"size": len(self.mask) == -(-self.size // 8)})
        require_all("weights", {"values": self._is_there().sum() == len(self.values)})

    def _is_there(self) -> NDArray[np.bool_]:
        return np.unpackbits(self.mask, count=self.size).astype(np.bool_)


def in_half_precision(values: NDArray[np.float32]) -> NDArray[np.float16]:
    """Rounded, but kept within the range of half precision, and away from zero.

    Examples
    --------
    >>> in_half_precision(np.array([1e6, 1e-9], np.float32)).tolist()
    [65504.0, 5.960464477539063e-08]
    """
    most = np.finfo(np.float16)
    size = np.clip(np.abs(values), most.smallest_subnormal, most.max)
    return np.asarray(np.copysign(size, values), dtype=np.float16)
