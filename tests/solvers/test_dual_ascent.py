"""Dual ascent from sample to sample: what it says of every model on its way."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.solvers import DualAscent
from manykernels.solvers.dual_ascent import (
    SMALL_COEF_SHARE,
    AscentRounds,
    without_small_coef,
)
from manykernels.solvers.loop import relative_gap
from tests.oracles.toys import toy_problem


@pytest.mark.parametrize("p", [1.0, 1.25])
def test_models_on_the_way_are_worth_what_is_said(p: float) -> None:
    problem = toy_problem(3, n_rows=240, p=p, C=5.0)
    solver = DualAscent(tol=1e-3, subset=12, random_state=0)
    rounds = AscentRounds(problem, problem.zero(), solver)
    dropped, take_all = [], rounds._take_all

    def counted(sample):
        before = np.count_nonzero(rounds.coef.any(axis=1))
        found = take_all(sample)
        dropped.append(before - np.count_nonzero(rounds.coef.any(axis=1)))
        return found

    rounds._take_all = counted  # type: ignore[method-assign]
    seen = [iterate for iterate in rounds.iterates() if iterate is not None]
    assert len(dropped) == 1 and dropped[0] > 0
    assert len(seen) > 1
    for iterate in seen:
        model = iterate.snapshot()
        assert problem.objective(model) == pytest.approx(iterate.objective, rel=1e-9)
        assert problem.duality_gap(model, iterate.dual_snapshot()) >= 0.0
    assert relative_gap(seen[-1].objective, seen[-1].dual_bound) <= 1e-3


def test_light_rows_share_little_of_the_coefficients() -> None:
    coef = np.random.default_rng(0).exponential(size=(200, 3)) ** 2
    coef[::3] = 0.0
    left = without_small_coef(coef)
    kept = left.any(axis=1)
    assert np.array_equal(left[kept], coef[kept])
    gone = ~kept & coef.any(axis=1)
    weight = coef.sum(axis=1)
    assert 0.9 * SMALL_COEF_SHARE < weight[gone].sum() / weight.sum() < SMALL_COEF_SHARE
    assert weight[gone].max() <= weight[kept].min()
    assert not without_small_coef(np.zeros((4, 2))).any()
