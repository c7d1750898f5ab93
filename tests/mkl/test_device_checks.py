"""scikit-learn's own checks of estimators that compute with PyTorch."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from manykernels import MKLClassifier, MKLRegressor
from tests.sklearn_checks import exempt, run_check

pytest.importorskip("torch", reason="make test-torch has it")


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
