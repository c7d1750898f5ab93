"""scikit-learn's own estimator checks, run of every estimator in the same way."""

import warnings
from functools import partial
from unittest.mock import patch

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_checks

# Two fits agree within their gaps, and scikit-learn compares seven digits of a weighted
# fit and of one with copies: a gap bounds the square of a distance, hence 1e-15.
# Rounding may end the search a little above it, so that rounds are limited.
TO_SEVEN_DIGITS = {"tol": 1e-15, "max_iter": 60, "storage": "float64"}
SEVEN_DIGITS = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}
# SVRG ends where its objective has no digit left to fall, and the last digit of an
# objective, 1e-16, is the square of a change of the scores by 1e-8. Newton's last step
# squares the error and needs no such room. In 36 pairs of fits with C from 0.1 to 10
# the differences were up to 8 times what scikit-learn allows.
ROUNDED_SCORES = {"rtol": 1e-6, "atol": 1e-8}
# What these checks pass is no kernel matrix.
NOT_SQUARE = "the check passes a feature table where a square matrix is due"
# exp(-distance^2) of points that are far apart is zero, and without an intercept a
# zero row has no score; a test of MKLClassifier adds the constant kernel.
NO_INTERCEPT = "the check expects an intercept to answer where the kernel vanishes"
# Scores of weighted rows and of copies, in the check's data: 0.2 apart after 10 passes,
# 0.02 after 100, 0.0024 after 1000, 0.00028 after 10000; the gap falls alike. What
# holds is the certificate, which tests/mkl/test_sklearn_checks.py compares.
ONE_OVER_PASSES = "OBSCURE's error falls like 1 / passes: seven digits need 10^7"


def exempt(model):
    """Checks that a model cannot pass, and why."""
    if model.get_params().get("solver") == "obscure":
        return dict.fromkeys(SEVEN_DIGITS, ONE_OVER_PASSES)
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
    compare = estimator_checks.assert_allclose_dense_sparse
    if model.get_params().get("solver") == "svrg":
        compare = partial(compare, **ROUNDED_SCORES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with patch.object(estimator_checks, "assert_allclose_dense_sparse", compare):
            check(precise(model, **options))
