"""scikit-learn's own checks for the estimators over products."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from manykernels import PolynomialMKLClassifier, PolynomialMKLRegressor
from manykernels.products import ColumnGeneration, RandomizedMirrorDescent

EQUIVALENCE = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}


def exempt(model):
    """Checks that a model cannot pass, and why.

    tests/products/test_weights.py compares weighted and repeated rows for a given C.
    """
    if isinstance(model.C, str):
        return dict.fromkeys(EQUIVALENCE, "C is chosen by rows, and copies are rows")
    return {}


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
        PolynomialMKLRegressor(
            degree=2,
            base_kernels="rbf@0; linear",
            C=10.0,
            solver=ColumnGeneration(tol=1e-7),
        ),
        PolynomialMKLClassifier(degree=2),
        PolynomialMKLClassifier(
            degree=2,
            loss="smoothed_hinge",
            C=10.0,
            solver=ColumnGeneration(tol=1e-7),
        ),
    ],
    expected_failed_checks=exempt,
)
def test_scikit_learn(estimator, check):
    check(estimator)
