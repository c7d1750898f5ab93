"""The compiled pass against the same code run by Python."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.hot.mirror_passes import (
    MirrorRule,
    MirrorState,
    hinge_sums,
    mirror_pass,
)
from manykernels.solvers.mirror import MirrorDescent
from tests.oracles.naive import hinge
from tests.oracles.toys import toy_problem

RULES = {
    "online": {"eta": 2.0, "online": True},
    "batch": {"radius": 3.0, "self_tuned": True},
    "pegasos": {"radius": 5.0},
}


def copied(state: MirrorState) -> MirrorState:
    return MirrorState(*(part.copy() for part in state))


def arguments(descent: MirrorDescent, rule: MirrorRule, order: np.ndarray) -> tuple:
    problem = descent.problem
    return (rule, problem.target, descent.importance, descent.pair_norms, order, 0)


@pytest.mark.parametrize("kind", list(RULES))
@pytest.mark.parametrize("p", [1.05, 1.5, 2.0])
def test_fused_equals_generic(kind: str, p: float) -> None:
    problem = toy_problem(40, n_rows=15, n_blocks=3, p=p, C=5.0, weighted=True)
    descent = MirrorDescent(problem)
    rule = MirrorRule(descent.problem.norm.q, descent.problem.reg, **RULES[kind])
    rows, slots = descent.cache.rows, descent.cache.slots
    fused, generic = copied(descent.state), copied(descent.state)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(15)
        rest = arguments(descent, rule, order)
        done = mirror_pass(rows, slots, fused, *rest)
        assert done == mirror_pass.py_func(rows, slots, generic, *rest)
        for name in MirrorState._fields:
            np.testing.assert_allclose(
                getattr(fused, name), getattr(generic, name), rtol=1e-9, atol=1e-12
            )
    assert fused.coef.any()


def test_a_missing_row_pauses_the_pass() -> None:
    problem = toy_problem(41, n_rows=12, n_blocks=2, p=1.5)
    descent = MirrorDescent(problem)
    rule = MirrorRule(descent.problem.norm.q, descent.problem.reg, eta=2.0, online=True)
    rows = descent.cache.rows
    order = np.arange(12)
    whole, parts = copied(descent.state), copied(descent.state)
    slots = np.full(12, -1)
    rest = arguments(descent, rule, order)[:-1]
    _, updates = mirror_pass(rows, np.arange(12), whole, *rest, 0)
    position, done, pauses = 0, 0, 0
    while position < 12:
        position, new = mirror_pass(rows, slots, parts, *rest, position)
        done += new
        if position < 12:
            assert slots[order[position]] < 0
            slots[order[position]] = order[position]
            pauses += 1
    assert done == updates == pauses
    assert np.array_equal(parts.coef, whole.coef)
    assert np.array_equal(parts.scores, whole.scores)


def test_cached_scores_are_kernels_times_coefficients() -> None:
    problem = toy_problem(42, n_rows=20, n_blocks=4, p=1.25, C=10.0)
    descent = MirrorDescent(problem)
    rule = MirrorRule(
        descent.problem.norm.q, descent.problem.reg, radius=4.0, self_tuned=True
    )
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(20)
        descent.run_pass(rule, order)
    state = descent.state
    expected = problem.bank.block_scores(state.coef)
    np.testing.assert_allclose(state.scores, expected, rtol=1e-9, atol=1e-9)
    norms = problem.bank.square_norms(state.coef)
    np.testing.assert_allclose(state.square_norms, norms, rtol=1e-9)


def test_hinge_sums_are_the_formulas() -> None:
    rng = np.random.default_rng(0)
    scores, coef = rng.normal(size=(3, 10)), rng.normal(size=(10, 3))
    target, bound = rng.integers(0, 3, 10), rng.uniform(0.5, 2.0, 10)
    loss, linear, largest = hinge_sums(0.5 * scores, 2.0, coef, target, bound)
    losses = [hinge(scores[:, i], target[i]) for i in range(10)]
    own = coef[np.arange(10), target]
    assert loss == pytest.approx(float(bound @ losses))
    assert linear == pytest.approx(float(own.sum()))
    assert largest == pytest.approx(max(0.0, float(np.max(own / bound))))
