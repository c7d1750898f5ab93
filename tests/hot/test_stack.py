"""Loops over a Gram stack touch the slice they are given, and only that."""

from __future__ import annotations

import os
import signal
import time
import warnings

import numpy as np
import pytest

from manykernels.base import machine
from manykernels.base.machine import in_slices
from manykernels.hot import stack as hot

rng = np.random.default_rng(0)
ROOT = rng.normal(size=(3, 9, 9))
STACK = np.ascontiguousarray((ROOT @ ROOT.transpose(0, 2, 1)).transpose(1, 0, 2))
WEIGHTS = np.array([0.5, 0.0, 2.0])
ROWS = np.array([8, 1, 4, 4])
COMBINED = np.einsum("f,ifj->ij", WEIGHTS, STACK)
# The kernels of a row side by side, or one matrix after the other.
TABLES = [
    (STACK.reshape(27, 9), (3, 1)),
    (np.ascontiguousarray(STACK.transpose(1, 0, 2)).reshape(27, 9), (1, 9)),
]
each_table = pytest.mark.parametrize("table", TABLES)
KERNELS_LAST = np.ascontiguousarray(STACK.transpose(0, 2, 1))


@each_table
def test_combine_rows(table: tuple) -> None:
    out = np.full((4, 9), np.nan)
    hot.combine_rows(*table, WEIGHTS, ROWS, out, 1, 3)
    assert np.allclose(out[1:3], COMBINED[ROWS[1:3]])
    assert np.all(np.isnan(out[[0, 3]]))


@each_table
def test_gather_block(table: tuple) -> None:
    out = np.full((4, 3, 4), np.nan)
    hot.gather_block(*table, ROWS, out, 2, 4)
    assert np.array_equal(out[2:], STACK[ROWS[2:]][:, :, ROWS])
    assert np.all(np.isnan(out[:2]))


@each_table
def test_quadratic_forms_add_up_over_slices(table: tuple) -> None:
    coef = rng.normal(size=(9, 2))
    coef[[3, 5]] = 0.0
    support = np.flatnonzero(coef.any(axis=1))
    by_output = np.ascontiguousarray(coef.T)
    first = hot.quadratic_forms(*table, STACK.shape[1], by_output, support, 0, 3)
    rest = hot.quadratic_forms(
        *table, STACK.shape[1], by_output, support, 3, len(support)
    )
    assert np.allclose(first + rest, np.einsum("ik,ifj,jk->f", coef, STACK, coef))


def test_combine_kernels_last() -> None:
    out = np.full((4, 9), np.nan)
    hot.combine_pairs(KERNELS_LAST, WEIGHTS, ROWS, np.arange(9), out, 1, 3)
    assert np.allclose(out[1:3], COMBINED[ROWS[1:3]])
    assert np.all(np.isnan(out[[0, 3]]))


def test_gather_kernels_last() -> None:
    out = np.full((4, 3, 2), np.nan)
    hot.gather_given(KERNELS_LAST, ROWS, ROWS[:2], out, 2, 4)
    assert np.array_equal(out[2:], STACK[ROWS[2:]][:, :, ROWS[:2]])
    assert np.all(np.isnan(out[:2]))


def test_quadratic_forms_kernels_last_add_up_over_slices() -> None:
    coef = rng.normal(size=(9, 2))
    coef[[3, 5]] = 0.0
    support = np.flatnonzero(coef.any(axis=1))
    turns, by_output = rng.permutation(len(support)), coef[support].T.copy()
    given = (KERNELS_LAST, by_output, support, turns)
    first = hot.quadratic_forms_given(*given, 0, 3)
    rest = hot.quadratic_forms_given(*given, 3, len(support))
    assert np.allclose(first + rest, np.einsum("ik,ifj,jk->f", coef, STACK, coef))


def facts_of(stack: np.ndarray, tile: int, bands: np.ndarray, *part: int):
    words = stack.view(np.uint32 if stack.shape[2] * stack.itemsize % 8 else np.uint64)
    return hot.stack_facts(stack, words, tile, bands, *part)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("n_kernels", [1, 4, 7])
@pytest.mark.parametrize("tile", [1, 4, 50])
def test_facts_of_a_stack(tile: int, n_kernels: int, symmetric: bool, dtype) -> None:
    stack = rng.normal(size=(9, 9, n_kernels)).astype(dtype)
    if symmetric:
        stack = stack + stack.transpose(1, 0, 2)
        assert np.array_equal(stack, stack.transpose(1, 0, 2))
    gaps = np.abs(stack - stack.transpose(1, 0, 2)).max(axis=(0, 1))
    bands = np.arange(0, 9, tile)[::-1].copy()
    parts = [facts_of(stack, tile, bands, b, b + 1) for b in range(len(bands))]
    above = np.triu(np.ones((9, 9), dtype=bool))
    facts = np.stack(parts)
    assert np.array_equal(facts[:, 1].max(axis=0), gaps)
    assert np.all(facts[:, 0].max(axis=0) >= np.abs(stack[above]).max(axis=0))
    assert np.all(facts[:, 0].max(axis=0) <= np.abs(stack).max(axis=(0, 1)))
    assert np.isfinite(facts).all()
    for places in ([(0, 8)], [(8, 0)], [(5, 5)], [(2, 7), (7, 2)]):
        for value in (np.nan, np.inf, -np.inf):
            broken = stack.copy()
            for i, j in places:
                broken[i, j, -1] = value
            total = facts_of(broken, tile, bands, 0, len(bands))[2]
            assert np.isfinite(total).tolist() == [True] * (n_kernels - 1) + [False]


@pytest.mark.parametrize("n_rows", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("n_threads", [1, 3, 8])
def test_slices_cover_every_row_once(
    n_rows: int, n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "available_threads", lambda: n_threads)
    slices = in_slices(n_rows, 1e12, lambda start, stop: list(range(start, stop)))
    assert [i for part in slices for i in part] == list(range(n_rows))
    assert len(slices) == max(1, min(n_rows, n_threads))


def test_small_work_stays_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_threads", lambda: 4)
    whole = in_slices(10, 0, lambda start, stop: (start, stop))
    assert whole == [(0, 10)]


def test_errors_in_threads_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_threads", lambda: 2)

    def fail(start: int, stop: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_slices(4, 1e12, fail)


def test_slices_within_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker does its own slices itself: waiting for another could be for ever."""
    monkeypatch.setattr(machine, "available_threads", lambda: 2)

    def inner(start: int, stop: int) -> int:
        return stop - start

    def outer(start: int, stop: int) -> int:
        return sum(in_slices(100, 1e12, inner))

    assert in_slices(8, 1e12, outer) == [100, 100]


def test_all_slices_have_ended_when_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_threads", lambda: 2)
    ended = []

    def work(start: int, stop: int) -> None:
        if start == 0:
            raise ZeroDivisionError
        time.sleep(0.05)
        ended.append(start)

    with pytest.raises(ZeroDivisionError):
        in_slices(4, 1e12, work)
    assert ended == [2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_slices_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child of a process with workers has none of them, and makes its own."""
    monkeypatch.setattr(machine, "available_threads", lambda: 2)
    assert sum(in_slices(10, 1e12, lambda a, b: b - a)) == 10
    with warnings.catch_warnings(action="ignore"):  # threads and fork
        child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that waits for ever fails as well
        os._exit(sum(in_slices(7, 1e12, lambda a, b: b - a)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
