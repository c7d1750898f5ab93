"""Rivals by name in the classifier."""

from __future__ import annotations

import pytest
from sklearn.datasets import load_iris
from sklearn.multiclass import OneVsRestClassifier

from manykernels import MKLClassifier
from manykernels.estimators.choices import SOLVERS, choose_solver

KERNELS = ["rbf@0-1", "rbf@2-3", "linear"]
SPARSE = ("simple_mkl", "silp", "level", "group_lasso")
SMOOTH = ("kloft", "group_lasso", "smo_mkl", "ufo")


def rows(n_classes: int):
    X, y = load_iris(return_X_y=True)
    kept = y >= 3 - n_classes
    return X[kept], y[kept]


def fit(solver: str, p: float, n_classes: int = 3) -> MKLClassifier:
    model = MKLClassifier(KERNELS, p=p, solver=solver, C=0.5, random_state=0)
    return model.fit(*rows(n_classes))


@pytest.mark.parametrize(
    ("solver", "p"), [(s, 1.0) for s in SPARSE] + [(s, 1.5) for s in SMOOTH]
)
def test_a_rival_by_name_finds_what_auto_finds(solver: str, p: float) -> None:
    n_classes = 2 if solver == "smo_mkl" else 3
    model, ours = fit(solver, p, n_classes), fit("auto", p, n_classes)
    assert model.duality_gap_ <= 0.01 * model.objective_
    assert model.objective_ == pytest.approx(ours.objective_, rel=0.02)
    assert model.kernel_weights_ == pytest.approx(ours.kernel_weights_, abs=0.1)


def test_om2_by_name_learns() -> None:
    X, y = rows(3)
    assert fit("om2", 1.5).score(X, y) > 0.9


def test_smo_wrapped_one_versus_rest() -> None:
    X, y = rows(3)
    model = MKLClassifier(KERNELS, p=1.5, solver="smo_mkl", C=10.0)
    assert OneVsRestClassifier(model).fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize("solver", [*SPARSE, *SMOOTH, "om2"])
def test_limits_and_tolerances_reach_the_solver(solver: str) -> None:
    made = choose_solver(solver, 0.123, 7, 0)
    assert made.tol == 0.123
    assert getattr(made, "max_iter", getattr(made, "passes", None)) == 7
    assert solver in SOLVERS
