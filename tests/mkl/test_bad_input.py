"""Every refusal is one sentence: what was expected, what came, what to do."""

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from manykernels import MKLClassifier
from manykernels.inputs.table import check_table
from manykernels.kernels import RBF, Precomputed
from manykernels.solvers import Obscure

GIVEN = MKLClassifier("precomputed")


@contextmanager
def refused(*parts, error=ValueError):
    """Expect an error of our own whose message holds all the parts, in this order."""
    with pytest.raises(error) as caught:
        yield
    message = str(caught.value)
    place = 0
    for part in parts:
        assert part in message[place:], message
        place = message.index(part, place) + len(part)
    assert message.endswith(".") and "\n" not in message, message
    assert ". " not in message, f"more than one sentence: {message}"
    assert ";" in message, f"no advice: {message}"


def changed(X, place, value):
    X = X.copy()
    X[place] = value
    return X


# --- values -----------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", [np.asarray, np.float32, sp.csr_array])
def test_values_that_are_not_finite(value, form, iris):
    word = "NaN" if np.isnan(value) else "inf"
    model = MKLClassifier("linear").fit(form(iris.X), iris.y)
    bad = form(changed(iris.X, (4, 2), value))
    for call in (lambda: model.predict(bad), lambda: model.fit(bad, iris.y)):
        with refused("X must hold finite numbers", word, "column 2", "SimpleImputer"):
            call()


def test_missing_values_name_the_column(iris):
    # A copy, for an older pandas writes into the array that it was given.
    frame = pd.DataFrame(iris.X.copy(), columns=["sl", "sw", "pl", "pw"])
    frame.loc[3, "pl"] = None
    with refused("finite", "got NaN in column 'pl'", "fill or drop such values"):
        MKLClassifier().fit(frame, iris.y)


@pytest.mark.parametrize("kernel", ["rbf", "rbf:gamma=median", "linear"])
def test_widths_of_huge_values_blame_the_values(kernel, iris):
    with refused("needs values of X", "and 1.8e+308, got inf", "rescale"):
        MKLClassifier(kernel).fit(changed(iris.X, (3, 1), 1e300), iris.y)


def test_text_that_a_kernel_reads_is_named(iris):
    frame = pd.DataFrame(iris.X, columns=["sl", "sw", "pl", "pw"])
    frame["color"] = ["red", "blue"] * (len(iris.X) // 2)
    with refused("X must hold numbers, got 'red' in column 'color'", "OneHotEncoder"):
        MKLClassifier("rbf@sl+color").fit(frame, iris.y)
    with refused("X must hold numbers, got 'red' in column 4"):
        MKLClassifier("rbf").fit(frame.to_numpy(), iris.y)
    assert MKLClassifier("rbf@sl").fit(frame, iris.y).n_features_in_ == 5


def test_names_of_several_levels_are_views(iris):
    frame = pd.DataFrame(iris.X)
    frame.columns = pd.MultiIndex.from_product([["sepal", "petal"], ["l", "w"]])
    assert MKLClassifier("rbf@0-1").fit(frame, iris.y).n_features_in_ == 4
    model = MKLClassifier("rbf@sepal; rbf@petal:l").fit(frame, iris.y)
    names = ["sepal:l", "sepal:w", "petal:l", "petal:w"]
    assert model.feature_names_in_.tolist() == names


def test_column_names_that_are_no_text(iris):
    frame = pd.DataFrame(iris.X, columns=["a", "b", "c", 3])
    with refused("texts as column names", "'a*', got 3", "'_'.join"):
        MKLClassifier("rbf@a*").fit(frame, iris.y)


def test_huge_finite_values_are_no_infinity(iris):
    X = np.float32(iris.X) * np.float32(2e37)
    with np.errstate(over="ignore"):
        assert np.isinf(X.sum()) and np.isfinite(X).all()
    assert check_table(MKLClassifier(), X, reset=True).shape == X.shape


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_given_values_that_are_not_finite(value, stack):
    bad = changed(stack.X, (0, 1, 2), value)
    with refused("kernel 'precomputed@2' must hold finite numbers", "NaN or inf"):
        GIVEN.fit(bad, stack.y)
    model = MKLClassifier("precomputed").fit(stack.X, stack.y)
    with refused("kernel 'precomputed@2' must hold finite numbers", "NaN or inf"):
        model.predict(changed(stack.X_new, (0, 1, 2), value))


def test_zero_kernel(stack):
    with refused("kernel 'precomputed@3' must have a non-zero entry", "leave it out"):
        GIVEN.fit(changed(stack.X, (..., 3), 0.0), stack.y)


def test_indefinite_kernel_is_named_and_clipping_works(stack):
    bad = changed(stack.X, (..., 1), stack.X[..., 1] - 0.5 * np.eye(len(stack.X)))
    with refused("kernel 'precomputed@1' must be positive semi-def", "psd='clip'"):
        GIVEN.fit(bad, stack.y)
    model = MKLClassifier("precomputed", psd="clip", p=1.5, storage="float64")
    model.fit(bad, stack.y)
    assert model.score(stack.X_new, stack.y_new) > 0.85
    # What clipping means: negative eigenvalues are zero, for new rows as well.
    values, vectors = np.linalg.eigh(bad[..., 1])
    good = values > 0
    trace = np.trace(bad[..., 1]) / len(bad)
    projected = stack.X_new[..., 1] @ vectors[:, good] @ vectors[:, good].T / trace
    part = projected[:, model.support_] @ model.dual_coef_ * model.kernel_weights_[1]
    contributions = model.kernel_contributions(stack.X_new)
    np.testing.assert_allclose(contributions[:, 1], part, atol=1e-9)


# --- shapes -----------------------------------------------------------------


def test_kernels_of_different_sizes(stack):
    matrices = [stack.X[..., 0], stack.X[:50, :50, 1]]
    with refused("kernel matrices must have the same shape", "got [(90, 90), (50, 50)"):
        GIVEN.fit(matrices, stack.y)


def test_given_stacks_with_kernels_first(stack):
    first = np.moveaxis(stack.X, -1, 0)
    with refused("got (4, 90, 90), kernels first", "np.moveaxis(X, 0, -1)"):
        GIVEN.fit(first, stack.y)
    model = MKLClassifier("precomputed").fit(np.moveaxis(first, 0, -1), stack.y)
    with refused("got (4, 40, 90), kernels first", "np.moveaxis(X, 0, -1)"):
        model.predict(first[:, :40])


def test_given_arrays_with_too_many_axes(stack):
    with refused("precomputed kernels must come as", "got the shape (90, 90, 4, 1)"):
        GIVEN.fit(stack.X[..., None], stack.y)


def test_sparse_given_kernels(stack):
    with pytest.raises(TypeError, match=r"[Ss]parse data was passed.*'\.toarray\(\)'"):
        GIVEN.fit(sp.csr_array(stack.X[..., 0]), stack.y)


def test_predict_with_the_wrong_training_columns(stack):
    model = MKLClassifier("precomputed").fit(stack.X, stack.y)
    for given in (stack.X_new[:, :50], list(np.moveaxis(stack.X_new[:, :50], -1, 0))):
        with refused(
            "X has 50 features, but MKLClassifier is expecting 90", "training"
        ):
            model.predict(given)
    with refused("expected 4 given kernels as in fit, got 3"):
        model.predict(stack.X_new[..., :3])


def test_predict_with_the_wrong_features(iris):
    model = MKLClassifier().fit(iris.X, iris.y)
    with pytest.raises(ValueError, match="X has 3 features, but MKLClassifier is exp"):
        model.predict(iris.X_new[:, :3])


def test_predict_before_fit(iris):
    for method in ("predict", "decision_function", "kernel_contributions"):
        with pytest.raises(
            NotFittedError, match="MKLClassifier instance is not fitted"
        ):
            getattr(MKLClassifier(), method)(iris.X)


def test_a_failed_first_call_leaves_no_half_fitted_model(iris):
    model = MKLClassifier()
    with pytest.raises(ValueError, match="finite"):
        model.partial_fit(changed(iris.X, (0, 0), np.nan), iris.y, classes=[0, 1, 2])
    with pytest.raises(NotFittedError):
        model.predict(iris.X)
    with pytest.raises(ValueError, match="classes must be passed"):
        model.partial_fit(iris.X, iris.y)


# --- labels and weights -----------------------------------------------------


def test_one_class(iris, stack):
    with refused("at least 2 classes, got one class only: [1]", "check the labels"):
        MKLClassifier().fit(iris.X, np.ones(len(iris.X), int))
    with refused("at least 2 classes, got one class only: [1]"):
        GIVEN.fit(stack.X, np.ones(len(stack.X), int))
    with refused("at least 2 classes, got one class only: [0]"):
        MKLClassifier().fit(iris.X, iris.y, sample_weight=iris.y == 0)
    with refused("at least 2 classes, got one class only: [0]"):
        MKLClassifier().partial_fit(iris.X, iris.y, classes=[0])


def test_too_few_samples(stack):
    with pytest.raises(ValueError, match="1 sample.*minimum of 2 is required by MKL"):
        MKLClassifier().fit([[1.0, 2.0]], [0])
    with pytest.raises(ValueError, match="1 sample.*minimum of 2 is required by MKL"):
        GIVEN.fit(stack.X[:1, :1], stack.y[:1])


def test_labels_that_are_no_classes(iris):
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        MKLClassifier().fit(iris.X, iris.y + 0.5 * np.arange(len(iris.y)) / 7)
    with refused("requires y to be passed", "None", "one label per row"):
        MKLClassifier().fit(iris.X, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples: .90, 89."):
        MKLClassifier().fit(iris.X, iris.y[1:])


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_sample_weights(method, iris):
    model = MKLClassifier()
    extra = {"classes": [0, 1, 2]} if method == "partial_fit" else {}
    weight = np.ones(len(iris.y))
    weight[7] = -0.5
    with refused("sample_weight must not be negative, got -0.5 for row 7", "weight 0"):
        getattr(model, method)(iris.X, iris.y, sample_weight=weight, **extra)
    with pytest.raises(ValueError, match=r"sample_weight|[Ss]ample weights") as caught:
        getattr(model, method)(iris.X, iris.y, sample_weight=0.0 * weight, **extra)
    assert "zero" in str(caught.value)


def test_bad_class_weights(iris):
    with refused("class_weight must not be negative, got {0: -1.0}"):
        MKLClassifier(class_weight={0: -1.0}).fit(iris.X, iris.y)
    with refused("class_weight must be positive for some of the rows, got {0: 0"):
        MKLClassifier(class_weight={0: 0, 1: 0, 2: 0}).fit(iris.X, iris.y)


# --- columns and kernels ----------------------------------------------------


def test_unknown_columns_suggest_the_closest(iris):
    frame = pd.DataFrame(iris.X, columns=["length", "width", "depth", "weight"])
    with refused("column 'lenght' is not among", "the closest name is 'length'"):
        MKLClassifier([RBF(columns="lenght")]).fit(frame, iris.y)
    with refused("column index must be between -4 and 3, got 9", "X has 4 columns"):
        MKLClassifier("rbf@9").fit(iris.X, iris.y)


def test_kernel_class_instead_of_instance(iris):
    with refused("got the class RBF", "write RBF() with brackets", error=TypeError):
        MKLClassifier([RBF]).fit(iris.X, iris.y)


def test_empty_kernel_list(iris):
    with refused("expected at least one kernel, got an empty list"):
        MKLClassifier([]).fit(iris.X, iris.y)


def test_given_kernels_take_no_selector(stack):
    with refused("by position, got the selector", "columns=[0, 2]", error=TypeError):
        MKLClassifier([Precomputed(columns=lambda X: [0])]).fit(stack.X, stack.y)


# --- parameters -------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "value", "parts"),
    [
        ("p", 0.9, ["p must be a number in [1, 2], got 0.9"]),
        ("C", 0.0, ["C must be a number in (0, inf), got 0.0"]),
        ("tol", -1e-3, ["tol must be a number in [0, inf), got -0.001"]),
        ("max_iter", 0, ["max_iter must be a positive whole number", "got 0"]),
        ("solver", "newton", ["solver must be 'auto'", "got 'newton'"]),
        ("solver", Obscure, ["solver must be", "solver object", "Obscure"]),
        ("loss", "logistic", ["loss must be 'hinge'", "got 'logistic'"]),
    ],
)
def test_parameters_out_of_range(parameter, value, parts, iris):
    with refused(*parts, "choose"):
        MKLClassifier(**{parameter: value}).fit(iris.X, iris.y)


def test_unknown_storage(iris):
    with pytest.raises(
        ValueError, match="storage must be one of auto, gram, .* 'disk'"
    ):
        MKLClassifier(storage="disk").fit(iris.X, iris.y)
    with refused("storage='features' needs linear", "storage='gram'"):
        MKLClassifier("rbf", storage="features").fit(iris.X, iris.y)


def test_obscure_needs_p_above_one(iris):
    with refused("Obscure needs 1 < p <= 2", "got p=1", "solver='auto'"):
        MKLClassifier(p=1, solver="obscure").fit(iris.X, iris.y)


def test_memory_limit_too_small(iris):
    with refused("GB", "raise memory_limit", error=MemoryError):
        MKLClassifier("rbf", memory_limit="1KB").fit(iris.X, iris.y)


# --- partial_fit ------------------------------------------------------------


def test_partial_fit_first_call_needs_classes(iris):
    with refused("classes must be passed on the first call", "got None", "np.unique"):
        MKLClassifier().partial_fit(iris.X, iris.y)


def test_partial_fit_labels_must_be_known(iris):
    model = MKLClassifier()
    with refused("among the classes [0, 1], got [2] as well", "first call"):
        model.partial_fit(iris.X, iris.y, classes=[0, 1])
    model.partial_fit(iris.X, iris.y, classes=[0, 1, 2])
    with refused("among the classes [0, 1, 2], got [7] as well"):
        model.partial_fit(iris.X[:1], [7])
    with refused("classes must stay the same", "got [0, 1] after [0, 1, 2]"):
        model.partial_fit(iris.X, iris.y, classes=[0, 1])


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        (MKLClassifier(p=1.0), ["needs 1 < p <= 2, got p=1", "p=1.05"]),
        (GIVEN, ["needs kernels on feature columns, got given", "fit with one stack"]),
        (
            MKLClassifier(class_weight="balanced"),
            ["needs class_weight as a dictionary or None, got 'balanced'"],
        ),
    ],
)
def test_partial_fit_is_not_there_and_says_why(model, parts):
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="no attribute 'partial_fit'") as caught:
        _ = model.partial_fit
    with refused(*parts):
        raise caught.value.__cause__
