"""Averaged, best and aligned kernels next to references that are slow and obvious."""

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import LinearSVC

import manykernels as mk
from manykernels.compare.combinations.aligned import ALIGNMENT_METHODS
from tests.oracles.optimum import cvxpy_optimum, explicit_features


def objective_of_mean(data, weights, C):
    """The certified optimum of the SVM on a weighted sum of kernels."""
    combined = (data.X @ weights)[:, None, :]
    return cvxpy_optimum(combined, data.y, int(data.y.max()) + 1, 2.0, C)


def test_averaged_is_an_svm_on_the_mean(data, exact):
    model = mk.compare.AveragedKernelClassifier("precomputed", C=3.0, **exact)
    model.fit(data.X, data.y)
    expected = objective_of_mean(data, np.full(5, 0.2), 3.0)
    assert model.objective_ == pytest.approx(expected, rel=1e-6)
    np.testing.assert_array_equal(model.kernel_weights_, np.full(5, 0.2))
    mean = data.X_new.mean(axis=-1)[:, model.support_]
    scores = mean @ model.dual_coef_
    scores = scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores
    np.testing.assert_allclose(model.decision_function(data.X_new), scores, atol=1e-9)


def test_averaged_is_liblinears_svm_with_twice_the_C(two, exact):
    """Two classes share a squared norm: w and -w have half of it each."""
    model = mk.compare.AveragedKernelClassifier("precomputed", C=0.7, **exact)
    model.fit(two.X, two.y)
    phi = explicit_features(two.X.mean(axis=-1)[:, None, :])[0]
    svm = LinearSVC(
        loss="hinge", C=1.4, fit_intercept=False, tol=1e-10, max_iter=10**6
    ).fit(phi, two.y)
    np.testing.assert_allclose(
        model.decision_function(two.X), svm.decision_function(phi), atol=1e-4
    )


def test_averaged_is_mkl_with_p_two(data, exact):
    model = mk.compare.AveragedKernelClassifier("precomputed", C=2.0, **exact)
    rival = mk.MKLClassifier("precomputed", p=2.0, C=2.0 / 5, **exact)
    np.testing.assert_allclose(
        model.fit(data.X, data.y).decision_function(data.X_new),
        rival.fit(data.X, data.y).decision_function(data.X_new),
        atol=1e-4,
    )


# --- best -------------------------------------------------------------------


def test_best_kernel_has_the_scores_of_a_search_by_hand(data, exact):
    cv, Cs = StratifiedKFold(3), [0.1, 10.0]
    model = mk.compare.BestKernelClassifier("precomputed", Cs=Cs, cv=cv, **exact)
    model.fit(data.X, data.y)
    expected = [
        cross_val_score(
            mk.compare.AveragedKernelClassifier("precomputed", C=C, **exact),
            data.X[..., f],
            data.y,
            cv=cv,
        ).mean()
        for f in range(5)
        for C in Cs
    ]
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], expected)
    best = int(np.argmax(expected))
    assert model.best_index_ == best and model.best_score_ == max(expected)
    assert model.best_kernel_ == f"precomputed@{best // 2}"
    assert model.best_C_ == Cs[best % 2]
    alone = mk.compare.AveragedKernelClassifier("precomputed", C=model.best_C_, **exact)
    K, K_new = data.X[..., best // 2], data.X_new[..., best // 2]
    np.testing.assert_allclose(
        model.decision_function(data.X_new),
        alone.fit(K, data.y).decision_function(K_new),
        atol=1e-4,
    )


def test_one_C_is_no_number_of_them(two):
    model = mk.compare.BestKernelClassifier("precomputed", C=10, cv=2).fit(two.X, two.y)
    assert model.cv_results_["param_C"].tolist() == [10.0] * 5 and model.best_C_ == 10


def test_folds_listed_by_hand_speak_of_all_rows(two, exact):
    """Rows of weight zero keep their numbers."""
    weight = (np.arange(len(two.y)) % 4 > 0).astype(float)
    kept = np.flatnonzero(weight)
    folds = list(StratifiedKFold(3).split(two.X, two.y))
    place = {row: k for k, row in enumerate(kept)}
    among = [
        tuple([place[row] for row in part if row in place] for part in fold)
        for fold in folds
    ]
    for make in (mk.compare.BestKernelClassifier, mk.compare.LPBetaClassifier):
        model = make("precomputed", cv=folds, **exact)
        small = make("precomputed", cv=among, **exact)
        model.fit(two.X, two.y, weight)
        small.fit(two.X[kept][:, kept], two.y[kept])
        np.testing.assert_allclose(
            model.kernel_weights_, small.kernel_weights_, atol=1e-6
        )


# --- alignment --------------------------------------------------------------


def centered_products(X, y):
    n = len(y)
    H = np.eye(n) - 1.0 / n
    own = np.eye(int(y.max()) + 1)[y]
    target = H @ own @ own.T @ H
    centered = [H @ X[..., f] @ H for f in range(X.shape[-1])]
    products = np.array([[np.sum(A * B) for A in centered] for B in centered])
    return products, np.array([np.sum(A * target) for A in centered])


def test_alignf_solves_the_papers_problem(data, exact):
    cp = pytest.importorskip("cvxpy")
    products, aims = centered_products(data.X, data.y)
    scale = aims.max()
    v = cp.Variable(len(aims), nonneg=True)
    quadratic = cp.quad_form(v, cp.psd_wrap(products / scale))
    cp.Problem(cp.Minimize(quadratic - 2.0 * (aims / scale) @ v)).solve(
        solver=cp.CLARABEL
    )
    expected = v.value / v.value.sum()
    model = mk.compare.AlignmentClassifier("precomputed", **exact).fit(data.X, data.y)
    np.testing.assert_allclose(model.kernel_weights_, expected, atol=1e-5)

    def alignment(weights):
        return aims @ weights / np.sqrt(weights @ products @ weights)

    rng = np.random.default_rng(0)
    rivals = [*np.eye(len(aims)), *rng.dirichlet(np.ones(len(aims)), 200)]
    assert alignment(model.kernel_weights_) >= max(map(alignment, rivals)) - 1e-12


def test_align_weighs_kernels_by_their_own_alignment(data, exact):
    model = mk.compare.AlignmentClassifier("precomputed", "align", **exact)
    model.fit(data.X, data.y)
    ranks = mk.rank_kernels(data.X, data.y, "precomputed")
    scores = np.array([score for _, score, _ in sorted(ranks, key=lambda r: r[2])])
    np.testing.assert_allclose(
        model.kernel_weights_, scores / scores.sum(), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("method", ALIGNMENT_METHODS)
def test_alignment_with_copies_and_constant_kernels(method, two, exact):
    flat = np.ones_like(two.X[..., 0])
    X = np.stack([two.X[..., 0], two.X[..., 0], flat], axis=-1)
    model = mk.compare.AlignmentClassifier("precomputed", method, **exact).fit(X, two.y)
    assert model.kernel_weights_[2] == pytest.approx(0.0, abs=1e-6)
    only_flat = mk.compare.AlignmentClassifier("precomputed", method, **exact)
    only_flat.fit(np.stack([flat, flat], axis=-1), two.y)
    np.testing.assert_allclose(only_flat.kernel_weights_, [0.5, 0.5])


@pytest.mark.parametrize("method", ALIGNMENT_METHODS)
def test_weights_of_rows_count_as_copies_in_an_alignment(method, three):
    counts = np.random.default_rng(0).integers(1, 4, len(three.y))
    own = np.eye(3)[three.y]
    rows = np.repeat(np.arange(len(three.y)), counts)
    weighted = ALIGNMENT_METHODS[method](three.bank, own, counts.astype(float))
    ones = np.ones(len(rows))
    repeated = ALIGNMENT_METHODS[method](three.bank.take(rows), own[rows], ones)
    np.testing.assert_allclose(
        weighted / weighted.sum(), repeated / repeated.sum(), atol=1e-9
    )
