"""scikit-learn's own checks, once for every estimator that learns from rows."""

from sklearn.utils.estimator_checks import parametrize_with_checks

import manykernels as mk
from manykernels.kernels import RBF
from tests.sklearn_checks import exempt, run_check

# Kernels that stay apart on the random data of the checks.
WIDE = [RBF("0.1*scale"), RBF("0.3*scale")]


@parametrize_with_checks(
    [
        mk.MKLClassifier(),
        mk.MKLRegressor(),
        mk.PolynomialMKLClassifier(degree=2),
        mk.PolynomialMKLRegressor(),
        # Some checks round or shift a kernel matrix, which makes it indefinite.
        mk.MKLClassifier("precomputed", psd="clip"),
        mk.MKLRegressor("precomputed", psd="clip"),
    ],
    expected_failed_checks=exempt,
)
def test_estimators(estimator, check):
    run_check(estimator, check)


@parametrize_with_checks(
    [
        mk.MKLClassifierCV("linear; rbf", 1.5, [0.1, 1.0], cv=2),
        mk.MKLRegressorCV("linear; rbf", 1.5, [0.1, 1.0]),
        mk.compare.AlignmentClassifier(),
        mk.compare.AveragedKernelClassifier(),
        mk.compare.BestKernelClassifier(WIDE, cv=2),
        mk.compare.EasyMKLClassifier(),
        mk.compare.LPBetaClassifier(WIDE, cv=2),
        mk.compare.LeaveOneOutKernelClassifier(WIDE),
        mk.compare.ProductKernelClassifier(),
    ],
    expected_failed_checks=exempt,
)
def test_searches_and_combinations(estimator, check):
    run_check(estimator, check, max_iter=25)
