"""The optimum of tiny problems against a general convex solver."""

import cvxpy as cp
import numpy as np
import pytest

from manykernels.losses.one_score import BinarySmoothedHinge, Logistic
from manykernels.products import (
    ColumnGeneration,
    RandomizedMirrorDescent,
    ShiftedEntropy,
)
from manykernels.products.base import RankOneKernels
from manykernels.products.indices import all_products
from manykernels.products.product_problem import ProductProblem
from tests.oracles.optimum import explicit_features, minimum, p_norm
from tests.products.toys import as_matrices, columns, gaussians, regression

RHO = np.array([1.0, 1.0, 1.0, 2.0])
X, Y = regression()
LABELS = np.where(Y > 0.1, 1.0, -1.0)


def cvxpy_value(problem):
    """min over w of (1/2 ||w||_{rho,p}^2 + C sum loss) / (C n), product by product."""
    products = all_products(problem.base.n_base, problem.degree)
    stack = np.stack([problem.base.matrix(i) for i in products], axis=1)
    features = explicit_features(stack)
    blocks = [cp.Variable(phi.shape[1]) for phi in features]
    scores = sum(phi @ w for phi, w in zip(features, blocks, strict=True))
    if problem.intercept:
        scores = scores + cp.Variable()
    norms = [
        problem.rho[len(i)] * cp.norm(w, 2)
        for i, w in zip(products, blocks, strict=True)
    ]
    y = problem.target
    if problem.loss.name == "squared":
        loss = 0.5 * cp.sum_squares(scores - y)
    elif problem.loss.name == "logistic":
        loss = cp.sum(cp.logistic(-cp.multiply(y, scores)))
    else:
        # The hinge smoothed by the width h: a Huber function of its excess.
        h = problem.loss.width
        slack = cp.Variable(len(y), nonneg=True)
        excess = cp.pos(1 - cp.multiply(y, scores) - slack)
        loss = cp.sum(slack) + cp.sum_squares(excess) / (2 * h)
    objective = 0.5 * cp.square(p_norm(norms, problem.p)) + problem.C * loss
    return minimum(objective) / problem.scale


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
@pytest.mark.parametrize(
    ("intercept", "normalized"), [(True, False), (False, False), (True, True)]
)
def test_column_generation_reaches_the_optimum(C, intercept, normalized):
    base = RankOneKernels(X, normalized)
    problem = ProductProblem(base, Y, RHO, C=C, p=1.0, intercept=intercept)
    # Single precision may cost a normalized look a millionth.
    tol = 1e-5 if normalized else 1e-9
    result = ColumnGeneration(tol=tol, top=10).solve(problem)
    assert result.objective == pytest.approx(cvxpy_value(problem), rel=max(tol, 1e-6))
    assert result.converged and result.duality_gap >= 0.0


@pytest.mark.parametrize(
    "loss", [Logistic(), BinarySmoothedHinge(0.5)], ids=lambda x: x.name
)
@pytest.mark.parametrize("C", [0.5, 10.0])
def test_column_generation_with_other_losses(loss, C):
    rows = slice(0, 25)
    base = RankOneKernels(X[rows])
    problem = ProductProblem(
        base, LABELS[rows], RHO[:3], C=C, p=1.0, loss=loss, intercept=False
    )
    result = ColumnGeneration(tol=1e-6, top=10).solve(problem)
    assert result.converged
    assert result.objective == pytest.approx(cvxpy_value(problem), rel=1e-5)


@pytest.mark.parametrize("C", [1.0, 30.0])
@pytest.mark.parametrize("loss", [None, Logistic()], ids=["squared", "logistic"])
def test_column_generation_over_gaussian_kernels(C, loss):
    base = gaussians(columns(20, 3, seed=1))
    target = LABELS[:20] if loss else Y[:20]
    options = {"loss": loss, "intercept": False} if loss else {"intercept": True}
    problem = ProductProblem(base, target, RHO[:3], C=C, p=1.0, **options)
    result = ColumnGeneration(tol=1e-6, top=4).solve(problem)
    assert result.converged
    assert result.objective == pytest.approx(cvxpy_value(problem), rel=1e-5)


@pytest.mark.parametrize("loss", [None, Logistic(), BinarySmoothedHinge()])
def test_columns_and_their_matrices_agree(loss):
    base = RankOneKernels(X)
    target = LABELS if loss else Y
    options = {"loss": loss, "intercept": False} if loss else {}
    solutions = [
        ColumnGeneration(tol=1e-7).solve(
            ProductProblem(kernels, target, RHO, C=5.0, p=1.0, **options)
        )
        for kernels in (base, as_matrices(base))
    ]
    one, two = solutions
    assert one.objective == pytest.approx(two.objective, rel=1e-6)
    np.testing.assert_allclose(one.model.coef, two.model.coef, atol=1e-3)


@pytest.mark.parametrize("p", [1.2, 4 / 3, 1.6])
def test_mirror_descent_approaches_the_optimum(p):
    problem = ProductProblem(RankOneKernels(X[:, :4]), Y, RHO[:3], C=3.0, p=p)
    solver = RandomizedMirrorDescent(
        1200, tol=0.0, patience=None, look_every=400, random_state=0
    )
    result = solver.solve(problem)
    best = cvxpy_value(problem)
    assert best * (1 - 1e-9) <= result.objective <= 1.02 * best
    # The certificate is honest: the optimum lies between the two values.
    assert result.objective - result.duality_gap <= best * (1 + 1e-9)
    assert result.relative_gap < 0.05


def test_mirror_descent_with_the_logistic_loss():
    base = RankOneKernels(X[:, :4])
    problem = ProductProblem(
        base, LABELS, RHO[:3], C=3.0, loss=Logistic(), intercept=False
    )
    solver = RandomizedMirrorDescent(
        800, tol=0.0, patience=None, look_every=400, random_state=0
    )
    result, best = solver.solve(problem), cvxpy_value(problem)
    assert best * (1 - 1e-9) <= result.objective <= 1.02 * best
    assert result.objective - result.duality_gap <= best * (1 + 1e-9)


def test_multiplicative_updates_approach_the_sparse_optimum():
    problem = ProductProblem(RankOneKernels(X[:, :4]), Y, RHO[:3], C=3.0, p=1.0)
    solver = RandomizedMirrorDescent(
        1200, 0.0, potential=ShiftedEntropy(), patience=None, random_state=0
    )
    best = ColumnGeneration(tol=1e-8).solve(problem).objective
    assert best <= solver.solve(problem).objective <= 1.05 * best
