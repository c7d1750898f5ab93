"""Leave-one-out in closed form against as many fits as there are rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import solve

from manykernels.losses import Squared
from manykernels.solvers.regression.ridge import held_out_residuals
from tests.oracles.regression import toy_regression


def brute_force(problem, weights, values, centered):
    """y_i minus the prediction of ridge regression on the other rows."""
    K = np.tensordot(problem.bank.rows(np.arange(problem.n_rows)), weights, (1, 0))
    residuals = np.empty_like(values)
    for i in range(problem.n_rows):
        rest = np.delete(np.arange(problem.n_rows), i)
        weight = problem.sample_weight[rest]
        mean = np.average(values[rest], axis=0, weights=weight) if centered else 0.0
        ridge = np.diag(1.0 / (problem.C * weight))
        coef = solve(K[np.ix_(rest, rest)] + ridge, values[rest] - mean)
        residuals[i] = values[i] - mean - K[i, rest] @ coef
    return residuals


@pytest.mark.parametrize("centered", [False, True])
def test_a_row_that_stands_for_several_loses_one_of_them(centered):
    problem = toy_regression(0, Squared(), C=2.0, n_outputs=2)
    counts = np.random.default_rng(0).integers(1, 4, problem.n_rows)
    rows = np.repeat(np.arange(problem.n_rows), counts)
    mean = problem.target[rows].mean(axis=0) if centered else 0.0
    centered_target = problem.target - mean
    heavy = replace(problem, target=centered_target, sample_weight=counts.astype(float))
    repeated = replace(
        problem,
        bank=problem.bank.take(rows),
        target=centered_target[rows],
        sample_weight=np.ones(len(rows)),
    )
    weights = np.array([0.5, 0.2, 0.0, 0.3])
    np.testing.assert_allclose(
        held_out_residuals(heavy, weights, centered, counts)[rows],
        held_out_residuals(repeated, weights, centered),
        rtol=1e-8,
    )


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("C", [0.1, 30.0])
def test_closed_form_equals_brute_force(centered, weighted, C):
    problem = toy_regression(0, Squared(), C=C, n_outputs=2, weighted=weighted)
    values = problem.target + 3.0
    if centered:
        mean = np.average(values, axis=0, weights=problem.sample_weight)
        problem = replace(problem, target=values - mean)
    else:
        problem = replace(problem, target=values)
    weights = np.array([0.5, 0.2, 0.0, 0.3])
    np.testing.assert_allclose(
        held_out_residuals(problem, weights, centered),
        brute_force(problem, weights, values, centered),
        rtol=1e-8,
    )
