"""scikit-learn's own checks of estimators that look at products with PyTorch."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from manykernels import PolynomialMKLClassifier, PolynomialMKLRegressor
from manykernels.products import ColumnGeneration
from tests.device.devices import require_torch
from tests.sklearn_checks import exempt

require_torch()


@parametrize_with_checks(
    [
        PolynomialMKLRegressor(device="cpu"),
        PolynomialMKLClassifier(C=1.0, solver=ColumnGeneration(tol=1e-7), device="cpu"),
    ],
    expected_failed_checks=exempt,
)
def test_scikit_learn(estimator, check):
    check(estimator)
