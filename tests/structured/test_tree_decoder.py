"""Best trees and marginals against trying every tree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manykernels.structured import TreeDecoder
from manykernels.structured.structured_problem import CRF, StructuredHinge
from tests.oracles.trees import all_trees, brute_force, reaches_root, tree_score


@st.composite
def scored(draw):
    n = draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = rng.normal(
        scale=draw(st.sampled_from([0.1, 3.0, 300.0])), size=(n + 1,) * 2
    )
    if draw(st.booleans()):  # many equal scores
        scores = np.round(scores)
    return scores


@settings(max_examples=60)
@given(scored(), st.booleans())
def test_no_tree_is_better(scores, single_root):
    heads = tuple(TreeDecoder(scores, single_root).best()[0].tolist())
    assert reaches_root(heads)
    assert not single_root or heads.count(0) == 1
    top = brute_force(scores, single_root)[0]
    assert tree_score(scores, heads) == pytest.approx(top, abs=1e-9)


@settings(max_examples=60)
@given(scored(), st.booleans())
def test_marginals_are_those_of_all_trees(scores, single_root):
    _, log_partition, marginals = brute_force(scores, single_root)
    found = TreeDecoder(scores, single_root).marginals()
    assert found.log_partition == pytest.approx(log_partition, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(found.arcs, marginals, atol=1e-12)


@pytest.mark.parametrize("single_root", [False, True])
def test_marginals_are_the_gradient_of_the_log_partition(single_root):
    scores = np.random.default_rng(0).normal(size=(9, 9))
    marginals = TreeDecoder(scores, single_root).marginals().arcs
    numeric = np.zeros_like(scores)
    for h, m in np.ndindex(9, 9):
        step = np.zeros_like(scores)
        step[h, m] = 1e-5
        above = TreeDecoder(scores + step, single_root).log_partition()
        below = TreeDecoder(scores - step, single_root).log_partition()
        numeric[h, m] = (above - below) / 2e-5
    np.testing.assert_allclose(marginals, numeric, atol=1e-8)


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("gap", [40.0, 300.0, 690.0])
def test_marginals_near_a_heavy_cycle(gap, single_root):
    """Two words that want each other: a determinant would lose every digit."""
    scores = np.random.default_rng(1).normal(size=(5, 5))
    scores[1, 2] = scores[2, 1] = gap
    scores[3, 4] = scores[4, 3] = gap
    _, log_partition, marginals = brute_force(scores, single_root)
    found = TreeDecoder(scores, single_root).marginals()
    assert found.log_partition == pytest.approx(log_partition, rel=1e-12)
    np.testing.assert_allclose(found.arcs, marginals, atol=1e-9)
    np.testing.assert_allclose(found.arcs[:, 1:].sum(axis=0), 1.0, atol=1e-12)


@pytest.mark.parametrize("single_root", [False, True])
def test_beyond_the_range_of_exp_marginals_stay_probabilities(single_root):
    scores = np.zeros((5, 5))
    scores[1, 2] = scores[2, 1] = scores[3, 4] = scores[4, 3] = 1e6
    found = TreeDecoder(scores, single_root).marginals()
    assert np.isfinite(found.log_partition)
    np.testing.assert_allclose(found.arcs[:, 1:].sum(axis=0), 1.0, atol=1e-12)
    # Of each pair, one word hangs on the other.
    pairs = found.arcs[[1, 2, 3, 4], [2, 1, 4, 3]]
    np.testing.assert_allclose(pairs[::2] + pairs[1::2], 1.0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_number_of_trees(n):
    """(n + 1)^(n - 1) trees, n^(n - 1) of them with one word at the root."""
    zeros = np.zeros((n + 1, n + 1))
    total = np.exp(TreeDecoder(zeros, single_root=False).log_partition())
    single = np.exp(TreeDecoder(zeros).log_partition())
    assert total == pytest.approx((n + 1) ** (n - 1))
    assert single == pytest.approx(n ** (n - 1))
    assert len(list(all_trees(n, True))) == n ** (n - 1)


def test_long_sentences_give_probabilities():
    scores = np.random.default_rng(2).normal(scale=30.0, size=(121, 121))
    marginals = TreeDecoder(scores).marginals().arcs
    np.testing.assert_allclose(marginals[:, 1:].sum(axis=0), 1.0, atol=1e-9)
    np.testing.assert_allclose(marginals[0].sum(), 1.0, atol=1e-9)
    best, _ = TreeDecoder(scores).best()
    score = tree_score(scores, tuple(best.tolist()))
    rng = np.random.default_rng(3)
    for _ in range(50):  # trees nearby: hang one word somewhere else
        other = best.copy()
        m = rng.integers(120)
        other[m] = rng.integers(121)
        heads = tuple(other.tolist())
        if reaches_root(heads) and heads.count(0) == 1 and heads != tuple(best):
            assert tree_score(scores, heads) < score


def test_cost_is_added():
    scores = np.random.default_rng(4).normal(size=(5, 5))
    decoder = TreeDecoder(scores)
    gold, _ = decoder.best()
    cost = np.ones((5, 5))
    cost[gold, np.arange(1, 5)] = 0.0
    worst, _ = decoder.best(gold, 100.0)
    assert not np.any(worst == gold)
    top = brute_force(scores + cost, True)[0]
    augmented, value = decoder.best(gold)
    assert tree_score(scores + cost, tuple(augmented.tolist())) == pytest.approx(top)
    assert value == pytest.approx(top)


@settings(max_examples=30)
@given(scored(), st.booleans(), st.integers(0, 100))
def test_losses_of_trees_by_enumeration(scores, single_root, seed):
    trees = list(all_trees(len(scores) - 1, single_root))
    target = np.array(trees[seed % len(trees)])
    decoder = TreeDecoder(scores, single_root)
    true = tree_score(scores, tuple(target.tolist()))
    worst = max(tree_score(scores, y) + np.sum(target != y) for y in trees)
    hinge = StructuredHinge().values(decoder, target)
    assert hinge == pytest.approx(worst - true, abs=1e-9)
    total = brute_force(scores, single_root)[1]
    assert CRF().values(decoder, target) == pytest.approx(total - true, abs=1e-9)


def test_many_at_once():
    scores = np.random.default_rng(5).normal(size=(30, 7, 7))
    alone = [TreeDecoder(one) for one in scores]
    together = TreeDecoder(scores)
    heads, values = together.best()
    np.testing.assert_array_equal(heads, [one.best()[0] for one in alone])
    np.testing.assert_array_equal(values, [one.best()[1] for one in alone])
    np.testing.assert_array_equal(values, together.score(heads))
    sums = [one.log_partition() for one in alone]
    np.testing.assert_array_equal(together.log_partition(), sums)


def test_forbidden_arcs_are_not_used():
    scores = np.zeros((4, 4))
    scores[1, 2] = scores[2, 3] = scores[3, 1] = 9.0
    scores[0, 1] = scores[0, 2] = -np.inf
    assert TreeDecoder(scores).best()[0].tolist() == [3, 1, 0]
    found = TreeDecoder(scores).marginals()
    assert found.arcs[0].tolist() == [0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("method", ["best", "marginals"])
def test_clear_refusals(method):
    def decode(scores, single_root=True):
        return getattr(TreeDecoder(scores, single_root), method)()

    with pytest.raises(ValueError, match=r"shape \(n \+ 1, n \+ 1\) .* got \(2, 3\)"):
        decode(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="minus infinity, got NaN"):
        decode(np.where(np.eye(3)[::-1] > 0, np.nan, 1.0))
    two_roots = np.full((3, 3), -np.inf)
    two_roots[0] = 0.0
    with pytest.raises(ValueError, match="pass single_root=False"):
        decode(two_roots)
    assert decode(two_roots, single_root=False) is not None
    with pytest.raises(ValueError, match="allow more arcs"):
        decode(np.full((3, 3), -np.inf), single_root=False)
