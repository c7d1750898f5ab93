"""scikit-learn's own estimator checks of the regressors."""

import pytest
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    parametrize_with_checks,
)

from manykernels import MKLRegressor
from manykernels.kernels import RBF, Linear
from tests.sklearn_checks import exempt, precise


@parametrize_with_checks(
    [
        MKLRegressor(),
        MKLRegressor([Linear(), RBF()], p=1.0),
        MKLRegressor(loss="huber"),
        MKLRegressor(loss="epsilon_insensitive"),
        MKLRegressor(per_target_weights=True),
        # Some checks round or shift a kernel matrix, which makes it indefinite.
        MKLRegressor("precomputed", psd="clip"),
    ],
    expected_failed_checks=exempt,
)
def test_scikit_learn(estimator, check):
    check(estimator)


FIXED = [Linear(), RBF(0.1), RBF(1.0)]


# Predictions equal to 1e-7 need a gap close to rounding, which bounds a square.
@pytest.mark.filterwarnings("ignore:The relative duality gap")
@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon_insensitive"])
@pytest.mark.parametrize("p", [1.0, 1.1, 2.0])
def test_weights_equal_repetitions_in_scikit_learns_check(p, loss):
    model = precise(MKLRegressor(FIXED, p=p, loss=loss))
    check_sample_weight_equivalence_on_dense_data("MKLRegressor", model)
