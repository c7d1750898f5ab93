"""partial_fit with a bounded support: memory, progress, interruption, files."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import manykernels as mk
from manykernels import MKLClassifier
from manykernels.inputs.parameters import choose_generator
from manykernels.mkl.stream import OnlineEpoch
from manykernels.report import plot_fit
from manykernels.solvers import InterruptedFitWarning
from manykernels.solvers import online as stream_module
from manykernels.solvers.online import Stream

CLASSES = np.arange(10)
KERNELS = "rbf:gamma=0.05@0-31; rbf:gamma=0.05@32-63; linear"
POLICIES = ["smallest", "oldest", "project"]


def make(**options):
    return MKLClassifier(KERNELS, random_state=0, **{"storage": "float64"} | options)


def learn(model, digits, size=100):
    for start in range(0, len(digits.y), size):
        part = slice(start, start + size)
        model.partial_fit(digits.X[part], digits.y[part], classes=CLASSES)
    return model


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("budget", [1, 40, 150])
def test_the_budget_is_never_exceeded(policy, budget, digits):
    model = make(budget=mk.Budget(budget, policy))
    for start in range(0, 400, 80):
        part = slice(start, start + 80)
        model.partial_fit(digits.X[part], digits.y[part], classes=CLASSES)
        assert len(model.dual_coef_) == len(model.support_) <= budget
        assert model._model.kernels.n_reference == len(model._labels.target) <= budget
        assert model.history_[-1].support == len(model.dual_coef_)
    assert len(model.dual_coef_) == budget
    assert model.decision_function(digits.X_new).shape == (600, 10)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_budget_that_is_not_reached_changes_nothing(policy, digits):
    """Up to rounding: a budget also decides how many rows are learned together."""
    free = learn(make(), digits)
    bounded = learn(make(budget=mk.Budget(400, policy)), digits)
    np.testing.assert_array_equal(bounded.support_, free.support_)
    assert [x.updates for x in bounded.history_] == [x.updates for x in free.history_]
    np.testing.assert_allclose(bounded.dual_coef_, free.dual_coef_, rtol=1e-9)
    large = learn(make(budget=mk.Budget(10_000, policy)), digits)
    np.testing.assert_array_equal(large.dual_coef_, free.dual_coef_)


def test_projection_stays_near_the_unbounded_model(digits):
    free = learn(make(), digits)
    expected = free.decision_function(digits.X_new)
    away = {}
    for policy in POLICIES:
        model = learn(make(budget=mk.Budget(100, policy)), digits)
        away[policy] = np.linalg.norm(model.decision_function(digits.X_new) - expected)
    assert len(free.dual_coef_) > 200
    assert away["project"] < min(away["smallest"], away["oldest"])


def test_heavy_rows_outlast_others_unless_the_oldest_go(digits):
    """The steps of equal rows are equal, so that only weights tell rows apart."""
    heavy = np.arange(100) < 20
    weight = np.where(heavy, 5.0, 1.0)
    labels = {}
    for policy in ("smallest", "oldest"):
        model = make(budget=mk.Budget(20, policy))
        model.partial_fit(digits.X[:100], digits.y[:100], CLASSES, sample_weight=weight)
        labels[policy] = heavy[model.support_].mean()
    assert labels["smallest"] == 1.0 > labels["oldest"]


@pytest.mark.parametrize("budget", [None, 60])
def test_progressive_accuracy_is_that_of_predicting_first(budget, digits):
    model, rights = make(budget=budget), []
    for start in range(0, 400, 80):
        part = slice(start, start + 80)
        if start:
            rights.append(np.mean(model.predict(digits.X[part]) == digits.y[part]))
        model.partial_fit(digits.X[part], digits.y[part], classes=CLASSES)
    lines = model.history_
    assert lines[0].accuracy is None and lines[0].predicted == 0
    assert [line.accuracy for line in lines[1:]] == pytest.approx(rights)
    assert lines[-1].progressive == pytest.approx(np.mean(rights))
    assert lines[-1].predicted == 320


def test_progress_after_fit_counts_from_there(digits):
    # Weights that follow from the coefficients are those of the fit at its optimum.
    model = make(tol=1e-3).fit(digits.X[:200], digits.y[:200])
    expected = model.score(digits.X[200:], digits.y[200:])
    line = model.partial_fit(digits.X[200:], digits.y[200:]).history_[-1]
    assert line.accuracy == line.progressive == pytest.approx(expected)
    assert line.predicted == 200


def test_single_rows_equal_one_call_in_the_same_order(digits):
    X, y = digits.X[:120], digits.y[:120]
    whole = make().partial_fit(X, y, CLASSES)
    order = choose_generator(0).permutation(len(y))
    single = make()
    for i in order:
        single.partial_fit(X[[i]], y[[i]], CLASSES)
    assert sum(x.updates for x in single.history_) == whole.history_[0].updates
    np.testing.assert_allclose(
        single.decision_function(digits.X_new),
        whole.decision_function(digits.X_new),
        atol=1e-8,
    )
    np.testing.assert_array_equal(X[whole.support_], support_rows(single))


def support_rows(model):
    """The support rows of a model, read from its linear kernel."""
    linear = model._model.kernels.groups[-1]
    offset = 0.0 if linear.offset is None else linear.offset
    return np.round((linear.rows.values + offset) * 16.0) / 16.0


def test_kernel_constants_stay_those_of_the_first_call(digits):
    model = MKLClassifier("rbf:gamma=median; linear:normalize=trace", budget=50)
    model.partial_fit(digits.X[:100], digits.y[:100], CLASSES)
    before = model._model.kernels.kernels
    assert isinstance(before[0].gamma, float)
    factors = [scaling.factor for scaling in model._model.kernels.scalings]
    model.partial_fit(3.0 * digits.X[100:], digits.y[100:])
    assert model._model.kernels.kernels == before
    assert [s.factor for s in model._model.kernels.scalings] == factors


@pytest.mark.parametrize("policy", POLICIES)
def test_a_saved_model_goes_on_as_if_nothing_had_happened(policy, digits, tmp_path):
    models = [make(budget=mk.Budget(70, policy)) for _ in range(2)]
    for part in (slice(0, 150), slice(150, 300), slice(300, 400)):
        for model in models:
            model.partial_fit(digits.X[part], digits.y[part], classes=CLASSES)
        models[1].save(tmp_path / "model")
        models[1] = mk.load(tmp_path / "model")
    plain, loaded = models
    np.testing.assert_array_equal(plain.dual_coef_, loaded.dual_coef_)
    np.testing.assert_array_equal(plain.kernel_weights_, loaded.kernel_weights_)
    timeless = [[line._replace(time=0.0) for line in m.history_] for m in models]
    assert timeless[0] == timeless[1]
    assert all(isinstance(line, OnlineEpoch) for line in loaded.history_)
    assert loaded.budget == mk.Budget(70, policy)


def test_the_history_is_drawn_and_tabulated(digits):
    model = make().fit(digits.X[:100], digits.y[:100])
    learn(model, digits)
    frame = pd.DataFrame(model.history_[-4:])
    assert frame["accuracy"].notna().all() and len(frame) == 4
    assert len(plot_fit(model).axes) >= 2


def test_memory_does_not_grow_with_the_square_of_a_chunk():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = MKLClassifier("rbf@0-1; rbf@2-3; linear", budget=200, random_state=0)
    model.partial_fit(X[:50], y[:50], classes=[0, 1])
    tracemalloc.start()
    model.partial_fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * len(X) ** 2 * 4 / 4
    for group in model._model.kernels.groups:
        assert group.rows.values.base is None and len(group.rows.values) <= 200


def interrupted_at(monkeypatch, tile):
    """Ctrl-C in the middle of this tile."""
    monkeypatch.setattr(stream_module, "ONLINE_TILE", 20)
    visit, calls = Stream._visit, []

    def visit_or_stop(self, *arguments):
        calls.append(1)
        if len(calls) == tile:
            raise KeyboardInterrupt
        return visit(self, *arguments)

    monkeypatch.setattr(Stream, "_visit", visit_or_stop)


def test_an_interrupted_call_keeps_what_it_learned(digits, monkeypatch):
    interrupted_at(monkeypatch, 3)
    with pytest.warns(InterruptedFitWarning, match="after 40 of 400 new rows") as seen:
        stopped = make().partial_fit(digits.X, digits.y, CLASSES)
    assert seen[0].filename == __file__
    monkeypatch.undo()
    known = choose_generator(0).permutation(len(digits.y))[:40]
    expected = make()
    for i in known:
        expected.partial_fit(digits.X[[i]], digits.y[[i]], CLASSES)
    np.testing.assert_allclose(
        stopped.decision_function(digits.X_new),
        expected.decision_function(digits.X_new),
        atol=1e-8,
    )
    stopped.partial_fit(digits.X, digits.y)
    assert stopped.n_iter_ == 2


def test_an_interruption_before_anything_was_learned_is_one(digits, monkeypatch):
    model = make(budget=50).partial_fit(digits.X[:100], digits.y[:100], CLASSES)
    before = model.decision_function(digits.X_new)
    interrupted_at(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(digits.X[100:], digits.y[100:])
    np.testing.assert_array_equal(model.decision_function(digits.X_new), before)
    assert model.n_iter_ == 1


@pytest.mark.parametrize("budget", [0, -3, 2.5, "many", True, np.nan])
def test_bad_budgets(budget, iris):
    model = MKLClassifier("rbf", budget=budget)
    with pytest.raises(ValueError, match="budget must be a positive whole number"):
        model.partial_fit(iris.X, iris.y, classes=[0, 1, 2])


@pytest.mark.parametrize("policy", ["newest", None, 3])
def test_bad_policies(policy):
    expected = "policy of a budget must be one of 'smallest', 'oldest', 'project', got"
    with pytest.raises(ValueError, match=expected):
        mk.Budget(10, policy)


def test_numpy_integers_and_clones(iris):
    model = MKLClassifier("rbf", budget=np.int64(10), random_state=0)
    model.partial_fit(iris.X, iris.y, classes=[0, 1, 2])
    assert len(model.dual_coef_) == 10
    assert clone(model).budget == 10


@pytest.mark.parametrize("storage", ["gram", "on_demand"])
def test_storage_changes_nothing_but_rounding(storage, digits):
    plain = learn(make(budget=80), digits)
    other = learn(make(budget=80, storage=f"{storage}:float64"), digits)
    np.testing.assert_allclose(
        other.decision_function(digits.X_new),
        plain.decision_function(digits.X_new),
        atol=1e-6,
    )


def test_no_warning_on_an_ordinary_stream(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learn(make(budget=30), digits)
