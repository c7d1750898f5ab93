"""What a fitted MKLClassifier promises."""

import pickle

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics import pairwise
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier
from manykernels.compare import SimpleMKL
from manykernels.kernels import RBF, Custom, Linear, Polynomial
from manykernels.losses import MulticlassHinge
from manykernels.solvers import DualAscent, Obscure, Pegasos

KERNELS = [Linear(), RBF(0.5), RBF(0.5, columns=[2, 3])]


@pytest.fixture(scope="module")
def fitted(iris):
    return MKLClassifier(KERNELS, random_state=0).fit(iris.X, iris.y)


@pytest.fixture(scope="module")
def binary(pair):
    return MKLClassifier(KERNELS, random_state=0).fit(pair.X, pair.y)


def scores_of(model, data):
    """The docstring's formula, with public attributes and scikit-learn's kernels."""
    A, B = data.X_new, data.X[model.support_]
    values = [
        pairwise.cosine_similarity(A, B),  # Linear with unit diagonal
        pairwise.rbf_kernel(A, B, gamma=0.5),
        pairwise.rbf_kernel(A[:, 2:], B[:, 2:], gamma=0.5),
    ]
    return np.tensordot(model.kernel_weights_, values, axes=1) @ model.dual_coef_


def test_many_classes(fitted, iris):
    assert fitted.score(iris.X_new, iris.y_new) > 0.9
    assert fitted.decision_function(iris.X_new).shape == (60, 3)
    np.testing.assert_allclose(
        fitted.decision_function(iris.X_new), scores_of(fitted, iris), atol=1e-5
    )


def test_two_classes(binary, pair):
    assert binary.score(pair.X_new, pair.y_new) > 0.85
    decision = binary.decision_function(pair.X_new)
    assert decision.shape == (40,)
    scores = scores_of(binary, pair)
    np.testing.assert_allclose(decision, scores[:, 1] - scores[:, 0], atol=1e-5)
    np.testing.assert_array_equal(
        binary.predict(pair.X_new), np.where(decision > 0, 2, 1)
    )


@pytest.mark.parametrize("name", ["fitted", "binary"])
def test_contributions_sum_to_the_decision(name, request, iris):
    model = request.getfixturevalue(name)
    parts = model.kernel_contributions(iris.X_new)
    assert parts.shape[:2] == (60, 3)
    np.testing.assert_allclose(
        parts.sum(axis=1), model.decision_function(iris.X_new), atol=1e-12
    )
    unused = model.kernel_weights_ == 0.0
    assert not parts[:, unused].any()


def test_fitted_attributes(fitted, iris):
    assert fitted.kernel_names_ == [
        "linear",
        "rbf(gamma=0.5)",
        "rbf(gamma=0.5)@2-3",
    ]
    assert (fitted.kernel_weights_ >= 0).all()
    assert fitted.kernel_weights_.sum() == pytest.approx(1.0)
    assert fitted.dual_coef_.shape == (len(fitted.support_), 3)
    assert set(fitted.support_) <= set(range(len(iris.y)))
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.n_features_in_ == 4
    assert fitted.n_iter_ == len(fitted.history_) > 0
    assert 0.0 <= fitted.duality_gap_ <= 1e-2 * fitted.objective_


def test_objective_is_the_documented_one(fitted, iris):
    """Half the squared (2, p) norm plus C times the losses, divided by C n."""
    support = iris.X[fitted.support_]
    values = [
        pairwise.cosine_similarity(support),
        pairwise.rbf_kernel(support, gamma=0.5),
        pairwise.rbf_kernel(support[:, 2:], gamma=0.5),
    ]
    coef = fitted.dual_coef_
    norms = fitted.kernel_weights_ * [
        np.sqrt(np.sum(coef * (K @ coef))) for K in values
    ]
    penalty = 0.5 * np.sum(norms**fitted.p) ** (2.0 / fitted.p)
    losses = MulticlassHinge().value(fitted.decision_function(iris.X), iris.y)
    n, C = len(iris.y), fitted.C
    assert fitted.objective_ == pytest.approx(
        (penalty + C * losses.sum()) / (C * n), rel=1e-4
    )


def test_history_becomes_a_data_frame(fitted):
    frame = pd.DataFrame(fitted.history_)
    assert list(frame) == ["epoch", "time", "objective", "gap", "updates"]
    assert frame["epoch"].tolist() == list(range(1, fitted.n_iter_ + 1))
    assert (frame["time"].diff().dropna() >= 0).all()
    assert (frame["gap"].diff().dropna() <= 0).all()
    assert frame["objective"].min() == fitted.objective_
    assert frame["gap"].iloc[-1] == pytest.approx(
        fitted.duality_gap_ / fitted.objective_
    )


def test_string_labels(fitted, iris):
    names = np.array(["setosa", "versicolor", "virginica"])
    model = clone(fitted).fit(iris.X, names[iris.y])
    assert model.classes_.tolist() == names.tolist()
    np.testing.assert_array_equal(
        model.predict(iris.X_new), names[fitted.predict(iris.X_new)]
    )


def test_class_weight_equals_sample_weight(iris):
    weights = {0: 1.0, 1: 5.0, 2: 0.5}
    model = MKLClassifier(KERNELS, tol=1e-8, storage="float64", random_state=0)
    by_class = clone(model).set_params(class_weight=weights).fit(iris.X, iris.y)
    by_row = clone(model).fit(iris.X, iris.y, np.array([1.0, 5.0, 0.5])[iris.y])
    np.testing.assert_allclose(
        by_class.decision_function(iris.X_new), by_row.decision_function(iris.X_new)
    )
    plain = clone(model).fit(iris.X, iris.y)
    ones = [np.mean(m.predict(iris.X_new) == 1) for m in (by_class, plain)]
    assert ones[0] >= ones[1]


def test_balanced_classes_carry_equal_weight(iris):
    rare = np.flatnonzero((iris.y != 2) | (np.arange(len(iris.y)) % 5 == 0))
    X, y = iris.X[rare], iris.y[rare]
    model = MKLClassifier(KERNELS, class_weight="balanced", tol=1e-8, storage="float64")
    model.set_params(random_state=0).fit(X, y)
    factors = len(y) / (3 * np.bincount(y))
    by_row = clone(model).set_params(class_weight=None).fit(X, y, factors[y])
    np.testing.assert_allclose(
        model.decision_function(iris.X_new), by_row.decision_function(iris.X_new)
    )


def test_a_class_of_weight_zero_is_learned_from_nowhere(iris):
    model = MKLClassifier(KERNELS, class_weight={2: 0.0}).fit(iris.X, iris.y)
    assert not np.isin(iris.y[model.support_], 2).any()


@pytest.mark.parametrize("name", ["fitted", "binary"])
def test_probabilities(name, request, iris):
    model = request.getfixturevalue(name)
    proba = model.predict_proba(iris.X_new)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert (proba >= 0).all()
    np.testing.assert_array_equal(
        model.classes_[proba.argmax(axis=1)], model.predict(iris.X_new)
    )
    np.testing.assert_allclose(np.exp(model.predict_log_proba(iris.X_new)), proba)


def test_parameters_survive_clone_and_set(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "classes_")
    copy.set_params(p=1.7, kernels="rbf", solver=Obscure())
    assert copy.get_params()["p"] == 1.7 and clone(copy).solver == Obscure()


def test_fit_leaves_the_parameters_alone(iris):
    model = MKLClassifier("rbf@0-1", C=3, random_state=np.random.RandomState(0))
    before = {name: repr(value) for name, value in model.get_params().items()}
    model.fit(iris.X, iris.y)
    after = {name: repr(value) for name, value in model.get_params().items()}
    assert before == after


def test_pickle(fitted, iris):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(
        again.predict_proba(iris.X_new), fitted.predict_proba(iris.X_new)
    )
    assert again.partial_fit(iris.X_new, iris.y_new).n_iter_ == fitted.n_iter_ + 1


@pytest.mark.parametrize("solver", ["auto", "dual_ascent", "obscure", "pegasos"])
def test_same_seed_same_model(solver, iris):
    models = [
        MKLClassifier(KERNELS, solver=solver, max_iter=5, tol=0.5, random_state=seed)
        for seed in (3, 3, np.random.RandomState(3))
    ]
    first, *others = [model.fit(iris.X, iris.y) for model in models]
    for other in others:
        np.testing.assert_array_equal(first.dual_coef_, other.dual_coef_)
        np.testing.assert_array_equal(first.kernel_weights_, other.kernel_weights_)


@pytest.mark.parametrize(
    "solver", [DualAscent(), Obscure(random_state=0), Pegasos(random_state=0)]
)
def test_solver_objects(solver, iris):
    model = MKLClassifier(KERNELS, solver=solver).fit(iris.X, iris.y)
    assert model.score(iris.X_new, iris.y_new) > 0.85


def test_double_precision_refines_the_same_solution(iris):
    models = [
        MKLClassifier(KERNELS, storage=dtype, tol=1e-4, random_state=0).fit(
            iris.X, iris.y
        )
        for dtype in ("float32", "float64")
    ]
    single, double = [model.decision_function(iris.X_new) for model in models]
    assert single.dtype == double.dtype == np.float64
    np.testing.assert_allclose(single, double, atol=0.02)
    gaps = [model.duality_gap_ for model in models]
    assert abs(models[0].objective_ - models[1].objective_) <= max(gaps) + 1e-6


def test_scores_of_a_row_do_not_depend_on_its_company(digits):
    model = MKLClassifier(random_state=0).fit(digits.X, digits.y)
    together = model.decision_function(digits.X_new[:50])
    alone = [model.decision_function(row[None])[0] for row in digits.X_new[:50]]
    np.testing.assert_allclose(alone, together, atol=1e-10)


@pytest.mark.parametrize("storage", ["gram", "features"])
def test_storage_changes_nothing(storage, iris):
    kernels = [Linear(columns=[0, 1]), Linear(columns=[2, 3])]
    options = {"tol": 1e-8, "random_state": 0}
    exact = f"{storage}:float64"
    model = MKLClassifier(kernels, storage=exact, **options).fit(iris.X, iris.y)
    auto = MKLClassifier(kernels, storage="float64", **options).fit(iris.X, iris.y)
    np.testing.assert_allclose(
        model.decision_function(iris.X_new),
        auto.decision_function(iris.X_new),
        atol=1e-4,
    )


def test_two_fits_at_once(iris):
    models = [MKLClassifier(KERNELS, p=p, random_state=0) for p in (1.0, 1.5)]
    alone = [clone(model).fit(iris.X, iris.y) for model in models]
    together = Parallel(n_jobs=2, backend="threading")(
        delayed(clone(model).fit)(iris.X, iris.y) for model in models * 2
    )
    for expected, model in zip(alone * 2, together, strict=True):
        np.testing.assert_allclose(
            model.decision_function(iris.X_new),
            expected.decision_function(iris.X_new),
            atol=1e-6,
        )


def test_kernels_of_scikit_learn(iris):
    ours = MKLClassifier([Polynomial(3, gamma=0.25), RBF(0.5)], storage="float64")
    theirs = MKLClassifier(
        [
            pairwise.polynomial_kernel,
            Custom(lambda A, B: pairwise.rbf_kernel(A, B, 0.5)),
        ],
        storage="float64",
    )
    for model in (ours, theirs):
        model.set_params(tol=1e-8, random_state=0).fit(iris.X, iris.y)
    assert theirs.kernel_names_ == ["polynomial_kernel", "<lambda>"]
    np.testing.assert_allclose(
        ours.decision_function(iris.X_new),
        theirs.decision_function(iris.X_new),
        atol=1e-5,
    )


def test_gaussian_process_kernels_plug_in(iris):
    model = MKLClassifier([Matern(1.0), "rbf"], random_state=0).fit(iris.X, iris.y)
    assert model.kernel_names_[0] == "Matern"
    assert model.score(iris.X_new, iris.y_new) > 0.9


def test_sparse_kernels_are_left_out_exactly(digits):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(len(digits.X), 6))
    X = np.hstack([StandardScaler().fit_transform(digits.X[:, 16:48]), noise])
    kernels = [RBF(columns=slice(0, 32))] + [RBF(columns=[32 + j]) for j in range(6)]
    model = MKLClassifier(kernels, p=1.0, tol=1e-4, random_state=0).fit(X, digits.y)
    assert model.kernel_weights_[0] > 0.9
    assert (model.kernel_weights_ == 0.0).sum() >= 3
    uniform = MKLClassifier(kernels, p=2.0, random_state=0).fit(X, digits.y)
    np.testing.assert_allclose(uniform.kernel_weights_, 1 / 7)


def test_a_solver_object_without_a_seed_takes_the_estimators(iris):
    def scores(solver, seed):
        model = MKLClassifier(KERNELS, p=1, solver=solver, random_state=seed)
        return model.fit(iris.X, iris.y).decision_function(iris.X)

    loose, own = SimpleMKL(tol=0.2), SimpleMKL(tol=0.2, random_state=1)
    assert np.array_equal(scores(loose, 0), scores(loose, 0))
    assert not np.array_equal(scores(loose, 0), scores(loose, 5))
    assert np.array_equal(scores(own, 0), scores(own, 5))
