"""scikit-learn's own checks for the estimators over products."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from manykernels import PolynomialMKLClassifier, PolynomialMKLRegressor
from manykernels.products import RandomizedMirrorDescent


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
    ]
)
def test_scikit_learn(estimator, check):
    check(estimator)
