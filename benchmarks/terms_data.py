"""Tables with planted terms: 12 of one to three different columns, drawn alike often.

Coefficients are 1 to 2 standard deviations; correlated normal columns (0.6 between
neighbors), exponential and 0/1 columns; SNR is the variance of the signal over that of
the noise.
"""

from __future__ import annotations

import numpy as np

KINDS, TERMS, TEST = ("correlated", "skewed", "binary"), 12, 2000


def correlated(rng, n, r):
    X = rng.normal(size=(n, r))
    for j in range(1, r):
        X[:, j] = 0.6 * X[:, j - 1] + 0.8 * X[:, j]
    return X


def skewed(rng, n, r):
    return rng.exponential(size=(n, r))


def binary(rng, n, r):
    return (rng.random((n, r)) < rng.uniform(0.2, 0.8, size=r)).astype(float)


def planted(kind, r, n, snr, seed):
    """Training rows, test rows and the terms."""
    rng = np.random.default_rng([seed, r, n])
    X = globals()[kind](rng, n + TEST, r)
    terms = set()
    while len(terms) < TERMS:
        factors = rng.choice(r, size=rng.integers(1, 4), replace=False)
        terms.add(tuple(sorted(factors.tolist())))
    signal = np.zeros(n + TEST)
    for term in sorted(terms):
        z = X[:, list(term)].prod(axis=1)
        signal += rng.choice([-1, 1]) * rng.uniform(1.0, 2.0) * z / z.std()
    y = signal + signal.std() / np.sqrt(snr) * rng.normal(size=n + TEST)
    return (X[:n], y[:n]), (X[n:], y[n:]), terms
