"""Progress, callbacks, warnings and warm starts of a fit."""

import logging
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from manykernels import MKLClassifier
from manykernels.inputs import reporting
from manykernels.kernels import RBF, Linear
from manykernels.solvers import DualAscent
from manykernels.solvers.loop import Epoch


def test_verbose_prints_a_line_per_epoch_to_stderr(iris, capsys):
    model = MKLClassifier(verbose=1, random_state=0).fit(iris.X, iris.y)
    out, err = capsys.readouterr()
    assert out == ""
    assert "storing 5 kernels as gram" in err
    lines = [line for line in err.splitlines() if line.startswith("epoch")]
    assert len(lines) == model.n_iter_
    for line, epoch in zip(lines, model.history_, strict=True):
        assert line.split()[:2] == ["epoch", str(epoch.epoch)]
        assert f"objective {epoch.objective:.6g} " in line


def test_silent_by_default(iris, capsys):
    MKLClassifier().fit(iris.X, iris.y).predict(iris.X)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("verbose", [0, 1])
def test_callback_sees_the_history(verbose, iris, capsys):
    seen = []
    model = MKLClassifier(callback=seen.append, verbose=verbose, random_state=0)
    model.fit(iris.X, iris.y)
    assert seen == model.history_
    assert all(isinstance(line, Epoch) for line in seen)


@pytest.mark.parametrize("verbose", [0, 1])
@pytest.mark.filterwarnings("ignore:The relative duality gap")
def test_callback_may_stop(verbose, iris):
    model = MKLClassifier(
        tol=1e-9, callback=lambda line: line.epoch == 2, verbose=verbose
    )
    assert model.fit(iris.X, iris.y).n_iter_ == 2


@pytest.mark.parametrize("solver", ["auto", "dual_ascent", DualAscent(1e-9, 2)])
def test_convergence_warning_states_the_gap(solver, iris):
    model = MKLClassifier(solver=solver, tol=1e-9, max_iter=2)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(iris.X, iris.y)
    gap = model.duality_gap_ / model.objective_
    message = str(caught[0].message)
    assert f"relative duality gap is {gap:.2g} after {model.n_iter_} epochs" in message
    assert "above tol=1e-09; raise max_iter or tol." in message
    assert caught[0].filename == __file__


@pytest.mark.parametrize("solver", ["auto", "obscure", "pegasos"])
def test_no_warning_where_nothing_was_promised_or_all_was_kept(solver, iris):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MKLClassifier(solver=solver).fit(iris.X, iris.y)


@pytest.mark.parametrize("p", [1.0, 1.2, 2.0])
def test_warm_start_takes_fewer_epochs(p, digits):
    kernels = [RBF(columns=slice(16 * j, 16 * j + 16)) for j in range(4)] + [Linear()]
    model = MKLClassifier(kernels, p=p, tol=1e-3, warm_start=True, random_state=0)
    model.fit(digits.X, digits.y)
    epochs, objective, gap = model.n_iter_, model.objective_, model.duality_gap_
    model.fit(digits.X, digits.y)
    assert model.n_iter_ < epochs
    assert abs(model.objective_ - objective) <= max(gap, model.duality_gap_)


def test_a_warm_start_begins_at_the_earlier_objective(digits):
    model = MKLClassifier(p=1.5, tol=1e-4, warm_start=True, storage="float64")
    model.set_params(random_state=0).fit(digits.X, digits.y)
    objective = model.objective_
    model.set_params(max_iter=1, solver="dual_ascent").fit(digits.X, digits.y)
    assert model.history_[0].objective == pytest.approx(objective, rel=1e-3)


def test_warm_start_follows_a_path_of_C(iris):
    path = MKLClassifier(warm_start=True, tol=1e-6, storage="float64", random_state=0)
    for C in (0.1, 1.0, 10.0):
        path.set_params(C=C).fit(iris.X, iris.y)
    cold = clone(path).fit(iris.X, iris.y)
    assert path.objective_ == pytest.approx(cold.objective_, rel=2e-6)


def test_warm_start_ignores_another_problem(iris, pair):
    model = MKLClassifier("linear; rbf", warm_start=True, random_state=0)
    model.fit(iris.X, iris.y)
    for data in (pair, iris):
        cold = clone(model).fit(data.X, data.y)
        model.fit(data.X, data.y)
        np.testing.assert_array_equal(model.dual_coef_, cold.dual_coef_)
    model.set_params(kernels="rbf").fit(iris.X, iris.y)
    assert len(model.kernel_weights_) == 1


def test_warm_start_on_given_kernels_with_left_out_rows(stack):
    weight = (np.arange(len(stack.y)) % 4 > 0).astype(float)
    model = MKLClassifier("precomputed", tol=1e-4, warm_start=True, random_state=0)
    model.fit(stack.X, stack.y, weight)
    epochs, objective = model.n_iter_, model.objective_
    model.fit(stack.X, stack.y, weight)
    assert model.n_iter_ < epochs
    assert model.objective_ == pytest.approx(objective, rel=1e-4)


def test_fit_announces_a_long_fit(iris, monkeypatch):
    monkeypatch.setattr(reporting, "LONG_FIT_SECONDS", 1e-5)
    with pytest.warns(UserWarning, match="Fitting 90 rows with 5 kernels") as caught:
        MKLClassifier().fit(iris.X, iris.y)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
def test_the_estimate_is_logged_for_those_who_listen(level, iris, caplog):
    with caplog.at_level(level, "manykernels"):
        MKLClassifier().fit(iris.X, iris.y)
    assert ("90 rows, 5 kernels: about" in caplog.text) == (level == logging.INFO)
