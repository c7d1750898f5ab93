"""Kernels by their formulas, one pair of rows at a time: the oracle of these tests."""

import numpy as np


def cross(fitted, X, **options):
    """Values of new rows in one array, shape (F, n, N)."""
    return np.concatenate([b for _, b in fitted.cross(X, **options)], axis=1)


def linear(x, y, k):
    return x @ y


def cosine(x, y, k):
    norm = np.sqrt((x @ x) * (y @ y))
    return x @ y / norm if norm else 0.0


def polynomial(x, y, k):
    return (k.gamma * (x @ y) + k.coef0) ** k.degree


def rbf(x, y, k):
    return np.exp(-k.gamma * np.sum((x - y) ** 2))


def laplacian(x, y, k):
    return np.exp(-k.gamma * np.sum(np.abs(x - y)))


def chi_squared(x, y, k):
    total = x + y
    ratio = (x - y) ** 2 / np.where(total > 0, total, 1.0)
    return np.exp(-k.gamma * ratio.sum())


def intersection(x, y, k):
    return np.minimum(x, y).sum()


def bspline(x, y, k):
    return max(0.0, 1.0 - np.sqrt(np.sum((x - y) ** 2)) / k.width) ** k.degree


def constant(x, y, k):
    return 1.0


def custom(x, y, k):
    return float(np.asarray(k.function(x[None], y[None]))[0, 0])


FORMULAS = {
    f.__name__: f
    for f in (
        linear,
        cosine,
        polynomial,
        rbf,
        laplacian,
        chi_squared,
        intersection,
        bspline,
        constant,
        custom,
    )
}


def gram(kernel, A, B):
    """k(a, b) for all pairs by a double loop, before scaling."""
    formula = FORMULAS[kernel.kind]
    return np.array([[formula(a, b, kernel) for b in B] for a in A])


def scaled(kernel, A, B, train):
    """The kernel after centering and normalization, straight from the definition."""
    K = gram(kernel, A, B)
    K_train = gram(kernel, train, train)
    d_a = np.array([gram(kernel, a[None], a[None])[0, 0] for a in A])
    d_b = np.array([gram(kernel, b[None], b[None])[0, 0] for b in B])
    d_train = np.diag(K_train).copy()
    if kernel.center:
        m_a = gram(kernel, A, train).mean(axis=1)
        m_b = gram(kernel, B, train).mean(axis=1)
        total = K_train.mean()
        K = K - m_a[:, None] - m_b[None, :] + total
        d_a, d_b = d_a - 2 * m_a + total, d_b - 2 * m_b + total
        d_train = d_train - 2 * K_train.mean(axis=1) + total
    if kernel.normalize == "trace":
        return K / d_train.mean()
    if kernel.normalize == "diagonal":
        norm = np.sqrt(np.outer(d_a, d_b))
        return np.divide(K, norm, out=np.zeros_like(K), where=norm > 0)
    return K
