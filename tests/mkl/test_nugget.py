"""nugget="shared": the problem that is solved, and what is shown of it."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import manykernels as mk
from manykernels.banks import GramBank
from manykernels.compare import Kloft
from manykernels.device import Device
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from manykernels.losses import CensoredEpsilonInsensitive, Squared
from manykernels.mkl.models.device_model import on_device
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Problem
from tests.banks.test_nugget import by_hand
from tests.mkl.test_checkpoint import KilledError, die_at
from tests.oracles.optimum import cvxpy_optimum
from tests.oracles.regression import regression_optimum
from tests.oracles.survival import survival_optimum

KERNELS = ["rbf@0-1", "rbf@2-61"]


def draw(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes differ in two columns; sixty are noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 2
    X = rng.normal(size=(n_rows, 62))
    X[:, :2] += (2 * y - 1)[:, None]
    return X, y


X, y = draw(40)
NEW, new_y = draw(200, 1)
VALUES = X[:, 0] + 0.1 * X[:, 1]


FITTED = KernelSet.fit(as_kernels(KERNELS), X, dtype=np.float64)
STACK = FITTED.stack()
TWIN = by_hand(STACK, [0])  # (rows, kernels and the identity, rows)


def classifier(**settings) -> mk.MKLClassifier:
    options = {"tol": 1e-6, "random_state": 0, "storage": "float64", **settings}
    return mk.MKLClassifier(options.pop("kernels", KERNELS), nugget="shared", **options)


@pytest.mark.parametrize("storage", ["gram", "on_demand", "memmap", "given"])
@pytest.mark.parametrize("p", [1.0, 1.1, 2.0])
def test_solves_the_problem_with_a_nugget(p: float, storage: str) -> None:
    given = storage == "given"
    model = classifier(
        kernels="precomputed" if given else KERNELS,
        p=p,
        storage="float64" if given else f"{storage}:float64",
    )
    model.fit(np.moveaxis(STACK, 0, -1) if given else X, y)
    optimum = cvxpy_optimum(TWIN, y, 2, p, 1.0)
    assert optimum - 1e-7 <= model.objective_ <= optimum + 1e-5
    assert 0.0 <= model.duality_gap_ <= 2e-6 * model.objective_
    assert model.kernel_names_[-1] == "nugget"
    np.testing.assert_allclose(model.kernel_weights_.sum(), 1.0)
    parts = [np.linalg.eigvalsh(matrix)[0] for matrix in STACK]
    np.testing.assert_allclose(model.nugget_parts_, np.maximum(parts, 0.0), atol=1e-3)


def test_is_the_same_as_an_identity_among_given_kernels() -> None:
    twin = mk.MKLClassifier("precomputed", tol=1e-6, storage="float64", random_state=0)
    twin.fit(TWIN.transpose(0, 2, 1), y)
    model = classifier().fit(X, y)
    np.testing.assert_allclose(model.kernel_weights_, twin.kernel_weights_, atol=1e-4)
    np.testing.assert_allclose(model.temperature_, twin.temperature_, rtol=1e-2)


@pytest.mark.parametrize(
    "solver", ["dual_ascent", "obscure", "pegasos", Kloft(tol=1e-3)]
)
def test_every_solver_takes_it(solver) -> None:
    model = classifier(solver=solver, tol=1e-2, p=1.1).fit(X, y)
    best = classifier(p=1.1).fit(X, y)
    assert best.objective_ - 1e-5 <= model.objective_ <= 1.1 * best.objective_


def test_regression_and_survival() -> None:
    model = mk.MKLRegressor(KERNELS, tol=1e-6, nugget="shared").fit(X, VALUES)
    bank, ones = GramBank(TWIN), np.ones(40)
    target = (VALUES - VALUES.mean())[:, None]
    problem = Problem(bank, target, 1, Squared(), LpGroupNorm(1.1), 1.0, ones)
    assert model.objective_ == pytest.approx(regression_optimum(problem), abs=1e-5)
    event = np.arange(40) % 3 > 0
    times = mk.MKLSurvival(KERNELS, tol=1e-6, nugget="shared", fit_intercept=False)
    times.fit(X, (np.exp(VALUES), event))
    target, loss = np.column_stack([VALUES, event]), CensoredEpsilonInsensitive(0.0)
    problem = Problem(bank, target, 1, loss, LpGroupNorm(1.1), 1.0, ones)
    assert times.objective_ == pytest.approx(survival_optimum(problem), abs=1e-5)
    assert len(times.kernel_weights_) == times.kernel_contributions(X).shape[1] == 3


def test_targets_with_weights_of_their_own() -> None:
    target = np.column_stack([VALUES, np.random.default_rng(0).normal(size=40)])
    model = mk.MKLRegressor(KERNELS, per_target_weights=True, nugget="shared")
    model.fit(X, target)
    assert model.kernel_weights_.shape == (2, 3)
    parts = model.kernel_contributions(NEW)
    assert parts.shape == (200, 3, 2) and not parts[:, 2].any()
    np.testing.assert_allclose(parts.sum(axis=1) + model.intercept_, model.predict(NEW))
    alone = mk.MKLRegressor(KERNELS, nugget="shared").fit(X, VALUES)
    np.testing.assert_allclose(model.predict(NEW)[:, 0], alone.predict(NEW), atol=0.02)


@pytest.mark.parametrize("rows", [NEW, X], ids=["new rows", "training rows"])
def test_all_rows_are_new_rows(rows: np.ndarray) -> None:
    """A row's own nugget fits its label and is no part of a prediction."""
    model = classifier().fit(X, y)
    scale = 1.0 / (1.0 - model.nugget_parts_)  # of a unit diagonal
    cross = np.concatenate([block for _, block in FITTED.cross(rows)], axis=1)
    support = cross[:, :, model.support_]
    weights = model.kernel_weights_[:2] * scale
    expected = np.einsum("f,fij,jk->ik", weights, support, model.dual_coef_)
    decision = model.decision_function(rows)
    np.testing.assert_allclose(decision, expected[:, 1] - expected[:, 0], atol=1e-9)
    parts = model.kernel_contributions(rows)
    assert parts.shape == (len(rows), 3) and not parts[:, 2].any()
    np.testing.assert_allclose(parts.sum(axis=1), decision, atol=1e-9)
    combined = mk.combined_kernel(model, rows, X[model.support_]) @ model.dual_coef_
    np.testing.assert_allclose(combined[:, 1] - combined[:, 0], decision, atol=1e-9)


@pytest.mark.parametrize("kernels", [KERNELS, ["linear@0-1", "linear"], "precomputed"])
def test_saved_and_loaded(kernels, tmp_path: Path) -> None:
    given = kernels == "precomputed"
    data = np.moveaxis(STACK, 0, -1) if given else X
    rows = data[:7] if given else NEW
    model = classifier(kernels=kernels).fit(data, y)
    model.save(tmp_path / "model")
    again = mk.load(tmp_path / "model")
    assert again.nugget == "shared" and again.kernel_names_ == model.kernel_names_
    for name in ("kernel_weights_", "nugget_parts_", "dual_coef_", "duality_gap_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    np.testing.assert_array_equal(
        again.kernel_contributions(rows), model.kernel_contributions(rows)
    )


def test_a_killed_fit_goes_on(tmp_path: Path) -> None:
    whole = classifier(p=1.1).fit(X, y)
    path = tmp_path / "state"
    with pytest.raises(KilledError):
        classifier(p=1.1, checkpoint=path, callback=die_at(2)).fit(X, y)
    with pytest.raises(ValueError, match="other data or settings"):
        classifier(p=1.1, checkpoint=path).set_params(nugget=None).fit(X, y)
    resumed = classifier(p=1.1, checkpoint=path).fit(X, y)
    np.testing.assert_array_equal(resumed.kernel_weights_, whole.kernel_weights_)


@pytest.mark.parametrize("p", [1.0, 1.5])
def test_a_weight_of_k_is_k_copies(p: float) -> None:
    counts = np.random.default_rng(0).integers(0, 4, size=40)
    copies = np.repeat(np.arange(40), counts)
    weighted = classifier(p=p).fit(X, y, sample_weight=counts)
    repeated = classifier(p=p).fit(X[copies], y[copies])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-5)
    np.testing.assert_allclose(
        weighted.kernel_weights_, repeated.kernel_weights_, atol=1e-3
    )
    np.testing.assert_allclose(
        weighted.decision_function(NEW), repeated.decision_function(NEW), atol=5e-3
    )


def test_warm_starts_and_changes_of_mind() -> None:
    model = classifier(p=1.1, warm_start=True).fit(X, y)
    assert model.fit(X, y).n_iter_ <= 2
    model.set_params(nugget=None).fit(X, y)
    assert model.kernel_names_ == KERNELS and not hasattr(model, "nugget_parts_")
    assert model.set_params(nugget="shared").fit(X, y).kernel_names_[-1] == "nugget"


def test_no_rows_in_parts() -> None:
    model = classifier(p=1.1).fit(X, y)
    with pytest.raises(AttributeError) as caught:
        model.partial_fit(NEW, new_y)
    assert "needs nugget=None, got 'shared'" in str(caught.value.__cause__)
    model.set_params(nugget=None).partial_fit(NEW, new_y)
    assert model.kernel_names_ == KERNELS and model.score(*draw(200, 2)) > 0.85


def test_searches() -> None:
    """As with an identity among given kernels, which is zero between folds."""
    options = {"ps": [1.0, 1.5], "Cs": [0.1, 10.0], "storage": "float64"}
    stack = TWIN.transpose(0, 2, 1)
    for kind, target in ((mk.MKLClassifierCV, y), (mk.MKLRegressorCV, VALUES)):
        found = kind(KERNELS, nugget="shared", tol=1e-5, **options).fit(X, target)
        twin = kind("precomputed", tol=1e-5, **options).fit(stack, target)
        np.testing.assert_allclose(
            found.cv_results_["mean_test_score"],
            twin.cv_results_["mean_test_score"],
            atol=2e-3,
        )
        assert len(found.kernel_weights_) == 3


def test_noise_loses_its_weight_to_the_nugget() -> None:
    for seed in range(3):
        rows, labels = draw(150, seed)
        rows[:, :2] -= 0.5 * (2 * labels - 1)[:, None]  # harder
        plain = mk.MKLClassifier(KERNELS, p=1.0, random_state=0).fit(rows, labels)
        model = classifier(p=1.0, tol=1e-4).fit(rows, labels)
        assert plain.kernel_weights_[1] > 0.3
        assert model.kernel_weights_[1] == 0.0
        found = mk.kernel_importance(model, NEW, new_y, random_state=0)
        assert found.names == model.kernel_names_ and found.share[2] == 0.0


def test_a_nugget_with_all_the_weight_says_so() -> None:
    labels = np.random.default_rng(3).permutation(y)
    model = classifier(kernels=["rbf@2-61"], p=1.0, C=0.01)
    with pytest.warns(UserWarning, match="nugget has all the weight"):
        model.fit(X, labels)
    assert model.kernel_weights_.tolist() == [0.0, 1.0]
    assert len(np.unique(model.decision_function(NEW))) == 1


def test_rows_that_lack_a_view() -> None:
    views = {"a": X[:, :2].copy(), "b": X[:, 2:].copy()}
    views["b"][::3] = np.nan
    for missing in ("rescale", "zero"):
        model = classifier(kernels="rbf@a; rbf@b", missing=missing, p=1.1)
        model.fit(views, y)
        assert model.nugget_parts_[1] > 0.1
        assert model.duality_gap_ <= 2e-6 * model.objective_


def test_predicts_on_a_device_as_without_one() -> None:
    model = classifier().fit(X, y)
    there = on_device(model._model, Device("NumPy", np))
    whole = model._model
    np.testing.assert_allclose(
        there.scores(NEW, 2**20), whole.scores(NEW), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_array_equal(
        there.block_scores(NEW, 2**20), whole.block_scores(NEW)
    )
    assert "device_rows" not in vars(pickle.loads(pickle.dumps(whole)).model)


def test_refuses_other_words() -> None:
    with pytest.raises(ValueError, match="nugget must be 'shared' or None, got 'own'"):
        mk.MKLClassifier(nugget="own").fit(X, y)
