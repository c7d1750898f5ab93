"""Proximity operators against the equations that define them, to full precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from manykernels.norms.proximity import (
    prox_entries,
    prox_joint,
    prox_power,
    prox_sparse_mkl,
    prox_squared_l2,
    prox_squared_p,
)

norms = arrays(np.float64, st.integers(1, 6), elements=st.floats(0.0, 1e3))
steps = st.floats(1e-6, 1e3)


@given(b=norms, step=steps, q=st.floats(1.01, 6.0))
def test_power_solves_its_equation(b: np.ndarray, step: float, q: float) -> None:
    a = prox_power(b, step, q)
    assert np.all((a >= 0.0) & (a <= b))
    residual = a + step * q * a ** (q - 1.0) - b
    # Where a underflows, the equation cannot be met and a = 0 is right.
    assert np.all((np.abs(residual) <= 1e-9 * (1.0 + b)) | (a < 1e-150))


@given(b=norms, step=steps, p=st.floats(1.05, 1.95))
def test_squared_p_solves_its_equation(b: np.ndarray, step: float, p: float) -> None:
    a = prox_squared_p(b, step, p)
    # Entries that underflow add nothing to the norm, and their equation is void.
    size = np.sum(a**p) ** (1.0 / p)
    if size < 1e-100:
        assert b.max() < 1e-6 * (1.0 + step)
        return
    residual = a + step * size ** (2.0 - p) * a ** (p - 1.0) - b
    assert np.all((np.abs(residual) <= 1e-7 * (1.0 + b)) | (a < 1e-150))


@given(b=norms, step=steps)
def test_squared_p_has_its_ends(b: np.ndarray, step: float) -> None:
    assert np.array_equal(prox_squared_p(b, step, 1.0), prox_sparse_mkl(b, step))
    assert np.array_equal(prox_squared_p(b, step, 2.0), prox_squared_l2(b, step))


@given(b=norms, step=steps)
def test_joint_shrinks_the_length(b: np.ndarray, step: float) -> None:
    got = prox_joint(b, step)
    length = np.linalg.norm(b)
    assert np.linalg.norm(got) == pytest.approx(max(length - step, 0.0), abs=1e-9)
    assert got @ b == pytest.approx(np.linalg.norm(got) * length, rel=1e-9)


def test_entries_keep_their_signs() -> None:
    assert prox_entries(np.array([-2.0, 0.3, 2.0]), 0.5).tolist() == [-1.5, 0.0, 1.5]
