"""Objective, dual value and gap against the formulas written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manykernels.solvers import Auto
from manykernels.solvers.problem import Expansion
from tests.oracles.naive import (
    naive_dual,
    naive_dual_bound,
    naive_gap,
    naive_objective,
    naive_scores,
    naive_theta_norms,
)
from tests.oracles.toys import toy_problem

seeds = st.integers(0, 10_000)
exponents = st.sampled_from([1.0, 1.05, 1.25, 1.5, 2.0])


def random_case(seed: int, p: float):
    problem = toy_problem(
        seed % 50, n_rows=9, n_blocks=3, p=p, C=2.0, weighted=seed % 2 == 0
    )
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=(9, 3)) * rng.integers(0, 2, (9, 1))
    return problem, problem.bank.stack, Expansion(coef, rng.uniform(0.0, 1.0, 3))


@given(seed=seeds, p=exponents)
def test_objective_is_the_formula(seed: int, p: float) -> None:
    problem, stack, model = random_case(seed, p)
    assert problem.objective(model) == pytest.approx(
        naive_objective(stack, problem, model), rel=1e-10
    )
    scores = problem.bank.scores(model.coef, model.weights)
    assert np.allclose(scores, naive_scores(stack, model))
    norms = problem.theta_norms(model.coef)
    assert np.allclose(norms, naive_theta_norms(stack, model.coef))


@given(seed=seeds, p=exponents)
def test_dual_value_is_the_formula(seed: int, p: float) -> None:
    problem, stack, model = random_case(seed, p)
    infeasible = model.coef + 0.1
    norms = problem.theta_norms(infeasible)
    assert problem.dual_value(infeasible, norms) == -np.inf
    unit = problem.loss.make_feasible(model.coef, problem.target)
    coef = unit * problem.bound[:, None]
    value = problem.dual_value(coef, problem.theta_norms(coef))
    assert value == pytest.approx(naive_dual(stack, problem, coef), rel=1e-10)


@settings(max_examples=30)
@given(seed=seeds, p=exponents, feasible=st.booleans())
def test_duality_gap_is_the_formula(seed: int, p: float, feasible: bool) -> None:
    problem, stack, model = random_case(seed, p)
    if feasible:
        unit = problem.loss.make_feasible(model.coef, problem.target)
        model = Expansion(0.3 * unit * problem.bound[:, None], model.weights)
    gap = naive_gap(stack, problem, model)
    assert problem.duality_gap(model) == pytest.approx(gap, rel=1e-6)


@given(seed=seeds, p=exponents)
def test_weak_duality(seed: int, p: float) -> None:
    problem, stack, model = random_case(seed, p)
    other = problem.loss.make_feasible(-model.coef[::-1], problem.target)
    coef = other * problem.bound[:, None]
    assert naive_dual(stack, problem, coef) <= problem.objective(model) + 1e-12
    assert problem.duality_gap(model) >= 0.0


@given(seed=seeds, p=exponents)
def test_the_dual_bound_is_the_best_of_its_ray(seed: int, p: float) -> None:
    problem, stack, model = random_case(seed, p)
    unit = problem.loss.make_feasible(model.coef, problem.target)
    coef = unit * problem.bound[:, None]
    bound = problem.dual_bound(coef, problem.theta_norms(coef))
    values = [naive_dual(stack, problem, t * coef) for t in np.linspace(0.0, 5.0, 51)]
    assert bound >= max(values) - 1e-12
    searched = naive_dual_bound(stack, problem, coef)
    assert bound == pytest.approx(searched, rel=1e-6, abs=1e-12)
    # The bound does not depend on the length of what it is given.
    again = problem.dual_bound(7.0 * coef, problem.theta_norms(7.0 * coef))
    assert again == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("p", [1.0, 1.5])
def test_the_zero_model(p: float) -> None:
    problem = toy_problem(1, p=p, weighted=True)
    zero = problem.zero()
    assert problem.objective(zero) == pytest.approx(1.0)
    assert problem.duality_gap(zero) == pytest.approx(1.0)
    assert np.linalg.norm(zero.weights, problem.norm.weight_exponent) == pytest.approx(
        1.0
    )


def test_regularization_counts_weights() -> None:
    problem = toy_problem(1, C=2.0, weighted=True)
    total = problem.sample_weight.sum()
    assert problem.reg == pytest.approx(1.0 / (2.0 * total))
    assert np.allclose(problem.bound, 2.0 * problem.sample_weight)


@pytest.mark.parametrize("C", [1e4, 1e6, 1e8])
def test_a_certificate_can_be_evaluated_anew_at_a_huge_C(C: float) -> None:
    problem = toy_problem(0, n_rows=30, n_blocks=3, p=1.2, C=C)
    result = Auto(random_state=0).solve(problem)
    anew = problem.duality_gap(result.model, result.dual_coef)
    assert 0.0 <= anew <= 1.01 * result.duality_gap
