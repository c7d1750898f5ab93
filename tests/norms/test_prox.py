"""Proximity operators against their definition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from manykernels.norms.proximity import (
    project_simplex,
    prox_elastic_net,
    prox_group_lasso,
    prox_power,
    prox_sparse_mkl,
    prox_squared_l2,
    prox_squared_p,
)

Prox = Callable[[np.ndarray, float], np.ndarray]
Penalty = Callable[[np.ndarray], float]

CASES = [
    pytest.param(prox_group_lasso, lambda a: a.sum(), id="group lasso"),
    pytest.param(prox_squared_l2, lambda a: 0.5 * a @ a, id="squared l2"),
    pytest.param(prox_sparse_mkl, lambda a: 0.5 * a.sum() ** 2, id="sparse MKL"),
    pytest.param(
        lambda b, step: prox_elastic_net(b, step, 0.3),
        lambda a: 0.15 * a @ a + 0.35 * a.sum() ** 2,
        id="elastic net",
    ),
    *(
        pytest.param(
            lambda b, step, q=q: prox_power(b, step, q),
            lambda a, q=q: np.sum(a**q),
            id=f"power {q}",
        )
        for q in (1.0, 1.2, 1.5, 2.0, 3.0)
    ),
    *(
        pytest.param(
            lambda b, step, p=p: prox_squared_p(b, step, p),
            lambda a, p=p: 0.5 * np.sum(a**p) ** (2.0 / p),
            id=f"squared p-norm {p}",
        )
        for p in (1.2, 1.6)
    ),
]

each_prox = pytest.mark.parametrize(("prox", "penalty"), CASES)
norms = arrays(np.float64, st.integers(1, 6), elements=st.floats(0.0, 10.0))
steps = st.floats(0.0, 5.0)


def cost(a: np.ndarray, b: np.ndarray, step: float, penalty: Penalty) -> float:
    return 0.5 * float((a - b) @ (a - b)) + step * float(penalty(a))


@each_prox
@settings(max_examples=40)
@given(b=norms, step=steps)
def test_prox_is_the_minimizer(
    prox: Prox, penalty: Penalty, b: np.ndarray, step: float
) -> None:
    got = prox(b, step)
    found = minimize(
        cost,
        0.5 * b,
        (b, step, penalty),
        bounds=[(0.0, None)] * len(b),
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    assert np.all(got >= 0.0)
    # The cost is strongly convex: a near-minimal cost means a near-minimal point.
    assert cost(got, b, step, penalty) <= found.fun + 1e-9
    assert np.allclose(got, found.x, atol=2e-4)


@each_prox
@given(b=norms, step=steps)
def test_prox_shrinks_in_order(
    prox: Prox, penalty: Penalty, b: np.ndarray, step: float
) -> None:
    got = prox(b, step)
    # A tiny step is lost in rounding, and numbers near the smallest have few digits.
    assert np.all(got <= b * (1.0 + 1e-14) + 1e-300)
    order = np.argsort(b, kind="stable")
    assert np.all(np.diff(got[order]) >= -1e-12)
    assert np.allclose(prox(b, 0.0), b)


@each_prox
@given(data=st.data(), step=steps)
def test_prox_does_not_spread(
    prox: Prox, penalty: Penalty, data: st.DataObject, step: float
) -> None:
    a = data.draw(norms)
    b = data.draw(arrays(np.float64, len(a), elements=st.floats(0.0, 10.0)))
    distance = np.linalg.norm(prox(a, step) - prox(b, step))
    assert distance <= np.linalg.norm(a - b) + 1e-9


@given(b=norms, step=st.floats(0.01, 5.0))
def test_the_threshold_of_sparse_mkl_is_its_own_sum(b: np.ndarray, step: float) -> None:
    got = prox_sparse_mkl(b, step)
    assert np.allclose(got, np.maximum(b - step * got.sum(), 0.0), atol=1e-9)


@each_prox
def test_nothing_stays_nothing(prox: Prox, penalty: Penalty) -> None:
    assert prox(np.zeros(3), 1.0).tolist() == [0.0, 0.0, 0.0]


def test_projection_on_the_simplex_is_the_nearest_point() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        point = rng.normal(size=4)
        got = project_simplex(point[None])[0]
        assert got.sum() == pytest.approx(1.0)
        assert np.all(got >= 0.0)
        others = rng.dirichlet(np.ones(4), size=200)
        distance = np.linalg.norm(got - point)
        assert np.all(np.linalg.norm(others - point, axis=1) >= distance - 1e-12)
