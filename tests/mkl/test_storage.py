"""Where kernel values live must not change what is learned."""

import tracemalloc

import numpy as np
import pytest
from sklearn.datasets import load_digits

import manykernels as mk
from manykernels.banks import OnDemandBank, build
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from manykernels.losses import MulticlassHinge
from manykernels.norms import LpGroupNorm
from manykernels.solvers import DualAscent
from manykernels.solvers.problem import Problem

X, y = load_digits(return_X_y=True)
X, y = X[:250] / 16.0, y[:250]
KERNELS = ["rbf@0-31", "rbf@32-63", "polynomial:degree=2"]


@pytest.mark.parametrize("solver", ["auto", "obscure", "pegasos"])
@pytest.mark.parametrize("p", [1.1, 1.5])
def test_on_demand_learns_the_same(solver, p):
    stored, computed = (
        mk.MKLClassifier(
            KERNELS,
            p=p,
            solver=solver,
            storage=f"{storage}:float64",
            random_state=0,
        ).fit(X, y)
        for storage in ("gram", "on_demand")
    )
    assert computed.objective_ == pytest.approx(stored.objective_, rel=1e-9)
    np.testing.assert_allclose(
        computed.kernel_weights_, stored.kernel_weights_, atol=1e-8
    )
    np.testing.assert_array_equal(computed.predict(X), stored.predict(X))


def test_a_memory_limit_is_kept_by_computing_on_demand(caplog):
    kernels = KernelSet.fit(as_kernels(KERNELS), X)
    limit = build.gram_bytes(kernels) - 1
    with caplog.at_level("INFO", "manykernels"):
        limited = mk.MKLClassifier(KERNELS, memory_limit=limit, random_state=0)
        limited.fit(X, y)
    assert "as on_demand" in caplog.text
    free = mk.MKLClassifier(KERNELS, random_state=0).fit(X, y)
    assert limited.objective_ == pytest.approx(free.objective_, rel=1e-4)


def test_working_sets_of_an_on_demand_bank_are_certified():
    kernels = KernelSet.fit(as_kernels(KERNELS), X, dtype=np.float64)
    problem = Problem(
        OnDemandBank(kernels),
        y,
        10,
        MulticlassHinge(),
        LpGroupNorm(1.0),
        1.0,
        np.ones(len(y)),
    )
    result = DualAscent(subset=40, tol=1e-4, random_state=0).solve(problem)
    assert result.converged
    assert problem.duality_gap(result.model, result.dual_coef) <= 1.01e-4 * (
        problem.objective(result.model)
    )


@pytest.mark.parametrize("evaluate", ["predict", "kernel_contributions"])
@pytest.mark.parametrize("kernels", ["rbf", "rbf; linear; polynomial"])
def test_predictions_keep_to_the_memory_limit(evaluate: str, kernels: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = (X[:, 0] + 0.5 * rng.normal(size=400) > 0.0).astype(int)
    limit = 50_000_000
    model = mk.MKLClassifier(kernels, memory_limit=limit, random_state=0).fit(X, y)
    many = rng.integers(-2, 3, size=(50_000, 5))  # whole numbers: copied as floats
    whole = len(many) * len(model.support_) * len(model.kernel_names_) * 8
    tracemalloc.start()
    getattr(model, evaluate)(many)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= limit < whole
