"""Which views or columns kernels read, and which rows have them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import manykernels as mk

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 6))
y = np.arange(30) % 2
VIEWS = {"a": X[:, :2].copy(), "b": X[:, 2:].copy()}
VIEWS["b"][::3] = np.nan


def test_columns_groups_and_matrices_have_names() -> None:
    model = mk.MKLClassifier("rbf@0-1; linear@0-1; rbf; constant", nugget="shared")
    names = ["0-1", "0-1", "all columns", "constant", "nugget"]
    assert model.fit(X, y).kernel_views_ == names
    groups = mk.group_kernels({"first": [0, 1], "rest": [2, 3]}, kernels="rbf; linear")
    found = mk.MKLClassifier(groups).fit(X, y).kernel_views_
    assert sorted(found) == ["first", "first", "rest", "rest"]
    stack = np.stack([np.eye(30), X @ X.T], axis=-1)
    given = mk.MKLClassifier("precomputed").fit(stack, y)
    assert given.kernel_views_ == given.kernel_names_
    assert given.kernel_presence(stack[:4]).has.shape == (4, 2)


@pytest.mark.parametrize("nugget", [None, "shared"])
def test_rows_that_lack_a_view(nugget) -> None:
    model = mk.MKLClassifier("rbf@a; rbf@b", nugget=nugget).fit(VIEWS, y)
    assert model.kernel_views_[:2] == ["a", "b"]
    found = model.kernel_presence(VIEWS)
    lacking = np.arange(30) % 3 == 0
    np.testing.assert_array_equal(found.has[:, 1], ~lacking)
    assert found.has[:, 0].all() and found.has[:, 2:].all()
    assert found.has.shape[1] == len(model.kernel_names_)
    np.testing.assert_allclose(found.stretch, np.where(lacking, np.sqrt(2.0), 1.0))
    loaded = model.kernel_presence({"a": VIEWS["a"][:2]})
    assert not loaded.has[:, 1].any()


def test_needs_a_fit() -> None:
    with pytest.raises(NotFittedError):
        _ = mk.MKLClassifier().kernel_views_
