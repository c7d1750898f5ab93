"""Centered alignments against the definition."""

import numpy as np
import pytest

from manykernels.banks import GramBank
from manykernels.banks import centered_alignment as module
from manykernels.banks.centered_alignment import alignments, target_alignments
from tests.oracles.toys import blobs, kernel_stack


@pytest.fixture
def stack():
    X, _ = blobs(30, 3, seed=0)
    return kernel_stack(X, 5, seed=0)


def centered(K):
    H = np.eye(len(K)) - 1.0 / len(K)
    return H @ K @ H


def aligned(A, B):
    A, B = centered(A), centered(B)
    return np.sum(A * B) / np.linalg.norm(A) / np.linalg.norm(B)


@pytest.mark.parametrize("block_bytes", [1, 2**26])
def test_between_kernels(stack, block_bytes, monkeypatch):
    monkeypatch.setattr(module, "ROW_BLOCK_BYTES", block_bytes)
    found = alignments(GramBank(stack))
    for f in range(5):
        for g in range(5):
            expected = aligned(stack[:, f, :], stack[:, g, :])
            assert found[f, g] == pytest.approx(expected, abs=1e-10)


def test_with_a_target(stack):
    Y = np.random.default_rng(0).normal(size=(30, 2)) + 5.0
    found = target_alignments(GramBank(stack), Y)
    expected = [aligned(stack[:, f, :], Y @ Y.T) for f in range(5)]
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_a_constant_kernel_is_aligned_with_nothing(stack):
    stack = np.ascontiguousarray(np.concatenate([stack, np.ones((30, 1, 30))], axis=1))
    found = alignments(GramBank(stack))
    assert np.all(found[-1] == 0.0) and np.all(np.isfinite(found))
