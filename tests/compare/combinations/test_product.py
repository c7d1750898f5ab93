"""The product kernel."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

import manykernels as mk
from manykernels.kernels import RBF, Laplacian
from tests.mkl.test_bad_input import refused
from tests.oracles.optimum import cvxpy_optimum


@pytest.mark.parametrize(("power", "number"), [("auto", 1.0), (2, 2.0), (1.0, 1.0)])
def test_product_of_given_kernels(power, number, data, exact):
    model = mk.compare.ProductKernelClassifier("precomputed", power, C=3.0, **exact)
    model.fit(data.X, data.y)
    assert model.power_ == number
    product = np.prod(data.X**number, axis=-1)
    n_classes = len(model.classes_)
    expected = cvxpy_optimum(product[:, None, :], data.y, n_classes, 2.0, 3.0)
    assert model.objective_ == pytest.approx(expected, rel=1e-6)
    new = np.prod(data.X_new**number, axis=-1)[:, model.support_]
    scores = new @ model.dual_coef_
    scores = scores[:, 1] - scores[:, 0] if n_classes == 2 else scores
    np.testing.assert_allclose(model.decision_function(data.X_new), scores, atol=1e-9)
    assert not hasattr(model, "kernel_weights_")


def test_exponential_kernels_take_the_geometric_mean(iris, exact):
    kernels = [RBF(0.3, columns=[0, 1]), Laplacian(0.2, columns=[2, 3])]
    model = mk.compare.ProductKernelClassifier(kernels, C=5.0, **exact).fit(
        iris.X, iris.y
    )
    assert model.power_ == 0.5

    def mean(A, B):
        first = rbf_kernel(A[:, :2], B[:, :2], gamma=0.3)
        return np.sqrt(first * laplacian_kernel(A[:, 2:], B[:, 2:], gamma=0.2))

    alone = mk.compare.AveragedKernelClassifier("precomputed", C=5.0, **exact)
    alone.fit(mean(iris.X, iris.X), iris.y)
    np.testing.assert_allclose(
        model.decision_function(iris.X_new),
        alone.decision_function(mean(iris.X_new, iris.X)),
        atol=1e-4,
    )
    assert model.score(iris.X_new, iris.y_new) > 0.9


@pytest.mark.parametrize("storage", ["gram", "on_demand", "memmap"])
def test_every_storage_gives_the_same_product(storage, iris, exact):
    kernels = "rbf@0-1; rbf@2-3"
    found = [
        mk.compare.ProductKernelClassifier(
            kernels, **exact | {"storage": f"{where}:float64"}
        )
        .fit(iris.X, iris.y)
        .decision_function(iris.X_new)
        for where in ("auto", storage)
    ]
    np.testing.assert_allclose(*found, atol=1e-8)


def test_centered_kernels_are_multiplied_plainly(iris):
    model = mk.compare.ProductKernelClassifier([RBF(center=True), RBF()]).fit(
        iris.X, iris.y
    )
    assert model.power_ == 1.0


def test_roots_of_negative_values(iris):
    with refused("power=0.5", "negative values", "got -", "use power=1"):
        mk.compare.ProductKernelClassifier("linear; rbf", "mean").fit(
            iris.X - iris.X[0], iris.y
        )


def test_roots_that_are_no_kernel():
    """Entry by entry, the root of a positive definite matrix need not be one."""
    K = np.array([[1.0, 0.55, 0.0], [0.55, 1.0, 0.55], [0.0, 0.55, 1.0]])
    assert np.linalg.eigvalsh(K)[0] > 0.0 > np.linalg.eigvalsh(np.sqrt(K))[0]
    with refused("power=0.5", "positive semi-definite", "use power=1"):
        mk.compare.ProductKernelClassifier("precomputed", 0.5).fit(K, [0, 1, 0])


def test_what_a_product_lacks(iris):
    model = mk.compare.ProductKernelClassifier("rbf@0; rbf@1").fit(iris.X, iris.y)
    for name in ("kernel_contributions", "partial_fit"):
        assert not hasattr(model, name)
        with refused(f"ProductKernelClassifier has no {name}", error=AttributeError):
            getattr(model, name)
