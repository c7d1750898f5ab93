"""Rows from files, in any number of partitions: the same objective."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import manykernels as mk
from tests.distributed.data import COMMON, in_parts, table

NAMES = list("abcde")


@pytest.fixture(scope="module")
def whole():
    X, y = table()
    return X, y, mk.MKLClassifier(loss="log", **COMMON).fit(X, y).objective_


def objective(X, y):
    model = mk.MKLClassifier(loss="log", **COMMON).fit(X, y)
    assert 0.0 <= model.duality_gap_ <= 1e-7 * model.objective_
    return model.objective_


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_frames(whole, tmp_path, kind, n):
    X, y, expected = whole
    frame = pd.DataFrame(X, columns=NAMES).assign(kind=y)
    for k, rows in enumerate(np.array_split(np.arange(len(X)), n)):
        part = frame.iloc[rows]
        getattr(part, f"to_{kind}")(tmp_path / f"part-{k}.{kind}", index=False)
    # Landmarks depend on every digit, and an older pandas reads the last one roughly.
    exactly = {"float_precision": "round_trip"} if kind == "csv" else {}
    read = getattr(dd, f"read_{kind}")(str(tmp_path / f"part-*.{kind}"), **exactly)
    assert read.npartitions == n
    found = objective(read[NAMES], read["kind"])
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_zarr(whole, tmp_path, n):
    pytest.importorskip("zarr", reason="zarr is not installed")
    X, y, expected = whole
    size = -(-len(X) // n)
    in_parts(X, 1).rechunk((size, -1)).to_zarr(str(tmp_path / "X.zarr"))
    in_parts(y, 1).rechunk(size).to_zarr(str(tmp_path / "y.zarr"))
    read = [da.from_zarr(str(tmp_path / f"{name}.zarr")) for name in "Xy"]
    assert read[0].numblocks[0] == n
    assert objective(*read) == pytest.approx(expected, rel=1e-6)
