"""Wrapper methods: they approach what SPOM approaches."""

from __future__ import annotations

import pytest

from manykernels.compare.structured_wrappers import StructuredWrapper
from manykernels.norms import SparseMKL
from manykernels.structured import OnlineProximal
from tests.structured.test_online_proximal import chains, exact_optimum, words


@pytest.mark.parametrize("rule", ["gauss_seidel", "gradient"])
def test_wrappers_approach_the_optimum(rule: str) -> None:
    problem = chains(SparseMKL(), kernels=True)
    best = exact_optimum(chains(SparseMKL()), words()[2])
    seen = []
    found = StructuredWrapper(rule, 20, 100, 50, random_state=0).solve(
        problem, seen.append
    )
    assert best - 1e-6 <= found.objective <= 1.1 * best
    assert found.objective == pytest.approx(problem.objective(found.weights))
    assert found.kernel_weights.sum() == pytest.approx(1.0)
    assert found.kernel_weights[0] > found.kernel_weights[1]
    assert [line[0] for line in seen] == [100 + 50 * n for n in range(20)]
    online = OnlineProximal(400, "sqrt", 0.1, random_state=0).solve(problem)
    assert found.objective == pytest.approx(online.objective, rel=0.1)


def test_other_blocks_and_rules_are_refused() -> None:
    with pytest.raises(ValueError, match="dense kernels"):
        StructuredWrapper().solve(chains(SparseMKL()))
    with pytest.raises(ValueError, match="rule must be"):
        StructuredWrapper("newton")
