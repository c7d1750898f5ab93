"""EasyMKL next to a general convex solver and to MKLpy."""

import cvxpy as cp
import numpy as np
import pytest

import manykernels as mk
from manykernels.compare.combinations.easy import margin_distribution
from tests.mkl.test_bad_input import refused
from tests.oracles.optimum import explicit_features


def closest_points(X, sign, lam, weight):
    """The paper's quadratic program, from the features of the summed kernel."""
    phi = explicit_features(X.sum(axis=-1)[:, None, :])[0]
    gamma = cp.Variable(len(sign), nonneg=True)
    distance = cp.sum_squares((sign[:, None] * phi).T @ gamma)
    value = (1.0 - lam) * distance + lam * cp.sum_squares(gamma / np.sqrt(weight))
    constraints = [cp.sum(gamma[sign > 0]) == 1, cp.sum(gamma[sign < 0]) == 1]
    cp.Problem(cp.Minimize(value), constraints).solve(solver=cp.CLARABEL)
    return gamma.value


def expected_weights(X, sign, lam):
    signed = sign * closest_points(X, sign, lam, np.ones(len(sign)))
    parts = np.array([signed @ X[..., f] @ signed for f in range(X.shape[-1])])
    return parts / parts.sum()


@pytest.mark.parametrize("lam", [0.01, 0.3, 1.0])
def test_distribution(lam, two):
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(two.y))
    sign = np.where(two.y == 1, 1.0, -1.0)
    found = margin_distribution(two.X.sum(axis=-1), sign, lam, weight)
    expected = closest_points(two.X, sign, lam, weight)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("lam", [0.05, 0.5])
def test_weights_of_two_classes(lam, two, exact):
    model = mk.compare.EasyMKLClassifier("precomputed", lam, **exact).fit(two.X, two.y)
    sign = np.where(two.y == 1, 1.0, -1.0)
    expected = expected_weights(two.X, sign, lam)
    np.testing.assert_allclose(model.kernel_weights_, expected, atol=1e-5)


def test_every_class_against_the_rest(three, exact):
    model = mk.compare.EasyMKLClassifier("precomputed", C=2.0, **exact).fit(
        three.X, three.y
    )
    for k in range(3):
        own = three.y == k
        expected = expected_weights(three.X, np.where(own, 1.0, -1.0), 0.1)
        np.testing.assert_allclose(model.kernel_weights_[k], expected, atol=1e-5)
        alone = mk.compare.EasyMKLClassifier("precomputed", C=2.0, **exact).fit(
            three.X, own
        )
        np.testing.assert_allclose(
            model.decision_function(three.X_new)[:, k],
            alone.decision_function(three.X_new),
            atol=1e-4,
        )
    assert not np.allclose(model.kernel_weights_[0], model.kernel_weights_[1])


@pytest.mark.parametrize("lam", [0.1, 0.5])
def test_mklpy_finds_the_same_weights(lam, two, exact):
    torch = pytest.importorskip("torch")
    algorithms = pytest.importorskip("MKLpy.algorithms")
    rival = algorithms.EasyMKL(lam=lam)
    kernels = [torch.tensor(two.X[..., f]) for f in range(5)]
    expected = rival.combine_kernels(kernels, torch.tensor(two.y)).weights
    model = mk.compare.EasyMKLClassifier("precomputed", lam, **exact).fit(two.X, two.y)
    np.testing.assert_allclose(model.kernel_weights_, expected.numpy(), atol=1e-4)


def test_bad_lam(iris):
    with refused("lam must be a number in (0, 1], got 0"):
        mk.compare.EasyMKLClassifier(lam=0).fit(iris.X, iris.y)
