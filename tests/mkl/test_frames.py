"""Data frames: names are remembered, and kernels may speak of columns by name."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_selector

from manykernels import MKLClassifier
from manykernels.kernels import RBF, Linear

NAMES = ["sepal length", "sepal width", "petal length", "petal width"]


def pandas_frame(X):
    return pd.DataFrame(X, columns=NAMES)


def polars_frame(X):
    return pl.DataFrame(X, schema=NAMES)


frames = pytest.mark.parametrize("frame", [pandas_frame, polars_frame])


def by_position(iris, kernels):
    return MKLClassifier(kernels, random_state=0).fit(iris.X, iris.y)


@frames
@pytest.mark.parametrize(
    ("kernels", "same"),
    [
        ("rbf", "rbf"),
        ("rbf@petal*; linear@sepal width", "rbf@2-3; linear@1"),
        ([RBF(columns=["petal width", "sepal length"])], [RBF(columns=[3, 0])]),
        ([RBF(columns=lambda X: X.columns[2:])], [RBF(columns=[2, 3])]),
        ([Linear(columns=slice("sepal width", None))], [Linear(columns=[1, 2, 3])]),
    ],
)
def test_kernels_on_named_columns(frame, kernels, same, iris):
    model = by_position(iris, same)
    named = MKLClassifier(kernels, random_state=0).fit(frame(iris.X), iris.y)
    assert named.feature_names_in_.tolist() == NAMES
    np.testing.assert_allclose(
        named.decision_function(frame(iris.X_new)), model.decision_function(iris.X_new)
    )


def test_selector_of_scikit_learn(iris):
    frame = pandas_frame(iris.X).assign(text=0).astype({"text": "int8"})
    kernels = [RBF(columns=make_column_selector(dtype_include="float"))]
    model = MKLClassifier(kernels, random_state=0).fit(frame, iris.y)
    new = pandas_frame(iris.X_new).assign(text=3)
    np.testing.assert_allclose(
        model.decision_function(new),
        by_position(iris, "rbf").decision_function(iris.X_new),
    )


@frames
def test_reordered_columns_are_refused(frame, iris):
    model = MKLClassifier().fit(frame(iris.X), iris.y)
    shuffled = frame(iris.X_new)[NAMES[::-1]]
    with pytest.raises(ValueError, match="names must be in the same order"):
        model.predict(shuffled)


@frames
def test_partial_fit_on_frames(frame, iris):
    model = MKLClassifier("rbf@petal*", random_state=0)
    plain = MKLClassifier("rbf@2-3", random_state=0)
    for part in (slice(0, 40), slice(40, 90)):
        model.partial_fit(frame(iris.X[part]), iris.y[part], classes=[0, 1, 2])
        plain.partial_fit(iris.X[part], iris.y[part], classes=[0, 1, 2])
    np.testing.assert_allclose(
        model.decision_function(frame(iris.X_new)), plain.decision_function(iris.X_new)
    )


def test_names_are_forgotten_by_a_fit_without_them(iris):
    model = MKLClassifier().fit(pandas_frame(iris.X), iris.y)
    model.fit(iris.X, iris.y)
    assert not hasattr(model, "feature_names_in_")


def test_selectors_read_nested_lists_too(iris):
    kernels = [RBF(columns=lambda X: [2, 3])]
    model = MKLClassifier(kernels, random_state=0).fit(iris.X.tolist(), iris.y)
    np.testing.assert_allclose(
        model.decision_function(iris.X_new),
        by_position(iris, "rbf@2-3").decision_function(iris.X_new),
    )
