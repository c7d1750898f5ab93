"""The compiled proximal steps against those of `manykernels.norms`."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.hot import prox
from manykernels.norms import (
    ElasticNetMKL,
    GroupLasso,
    OverlappingGroups,
    PowerNorm,
    Regularizer,
    SparseMKL,
    SquaredL2,
    SquaredPNorm,
    SumOf,
)
from manykernels.norms.terms import term_codes

REGULARIZERS: list[Regularizer] = [
    SquaredL2(),
    GroupLasso(),
    SparseMKL(),
    SquaredPNorm(1.0),
    SquaredPNorm(1.3),
    SquaredPNorm(2.0),
    PowerNorm(1.0),
    PowerNorm(1.5),
    PowerNorm(3.0),
    ElasticNetMKL(0.5),
    OverlappingGroups([(0, 1), (1, 2)]),
    SumOf([SparseMKL(), GroupLasso()], [1.0, 0.1]),
]


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
def test_steps_equal_those_of_the_norms(regularizer: Regularizer) -> None:
    rng = np.random.default_rng(0)
    terms = regularizer.terms()
    codes = term_codes(terms, 4)
    for _ in range(200):
        norms = rng.exponential(size=4) * (rng.random(4) < 0.8)
        step = 10.0 ** rng.uniform(-6, 1)
        expected = norms
        for j, term in enumerate(terms):
            got = norms.copy()
            prox.prox_step(got, codes, j, step)
            assert np.allclose(got, term.prox(norms, step), rtol=1e-9, atol=1e-12)
            expected = term.prox(expected, step)
        prox.prox_steps(norms, codes, step)
        assert np.allclose(norms, expected, rtol=1e-9, atol=1e-12)


def test_codes_name_their_kinds() -> None:
    for place, kind in enumerate(prox.TERM_KINDS):
        assert getattr(prox, kind.upper()) == place
