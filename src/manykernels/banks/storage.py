"""How kernel values are to be held."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from manykernels.base.quoted import quoted
from manykernels.base.stored import TEXT, storable

MemoryLimit: TypeAlias = int | float | str | None
WORKING_SET_ROWS = 2000  # of the smallest working set that has memory in any case
STORAGE_KINDS = ("auto", "gram", "features", "sparse", "memmap", "on_demand")
STORAGE_DTYPES = ("float16", "float32", "float64")


@storable(kind=TEXT, dtype=TEXT)
@dataclass(frozen=True)
class Storage:
    """Where kernel values live, how precisely, and in which folder.

    Parameters
    ----------
    kind : {"auto", "gram", "features", "sparse", "memmap", "on_demand"}
        "gram" holds every value in memory, a given stack where it lies; "features"
        holds explicit features (linear and approximate kernels); "sparse" holds the
        values that are not zero (compact kernels); "memmap" writes every value to a
        file and reads it in blocks;
        "on_demand" computes values when they are needed. "auto" takes sparse matrices
        where all kernels are compact, and values otherwise; where these would be large
        or not fit, features if all kernels have them, a file if there is room on the
        disk and reading is clearly faster than computing, else on demand.
    dtype : {"float16", "float32", "float64"}
        Precision of kernel values. "float16" rounds values where they are stored, in
        memory or in a file; they are computed and handed out in float32.
    folder : path, optional
        For "memmap": where finished files are kept and found again; by default a
        temporary one.

    Examples
    --------
    >>> Storage.of("gram:float16")
    Storage(kind='gram', dtype='float16', folder=None)
    >>> Storage.of("float64").kind, Storage.of("on_demand").dtype
    ('auto', 'float32')
    """

    kind: str = "auto"
    dtype: Any = "float32"
    folder: str | os.PathLike[str] | None = None
    # Whether stored values are rounded to half precision, and what then computes.
    is_half: bool = field(init=False, repr=False, compare=False)
    working_dtype: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate; any name of a precision becomes its text."""
        try:
            name = "" if self.dtype is None else np.dtype(self.dtype).name
        except TypeError:
            name = ""
        if name not in STORAGE_DTYPES:
            got = getattr(self.dtype, "__name__", self.dtype)
            raise ValueError(
                f"dtype must be float32, float64 or float16, got {quoted(got)}; choose "
                "one of these."
            )
        object.__setattr__(self, "dtype", name)
        object.__setattr__(self, "is_half", name == "float16")
        object.__setattr__(self, "working_dtype", "float32" if self.is_half else name)
        if self.kind not in STORAGE_KINDS:
            raise ValueError(
                f"storage must be one of {', '.join(STORAGE_KINDS)}, got "
                f"{quoted(self.kind)}; choose 'auto' if in doubt."
            )
        if self.is_half and self.kind not in ("auto", "gram", "memmap"):
            raise ValueError(
                "float16 rounds kernel values that are stored, got "
                f"storage={self.kind!r}, which stores none; use float32, or "
                "storage='gram:float16' or 'memmap:float16'."
            )
        if self.folder is None:
            return
        if not isinstance(self.folder, str | os.PathLike):
            raise TypeError(
                f"folder of a storage must be a path, got {quoted(self.folder)}; "
                "pass its name as a text."
            )
        if self.kind not in ("auto", "memmap"):
            raise ValueError(
                "folder keeps files of kernel values, got one with "
                f"storage={self.kind!r}, which writes none; use kind='memmap' or leave "
                "folder out."
            )

    @classmethod
    def of(cls, value: Storage | str, dtype: str = "float32") -> Storage:
        """A storage from itself or a text: a kind, a dtype, or "kind:dtype".

        A kind alone comes in the precision `dtype`.
        """
        if isinstance(value, Storage):
            return value
        if not isinstance(value, str):
            raise TypeError(
                "storage must be a Storage or a text such as 'gram', got "
                f"{quoted(value)}; choose 'auto' if in doubt."
            )
        kind, colon, named = value.partition(":")
        if not colon and kind in STORAGE_DTYPES:
            return cls(dtype=kind)
        return cls(kind, named if colon else dtype)

    def to_stored(self) -> dict[str, Any]:
        """A file holds no path of this machine."""
        return {"kind": self.kind, "dtype": self.dtype}

    @classmethod
    def from_stored(cls, kind: str, dtype: str) -> Storage:
        """A storage without a folder: no file decides where files are written."""
        return cls(kind, dtype)
