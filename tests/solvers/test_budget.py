"""Which support rows stay, and what is lost with the others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manykernels.kernels import RBF, Linear
from manykernels.kernels.kernel_set import KernelSet
from manykernels.norms import LpGroupNorm
from manykernels.solvers.online import Budget, Stream, projection

NORM = LpGroupNorm(1.3)


@pytest.fixture(scope="module")
def crowd():
    """Forty support rows of different weight on two kernels, in float64."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    kernels = KernelSet.fit([RBF(0.3), Linear(normalize=None)], X, dtype=np.float64)
    theta = rng.normal(size=(40, 3))
    return kernels, theta - theta.mean(axis=1, keepdims=True)


def trimmed(crowd, budget):
    kernels, theta = crowd
    stream = Stream(kernels, NORM, theta)
    weights = stream.weights
    stream.trim(budget)
    return stream, weights


def distance(crowd, stream, weights):
    """sum_f weights_f ||theta_f - kept theta_f||^2, from all kernel values."""
    kernels, theta = crowd
    change = theta.copy()
    change[stream.support] -= stream.theta
    combined = np.einsum("f,fij->ij", weights, kernels.stack())
    return float(np.einsum("ik,ij,jk->", change, combined, change))


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.integers(1, 12),
    st.randoms(use_true_random=False),
)
def test_the_smallest_parts_go_first_and_then_the_oldest(sizes, limit, random):
    diagonal = np.array([random.choice([0.25, 1.0, 4.0]) for _ in sizes])
    coef = np.array(sizes, dtype=float)[:, None] * [1.0, -1.0]
    kept = Budget(limit, "smallest").kept(coef, diagonal)
    parts = [(size * diagonal[i] ** 0.5, i) for i, size in enumerate(sizes)]
    expected = sorted(i for _, i in sorted(parts)[max(len(parts) - limit, 0) :])
    assert kept.tolist() == expected


@given(st.integers(0, 20), st.integers(1, 20))
def test_the_oldest_are_the_first(n_rows, limit):
    coef = np.random.default_rng(n_rows).normal(size=(n_rows, 2))
    kept = Budget(limit, "oldest").kept(coef, np.ones(n_rows))
    assert kept.tolist() == list(range(n_rows))[-limit:]


def test_projection_is_least_squares_in_feature_space():
    rng = np.random.default_rng(1)
    kept, gone = rng.normal(size=(5, 9)), rng.normal(size=(4, 9))
    coef = rng.normal(size=(4, 2))
    best = np.linalg.lstsq(kept.T, gone.T @ coef, rcond=None)[0]
    found = projection(kept @ kept.T, kept @ gone.T, coef)
    loss = np.linalg.norm(kept.T @ found - gone.T @ coef)
    least = np.linalg.norm(kept.T @ best - gone.T @ coef)
    assert least <= loss <= least * (1.0 + 1e-3)


def test_projection_survives_equal_rows():
    twins = np.ones((6, 6))
    found = projection(twins, np.ones((6, 1)), np.array([[3.0, -3.0]]))
    np.testing.assert_allclose(found.sum(axis=0), [3.0, -3.0], rtol=1e-3)
    assert np.abs(found).max() < 1.0


@pytest.mark.parametrize("size", [1, 10, 30, 39])
def test_projection_loses_less_than_removal(crowd, size):
    removed, weights = trimmed(crowd, Budget(size, "smallest"))
    projected, _ = trimmed(crowd, Budget(size, "project"))
    np.testing.assert_array_equal(projected.support, removed.support)
    lost = distance(crowd, removed, weights)
    assert distance(crowd, projected, weights) < lost
    oldest, _ = trimmed(crowd, Budget(size, "oldest"))
    assert oldest.support.tolist() == list(range(40))[-size:]


@pytest.mark.parametrize("policy", ["smallest", "oldest", "project"])
def test_norms_and_weights_follow_the_kept_rows(crowd, policy):
    stream, _ = trimmed(crowd, Budget(15, policy))
    K = crowd[0].take(stream.support).stack()
    norms = np.einsum("ik,fij,jk->f", stream.theta, K, stream.theta)
    np.testing.assert_allclose(stream.square_norms, norms, rtol=1e-9)
    np.testing.assert_allclose(stream.weights, NORM.mirror_scale(np.sqrt(norms)))


def test_nothing_happens_within_the_budget(crowd):
    stream, _ = trimmed(crowd, Budget(40, "project"))
    np.testing.assert_array_equal(stream.theta, crowd[1])
