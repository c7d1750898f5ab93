"""Rows computed on demand give what stored rows give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from manykernels.banks import BlockBank, FeatureBlock, GramBank, SparseGramBlock
from manykernels.solvers import Obscure, Pegasos, mirror
from manykernels.solvers.mirror import MirrorDescent, RowCache
from tests.oracles.toys import make_problem


def feature_banks(n_rows: int = 40) -> tuple[BlockBank, GramBank, np.ndarray]:
    """The same three kernels as blocks and as a stack, with a target."""
    rng = np.random.default_rng(3)
    target = np.arange(n_rows) % 3
    dense = rng.normal(size=(n_rows, 5)) + np.eye(5)[target]
    csr = sp.random_array((n_rows, 8), density=0.4, rng=4, format="csr")
    gram = np.eye(n_rows) + 0.5 * np.eye(n_rows, k=1) + 0.5 * np.eye(n_rows, k=-1)
    blocks = [FeatureBlock(dense), FeatureBlock(csr), SparseGramBlock(gram)]
    stack = np.stack([dense @ dense.T, (csr @ csr.T).toarray(), gram], axis=1)
    return BlockBank(blocks), GramBank(stack), target


@pytest.mark.parametrize("solver", [Obscure, Pegasos])
@pytest.mark.parametrize("room", ["plenty", "tiny"])
def test_blocks_and_stack_give_the_same_run(
    solver: type, room: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if room == "tiny":
        monkeypatch.setattr(mirror, "ROW_CACHE_BYTES", 1)
        monkeypatch.setattr(mirror, "PREFETCHED_ROWS", 3)
    blocks, gram, target = feature_banks()
    problem = make_problem(gram, target, p=1.25, C=2.0)
    stored = solver(random_state=0).solve(problem)
    computed = solver(random_state=0).solve(replace(problem, bank=blocks))
    for line, other in zip(stored.history, computed.history, strict=True):
        assert line.updates == other.updates
        assert line.objective == pytest.approx(other.objective, rel=1e-8)
        assert line.gap == pytest.approx(other.gap, rel=1e-6, abs=1e-9)
    assert np.allclose(stored.model.coef, computed.model.coef)


def test_a_row_at_the_margin_is_always_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    # The compiled loop and the guess ahead may round a margin of 1 differently.
    blocks, gram, target = feature_banks()
    problem = make_problem(gram, target, p=1.25, C=2.0)
    stored = Obscure(random_state=0).solve(problem)

    def nothing_likely(_: MirrorDescent, index: np.ndarray) -> np.ndarray:
        return np.zeros(len(index), dtype=bool)

    monkeypatch.setattr(MirrorDescent, "_likely", nothing_likely)
    computed = Obscure(random_state=0).solve(replace(problem, bank=blocks))
    assert computed.objective == pytest.approx(stored.objective, rel=1e-8)


def test_a_stack_is_its_own_cache() -> None:
    _, gram, _ = feature_banks()
    cache = RowCache(gram)
    assert cache.rows is gram.stack
    assert np.array_equal(cache.slots, np.arange(40))


def test_a_full_cache_forgets_its_oldest_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "ROW_CACHE_BYTES", 1)
    monkeypatch.setattr(mirror, "PREFETCHED_ROWS", 4)
    blocks, gram, _ = feature_banks()
    cache = RowCache(blocks)
    assert len(cache.rows) == 4
    for wanted in ([5, 6], [7], [8, 5, 9, 10, 11, 12], [1, 1, 2]):
        cache.fill(np.array(wanted))
        assert cache.slots[wanted[0]] >= 0
        for row in np.flatnonzero(cache.slots >= 0):
            assert np.allclose(cache.rows[cache.slots[row]], gram.stack[row])
        taken = cache.slots[cache.slots >= 0]
        assert len(np.unique(taken)) == len(taken)
    assert set(np.flatnonzero(cache.slots >= 0)) == {10, 11, 1, 2}


def test_a_restored_cache_holds_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "ROW_CACHE_BYTES", 1)
    monkeypatch.setattr(mirror, "PREFETCHED_ROWS", 5)
    blocks, _, _ = feature_banks()
    rng = np.random.default_rng(0)
    cache = RowCache(blocks)
    for _ in range(30):
        wanted = rng.permutation(40)[: rng.integers(1, 6)]
        wanted = wanted[cache.slots[wanted] < 0]
        if len(wanted):
            cache.fill(wanted)
        other = RowCache(blocks)
        other.restore(cache.state())
        assert np.array_equal(other.slots, cache.slots)
        known = cache.slots[cache.slots >= 0]
        assert np.array_equal(other.rows[known], cache.rows[known])
        assert len(cache.state()["batches"]) <= 5


def test_known_rows_are_not_computed_again() -> None:
    blocks, _, _ = feature_banks()
    asked: list[int] = []
    original = blocks.rows

    def counted(index: np.ndarray) -> np.ndarray:
        asked.extend(index.tolist())
        return original(index)

    blocks.rows = counted
    cache = RowCache(blocks)
    cache.fill(np.array([3, 4, 5]))
    cache.fill(np.array([6, 4, 3, 6]))
    assert asked == [3, 4, 5, 6]
