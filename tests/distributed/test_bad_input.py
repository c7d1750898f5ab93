"""One sentence, early, for what partitions cannot give."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import manykernels as mk
from tests.distributed.data import COMMON, cut, in_parts, table, values

SETTINGS = {**COMMON, "loss": "log", "tol": 0.1}


def fit(X, y, **changes):
    return mk.MKLClassifier(**{**SETTINGS, **changes}).fit(X, y)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"loss": "hinge"}, "smooth loss, got 'hinge'.*smoothed_hinge.* at most 0.5"),
        ({"approximate": None}, "got 'rbf.*which has none; set approximate='nystroem'"),
        ({"kernels": "precomputed"}, "got given matrices; pass the rows themselves"),
        ({"nugget": "shared"}, "needs nugget=None, got 'shared'; leave it out"),
        ({"warm_start": True}, "needs warm_start=False, got True; leave it out"),
        ({"solver": "svrg"}, "works on partitions, .*got 'svrg'; choose 'auto'"),
        ({"C": -1.0}, "C must be a number"),
    ],
)
def test_parameters(changes, words):
    X, y = table()
    with pytest.raises(ValueError, match=words):
        fit(in_parts(X, 2), in_parts(y, 2), **changes)


def test_targets_of_their_own_weights():
    X, _ = table()
    parts = in_parts(X, 2), in_parts(values(X), 2)
    model = mk.MKLRegressor("linear", per_target_weights=True)
    with pytest.raises(ValueError, match="needs per_target_weights=False, got True"):
        model.fit(*parts)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_partition_of_a_bad_number_is_named(bad):
    X, y = table()
    X[130, 3] = bad
    with pytest.raises(ValueError, match=r"partition 2: X must hold finite .*column 3"):
        fit(in_parts(X, 4), in_parts(y, 4), memory_limit=1000)


def test_the_partition_of_a_bad_target_is_named():
    X, _ = table()
    y = values(X)
    y[70] = np.nan
    model = mk.MKLRegressor("linear")
    with pytest.raises(ValueError, match="partition 1: y must hold finite numbers"):
        model.fit(in_parts(X, 4), in_parts(y, 4))


def test_rows_and_targets_that_do_not_match():
    X, y = table()
    with pytest.raises(ValueError, match="a row for each of the 240 rows of X, got 20"):
        fit(in_parts(X, 2), in_parts(y[:20], 2))
    rows, labels = in_parts(X, 2), in_parts(y, 3)
    with pytest.raises(ValueError, match="partitions of X, which are 2, got 3"):
        fit(rows[rows[:, 0] < 9.0], labels[labels < 9])
    other = rows[rows[:, 0] > 0.0], in_parts(y, 2)[in_parts(y, 2) < 9]
    with pytest.raises(ValueError, match="partition .: X must have as many rows as y"):
        fit(*other)
    with pytest.raises(ValueError, match="y must be a Dask collection where the sizes"):
        fit(rows[rows[:, 0] > 0.0], y)
    with pytest.raises(ValueError, match="the target y is None"):
        fit(rows, None)


def test_one_class_and_no_rows():
    X, y = table()
    with pytest.raises(ValueError, match="at least 2 classes, got one class only"):
        fit(in_parts(X, 2), in_parts(np.zeros_like(y), 2))
    with pytest.raises(ValueError, match="rows of positive weight, got 0 rows"):
        fit(cut(X[:0], [0]), cut(y[:0], [0]))


def test_columns_of_new_rows():
    X, y = table()
    frame = pd.DataFrame(X, columns=list("abcde"))
    lazy = dd.from_pandas(frame, npartitions=2)
    model = fit(lazy, dd.from_pandas(pd.Series(y), npartitions=2))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(lazy[["a", "b"]])


def test_a_failed_fit_leaves_the_estimator_as_it_was():
    X, y = table()
    model = mk.MKLClassifier(**{**SETTINGS, "approximate": None})
    before = dict(vars(model))
    with pytest.raises(ValueError, match="has none"):
        model.fit(in_parts(X, 2), in_parts(y, 2))
    assert vars(model) == before
