"""The group norm's identities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from manykernels.norms import LpGroupNorm
from manykernels.norms.group import p_norm, p_norms
from tests.oracles.naive import group_norm

exponents = st.one_of(
    st.sampled_from([1.0, 1.0001, 1.01, 2.0]), st.floats(1.0, 2.0, exclude_min=True)
)
smooth_exponents = st.floats(1.001, 2.0)
norms = arrays(
    np.float64, st.integers(1, 6), elements=st.floats(0.0, 1e3, allow_subnormal=False)
)
positive = arrays(np.float64, st.integers(1, 6), elements=st.floats(1e-2, 1e3))


@given(values=norms, p=st.floats(1.0, 50.0))
def test_p_norm_is_the_formula(values: np.ndarray, p: float) -> None:
    # The plain formula underflows where p_norm does not, so it sees larger numbers.
    scale = values.max() or 1.0
    expected = scale * group_norm(values / scale, p)
    assert p_norm(values, p) == pytest.approx(expected, rel=1e-9)
    rows = np.stack([values, 2.0 * values])
    assert np.allclose(p_norms(rows, p), [p_norm(values, p), 2.0 * p_norm(values, p)])


@given(values=norms)
def test_huge_exponents_give_the_maximum(values: np.ndarray) -> None:
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for p in (1e3, 1e6, np.inf):
            largest = values.max()
            limit = largest * len(values) ** (1.0 / p)
            assert largest <= p_norm(values, p) * (1 + 1e-12)
            assert p_norm(values, p) <= limit * (1 + 1e-12)


@given(theta=norms, p=exponents)
def test_fenchel_young_holds_with_equality_at_the_mirror_map(
    theta: np.ndarray, p: float
) -> None:
    norm = LpGroupNorm(p)
    w = norm.mirror_scale(theta) * theta
    total = norm.value(w) + norm.dual_value(theta)
    assert total == pytest.approx(float(w @ theta), rel=1e-8, abs=1e-12)
    # ||w||_p = ||theta||_q
    assert norm.value(w) == pytest.approx(norm.dual_value(theta), rel=1e-8, abs=1e-12)


@given(data=st.data(), p=exponents)
def test_fenchel_young_inequality(data: st.DataObject, p: float) -> None:
    norm = LpGroupNorm(p)
    theta = data.draw(norms)
    w = data.draw(arrays(np.float64, len(theta), elements=st.floats(0.0, 1e3)))
    bound = norm.value(w) + norm.dual_value(theta)
    assert float(w @ theta) <= bound * (1.0 + 1e-9) + 1e-12


@given(theta=positive, p=smooth_exponents)
def test_the_mirror_map_is_the_gradient_of_the_dual_value(
    theta: np.ndarray, p: float
) -> None:
    norm = LpGroupNorm(p)
    gradient = norm.mirror_scale(theta) * theta
    for f in range(len(theta)):
        # A step well inside the scale on which a power of q bends.
        step = 1e-4 * theta[f] / norm.q
        ahead, behind = theta.copy(), theta.copy()
        ahead[f] += step
        behind[f] -= step
        slope = (norm.dual_value(ahead) - norm.dual_value(behind)) / (2.0 * step)
        scale = np.linalg.norm(theta)
        assert gradient[f] == pytest.approx(slope, rel=1e-4, abs=1e-4 * scale)


@given(w=norms, p=exponents)
def test_weights_attain_the_variational_form(w: np.ndarray, p: float) -> None:
    norm = LpGroupNorm(p)
    weights = norm.weights(w)
    used = w > 0.0
    if not used.any():
        assert np.array_equal(weights, norm.uniform_weights(len(w)))
        return
    length = p_norm(weights, norm.weight_exponent)
    assert length == pytest.approx(1.0, rel=1e-9)
    attained = np.sum(w[used] ** 2 / np.maximum(weights[used], 1e-300))
    assert 0.5 * attained == pytest.approx(norm.value(w), rel=1e-8)


@given(data=st.data(), p=exponents)
def test_no_feasible_weights_do_better(data: st.DataObject, p: float) -> None:
    norm = LpGroupNorm(p)
    w = data.draw(positive)
    draw = data.draw(arrays(np.float64, len(w), elements=st.floats(0.01, 1.0)))
    weights = norm.normalize_weights(draw)
    assert p_norm(weights, norm.weight_exponent) == pytest.approx(1.0)
    assert 0.5 * np.sum(w**2 / weights) >= norm.value(w) * (1.0 - 1e-9)


@given(w=norms)
def test_limits(w: np.ndarray) -> None:
    assert LpGroupNorm(2.0).value(w) == pytest.approx(0.5 * float(w @ w), rel=1e-12)
    assert LpGroupNorm(2.0).dual_value(w) == pytest.approx(0.5 * float(w @ w))
    sparse, nearly = LpGroupNorm(1.0), LpGroupNorm(1.0 + 1e-9)
    assert sparse.value(w) == pytest.approx(0.5 * float(w.sum()) ** 2, rel=1e-12)
    assert sparse.dual_value(w) == pytest.approx(0.5 * float(w.max()) ** 2)
    assert nearly.value(w) == pytest.approx(sparse.value(w), rel=1e-6)
    assert nearly.dual_value(w) == pytest.approx(sparse.dual_value(w), rel=1e-6)


def test_huge_dual_exponents_do_not_overflow() -> None:
    theta = np.array([1e-200, 1e-3, 1.0, 1e200])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for p in (1.0, 1.0 + 1e-12, 1.001, 1.1, 1.5, 2.0):
            norm = LpGroupNorm(p)
            scale = norm.mirror_scale(theta / 1e100)
            assert np.all(np.isfinite(scale))
            assert scale[3] == pytest.approx(1.0)


def test_p_1_shares_ties() -> None:
    scale = LpGroupNorm(1.0).mirror_scale(np.array([2.0, 1.0, 2.0]))
    assert scale.tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("p", [1.0, 1.0001, 1.5, 2.0])
def test_zero_and_uniform(p: float) -> None:
    norm = LpGroupNorm(p)
    assert norm.mirror_scale(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    assert norm.value(np.zeros(3)) == norm.dual_value(np.zeros(3)) == 0.0
    uniform = norm.uniform_weights(4)
    assert np.all(uniform == uniform[0])
    expected = 4.0 ** (-1.0 / norm.weight_exponent)
    assert uniform[0] == pytest.approx(expected)


def test_conjugate_exponents() -> None:
    assert LpGroupNorm(1.0).q == np.inf
    assert LpGroupNorm(2.0).q == 2.0
    assert LpGroupNorm(1.25).q == pytest.approx(5.0)
    assert LpGroupNorm(2.0).weight_exponent == np.inf
    assert LpGroupNorm(1.0).weight_exponent == 1.0
    # Kloft's constraint ||d||_r with r = 2 is p = 2 r / (r + 1) = 4/3.
    assert LpGroupNorm(4.0 / 3.0).weight_exponent == pytest.approx(2.0)
