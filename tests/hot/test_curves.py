"""Kernel values in one pass: equal to the formula."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.hot.curves import add_values

FLOAT = np.float32


def tile(seed: int = 0, n_columns: int = 37):
    rng = np.random.default_rng(seed)
    dot = rng.normal(size=(11, n_columns)).astype(FLOAT)
    sides = [rng.normal(size=n).astype(FLOAT) for n in (11, n_columns)]
    scales = [rng.uniform(0.5, 2.0, n).astype(FLOAT) for n in (11, n_columns)]
    return dot, sides, scales


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 5, 8])
def test_values_are_powers_or_exponentials_of_the_argument(degree: int) -> None:
    dot, (left, right), (rows, columns) = tile()
    out = np.ones_like(dot)
    add_values(dot, FLOAT(0.7), left, right, degree, rows, columns, out)
    argument = 0.7 * dot.astype(float) + left[:, None] + right
    function = np.exp(np.minimum(argument, 0.0)) if degree == 0 else argument**degree
    wanted = 1.0 + rows[:, None].astype(float) * columns * function
    np.testing.assert_allclose(out, wanted, rtol=2e-6, atol=2e-6)


def test_exponentials_keep_their_digits_over_the_whole_range() -> None:
    dot = -np.linspace(0.0, 120.0, 5001, dtype=FLOAT)[None, :]
    zero, one = np.zeros(1, FLOAT), np.ones(1, FLOAT)
    out = np.zeros_like(dot)
    many = np.zeros(5001, FLOAT), np.ones(5001, FLOAT)
    add_values(dot, FLOAT(1.0), zero, many[0], 0, one, many[1], out)
    wanted = np.exp(dot.astype(float))
    normal = wanted > np.finfo(FLOAT).tiny
    np.testing.assert_allclose(out[normal], wanted[normal], rtol=3e-7)
    assert np.all(out[wanted < 1e-39] == 0.0)


def test_overflow_stays_infinite() -> None:
    dot = np.full((1, 3), 1e30, FLOAT)
    one, three = np.ones(1, FLOAT), np.ones(3, FLOAT)
    out = np.zeros_like(dot)
    add_values(dot, FLOAT(1.0), one, three, 2, one, three, out)
    assert np.all(np.isinf(out))
