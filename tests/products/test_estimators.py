"""The estimators over products: what users see, pass and get told."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manykernels as mk
from manykernels import PolynomialMKLClassifier, PolynomialMKLRegressor
from manykernels.compare import HierarchicalKernelLearning, PolynomialKernelLearning
from manykernels.inputs import table as tables
from manykernels.kernels import RBF, Linear
from manykernels.products import (
    ColumnGeneration,
    ExplicitLpNorm,
    ProductBlend,
    RandomizedMirrorDescent,
)
from manykernels.report import plot_interactions
from manykernels.solvers import InterruptedFitWarning
from tests.products.toys import planted

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(120, 6))
Y = 2 * X[:, 0] * X[:, 3] - X[:, 5] + 0.5 + 0.05 * RNG.normal(size=120)
LABELS = np.where(X[:, 1] * X[:, 2] > 0, "same", "other")
FRAME = pd.DataFrame(X, columns=["age", "dose", "time", "size", "mass", "heat"])
EACH = [RBF(0.5, columns=j) for j in range(3)]


@pytest.fixture(scope="module")
def model():
    return PolynomialMKLRegressor().fit(FRAME, Y)


@pytest.mark.parametrize("seed", range(3))
def test_recovery(seed):
    (A, a), (B, b), terms = planted(30, seed)
    fitted = PolynomialMKLRegressor().fit(A, a)
    found = {tuple(int(name[1:]) for name in row) for row in _factors(fitted)}
    assert found == terms
    assert np.mean((fitted.predict(B) - b) ** 2) <= 1e-12 * b.var()


@pytest.mark.parametrize("seed", range(2))
def test_recovery_from_columns_with_heavier_tails(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(400, 20))
    y = A[:, 0] * A[:, 1] * A[:, 2] + A[:, 3] * A[:, 4] - A[:, 5] * A[:, 6] * A[:, 7]
    y = y + 0.3 * rng.normal(size=400)
    fitted = PolynomialMKLRegressor().fit(A, y)
    assert set(fitted.kernel_names_) == {"x0 * x1 * x2", "x3 * x4", "x5 * x6 * x7"}


def test_normalized_products_do_not_depend_on_units():
    units = np.array([1.0, 10.0, 0.1, 3.0, 1.0, 100.0])
    options = {"standardize": False, "C": 0.05}
    one = PolynomialMKLRegressor(**options).fit(X, Y)
    two = PolynomialMKLRegressor(**options).fit(X * units, Y)
    np.testing.assert_allclose(one.predict(X), two.predict(X * units), rtol=1e-6)
    plain = PolynomialMKLRegressor(normalize=False, **options)
    before, after = (
        plain.fit(X, Y).predict(X),
        plain.fit(X * units, Y).predict(X * units),
    )
    assert not np.allclose(before, after, rtol=1e-2)


def _factors(fitted):
    return fitted.interactions_["columns"]


def test_interactions_are_a_table_with_names(model):
    table = pd.DataFrame(model.interactions_)
    assert table["interaction"].tolist() == ["age * size", "heat"]
    assert table["columns"].tolist() == [("age", "size"), ("heat",)]
    assert table["sign"].tolist() == [1, -1]
    assert table["degree"].tolist() == [2, 1]
    assert table["weight"].sum() == pytest.approx(1.0)
    assert model.kernel_names_ == table["interaction"].tolist()
    np.testing.assert_array_equal(model.kernel_weights_, table["weight"])


def test_coefficients_are_those_of_scaled_columns(model):
    rms = np.sqrt(np.square(X).mean(axis=0))
    wanted = [2 * rms[0] * rms[3], -rms[5]]
    np.testing.assert_allclose(model.interactions_["coefficient"], wanted, rtol=0.05)


def test_explain(model):
    lines = model.explain().splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines] == ["age * size", "heat"]
    assert float(lines[1].split()[0]) < 0
    assert model.explain(1).splitlines()[1] == "and 1 more"


def test_certificate_and_history(model):
    assert 0.0 <= model.duality_gap_ <= 1e-3 * model.objective_
    assert model.n_iter_ == len(model.history_) >= 1
    assert model.C_ > 0.0


def test_prediction_reads_only_the_active_columns(model):
    changed = FRAME.copy()
    changed[["dose", "time", "mass"]] = 1e6
    np.testing.assert_array_equal(model.predict(changed), model.predict(FRAME))


def test_a_row_is_predicted_alike_alone_and_with_others(model):
    whole = model.predict(FRAME)
    alone = [model.predict(FRAME.iloc[[i]])[0] for i in range(10)]
    np.testing.assert_allclose(alone, whole[:10], rtol=1e-14)


def test_noise_is_explained_by_a_constant():
    noise = np.random.default_rng(3).normal(size=120)
    fitted = PolynomialMKLRegressor().fit(X, noise)
    assert fitted.interactions_.n_rows == 0
    np.testing.assert_allclose(fitted.predict(X), noise.mean())
    assert fitted.explain() == "no interactions: a constant explains it best"
    assert plot_interactions(fitted).axes


def test_columns_far_from_zero_are_centered():
    A = np.random.default_rng(0).uniform(20, 80, size=(200, 5))
    fitted = PolynomialMKLRegressor().fit(A, A[:, 0] * A[:, 1] / 100 + A[:, 2])
    names = set(fitted.interactions_["interaction"])
    assert names == {"x0", "x1", "x2", "x0 * x1"}
    assert fitted.score(A, A[:, 0] * A[:, 1] / 100 + A[:, 2]) > 1 - 1e-9


@pytest.mark.parametrize("standardize", [True, False, "auto"])
def test_constant_columns_are_no_trouble(standardize):
    A = np.column_stack([X, np.full(120, 7.0), np.zeros(120)])
    fitted = PolynomialMKLRegressor(standardize=standardize).fit(A, Y)
    assert fitted.score(A, Y) > 0.98


def test_a_constant_target():
    fitted = PolynomialMKLRegressor().fit(X, np.full(120, 3.0))
    np.testing.assert_allclose(fitted.predict(X[:5]), 3.0)


def test_without_intercept_the_constant_is_a_product():
    fitted = PolynomialMKLRegressor(fit_intercept=False).fit(X, Y + 5.0)
    assert "1" in fitted.kernel_names_
    assert fitted.score(X, Y + 5.0) > 0.98


def test_degree_weights_make_degrees_rarer():
    y = X[:, 0] + X[:, 1] * X[:, 2]
    plain = PolynomialMKLRegressor(C=0.02).fit(X, y)
    rare = PolynomialMKLRegressor(C=0.02, degree_weights=[1, 1, 20, 20]).fit(X, y)
    assert "x1 * x2" in plain.kernel_names_
    assert "x1 * x2" not in rare.kernel_names_


def test_a_fixed_c_shrinks_and_refit_does_not():
    shrunk = PolynomialMKLRegressor(C=0.05).fit(X, Y)
    again = PolynomialMKLRegressor(C=0.05, refit=True).fit(X, Y)
    assert again.score(X, Y) > shrunk.score(X, Y)
    assert again.objective_ == shrunk.objective_


@pytest.mark.parametrize("p", [1.2, 4 / 3])
def test_mirror_descent_fits(p):
    solver = RandomizedMirrorDescent(200)
    options = {"p": p, "C": 10.0, "solver": solver, "random_state": 0}
    fitted = PolynomialMKLRegressor(**options).fit(X, Y)
    assert fitted.score(X, Y) > 0.9
    top = fitted.kernel_names_[:4]
    assert "x0 * x3" in top and "x5" in top
    again = PolynomialMKLRegressor(**options).fit(X, Y)
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


@pytest.mark.parametrize("p", [1.0, 4 / 3])
@pytest.mark.parametrize("C", [20.0, "auto"])
def test_gaussian_base_kernels(p, C):
    y = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1])
    solver = "auto" if p == 1.0 else RandomizedMirrorDescent(60)
    options = {"degree": 2, "p": p, "C": C, "solver": solver, "random_state": 0}
    fitted = PolynomialMKLRegressor(base_kernels=EACH, **options).fit(X[:60], y[:60])
    assert fitted.score(X[60:], y[60:]) > 0.8
    assert fitted.kernel_names_[0].count("rbf") >= 2
    assert set(fitted.interactions_["sign"]) == {0}
    assert np.isnan(fitted.interactions_["coefficient"]).all()
    assert plot_interactions(fitted).axes[0].get_xlabel() == "kernel weight"


def test_single_linear_kernels_are_columns():
    kernels = [Linear(columns=j, normalize=None) for j in range(6)]
    one = PolynomialMKLRegressor(base_kernels=kernels).fit(X, Y)
    two = PolynomialMKLRegressor().fit(X, Y)
    np.testing.assert_allclose(one.predict(X), two.predict(X))
    np.testing.assert_allclose(
        one.interactions_["coefficient"], two.interactions_["coefficient"]
    )


def test_given_matrices():
    stack = np.stack([rbf_kernel(X[:80, [j]]) for j in range(3)], axis=-1)
    new = np.stack([rbf_kernel(X[80:, [j]], X[:80, [j]]) for j in range(3)], axis=-1)
    y = X[:, 0] * X[:, 1]
    options = {"degree": 2, "C": 50.0}
    fitted = PolynomialMKLRegressor(base_kernels="precomputed", **options)
    fitted.fit(stack, y[:80])
    assert fitted.score(new, y[80:]) > 0.7
    kernels = [RBF(1.0, columns=j) for j in range(3)]
    same = PolynomialMKLRegressor(base_kernels=kernels, standardize=False, **options)
    same.fit(X[:80], y[:80])
    np.testing.assert_allclose(fitted.predict(new), same.predict(X[80:]), atol=1e-6)
    grid = {"C": [0.1, 50.0]}
    search = GridSearchCV(PolynomialMKLRegressor(2, "precomputed"), grid, cv=3)
    assert search.fit(stack, y[:80]).best_params_["C"] == 50.0


@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge"])
@pytest.mark.parametrize(
    "options",
    [{}, {"C": 1.0}, {"p": 4 / 3, "C": 1.0, "solver": RandomizedMirrorDescent(60)}],
)
def test_classifier(loss, options):
    options = {"degree": 2, "random_state": 0, **options}
    fitted = PolynomialMKLClassifier(loss=loss, **options).fit(X[:90], LABELS[:90])
    assert fitted.score(X[90:], LABELS[90:]) > 0.85
    assert fitted.kernel_names_[0] == "x1 * x2"
    assert fitted.interactions_["sign"][0] == 1
    assert hasattr(fitted, "predict_proba") == (loss == "logistic")


def test_probabilities():
    fitted = PolynomialMKLClassifier(degree=2).fit(X, LABELS)
    values = fitted.predict_proba(X)
    np.testing.assert_allclose(values.sum(axis=1), 1.0)
    np.testing.assert_array_equal(
        fitted.classes_[values.argmax(axis=1)], fitted.predict(X)
    )
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), values)


def test_three_classes_have_interactions_of_their_own():
    A, b = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    fitted = PolynomialMKLClassifier(degree=2).fit(A, names[b])
    assert fitted.score(A, names[b]) > 0.9
    assert set(fitted.interactions_["class"]) == set(names)
    assert fitted.decision_function(A).shape == (150, 3)
    assert fitted.kernel_weights_.sum() == pytest.approx(1.0)
    assert "[virginica]" in fitted.explain(None)
    labels = plot_interactions(fitted).axes[0].get_yticklabels()
    assert labels[0].get_text().endswith("]")


def test_one_row_per_class():
    rows = np.array([[0.0, 1.0], [1.0, 0.0]])
    fitted = PolynomialMKLClassifier(C=1.0).fit(rows, ["a", "b"])
    assert fitted.predict(rows).tolist() == ["a", "b"]


def test_pipelines_clones_and_searches():
    pipe = make_pipeline(StandardScaler(), PolynomialMKLRegressor(degree=2))
    grid = {"polynomialmklregressor__C": [1e-4, 10.0]}
    search = GridSearchCV(pipe, grid, cv=3).fit(X, Y)
    assert search.best_params_["polynomialmklregressor__C"] == 10.0
    assert (
        clone(PolynomialMKLClassifier(loss="smoothed_hinge")).loss == "smoothed_hinge"
    )


def test_silence_and_progress(capsys):
    PolynomialMKLRegressor(degree=2).fit(X, Y)
    assert capsys.readouterr() == ("", "")
    PolynomialMKLRegressor(degree=2, C=1.0, verbose=1).fit(X, Y)
    assert "objective" in capsys.readouterr().err


def test_callback_and_ctrl_c():
    lines = []
    stopping = PolynomialMKLRegressor(
        p=4 / 3, C=1.0, callback=lambda line: lines.append(line) or True
    )
    stopping.fit(X, Y)
    assert len(lines) == 1

    def interrupt(line):
        raise KeyboardInterrupt

    with pytest.warns(InterruptedFitWarning):
        kept = PolynomialMKLRegressor(C=1.0, callback=interrupt).fit(X, Y)
    assert kept.predict(X).shape == (120,)


def test_too_few_rounds_warn():
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        PolynomialMKLRegressor(C=1.0, solver=ColumnGeneration(max_iter=1)).fit(X, Y)


SENTENCES = [
    ({"degree": 0}, "degree must be a positive whole number, got 0"),
    ({"degree": 2.5}, "degree must be a positive whole number"),
    ({"degree_weights": [1, 1]}, "degree_weights must be 4 positive numbers"),
    ({"degree_weights": [1, 1, 1, -1]}, "degree_weights must be 4 positive numbers"),
    ({"degree_weights": 3}, "degree_weights must be 4 positive numbers"),
    ({"p": 2.0}, r"p must be a number in \[1, 1.99\]"),
    ({"p": 0.5}, r"p must be a number in \[1, 1.99\] or 'blend', got 0.5"),
    ({"C": "large"}, r"C must be a number in \(0, inf\) or 'auto' or 'bic', got"),
    ({"C": -1}, "C must be a number in"),
    ({"C": "bic", "p": 4 / 3}, "C='bic' is a criterion for the lists of Column"),
    ({"refit": "yes"}, "refit must be True or False or None, got 'yes'"),
    ({"standardize": "yes"}, "standardize must be True or False or 'auto'"),
    ({"standardize": None}, "standardize must be True or False or 'auto', got None"),
    ({"normalize": 1}, "normalize must be True or False, got 1"),
    ({"fit_intercept": "yes"}, "fit_intercept must be True or False, got 'yes'"),
    ({"solver": "best"}, "solver must be 'auto' or a solver object, got 'best'"),
    ({"solver": ColumnGeneration}, "solver must be 'auto' or a solver object"),
    ({"solver": RandomizedMirrorDescent()}, "estimator with normalize=False"),
    ({"solver": ColumnGeneration(), "p": 1.5}, "ColumnGeneration needs p = 1, got"),
    ({"solver": ProductBlend()}, "needs p='blend', got p=1.0"),
    ({"solver": PolynomialKernelLearning(), "C": 1.0}, "got a PowerExpansion from"),
    ({"callback": 3}, "callback must be a function"),
    (
        {"solver": ColumnGeneration(memory_limit="much"), "C": 1.0},
        "memory_limit must be a positive number",
    ),
]


@pytest.mark.parametrize(("options", "sentence"), SENTENCES)
def test_bad_parameters(options, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        PolynomialMKLRegressor(**options).fit(X, Y)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_bad_data():
    holes = FRAME.copy()
    holes.loc[3, "dose"] = np.nan
    with pytest.raises(ValueError, match="NaN in column 'dose'"):
        PolynomialMKLRegressor().fit(holes, Y)
    with pytest.raises(ValueError, match="requires y to be passed"):
        PolynomialMKLRegressor().fit(X, None)
    with pytest.raises(ValueError, match="loss must be 'logistic'"):
        PolynomialMKLClassifier(loss="hinge").fit(X, LABELS)
    with pytest.raises(NotFittedError):
        PolynomialMKLRegressor().explain()
    with pytest.raises(ValueError, match="call fit first"):
        plot_interactions(PolynomialMKLRegressor())


def test_dense_kernels_that_do_not_fit_are_refused():
    with pytest.raises(MemoryError, match="3 base kernels on 120 rows needs about"):
        PolynomialMKLRegressor(
            base_kernels=EACH, solver=ColumnGeneration(memory_limit="10KB")
        ).fit(X, Y)


def test_the_picture_shows_coefficients_by_sign(model, tmp_path):
    figure = plot_interactions(model)
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    np.testing.assert_allclose(widths, model.interactions_["coefficient"])
    colors = {bar.get_facecolor() for bar in figure.axes[0].patches}
    assert len(colors) == 2
    figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert "1 more" in plot_interactions(model, limit=1).axes[0].get_title()


def test_public_names():
    assert {"PolynomialMKLRegressor", "PolynomialMKLClassifier"} <= set(mk.__all__)
    assert "RandomizedMirrorDescent" in mk.products.__all__


@pytest.mark.parametrize(
    "solver",
    [ExplicitLpNorm(tol=1e-4), HierarchicalKernelLearning()],
    ids=lambda solver: type(solver).__name__,
)
@pytest.mark.parametrize("C", [1.0, "auto"])
def test_other_solvers_are_objects(solver, C):
    options = {"degree": 2, "p": 4 / 3, "C": C, "random_state": 0}
    fitted = PolynomialMKLRegressor(solver=solver, **options).fit(X, Y)
    assert {"x0 * x3", "x5"} <= set(fitted.kernel_names_[:6])
    assert fitted.score(X, Y) > 0.9


def test_a_solver_without_a_seed_takes_that_of_the_estimator():
    options = {"p": 4 / 3, "C": 1.0, "solver": RandomizedMirrorDescent(30)}
    one, two, other = (
        PolynomialMKLRegressor(**options, random_state=seed).fit(X, Y).predict(X)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_a_blend_with_other_folds():
    solver = ProductBlend(folds=3)
    fitted = PolynomialMKLRegressor(degree=2, p="blend", solver=solver).fit(X, Y)
    other = PolynomialMKLRegressor(degree=2, p="blend", random_state=0).fit(X, Y)
    assert fitted.score(X, Y) >= 0.95
    assert not np.array_equal(fitted.predict(X), other.predict(X))


def test_X_is_checked_once(monkeypatch):
    calls = []
    check = tables.check_array

    def counted(*args, **options):
        calls.append(options)
        return check(*args, **options)

    monkeypatch.setattr(tables, "check_array", counted)
    fitted = PolynomialMKLRegressor(C=1.0, degree=2).fit(X, Y)
    assert len(calls) == 1
    fitted.predict(X)
    assert len(calls) == 2


@pytest.fixture(scope="module")
def blended():
    return PolynomialMKLRegressor(p="blend", random_state=0).fit(FRAME, Y)


def test_a_blend_explains_itself_like_any_model(blended):
    assert blended.interactions_["interaction"][:2] == ["age * size", "heat"]
    assert blended.score(FRAME, Y) >= 0.95
    assert {row["p"] for row in blended.blend_} <= {1.0, 4 / 3}
    assert sum(row["weight"] for row in blended.blend_) == pytest.approx(1.0)
    strongest = max(blended.blend_, key=lambda row: row["weight"])
    assert blended.C_ == strongest["C"]


def test_a_blend_of_one_kind_is_forgotten_by_the_next_fit(blended):
    again = clone(blended).fit(FRAME, Y).set_params(p=1).fit(FRAME, Y)
    assert not hasattr(again, "blend_")


def test_blends_of_three_classes_name_their_class():
    A, labels = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[labels]
    few = np.random.default_rng(0).permutation(150)[:60]
    fitted = PolynomialMKLClassifier(degree=2, p="blend", random_state=0)
    fitted.fit(A[few], names[few])
    assert {row["class"] for row in fitted.blend_} == set(names)
    assert fitted.score(A, names) >= 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 1.0}, "C must keep its default with p='blend'"),
        ({"degree_weights": [1, 1, 1, 2]}, "degree_weights must keep its default"),
        ({"refit": True}, "refit must keep its default"),
        ({"base_kernels": EACH}, "A blend needs one column per base kernel"),
        ({"solver": ColumnGeneration()}, "solver must be 'auto' or a ProductBlend"),
        ({"p": "both"}, r"p must be a number in \[1, 1.99\] or 'blend', got 'both'"),
    ],
)
def test_what_a_blend_chooses_itself_is_not_for_the_user(options, message):
    options = {"p": "blend", **options}
    with pytest.raises(ValueError, match=message):
        PolynomialMKLRegressor(**options).fit(X, Y)


@pytest.mark.parametrize("y", [None, np.zeros(len(X))], ids=["missing", "one class"])
def test_messages_about_labels_name_the_estimator(y):
    with pytest.raises(ValueError, match="PolynomialMKLClassifier"):
        PolynomialMKLClassifier().fit(X, y)


@pytest.mark.parametrize("solver", [ColumnGeneration, RandomizedMirrorDescent])
@pytest.mark.parametrize(
    ("setting", "message"),
    [({"tol": [0.1, 0.1]}, "tol must be a number"), ({"max_iter": 0}, "max_iter must")],
)
def test_solvers_check_their_settings(solver, setting, message):
    """A file may hold a solver, and say anything of it."""
    with pytest.raises(ValueError, match=message):
        solver(**setting)


def test_views_are_told_that_one_table_is_wanted():
    views = {"a": np.eye(4), "b": np.ones((4, 1))}
    for estimator in (PolynomialMKLClassifier(), PolynomialMKLRegressor()):
        with pytest.raises(TypeError, match="learns from one table, got several views"):
            estimator.fit(views, [0, 1, 0, 1])


def uneven(rng, n, r):
    """0/1 columns with shares from 0.2 to 0.8, and 12 terms of one to three of them."""
    X = (rng.random((n, r)) < rng.uniform(0.2, 0.8, size=r)).astype(float)
    terms = set()
    while len(terms) < 12:
        factors = rng.choice(r, size=rng.integers(1, 4), replace=False)
        terms.add(tuple(sorted(factors.tolist())))
    signal = np.zeros(n)
    for term in sorted(terms):
        z = X[:, list(term)].prod(axis=1)
        signal += rng.choice([-1, 1]) * rng.uniform(1.0, 2.0) * z / z.std()
    return X, signal + signal.std() / np.sqrt(5.0) * rng.normal(size=n), terms


def test_a_product_of_uneven_0_1_columns_does_not_stand_for_its_factors():
    """It is like both of them, and leaves too little for either to be found."""
    X, y, terms = uneven(np.random.default_rng([2, 60, 1000]), 3000, 60)
    model = PolynomialMKLRegressor(C="bic").fit(X[:1000], y[:1000])
    names = model.interactions_["columns"]
    assert {tuple(int(name[1:]) for name in term) for term in names} == terms
