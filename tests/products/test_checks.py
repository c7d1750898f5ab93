"""scikit-learn's own checks for the estimators over products."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from manykernels import PolynomialMKLClassifier, PolynomialMKLRegressor
from manykernels.products import RandomizedMirrorDescent

WEIGHTS = {
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_list",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_all_zero_sample_weights_error",
}
EQUIVALENCE = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}


def exempt(model):
    """Checks that a model cannot pass, and why."""
    if model.p != 1 or model.base_kernels is not None:
        return dict.fromkeys(WEIGHTS | EQUIVALENCE, "weights need p = 1 and columns")
    # tests/products/test_weights.py compares weighted and repeated rows for a given C.
    return dict.fromkeys(EQUIVALENCE, "a chosen C depends on rows, others on the gap")


@parametrize_with_checks(
    [
        PolynomialMKLRegressor(),
        PolynomialMKLRegressor(
            degree=2,
            p=4 / 3,
            C=10.0,
            solver=RandomizedMirrorDescent(50),
            random_state=0,
        ),
        PolynomialMKLRegressor(degree=2, p="blend", random_state=0),
        PolynomialMKLRegressor(degree=2, base_kernels="rbf@0; linear", C=10.0),
        PolynomialMKLClassifier(degree=2),
        PolynomialMKLClassifier(degree=2, loss="smoothed_hinge", C=10.0),
    ],
    expected_failed_checks=exempt,
)
def test_scikit_learn(estimator, check):
    check(estimator)
