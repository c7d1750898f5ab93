"""Small data over which all products can be listed."""

import numpy as np

from manykernels.products.base import DenseKernels, RankOneKernels
from manykernels.products.indices import all_products


def columns(n=12, r=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, r))


def gaussians(X, gamma=0.7):
    """One RBF kernel per column."""
    return DenseKernels(
        np.stack([np.exp(-gamma * np.subtract.outer(x, x) ** 2) for x in X.T])
    )


def as_matrices(base):
    """Rank-one kernels as dense ones."""
    return DenseKernels(np.stack([np.outer(x, x) for x in base.columns.T]))


def mixed(X):
    """A linear, a Gaussian and a constant base kernel."""
    x = X[:, 0]
    return DenseKernels(
        np.stack(
            [
                np.outer(x, x),
                np.exp(-(np.subtract.outer(X[:, 1], X[:, 1]) ** 2)),
                np.full((len(X), len(X)), 0.5),
            ]
        )
    )


BASES = {
    "columns": lambda: RankOneKernels(columns(r=3)),
    "normalized columns": lambda: RankOneKernels(columns(r=3), normalized=True),
    "rank one as matrices": lambda: as_matrices(RankOneKernels(columns(r=3))),
    "gaussian": lambda: gaussians(columns(r=3)),
    "mixed": lambda: mixed(columns()),
}


def energies(base, coef, rho):
    """a' K_i a / rho_i^2 of every product, one by one."""
    degree = len(rho) - 1
    return {
        product: float(coef @ base.matrix(product) @ coef) / rho[len(product)] ** 2
        for product in all_products(base.n_base, degree)
    }


def regression(n=40, r=5, seed=0, noise=0.2):
    """Two interactions and a column, scaled and centered."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.7, 1.7, size=(n, r))
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * X[:, 3] ** 2 * X[:, 4]
    y = y + noise * rng.normal(size=n)
    return X, (y - y.mean()) / y.std()


def planted(r, seed=0, n=500, n_test=1000, n_terms=10, noise=0.0):
    """Sums of monomials of degree 1 to 3; noise is relative to the variance."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n + n_test, r))
    terms = set()
    while len(terms) < n_terms:
        # Position r stands for the constant: a uniform choice of lower degrees too.
        drawn = sorted(rng.integers(0, r + 1, size=3).tolist())
        term = tuple(j for j in drawn if j < r)
        if term:
            terms.add(term)
    y = sum(np.prod(X[:, list(term)], axis=1) for term in terms)
    y = y + np.sqrt(noise) * y.std() * rng.normal(size=len(y))
    return (X[:n], y[:n]), (X[n:], y[n:]), terms
