"""LP-beta next to a general convex solver and to SVMs fitted by hand."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.model_selection import ShuffleSplit, StratifiedKFold, cross_val_predict

import manykernels as mk
from manykernels.compare.combinations.lp_beta import mix_scores
from tests.mkl.test_bad_input import refused


def best_mixture(scores, target, weight, nu, per_class):
    """The linear program as the paper writes it, all constraints at once."""
    F, N, M = scores.shape
    B = cp.Variable((F, M if per_class else 1), nonneg=True)
    slack, margin = cp.Variable(N, nonneg=True), cp.Variable()
    constraints = [cp.sum(B, axis=0) == 1.0]
    for i, own in enumerate(target):
        for y in set(range(M)) - {own}:
            a, b = (own, y) if per_class else (0, 0)
            lead = B[:, a] @ scores[:, i, own] - B[:, b] @ scores[:, i, y]
            constraints.append(lead >= margin - slack[i])
    value = -margin + weight @ slack / (nu * weight.sum())
    return cp.Problem(cp.Minimize(value), constraints).solve(solver=cp.CLARABEL)


def value_of(mixture, scores, target, weight, nu):
    """What a mixture reaches with its margin, recomputed."""
    weights = np.atleast_2d(mixture.weights).T[:, None]
    mixed = np.sum(weights * scores, axis=0)
    own = mixed[np.arange(len(target)), target]
    mixed[np.arange(len(target)), target] = -np.inf
    slack = np.maximum(mixture.margin - (own - mixed.max(axis=1)), 0.0)
    return -mixture.margin + weight @ slack / (nu * weight.sum())


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("nu", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("unit", [1.0, 1e-6])
def test_mixtures_are_optimal(per_class, nu, unit):
    rng = np.random.default_rng(0)
    target = rng.integers(0, 4, 30)
    scores = rng.normal(size=(3, 30, 4))
    scores[:, np.arange(30), target] += np.array([[0.3], [1.0], [1.5]])
    weight = rng.uniform(0.5, 2.0, 30)
    expected = best_mixture(scores, target, weight, nu, per_class)
    found = mix_scores(unit * scores, target, weight, nu, per_class)
    reached = value_of(found, unit * scores, target, weight, nu)
    assert found.objective == pytest.approx(unit * expected, rel=1e-6)
    assert reached == pytest.approx(unit * expected, rel=1e-6)
    np.testing.assert_allclose(found.weights.sum(axis=-1), 1.0)
    assert found.weights.min() >= 0.0


@pytest.mark.parametrize("weights", ["shared", "per_class"])
def test_the_whole_method_by_hand(weights, three, exact):
    cv = StratifiedKFold(4)
    model = mk.compare.LPBetaClassifier("precomputed", weights, 0.3, 3.0, cv, **exact)
    model.fit(three.X, three.y)
    svm = mk.compare.AveragedKernelClassifier("precomputed", C=3.0, **exact)
    unseen = np.stack(
        [
            cross_val_predict(
                svm, three.X[..., f], three.y, cv=cv, method="decision_function"
            )
            for f in range(5)
        ]
    )
    per_class = weights == "per_class"
    ones = np.ones(len(three.y))
    expected = best_mixture(unseen, three.y, ones, 0.3, per_class)
    assert model.objective_ == pytest.approx(expected, rel=1e-4)
    assert model.kernel_weights_.shape == ((3, 5) if per_class else (5,))
    scores = sum(
        model.kernel_weights_[..., f]
        * svm.fit(three.X[..., f], three.y).decision_function(three.X_new[..., f])
        for f in range(5)
    )
    np.testing.assert_allclose(model.decision_function(three.X_new), scores, atol=1e-4)
    parts = model.kernel_contributions(three.X_new)
    np.testing.assert_allclose(parts.sum(axis=1), scores, atol=1e-4)


def test_irrelevant_kernels_get_little_weight(iris):
    rng = np.random.default_rng(0)
    X = np.column_stack([iris.X[:, 2:], rng.normal(size=(len(iris.X), 2))])
    model = mk.compare.LPBetaClassifier(
        "rbf@0; rbf@1; rbf@2; rbf@3", C=10, random_state=0
    )
    model.fit(X, iris.y)
    assert model.kernel_weights_[2:].sum() < 0.1


def test_folds_must_be_a_partition(iris):
    with refused("cv must leave every row out exactly once", "row", "StratifiedKFold"):
        mk.compare.LPBetaClassifier(cv=ShuffleSplit(3, random_state=0)).fit(
            iris.X, iris.y
        )


def test_bad_parameters(iris):
    for options, part in [
        ({"weights": "each"}, "'shared' or 'per_class', got 'each'"),
        ({"nu": 0.0}, "nu must be a number in (0, 1], got 0.0"),
    ]:
        with refused(part):
            mk.compare.LPBetaClassifier(**options).fit(iris.X, iris.y)
