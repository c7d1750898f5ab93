"""Regularizers: values, successive steps, and when these are exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from manykernels.norms import (
    ElasticNetMKL,
    GroupLasso,
    OverlappingGroups,
    PowerNorm,
    Regularizer,
    SparseGroupLasso,
    SparseMKL,
    SquaredL2,
    SquaredPNorm,
    SumOf,
)
from manykernels.norms.terms import (
    Term,
    kernel_weights,
    regularizer_value,
    strong_convexity,
    successive_prox,
)

SIZES = (2, 3, 1)
EXACT = [
    SquaredL2(),
    GroupLasso(),
    SparseMKL(),
    SquaredPNorm(1.3),
    PowerNorm(1.5),
    PowerNorm(3.0),
    ElasticNetMKL(0.4),
    SparseGroupLasso(0.3),
    OverlappingGroups([(0, 1, 2), (0,), (1, 2)], [0.2, 0.5, 0.4]),
]


def split(flat: np.ndarray) -> list[np.ndarray]:
    return np.split(flat, np.cumsum(SIZES)[:-1])


def value(regularizer: Regularizer, blocks: Sequence[np.ndarray]) -> float:
    norms = np.array([np.linalg.norm(block) for block in blocks])
    entries = np.array([np.abs(block).sum() for block in blocks])
    return regularizer_value(regularizer.terms(), norms, entries)


def cost(flat: np.ndarray, at: np.ndarray, step: float, omega: Regularizer) -> float:
    return 0.5 * float((flat - at) @ (flat - at)) + step * value(omega, split(flat))


@pytest.mark.parametrize("regularizer", EXACT, ids=lambda r: type(r).__name__)
@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), step=st.floats(0.01, 2.0))
def test_steps_minimize_on_whole_blocks(
    regularizer: Regularizer, seed: int, step: float
) -> None:
    """Nothing found by a general minimizer, from many starts, is better."""
    rng = np.random.default_rng(seed)
    at = rng.normal(size=sum(SIZES))
    got = np.concatenate(successive_prox(regularizer.terms(), split(at), step))
    best = cost(got, at, step, regularizer)
    starts = [at, 0.5 * at, got + 0.01 * rng.normal(size=len(at))]
    for start in starts:
        options = {"maxiter": 200}
        found = minimize(
            cost, start, (at, step, regularizer), method="Powell", options=options
        )
        assert best <= found.fun + 1e-9
    for _ in range(20):
        near = got + 1e-4 * rng.normal(size=len(at))
        assert best <= cost(near, at, step, regularizer) + 1e-12


def test_values_by_hand() -> None:
    blocks = [np.array([3.0, 4.0]), np.array([0.0, -2.0, 0.0]), np.array([1.0])]
    assert value(SquaredL2(), blocks) == pytest.approx(15.0)
    assert value(GroupLasso(), blocks) == pytest.approx(8.0)
    assert value(SparseMKL(), blocks) == pytest.approx(32.0)
    assert value(PowerNorm(3.0), blocks) == pytest.approx(134.0)
    assert value(ElasticNetMKL(0.25), blocks) == pytest.approx(0.25 * 15 + 0.75 * 32)
    assert value(SparseGroupLasso(0.25), blocks) == pytest.approx(2.0 + 0.75 * 10)
    assert value(SquaredPNorm(1.0), blocks) == pytest.approx(32.0)
    groups = OverlappingGroups([(0, 1), (1, 2)], [1.0, 2.0])
    assert value(groups, blocks) == pytest.approx(np.sqrt(29.0) + 2 * np.sqrt(5.0))


def test_overlapping_groups_take_one_step_each() -> None:
    groups = OverlappingGroups([(0, 1), (1, 2)])
    assert not groups.is_hierarchy
    blocks = [np.array([2.0, 0.0]), np.array([1.0, 0.0, 0.0]), np.array([3.0])]
    got = successive_prox(groups.terms(), blocks, 0.5)
    first = 1.0 - 0.5 / np.sqrt(5.0)
    second = 1.0 - 0.5 / np.sqrt(first**2 + 9.0)
    assert got[0][0] == pytest.approx(2.0 * first)
    assert got[1][0] == pytest.approx(first * second)
    assert got[2][0] == pytest.approx(3.0 * second)


def test_a_sum_has_the_terms_of_its_parts() -> None:
    total = SumOf([SparseMKL(), GroupLasso()], [2.0, 0.5])
    norms = np.array([1.0, 2.0])
    assert regularizer_value(total.terms(), norms) == pytest.approx(9.0 + 1.5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PowerNorm(0.5),
        lambda: SquaredPNorm(2.5),
        lambda: ElasticNetMKL(-0.1),
        lambda: SparseGroupLasso(1.1),
        lambda: OverlappingGroups([]),
        lambda: OverlappingGroups([(0,), ()]),
        lambda: OverlappingGroups([(0,)], [1.0, 2.0]),
        lambda: PowerNorm(float("nan")),
    ],
)
def test_bad_settings_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="must"):
        make()


def test_entries_need_entries() -> None:
    with pytest.raises(ValueError, match="explicit features"):
        Term("entries").value(np.ones(2))
    with pytest.raises(ValueError, match="explicit features"):
        Term("entries").prox(np.ones(2), 0.1)


@pytest.mark.parametrize(
    "regularizer",
    [
        SquaredL2(),
        GroupLasso(),
        SparseMKL(),
        SquaredPNorm(1.3),
        PowerNorm(1.5),
        PowerNorm(3.0),
        ElasticNetMKL(0.3),
        OverlappingGroups([(0, 1), (1, 2)], [1.0, 2.0]),
        SumOf([SparseMKL(), GroupLasso()], [1.0, 0.1]),
    ],
    ids=lambda r: type(r).__name__,
)
def test_kernel_weights_are_inverse_slopes(regularizer: Regularizer) -> None:
    """1 / beta_f is the derivative of the penalty by half the squared norm."""
    norms, terms = np.array([0.5, 2.0, 1.2]), regularizer.terms()
    for f, beta in enumerate(kernel_weights(terms, norms)):
        values = []
        for change in (1e-6, -1e-6):
            moved = norms.copy()
            moved[f] = np.sqrt(norms[f] ** 2 + 2.0 * change)
            values.append(regularizer_value(terms, moved))
        assert 1.0 / beta == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-6)


def test_kernel_weights_of_blocks_at_zero() -> None:
    norms = np.array([0.0, 2.0])
    for regularizer in (GroupLasso(), SparseMKL(), SquaredPNorm(1.3), PowerNorm(3.0)):
        weights = kernel_weights(regularizer.terms(), norms)
        assert weights[0] == 0.0 < weights[1] < np.inf
    assert not kernel_weights(SparseMKL().terms(), np.zeros(2)).any()
    # No kernel weights stand for a block without a penalty.
    alone = OverlappingGroups([(0,)]).terms()
    assert kernel_weights(alone, np.array([1.0, 2.0])).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("regularizer", [SquaredPNorm(1.3), ElasticNetMKL(0.3)])
def test_strong_convexity_holds_on_segments(regularizer: Regularizer) -> None:
    rng, terms = np.random.default_rng(0), regularizer.terms()
    sigma = strong_convexity(terms, 3)
    assert sigma > 0.0
    for _ in range(200):
        a, b = np.abs(rng.normal(size=(2, 3)))
        middle = regularizer_value(terms, (a + b) / 2.0)
        ends = regularizer_value(terms, a) + regularizer_value(terms, b)
        assert ends / 2.0 - middle >= sigma / 8.0 * np.sum((a - b) ** 2) - 1e-12
