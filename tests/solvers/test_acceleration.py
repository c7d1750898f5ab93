"""The search for kernel weights, on a problem with a closed-form inner solution.

Ridge regression: V(d) = min over w of 1/2 sum_f ||w_f||^2 / d_f + 1/2 ||y - s(w)||^2
= 1/2 y' a with a = (I + K_d)^-1 y, and ||theta_f||^2 = a' K_f a.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manykernels.norms import LpGroupNorm
from manykernels.norms.group import p_norm
from manykernels.solvers.weights import WeightSearch, anderson
from tests.oracles.toys import blobs, kernel_stack


def ridge(seed: int, n_blocks: int = 5):
    X, target = blobs(20, 2, seed)
    stack = kernel_stack(X, n_blocks, seed)
    y = 3.0 * (target - 0.5)

    def inner(weights: np.ndarray) -> tuple[np.ndarray, float]:
        gram = np.einsum("f,ifj->ij", weights, stack)
        a = np.linalg.solve(np.eye(20) + gram, y)
        return np.sqrt(np.einsum("i,ifj,j->f", a, stack, a)), 0.5 * float(y @ a)

    return inner


def lower_bound(
    norm: LpGroupNorm, weights: np.ndarray, theta_norms: np.ndarray, value: float
) -> float:
    """min over feasible d of the tangent of V, whose gradient is -||theta_f||^2 / 2.

    V is convex, so no feasible weights have a smaller value.
    """
    squares = theta_norms**2
    steepest = p_norm(squares, norm.q / 2.0)  # q / 2 is the dual exponent of r
    return value - 0.5 * (steepest - float(squares @ weights))


@pytest.mark.parametrize("p", [1.0, 1.01, 1.05, 1.25, 1.5, 2.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_search_finds_the_best_weights(p: float, seed: int) -> None:
    inner = ridge(seed)
    norm = LpGroupNorm(p)
    search = WeightSearch(norm, norm.uniform_weights(5))
    upper, lower = np.inf, 0.0
    for _ in range(60):
        weights = search.weights
        theta_norms, value = inner(weights)
        upper = min(upper, value)
        lower = max(lower, lower_bound(norm, weights, theta_norms, value))
        assert lower <= upper * (1.0 + 1e-12)
        new = search.step(theta_norms, value, value)
        assert np.all(new >= 0.0)
        assert np.linalg.norm(new, norm.weight_exponent) == pytest.approx(1.0)
    assert upper - lower <= 1e-4 * upper


def test_the_search_is_faster_than_the_plain_update() -> None:
    norm = LpGroupNorm(1.05)

    def rounds(inner, step) -> int:
        weights = norm.uniform_weights(5)
        for count in range(1, 500):
            theta_norms, value = inner(weights)
            bound = lower_bound(norm, weights, theta_norms, value)
            if value - bound <= 1e-4 * value:
                return count
            weights = step(weights, theta_norms, value)
        return 500

    fast = plain = 0
    for seed in range(8):
        inner = ridge(seed)
        search = WeightSearch(norm, norm.uniform_weights(5))
        fast += rounds(inner, lambda _, n, value, s=search: s.step(n, value, value))
        plain += rounds(inner, lambda weights, n, _: norm.weights(weights * n))
    assert fast < 0.8 * plain


def test_p_1_sets_useless_weights_to_zero() -> None:
    inner = ridge(1)
    norm = LpGroupNorm(1.0)
    search = WeightSearch(norm, norm.uniform_weights(5))
    for _ in range(60):
        theta_norms, value = inner(search.weights)
        weights = search.step(theta_norms, value, value)
    theta_norms, _ = inner(weights)
    assert np.any(weights == 0.0)
    assert np.all(theta_norms[weights == 0.0] < theta_norms.max())


def test_a_wanted_block_comes_back() -> None:
    norm = LpGroupNorm(1.0)
    search = WeightSearch(norm, norm.uniform_weights(2))
    for value in np.linspace(2.0, 1.0, 30):
        search.step(np.array([1.0, 1e-3]), value, value)
    assert search.weights[1] == 0.0
    search.step(np.array([1.0, 1.5]), 0.9, 0.9)
    assert search.weights[1] > 0.0


def test_a_worse_value_is_undone() -> None:
    norm = LpGroupNorm(1.5)
    search = WeightSearch(norm, norm.uniform_weights(3))
    good = search.weights.copy()
    bad = search.step(np.array([1.0, 2.0, 3.0]), 1.0, 1.0).copy()
    assert not np.allclose(bad, good)
    again = search.step(np.array([9.0, 1.0, 1.0]), 5.0, 5.0)
    # Back at the good weights, one plain step is d_f ~ (d_f ||theta_f||)^(2 - p).
    assert again.argmax() == 2
    assert again[0] < again[1] < again[2]


@given(st.integers(0, 1000))
def test_anderson_is_fast_on_a_linear_map(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    factors = np.array([0.9, 0.5, -0.3])
    matrix = rotation @ np.diag(factors) @ rotation.T
    fixed = rotation.sum(axis=1)
    shift = fixed - matrix @ fixed
    points, images = [np.zeros(3)], [shift]
    for _ in range(4):
        points.append(anderson(np.array(points), np.array(images)))
        images.append(matrix @ points[-1] + shift)
    # The plain iteration would be 0.9^5 = 0.59 away.
    assert np.linalg.norm(points[-1] - fixed) < 0.01


def test_anderson_starts_with_the_plain_step() -> None:
    assert anderson(np.zeros((1, 2)), np.array([[1.0, 2.0]])).tolist() == [1.0, 2.0]
