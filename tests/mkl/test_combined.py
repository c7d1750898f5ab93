"""One kernel out of many: against sums of single kernels, and in other learners."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_iris, make_blobs
from sklearn.decomposition import KernelPCA
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.svm import SVC

import manykernels as mk
from manykernels.kernels import RBF, Custom, Laplacian, Linear
from manykernels.kernels.kernel_set import KernelSet
from manykernels.mkl.combined_kernels import combined_pairs

RNG = np.random.default_rng(0)
TRAIN, NEW, OTHER = (RNG.normal(size=(n, 4)) for n in (40, 13, 9))


def negative(X, Y):
    """A kernel that is not positive semi-definite."""
    return np.tanh(X @ Y.T - 1.0)


KINDS = {
    "plain": [RBF(0.3), RBF(1.0), Linear(), Laplacian(columns=[0, 1])],
    "unnormalized": [Linear(normalize=None), Linear(normalize="trace")],
    "centered": [RBF(0.3, center=True), Linear(center=True), Laplacian(center=True)],
    "clipped": [Custom(negative, normalize="trace"), RBF(0.3)],
    "mapped": [RBF(0.3, approximate="nystroem", rank=10), Linear()],
}


def in_one_set(kernels, X, psd="clip"):
    return KernelSet.fit(kernels, X, dtype=np.float64, psd=psd, random_state=0)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_are_training_rows_are_what_cross_says(kind):
    fitted = in_one_set(KINDS[kind], TRAIN)
    weights = np.linspace(0.5, 1.5, fitted.n_kernels)
    expected = np.concatenate(
        [np.einsum("f,fij->ij", weights, block) for _, block in fitted.cross(NEW)]
    )
    found = combined_pairs(fitted, weights, NEW, TRAIN)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    stack = np.einsum("f,fij->ij", weights, fitted.stack())
    np.testing.assert_allclose(combined_pairs(fitted, weights, TRAIN), stack, atol=1e-9)


@pytest.mark.parametrize("kind", ["plain", "unnormalized", "mapped"])
def test_new_rows_are_what_more_training_rows_would_be(kind):
    # Kernels without means and clips have an independent way: rows join the set.
    fitted = in_one_set(KINDS[kind], TRAIN)
    both = fitted.extend(np.concatenate([NEW, OTHER])).stack()
    weights = np.linspace(0.5, 1.5, fitted.n_kernels)
    expected = np.einsum("f,fij->ij", weights, both)[40:53, 53:]
    found = combined_pairs(fitted, weights, NEW, OTHER)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_centered_features_are_multiplied():
    fitted = in_one_set([RBF(0.3, center=True, normalize=None)], TRAIN)
    raw, means = rbf_kernel(NEW, OTHER, 0.3), rbf_kernel(TRAIN, gamma=0.3).mean()
    left = rbf_kernel(NEW, TRAIN, 0.3).mean(axis=1)
    right = rbf_kernel(OTHER, TRAIN, 0.3).mean(axis=1)
    expected = raw - left[:, None] - right + means
    found = combined_pairs(fitted, np.ones(1), NEW, OTHER)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_against_themselves_are_exactly_symmetric(kind, monkeypatch):
    # Many parts.
    monkeypatch.setattr("manykernels.mkl.combined_kernels.KERNEL_BLOCK_BYTES", 500)
    fitted = in_one_set(KINDS[kind], TRAIN).take([3, 7, 12])
    weights = np.ones(fitted.n_kernels)
    square = combined_pairs(fitted, weights, NEW)
    assert np.array_equal(square, square.T)
    np.testing.assert_allclose(
        square, combined_pairs(fitted, weights, NEW, NEW), atol=1e-9
    )
    assert np.linalg.eigvalsh(square).min() > -1e-9


@pytest.mark.parametrize("center", [False, True])
def test_sums_by_hand(center):
    X, y = load_iris(return_X_y=True)
    kernels = [
        RBF(0.5, columns=[0, 1]),
        Linear(columns=[2, 3], normalize=None, center=center),
    ]
    model = mk.MKLClassifier(kernels, p=1.5, random_state=0).fit(X[::2], y[::2])
    a, b = X[1::2], X[1:40:2]
    mean = X[::2, 2:].mean(axis=0) if center else 0.0
    expected = model.kernel_weights_ @ np.stack(
        [
            rbf_kernel(a[:, :2], b[:, :2], 0.5),
            linear_kernel(a[:, 2:] - mean, b[:, 2:] - mean),
        ]
    ).reshape(2, -1)
    found = mk.combined_kernel(model, a, b)
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-5)


def test_scores_are_products_with_the_support_rows():
    X, y = load_iris(return_X_y=True)
    for kernels in ("rbf; linear", "linear; cosine", "rbf:approximate=nystroem"):
        model = mk.MKLClassifier(kernels, random_state=0).fit(X, y)
        kernel = mk.combined_kernel(model, X, X[model.support_])
        scores = kernel @ model.dual_coef_
        np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-5)


def test_sparse_tables():
    X, y = load_iris(return_X_y=True)
    dense = mk.MKLClassifier("linear; cosine", random_state=0).fit(X, y)
    sparse = mk.MKLClassifier("linear; cosine", random_state=0).fit(sp.csr_array(X), y)
    found = mk.combined_kernel(sparse, sp.csr_array(X), sp.csr_array(X[:5]))
    same = mk.combined_kernel(dense, X, X[:5])
    np.testing.assert_allclose(found, same, atol=1e-2)


@pytest.mark.parametrize("missing", ["zero", "rescale", "complete"])
def test_views_of_which_some_rows_lack_one(missing):
    X, y = load_iris(return_X_y=True)
    views = {"sepal": X[:, :2], "petal": X[:, 2:].copy()}
    views["petal"][::7] = np.nan
    model = mk.MKLClassifier("rbf", missing=missing, random_state=0).fit(views, y)
    support = {name: table[model.support_] for name, table in views.items()}
    scores = mk.combined_kernel(model, views, support) @ model.dual_coef_
    if missing != "complete":  # training rows are completed without themselves
        np.testing.assert_allclose(scores, model.decision_function(views), atol=1e-5)
    square = mk.combined_kernel(model, views)
    assert np.array_equal(square, square.T)


def test_given_stacks_are_summed():
    X, y = load_iris(return_X_y=True)
    gammas = (0.1, 1.0)
    stack = np.stack([rbf_kernel(X, gamma=g) for g in gammas], axis=-1)
    model = mk.MKLClassifier("precomputed", random_state=0).fit(stack, y)
    square = mk.combined_kernel(model, stack)
    assert np.array_equal(square, square.T)
    np.testing.assert_allclose(square, stack @ model.kernel_weights_, atol=1e-6)
    some = mk.combined_kernel(model, stack[:7])
    np.testing.assert_allclose(some, square[:7])
    with pytest.raises(ValueError, match="Y must be left out with precomputed"):
        mk.combined_kernel(model, stack, stack)


def test_targets_with_weights_of_their_own():
    y = np.stack([TRAIN[:, 0], TRAIN[:, 2] ** 2], axis=1)
    model = mk.MKLRegressor(
        "rbf@0-1; rbf@2-3", per_target_weights=True, random_state=0
    ).fit(TRAIN, y)
    for k in range(2):
        kernel = mk.combined_kernel(model, NEW, TRAIN[model.support_], target=k)
        found = kernel @ model.dual_coef_[:, k] + model.intercept_[k]
        np.testing.assert_allclose(found, model.predict(NEW)[:, k], atol=1e-5)
    with pytest.raises(ValueError, match="target must be one of 0 to 1"):
        mk.combined_kernel(model, NEW)


def test_wrong_models_and_targets_are_refused_in_a_sentence():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(TypeError, match="needs a fitted MKLClassifier"):
        mk.combined_kernel(SVC().fit(X, y), X)
    with pytest.raises(ValueError, match="not fitted yet"):
        mk.combined_kernel(mk.MKLClassifier(), X)
    model = mk.MKLClassifier("rbf", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="target must be None"):
        mk.combined_kernel(model, X, target=0)
    assert not hasattr(model, "transform")  # or pipelines would take it for a step


def test_other_learners_use_the_learned_kernel():
    X, y = make_blobs([50, 50, 50], cluster_std=0.6, random_state=0)
    X = np.hstack([X, np.random.default_rng(1).normal(size=(150, 6))])
    model = mk.MKLClassifier("rbf@0-1; rbf@2-7", p=1.0, random_state=0)
    model.fit(X[::2], y[::2])
    train = mk.combined_kernel(model, X[::2])
    new = mk.combined_kernel(model, X[1::2], X[::2])
    svm = SVC(kernel="precomputed").fit(train, y[::2])
    assert svm.score(new, y[1::2]) > 0.9
    parts = KernelPCA(2, kernel="precomputed").fit(train)
    assert parts.transform(new).shape == (75, 2)
    found = SpectralClustering(3, affinity="precomputed", random_state=0)
    assert adjusted_rand_score(y[::2], found.fit_predict(train)) > 0.9


def statis_by_power(matrices):
    """The definition, step by step; powers of the matrix lead to the eigenvector."""
    n = len(matrices[0])
    center = np.eye(n) - 1.0 / n
    parts = [center @ matrix @ center for matrix in matrices]
    parts = [part / np.linalg.norm(part) for part in parts]
    agreement = np.array([[np.sum(a * b) for b in parts] for a in parts])
    weights = np.ones(len(parts))
    for _ in range(2000):
        weights = agreement @ weights
        weights /= weights.sum()
    return sum(w * part for w, part in zip(weights, parts, strict=True)), weights


def test_consensus_is_statis():
    X, _ = load_iris(return_X_y=True)
    matrices = [rbf_kernel(X[:, [f]]) for f in range(4)]
    kernel, weights = statis_by_power(matrices)
    found = mk.consensus_kernel(matrices, "precomputed", storage="float64")
    np.testing.assert_allclose(found.weights, weights, atol=1e-8)
    np.testing.assert_allclose(found.kernel, kernel, atol=1e-8)
    assert np.array_equal(found.kernel, found.kernel.T)
    parts = KernelPCA(2, kernel="precomputed").fit_transform(found.kernel)
    assert parts.shape == (150, 2)


def test_an_outsider_has_little_say():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(60, 2))
    tables = [shared + 0.1 * rng.normal(size=(60, 2)) for _ in range(3)]
    X = dict(zip("abcx", [*tables, rng.normal(size=(60, 2))], strict=True))
    found = mk.consensus_kernel(X, "rbf")
    assert (
        found.names[3] == "rbf@x" and found.weights[3] < 0.5 * found.weights[:3].min()
    )


def test_strangers_share_the_weight_and_constants_get_none():
    blocks = [np.diag(np.repeat(np.eye(3)[f], 4)) for f in range(3)]
    found = mk.consensus_kernel(blocks, "precomputed")
    np.testing.assert_allclose(found.weights, 1 / 3, atol=1e-6)
    X, _ = load_iris(return_X_y=True)
    assert mk.consensus_kernel(X, "rbf; constant").weights[1] == 0.0
    with pytest.raises(ValueError, match="got constant ones only"):
        mk.consensus_kernel(X, "constant")
