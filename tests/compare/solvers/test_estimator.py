"""Rivals as solver objects in the classifier."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.datasets import load_iris
from sklearn.multiclass import OneVsRestClassifier

from manykernels import MKLClassifier, compare
from manykernels.solvers import Auto

KERNELS = ["rbf@0-1", "rbf@2-3", "linear"]
SPARSE = (
    compare.SimpleMKL(),
    compare.SILP(),
    compare.LevelMethod(),
    compare.GroupLassoMKL(),
)
SMOOTH = (
    compare.Kloft(random_state=0),
    compare.GroupLassoMKL(),
    compare.SMOMKL(),
    compare.UFO(random_state=0),
)


def rows(n_classes: int):
    X, y = load_iris(return_X_y=True)
    kept = y >= 3 - n_classes
    return X[kept], y[kept]


def fit(solver: Any, p: float, n_classes: int = 3) -> MKLClassifier:
    model = MKLClassifier(KERNELS, p=p, solver=solver, C=0.5, random_state=0)
    return model.fit(*rows(n_classes))


@pytest.mark.parametrize(
    ("solver", "p"),
    [(s, 1.0) for s in SPARSE] + [(s, 1.5) for s in SMOOTH],
    ids=lambda value: type(value).__name__,
)
def test_a_rival_finds_what_auto_finds(solver: Any, p: float) -> None:
    n_classes = 2 if isinstance(solver, compare.SMOMKL) else 3
    model, ours = fit(solver, p, n_classes), fit(Auto(), p, n_classes)
    assert model.duality_gap_ <= 0.01 * model.objective_
    assert model.objective_ == pytest.approx(ours.objective_, rel=0.02)
    assert model.kernel_weights_ == pytest.approx(ours.kernel_weights_, abs=0.1)


def test_om2_learns() -> None:
    X, y = rows(3)
    assert fit(compare.OM2(random_state=0), 1.5).score(X, y) > 0.9


def test_smo_wrapped_one_versus_rest() -> None:
    X, y = rows(3)
    model = MKLClassifier(KERNELS, p=1.5, solver=compare.SMOMKL(), C=10.0)
    assert OneVsRestClassifier(model).fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize("name", ["simple_mkl", "spom"])
def test_rivals_are_objects_not_names(name: str) -> None:
    with pytest.raises(ValueError, match="manykernels.compare.SimpleMKL()"):
        fit(name, 1.0)
