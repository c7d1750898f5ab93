"""scikit-learn's own estimator checks, run of every estimator in the same way."""

import warnings

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from manykernels.products.polynomial_mkl import PolynomialMKL

# Two fits agree within their gaps, and scikit-learn compares seven digits of a weighted
# fit and of one with copies: a gap bounds the square of a distance, hence 1e-15.
# Rounding may end the search a little above it, so that rounds are limited.
TO_SEVEN_DIGITS = {"tol": 1e-15, "max_iter": 60, "storage": "float64"}
SEVEN_DIGITS = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}
# What these checks pass is no kernel matrix.
NOT_SQUARE = "the check passes a feature table where a square matrix is due"
# exp(-distance^2) of points that are far apart is zero, and without an intercept a
# zero row has no score; a test of MKLClassifier adds the constant kernel.
NO_INTERCEPT = "the check expects an intercept to answer where the kernel vanishes"


def exempt(model):
    """Checks that a model cannot pass, and why."""
    if isinstance(model, PolynomialMKL) and isinstance(model.C, str):
        # tests/products/test_weights.py compares weights and copies for a given C.
        return dict.fromkeys(SEVEN_DIGITS, "C is chosen by rows, and copies are rows")
    if model.get_params().get("kernels") != "precomputed":
        return {}
    reasons = {"check_estimators_nan_inf": NOT_SQUARE}
    if hasattr(model, "predict_proba"):
        reasons["check_decision_proba_consistency"] = NOT_SQUARE
        reasons["check_class_weight_classifiers"] = NO_INTERCEPT
    return reasons


def precise(model, **options):
    """A copy that solves its problem to what double precision holds."""
    wanted = TO_SEVEN_DIGITS | options
    known = {name: wanted[name] for name in wanted if name in model.get_params()}
    return clone(model).set_params(**known)


def run_check(model, check, **options):
    """Run one check, of a precise copy where it compares two fits digit by digit."""
    if check.func.__name__ not in SEVEN_DIGITS:
        check(model)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(precise(model, **options))
