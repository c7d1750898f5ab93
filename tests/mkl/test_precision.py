"""Values of any size: float64 where float32 will not do, or one sentence."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import manykernels as mk
from manykernels.kernels import RBF, Linear, Polynomial, Precomputed

ESTIMATORS = [mk.MKLClassifier, mk.MKLRegressor]
PRODUCTS = [mk.PolynomialMKLClassifier, mk.PolynomialMKLRegressor]


@pytest.fixture(scope="module")
def halves(iris):
    return iris.X[::2], iris.y[::2], iris.X[1::2]


def fitted(estimator, kernels, X, y, **settings):
    return estimator(kernels, random_state=0, **settings).fit(X, y)


@pytest.mark.parametrize("scale", [1e20, 1e-20])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_unit_of_a_table_changes_nothing(estimator, scale, halves):
    X, y, new = halves
    plain = fitted(estimator, "linear; rbf", X, y)
    model = fitted(estimator, "linear; rbf", scale * X, y)
    assert model.objective_ == pytest.approx(plain.objective_, rel=1e-2)
    assert model.predict(scale * new) == pytest.approx(plain.predict(new), abs=0.05)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
@pytest.mark.parametrize("estimator", PRODUCTS)
def test_products_have_no_unit(estimator, scale, halves):
    X, y, new = halves
    plain = estimator(degree=2, random_state=0).fit(X, y)
    model = estimator(degree=2, random_state=0).fit(scale * X, y)
    assert model.predict(scale * new) == pytest.approx(plain.predict(new), rel=1e-6)


@pytest.mark.parametrize("scale", [1e200, 1e154, 1e-200])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_values_beyond_float64_are_refused(estimator, scale, halves):
    X, y, _ = halves
    with pytest.raises(ValueError, match="squares and products are between .* rescale"):
        fitted(estimator, "rbf", scale * X, y)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_given_kernels_have_no_unit(estimator, scale, halves):
    X, y, new = halves
    plain = fitted(estimator, "precomputed", X @ X.T, y)
    model = fitted(estimator, "precomputed", scale * X @ X.T, y)
    assert model.predict(scale * new @ X.T) == pytest.approx(plain.predict(new @ X.T))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_given_kernels_too_small_for_float64_are_refused(estimator, halves):
    X, y, _ = halves
    with pytest.raises(ValueError, match="values between .* multiply the matrix"):
        fitted(estimator, "precomputed", 1e-300 * X @ X.T, y)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_high_degrees(estimator, halves):
    X, y, new = halves
    model = fitted(estimator, [Polynomial(60), RBF()], X, y)
    assert model._model.kernels.dtype == np.float64
    assert np.isfinite(model.objective_) and np.isfinite(model.predict(new)).all()
    with pytest.raises(ValueError, match="degree=400.* rescale"):
        fitted(estimator, [Polynomial(400)], X, y)


def test_float64_where_float32_cannot_carry_the_gap(halves):
    X, y, _ = halves
    kernels = [Linear(normalize=None), RBF()]
    easy = fitted(mk.MKLClassifier, kernels, X, y)
    assert easy._model.kernels.dtype == np.float32
    hard = {"C": 1e4, "tol": 1e-5}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = fitted(mk.MKLClassifier, kernels, X, y, **hard)
    assert model._model.kernels.dtype == np.float64
    assert model.duality_gap_ <= 1e-5 * model.objective_
    search = mk.MKLClassifierCV(kernels, ps=1.1, Cs=[1.0, 1e6], cv=2).fit(X, y)
    assert search._model.kernels.dtype == np.float64


def test_a_precision_that_was_chosen_is_kept(halves):
    X, y, _ = halves
    model = mk.MKLClassifier("rbf", C=1e6, storage="float32", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model._model.kernels.dtype == np.float32


def test_where_rounding_limits_the_gap_the_warning_says_so(halves):
    X, y, _ = halves
    stack = [K * 1e12 for K in (X @ X.T, (X @ X.T) ** 2)]
    model = mk.MKLClassifier(Precomputed(normalize=None), C=1e6, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="rounding of the kernel values") as got:
        model.set_params(random_state=0).fit(stack, y)
    assert "max_iter" not in str(got[0].message)


@pytest.mark.parametrize(
    ("kernel", "scale"),
    [(Polynomial(60, normalize=None), 1.0), (Linear(normalize=None), 1e20)],
)
def test_where_rounding_hides_everything_there_is_no_model(kernel, scale, halves):
    """A bound as good as none, and a model no better than chance."""
    X, y, _ = halves
    with pytest.raises(ValueError, match=r"k\(x, x\) up to .*e\+.* normalize"):
        fitted(mk.MKLClassifier, [kernel, RBF()], scale * X, y, C=10.0)


@pytest.mark.parametrize("kernels", [[Linear(normalize=None)], [RBF(1.0), RBF(0.1)]])
def test_a_model_that_tells_nothing_apart_is_announced(kernels, halves):
    """It is the optimum: a certificate alone would hide that it is useless."""
    X, y, _ = halves
    with pytest.warns(UserWarning, match=r"nearly the same scores.*scale the columns"):
        model = fitted(mk.MKLClassifier, kernels, 1e-20 * X, y)
    assert model.duality_gap_ <= 1e-2 * model.objective_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(mk.MKLClassifier, kernels, X, y)
        fitted(mk.MKLClassifier, kernels, X, y, C=1e-6)  # asked for
