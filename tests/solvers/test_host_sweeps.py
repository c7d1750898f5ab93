"""Sweeps in the processor's memory: which rows take part, and the kernel among them."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.banks import GramBank
from manykernels.solvers import host_sweeps
from manykernels.solvers.host_sweeps import HostSweeps
from tests.oracles.toys import blobs, kernel_stack

N = 150


@pytest.mark.parametrize("most", [N, 60], ids=["room for all", "room for some"])
def test_the_kernel_among_active_rows_grows_while_others_wait(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_sweeps, "FEWEST_NEW", 4)
    X, target = blobs(N, 3, seed=1)
    stack, weights = kernel_stack(X, 2, seed=1), np.array([0.5, 2.0])
    whole = np.einsum("f,ifj->ij", weights, stack)
    rng = np.random.default_rng(0)
    sweeps = HostSweeps(GramBank(stack), target, np.full(N, 0.3), rng, most)
    sizes: list[tuple[int, int]] = []  # rows that took part before, and now
    find = HostSweeps._square

    def checked(self: HostSweeps, active: np.ndarray, waiting: bool) -> np.ndarray:
        before = len(self.rows)
        square = find(self, active, waiting)
        n = len(self.rows)
        assert square[:n, :n] == pytest.approx(whole[np.ix_(self.rows, self.rows)])
        assert np.isin(active, self.rows).all()
        assert n <= max(host_sweeps.FEW_OTHERS * len(active), len(active))
        assert len(square) <= most
        sizes.append((before, n))
        return square

    monkeypatch.setattr(HostSweeps, "_square", checked)
    sweeps.begin(weights)
    coef = np.zeros((N, 3))
    scores = sweeps.scores(coef)
    for _ in range(15):
        sweeps.ascend(coef, scores, 1e-3)
        assert scores == pytest.approx((whole @ coef).T, abs=1e-9)
    assert any(0 < before < n for before, n in sizes)
    if most == N:
        assert sizes[-1][0] == 0  # nothing is kept once no row waits
