"""scikit-learn's own checks of estimators that compute with PyTorch."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from manykernels import MKLClassifier, MKLRegressor
from tests.device.devices import require_torch
from tests.sklearn_checks import exempt, run_check

require_torch()


@parametrize_with_checks(
    [
        MKLClassifier(device="cpu"),
        MKLRegressor(device="cpu"),
        # Some checks round or shift a kernel matrix, which makes it indefinite.
        MKLClassifier("precomputed", psd="clip", device="cpu"),
    ],
    expected_failed_checks=exempt,
)
def test_scikit_learn(estimator, check):
    run_check(estimator, check)
