"""One setting for where kernel values live."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import manykernels as mk
from manykernels.banks import Storage
from manykernels.banks.storage import STORAGE_DTYPES, STORAGE_KINDS


@pytest.mark.parametrize("kind", STORAGE_KINDS)
def test_a_kind_alone(kind: str) -> None:
    assert Storage.of(kind) == Storage(kind) == Storage(kind, "float32", None)


@pytest.mark.parametrize("dtype", STORAGE_DTYPES)
def test_a_dtype_alone_or_after_a_kind(dtype: str) -> None:
    assert Storage.of(dtype) == Storage("auto", dtype)
    assert Storage.of(f"gram:{dtype}") == Storage("gram", dtype)


def test_a_storage_is_taken_as_it_is() -> None:
    storage = mk.Storage("memmap", folder="somewhere")
    assert Storage.of(storage) is storage


@pytest.mark.parametrize("dtype", [np.float16, np.dtype(np.float16), "float16", "f2"])
def test_any_name_of_a_precision(dtype: object) -> None:
    assert Storage("gram", dtype) == Storage("gram", "float16")


def test_the_working_precision() -> None:
    assert [Storage("auto", dtype).working_dtype for dtype in STORAGE_DTYPES] == [
        "float32",
        "float32",
        "float64",
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("disk", "storage must be one of auto, gram, .*, got 'disk'; choose 'auto'"),
        ("disk:float16", "storage must be one of auto, gram, .*, got 'disk'"),
        ("gram:", "dtype must be float32, float64 or float16, got ''; choose one"),
        ("gram:int8", "dtype must be .*, got 'int8'; choose one of these"),
        ("on_demand:float16", "got storage='on_demand', which stores none; use"),
    ],
)
def test_texts_that_mean_nothing(value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Storage.of(value)


@pytest.mark.parametrize("value", [None, 3, ["gram"]])
def test_values_that_are_no_storage(value: object) -> None:
    with pytest.raises(TypeError, match="storage must be a Storage or a text"):
        Storage.of(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [None, int, "float99", 3])
def test_unknown_precisions(dtype: object) -> None:
    with pytest.raises(ValueError, match="dtype must be float32, float64 or float16"):
        Storage(dtype=dtype)


def test_a_folder_is_for_files(tmp_path: Path) -> None:
    assert Storage("auto", folder=tmp_path).folder == tmp_path
    with pytest.raises(ValueError, match="got one with storage='gram', which writes"):
        Storage("gram", folder=tmp_path)
    with pytest.raises(TypeError, match="folder of a storage must be a path, got 3"):
        Storage("memmap", folder=3)  # type: ignore[arg-type]
