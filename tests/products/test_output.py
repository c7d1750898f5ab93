"""Units, formulas, intervals and stability of terms; choices of the paper."""

import numpy as np
import pandas as pd
import pytest

from manykernels import PolynomialMKLClassifier, PolynomialMKLRegressor
from manykernels.products import (
    ColumnGeneration,
    ExplicitLpNorm,
    RandomizedMirrorDescent,
    term_intervals,
    term_stability,
)
from manykernels.products.base import RankOneKernels
from manykernels.products.product_problem import ProductProblem
from tests.products.toys import regression

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.uniform(20, 80, size=(150, 3)), columns=["age", "dose 1", "z"])
Y = 3.0 + 0.5 * FRAME["age"] - 0.02 * FRAME["age"] * FRAME["dose 1"]
NOISY = Y + RNG.normal(size=150)


@pytest.fixture(scope="module")
def model():
    return PolynomialMKLRegressor(degree=2, C="bic").fit(FRAME, Y)


def test_coefficients_are_those_of_the_table(model):
    found = model.coefficients()
    values = dict(zip(found["term"], found["coefficient"], strict=True))
    assert values["1"] == pytest.approx(3.0)
    assert values["age"] == pytest.approx(0.5)
    assert values["age * dose 1"] == pytest.approx(-0.02)
    assert dict(zip(found["term"], found["kind"], strict=True))["age"] == "main effect"


def test_main_effects_and_interactions_are_told_apart(model):
    table = pd.DataFrame(model.interactions_)
    assert set(table["kind"]) == {"main effect", "interaction"}
    assert set(table["kind"][table["degree"] == 1]) == {"main effect"}


def test_a_formula_predicts(model):
    text = model.formula(digits=12)
    np.testing.assert_allclose(FRAME.eval(text), model.predict(FRAME), rtol=1e-8)
    assert "`dose 1`" in text
    labels = PolynomialMKLClassifier(degree=2).fit(FRAME, NOISY > NOISY.median())
    scores = FRAME.eval(labels.formula(digits=12))
    np.testing.assert_allclose(scores, labels.decision_function(FRAME), atol=1e-6)
    three = PolynomialMKLClassifier(degree=1, C=1.0).fit(FRAME, pd.qcut(Y, 3).cat.codes)
    assert three.coefficients()["coefficient"].shape[1] == 3
    with pytest.raises(ValueError, match="A formula is that of one score, got 3"):
        three.formula()
    kernels = PolynomialMKLRegressor(2, "rbf@0; rbf@1", C=1.0).fit(FRAME, Y)
    with pytest.raises(ValueError, match="need columns as base kernels"):
        kernels.coefficients()


def test_intervals_are_those_of_least_squares(model):
    found = term_intervals(model, FRAME, NOISY)
    names = ["1", "age", "dose 1", "age * dose 1"]
    assert sorted(found["term"]) == sorted(names)
    columns = {
        "1": np.ones(150),
        "age": FRAME["age"],
        "dose 1": FRAME["dose 1"],
        "age * dose 1": FRAME["age"] * FRAME["dose 1"],
    }
    if len(model.interactions_["interaction"]) == 3:
        Z = np.column_stack([columns[name] for name in found["term"]])
        w, inverse = np.linalg.lstsq(Z, NOISY, rcond=None)[0], np.linalg.inv(Z.T @ Z)
        left = (NOISY - Z @ w) / (1 - np.einsum("ti,ij,tj->t", Z, inverse, Z))
        errors = np.sqrt(np.diag(inverse @ (Z.T * left.to_numpy() ** 2) @ Z @ inverse))
        np.testing.assert_allclose(found["coefficient"], w, rtol=1e-5)
        np.testing.assert_allclose(found["standard_error"], errors, rtol=1e-5)
    with pytest.raises(ValueError, match="need more rows than that, got 3"):
        term_intervals(model, FRAME[:3], NOISY[:3])


@pytest.mark.parametrize("labels", [False, True])
def test_intervals_cover_on_rows_that_chose_nothing(labels):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    kind = PolynomialMKLClassifier if labels else PolynomialMKLRegressor
    start = X[:, 0] * X[:, 1]
    fitted = kind(degree=2, C="bic", standardize=False)
    fitted.fit(X, start > 0 if labels else start)
    assert fitted.kernel_names_[0] == "x0 * x1"
    hits = []
    for _ in range(200):
        A = rng.normal(size=(150, 3))
        score = A[:, 0] * A[:, 1]
        y = score + np.abs(A[:, 0]) * rng.normal(size=150)
        if labels:
            y = rng.random(150) < 1 / (1 + np.exp(-score))
        found = term_intervals(fitted, A, y, level=0.9)
        at = found["term"].index("x0 * x1")
        hits.append(found["low"][at] <= 1.0 <= found["high"][at])
    assert 0.83 <= np.mean(hits) <= 0.96


def test_true_terms_are_stable_and_others_are_not():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(160, 8))
    y = X[:, 0] * X[:, 1] - X[:, 2] + 0.5 * rng.normal(size=160)
    lists = PolynomialMKLRegressor(degree=2, C="bic")
    found = pd.DataFrame(term_stability(lists, X, y, n_pairs=3, random_state=0))
    found = found.set_index("term")
    assert found["frequency"][["x0 * x1", "x2"]].min() == 1.0
    assert found["positive"]["x2"] == 0.0 and found["positive"]["x0 * x1"] == 1.0
    assert found["frequency"].drop(["x0 * x1", "x2"]).max() < 1.0 or len(found) == 2


def test_text_columns_are_named():
    frame = FRAME.assign(city=["Ulm"] * 150)
    with pytest.raises(ValueError, match="got 'Ulm' in column 'city'"):
        PolynomialMKLRegressor().fit(frame, Y)


A, B = regression(n=40, r=5)


def test_the_plain_average_of_the_paper():
    """The mean of the weights before each draw: those of all prefixes of one run."""
    problem = ProductProblem(RankOneKernels(A), B, np.ones(3), C=5.0)
    options = {"step": "theory", "patience": None, "tol": 0.0, "random_state": 0}
    plain = RandomizedMirrorDescent(400, average="plain", **options).solve(problem)
    late = RandomizedMirrorDescent(400, **options).solve(problem)
    best = ExplicitLpNorm(tol=1e-6).solve(problem).objective
    assert best <= plain.objective and best <= late.objective
    assert plain.objective != late.objective
    one = RandomizedMirrorDescent(1, average="plain", **options).solve(problem)
    assert np.all(one.model.weights == 0.0)  # the weights before the first draw
    with pytest.raises(ValueError, match="average must be 'late' or 'plain'"):
        RandomizedMirrorDescent(average="last")


def test_weights_of_any_product_by_importance_sampling():
    def prior(product):
        return 3.0 if 0 in product else 1.0

    base = RankOneKernels(A, prior=prior)
    problem = ProductProblem(base, B, np.ones(3), C=5.0)
    exact = ExplicitLpNorm(tol=1e-6).solve(problem)
    drawn = RandomizedMirrorDescent(3000, tol=1e-4, random_state=0).solve(problem)
    assert drawn.objective <= 1.05 * exact.objective
    assert drawn.objective - drawn.duality_gap <= exact.objective * (1 + 1e-9)
    plain = ProductProblem(RankOneKernels(A), B, np.ones(3), C=5.0)
    assert exact.objective > ExplicitLpNorm(tol=1e-6).solve(plain).objective
    with pytest.raises(ValueError, match="needs weights by degree alone, got a prior"):
        ColumnGeneration().solve(ProductProblem(base, B, np.ones(3), p=1.0))
    wrong = RankOneKernels(A, prior=lambda product: 0.5)
    with pytest.raises(ValueError, match=r"numbers of at least 1, got 0.5 for \(0,\)"):
        wrong.feature((0,))
