"""Harrell's concordance against a loop over all pairs, and known figures."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manykernels import concordance_index
from tests.oracles.survival import naive_concordance


def draw(seed, n_rows):
    """Few distinct times and risks, so that both are often tied."""
    rng = np.random.default_rng(seed)
    time = rng.integers(1, rng.choice([4, 1000]), n_rows).astype(float)
    event = rng.random(n_rows) < rng.choice([0.3, 0.7, 1.0])
    risk = rng.integers(0, rng.choice([3, 1000]), n_rows) * rng.choice([1.0, 1.3e-9])
    return time, event, risk


@given(seed=st.integers(0, 100_000), n_rows=st.integers(2, 40))
def test_all_pairs_by_themselves_give_the_same(seed, n_rows):
    time, event, risk = draw(seed, n_rows)
    expected, pairs = naive_concordance(time, event, risk)
    if not pairs:
        with pytest.raises(ValueError, match="got no such pair"):
            concordance_index((time, event), risk)
        return
    assert concordance_index((time, event), risk) == pytest.approx(expected, abs=1e-12)


@given(seed=st.integers(0, 100_000))
def test_a_weight_of_k_is_k_copies(seed):
    time, event, risk = draw(seed, 25)
    event[np.argmin(time)] = True
    time[np.argmax(time)] += 1.0
    counts = np.random.default_rng(seed).integers(1, 4, 25)
    copies = np.repeat(np.arange(25), counts)
    found = concordance_index((time, event), risk, counts)
    again = concordance_index((time[copies], event[copies]), risk[copies])
    assert found == pytest.approx(again, abs=1e-12)


def test_order_of_rows_monotone_maps_and_signs():
    time, event, _ = draw(1, 60)
    risk = np.random.default_rng(0).normal(size=60)
    found = concordance_index((time, event), risk)
    order = np.random.default_rng(1).permutation(60)
    again = concordance_index((time[order], event[order]), risk[order])
    assert again == pytest.approx(found, abs=1e-12)
    for change in (np.exp, lambda r: 7.0 * r - 3.0):
        assert concordance_index((time, event), change(risk)) == pytest.approx(found)
    assert concordance_index((time, event), -risk) == pytest.approx(1.0 - found)
    assert concordance_index((time, event), np.zeros(60)) == 0.5


def test_ties_as_scikit_survival_counts_them():
    """Made with sksurv.metrics.concordance_index_censored 0.28."""
    time = np.array([1, 1, 2, 3, 3, 3, 4, 5, 5, 6.0])
    event = np.array([1, 1, 0, 1, 0, 1, 1, 1, 0, 0])
    risk = np.array([3, 1, 2, 2, 2, 5, 1, 0, 1, 4.0])
    # 16 pairs right, 11 wrong, 4 with the same risk.
    assert concordance_index((time, event), risk) == pytest.approx(18 / 31, abs=1e-12)


def test_a_hundred_thousand_rows_take_no_square():
    rng = np.random.default_rng(0)
    risk = rng.normal(size=100_000)
    time = rng.exponential(np.exp(-risk))
    found = concordance_index((time, rng.random(100_000) < 0.5), risk)
    # P(T_i < T_j) for hazards exp(risk), averaged over normal risks.
    assert 0.6 < found < 0.9


@pytest.mark.parametrize(
    ("risk", "part"),
    [
        ([1.0, 2.0], r"for each of the 3 rows of y, got float64 of \(2,\)"),
        ([1.0, np.nan, 2.0], "got some that are not; check it"),
        (["a", "b", "c"], "one finite number for each"),
    ],
)
def test_bad_risks_are_refused(risk, part):
    with pytest.raises(ValueError, match=part):
        concordance_index(([1, 2, 3], [1, 1, 1]), risk)
