"""Chain decoders against trying every sequence."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from manykernels.structured import ChainDecoder
from manykernels.structured.decoders import hamming_cost

lengths = st.integers(1, 4)
sizes = st.integers(1, 6)
seeds = st.integers(0, 10**6)


def chain(
    length: int, n_labels: int, seed: int, spread: float = 2.0, moving: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of labels, and of pairs: one table, or one for every position."""
    rng = np.random.default_rng(seed)
    unary = spread * rng.normal(size=(length, n_labels))
    shape = (length, n_labels, n_labels) if moving else (n_labels, n_labels)
    return unary, spread * rng.normal(size=shape)


def every(unary: np.ndarray, transitions: np.ndarray) -> Iterator[tuple]:
    length, n_labels = unary.shape
    for y in product(range(n_labels), repeat=length):
        score = sum(unary[t, k] for t, k in enumerate(y))
        tables = np.broadcast_to(transitions, (length, n_labels, n_labels))
        score += sum(tables[t, y[t - 1], y[t]] for t in range(1, length))
        yield y, score


@settings(max_examples=60)
@given(length=lengths, n_labels=sizes, seed=seeds, moving=st.booleans())
def test_viterbi_finds_the_best(
    length: int, n_labels: int, seed: int, moving: bool
) -> None:
    unary, transitions = chain(length, n_labels, seed, moving=moving)
    scores = dict(every(unary, transitions))
    got = tuple(ChainDecoder(unary, transitions).best()[0].tolist())
    assert got == max(scores, key=scores.__getitem__)
    assert ChainDecoder(unary, transitions).score(got)[0] == pytest.approx(scores[got])


@settings(max_examples=40)
@given(length=lengths, n_labels=sizes, seed=seeds, moving=st.booleans())
def test_cost_augmented_finds_the_most_violating(
    length: int, n_labels: int, seed: int, moving: bool
) -> None:
    unary, transitions = chain(length, n_labels, seed, moving=moving)
    rng = np.random.default_rng(seed + 1)
    target = rng.integers(n_labels, size=length)
    cost = rng.uniform(0.0, 3.0, (n_labels, n_labels))
    for given_cost, table in ((cost, cost), (None, hamming_cost(n_labels))):
        values = {
            y: score + sum(table[a, b] for a, b in zip(target, y, strict=True))
            for y, score in every(unary, transitions)
        }
        labels, value = ChainDecoder(unary, transitions).best(target, given_cost)
        assert tuple(labels.tolist()) == max(values, key=values.__getitem__)
        assert value[0] == pytest.approx(max(values.values()))


@settings(max_examples=40)
@given(length=lengths, n_labels=sizes, seed=seeds, moving=st.booleans())
def test_marginals_by_enumeration(
    length: int, n_labels: int, seed: int, moving: bool
) -> None:
    unary, transitions = chain(length, n_labels, seed, moving=moving)
    known = list(every(unary, transitions))
    total = logsumexp([score for _, score in known])
    labels, pairs = np.zeros_like(unary), np.zeros_like(transitions)
    for y, score in known:
        chance = np.exp(score - total)
        for t, k in enumerate(y):
            labels[t, k] += chance
        for t in range(1, length):
            pairs[(t,) * moving + (y[t - 1], y[t])] += chance
    got = ChainDecoder(unary, transitions).marginals()
    assert got.log_partition[0] == pytest.approx(total)
    assert np.allclose(got.labels, labels)
    assert np.allclose(got.pairs, pairs)
    assert np.allclose(
        ChainDecoder(unary, transitions).log_partition(), got.log_partition
    )


@settings(max_examples=15)
@given(length=lengths, n_labels=st.integers(1, 4), seed=seeds, moving=st.booleans())
def test_marginals_are_the_gradient(
    length: int, n_labels: int, seed: int, moving: bool
) -> None:
    unary, transitions = chain(length, n_labels, seed, moving=moving)
    got = ChainDecoder(unary, transitions).marginals()
    for array, gradient in ((unary, got.labels), (transitions, got.pairs)):
        for place in np.ndindex(array.shape):
            values = []
            for change in (1e-5, -1e-5):
                old = array[place]
                array[place] = old + change
                values.append(ChainDecoder(unary, transitions).log_partition()[0])
                array[place] = old
            slope = (values[0] - values[1]) / 2e-5
            assert gradient[place] == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("spread", [1e3, 1e5])
def test_sums_survive_huge_scores(spread: float) -> None:
    unary, transitions = chain(4, 3, 7, spread)
    known = list(every(unary, transitions))
    total = logsumexp([score for _, score in known])
    labels = np.zeros_like(unary)
    for y, score in known:
        labels[np.arange(4), y] += np.exp(score - total)
    got = ChainDecoder(unary, transitions).marginals()
    assert got.log_partition[0] == pytest.approx(total)
    assert np.allclose(got.labels, labels)
    assert got.pairs.sum() == pytest.approx(3.0)


def test_the_only_path_may_use_the_worst_transition() -> None:
    """Sums whose common factor underflows are computed again without it."""
    transitions = np.array([[0.0, -5000.0], [-np.inf, 0.0]])
    unary = np.array([[0.0, -np.inf], [-np.inf, 0.0], [-np.inf, 0.0]])
    got = ChainDecoder(unary, transitions).marginals()
    assert got.log_partition[0] == pytest.approx(-5000.0)
    assert np.allclose(got.labels, [[1, 0], [0, 1], [0, 1]])
    assert np.allclose(got.pairs, [[0, 1], [0, 1]])
    assert ChainDecoder(unary, transitions).best()[0].tolist() == [0, 1, 1]


@settings(max_examples=40)
@given(
    length=lengths,
    n_labels=sizes,
    seed=seeds,
    moving=st.booleans(),
    k=st.integers(1, 30),
)
def test_k_best_are_the_best_of_all(
    length: int, n_labels: int, seed: int, moving: bool, k: int
) -> None:
    unary, transitions = chain(length, n_labels, seed, moving=moving)
    known = sorted(every(unary, transitions), key=lambda found: -found[1])[:k]
    labels, scores = ChainDecoder(unary, transitions).k_best(k)[0]
    assert [tuple(path) for path in labels.tolist()] == [y for y, _ in known]
    assert np.allclose(scores, [score for _, score in known])


def test_k_best_leaves_out_what_is_forbidden() -> None:
    transitions = np.array([[0.0, -np.inf], [1.0, 0.5]])
    labels, scores = ChainDecoder(np.zeros((3, 2)), transitions).k_best(100)[0]
    assert labels.tolist() == [[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]]
    assert scores.tolist() == [1.5, 1.0, 1.0, 0.0]


def test_k_best_of_ties_are_all_different() -> None:
    labels, _ = ChainDecoder(np.zeros((3, 2)), np.zeros((2, 2))).k_best(8)[0]
    assert len({tuple(path) for path in labels.tolist()}) == 8


@pytest.mark.parametrize("moving", [False, True])
def test_many_chains_are_independent(moving: bool) -> None:
    unary, transitions = chain(9, 5, 3, moving=moving)
    starts = [0, 4, 5, 9]
    decoder = ChainDecoder(unary, transitions, starts)
    together, values = decoder.best()
    both, best, sums = decoder.marginals(), decoder.k_best(3), decoder.log_partition()
    pairs = np.zeros_like(transitions)
    for n, (a, b) in enumerate(zip(starts, starts[1:], strict=False)):
        part = slice(a, b) if moving else slice(None)
        one = ChainDecoder(unary[a:b], transitions[part])
        assert np.array_equal(one.best()[0], together[a:b])
        assert one.best()[1][0] == values[n]
        alone = one.marginals()
        assert np.allclose(alone.labels, both.labels[a:b])
        pairs[part] += alone.pairs
        assert np.array_equal(one.k_best(3)[0][0], best[n][0])
        assert alone.log_partition[0] == pytest.approx(sums[n])
        assert both.log_partition[n] == pytest.approx(sums[n])
    assert np.allclose(pairs, both.pairs)


def test_more_labels_than_are_unrolled() -> None:
    """Label counts around the blocks of four that the forward loop takes at once."""
    for n_labels in (4, 5, 7, 8, 9, 26):
        unary, transitions = chain(3, n_labels, n_labels)
        scores = dict(every(unary, transitions))
        got = tuple(ChainDecoder(unary, transitions).best()[0].tolist())
        assert scores[got] == pytest.approx(max(scores.values()))


@pytest.mark.parametrize("starts", [[0, 2, 2, 3], [1, 3], [0, 2], [0, 4], []])
def test_bad_starts_are_refused(starts: list[int]) -> None:
    with pytest.raises(ValueError, match="starts must rise"):
        ChainDecoder(np.zeros((3, 2)), np.zeros((2, 2)), starts)


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="labels, labels"):
        ChainDecoder(np.zeros((3, 2)), np.zeros((3, 3)))
