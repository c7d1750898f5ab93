"""Sweeps in host memory: which rows take part, and the kernel rows that are held."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.banks import GramBank
from manykernels.solvers import working_set
from manykernels.solvers.working_set import HostSweeps
from tests.oracles.toys import blobs, kernel_stack

N = 150


@pytest.mark.parametrize("most", [N, 60], ids=["room for all", "room for some"])
def test_scores_stay_those_of_the_coefficients(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working_set, "MIN_NEW_ROWS", 4)
    X, target = blobs(N, 3, seed=1)
    stack, weights = kernel_stack(X, 2, seed=1), np.array([0.5, 2.0])
    whole = np.einsum("f,ifj->ij", weights, stack)
    rng = np.random.default_rng(0)
    sweeps = HostSweeps(GramBank(stack), target, np.full(N, 0.3), rng, most)
    sweeps.begin(weights)
    coef = np.zeros((N, 3))
    scores = sweeps.scores(coef)
    sizes = []
    for _ in range(15):
        sweeps.ascend(coef, scores, 1e-3)
        assert scores == pytest.approx((whole @ coef).T, abs=1e-9)
        held = sweeps.owners
        assert np.array_equal(sweeps.places[held], np.arange(len(held)))
        assert sweeps.values[: len(held)] == pytest.approx(whole[held])
        assert len(held) <= most
        sizes.append(len(held))
    assert sizes[0] <= 4 < sizes[-1]
