"""How sure are the terms: intervals on rows that did not choose them, and stability."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm, t
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from manykernels.base.arrays import Array
from manykernels.inputs.parameters import Number, Whole, check_values, choose_generator
from manykernels.losses.one_score import Logistic, ScoreLoss, SquaredError
from manykernels.products.indices import product_name
from manykernels.products.interaction_table import original_scale, term_kind
from manykernels.products.polynomial_mkl import PolynomialMKL
from manykernels.products.preparing import check_X
from manykernels.products.sparse.quadratic_programs import MAX_QUADRATIC_STEPS


def term_intervals(model: Any, X: Any, y: Any, level: float = 0.95) -> dict[str, Any]:
    r"""Refit the terms of a model on other rows, with confidence intervals.

    The terms are those of the model; their coefficients are fitted to the rows given,
    without shrinkage, by least squares or maximum likelihood. Standard errors are
    :math:`H^{-1} (\sum_t g_t g_t^\top) H^{-1}`, which assumes nothing about the noise
    (HC3 for least squares: residuals as if every row had been left out).

    **Caveat.** The intervals hold for rows that took no part in choosing the terms:
    split the rows, fit on one part and use the other here. On the rows of the fit the
    intervals are too short, and terms chosen by chance look significant. Terms that
    were not chosen have no interval.

    Parameters
    ----------
    model : fitted PolynomialMKLRegressor, or PolynomialMKLClassifier for two classes
        With columns as base kernels.
    X, y : rows, of which there must be more than terms
    level : float in (0, 1)

    Returns
    -------
    dict of columns
        term, kind, coefficient (in the units of the table, intercept first),
        standard_error, low, high. ``pandas.DataFrame(found)`` works.

    Examples
    --------
    >>> from manykernels import PolynomialMKLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(400, 10))
    >>> y = 2 * X[:, 0] * X[:, 3] + 0.5 * rng.normal(size=400)
    >>> model = PolynomialMKLRegressor().fit(X[:200], y[:200])
    >>> found = term_intervals(model, X[200:], y[200:])
    >>> found["term"], bool(found["low"][1] < 2 < found["high"][1])
    (['1', 'x0 * x3'], True)
    """
    check_values({"level": level}, {"level": Number(0.0, 1.0)})
    fitted = require_terms(model)
    table = check_X(model, X, reset=False)
    loss, target = _loss_and_target(model, y)
    Z = np.column_stack([fitted.terms(table), np.ones(len(table))])
    if len(Z) <= Z.shape[1]:
        raise ValueError(
            f"Intervals of {Z.shape[1]} coefficients need more rows than that, got "
            f"{len(Z)}; give more rows, or fit a shorter list with C='bic'."
        )
    w, covariance = _sandwich(loss, Z, target)
    monomials, mapping, _ = original_scale(fitted)
    values = mapping @ w
    variances = np.einsum("ij,jk,ik->i", mapping, covariance, mapping)
    errors = np.sqrt(np.maximum(variances, 0.0))
    tail = 0.5 + 0.5 * level
    free = len(Z) - Z.shape[1]
    wide = t.ppf(tail, free) if loss.is_squared else norm.ppf(tail)
    names = model.column_names()
    return {
        "term": [product_name(monomial, names) for monomial in monomials],
        "kind": [term_kind(monomial) for monomial in monomials],
        "coefficient": values,
        "standard_error": errors,
        "low": values - wide * errors,
        "high": values + wide * errors,
    }


def require_terms(model: Any) -> Any:
    """Return the sum of monomials of a model with one score per row."""
    check_is_fitted(model, "interactions_")
    fitted = model.monomials()
    if fitted.coef.shape[1] != 1:
        raise ValueError(
            "Intervals need one score per row, got a model of "
            f"{fitted.coef.shape[1]} classes; fit one class against the others."
        )
    return fitted


def _loss_and_target(model: Any, y: Any) -> tuple[ScoreLoss, Array]:
    if not is_classifier(model):
        return SquaredError(), np.asarray(y, dtype=float)
    return Logistic(), np.where(np.asarray(y) == model.classes_[1], 1.0, -1.0)


def _sandwich(loss: ScoreLoss, Z: Array, target: Array) -> tuple[Array, Array]:
    """Return coefficients without a penalty, and their covariance."""
    w = np.zeros(Z.shape[1])
    for _ in range(1 if loss.is_squared else MAX_QUADRATIC_STEPS):
        scores = Z @ w
        curvature = np.maximum(loss.curvature(scores, target), 1e-12)
        H = Z.T @ (Z * curvature[:, None])
        step = np.linalg.lstsq(H, Z.T @ loss.gradient(scores, target), rcond=None)[0]
        w = w - step
        if float(np.abs(step).max(initial=0.0)) <= 1e-10 * (1.0 + np.abs(w).max()):
            break
    inverse = np.linalg.pinv(H, hermitian=True)
    slopes = loss.gradient(Z @ w, target)
    if loss.is_squared:
        leverage = np.einsum("ti,ij,tj->t", Z, inverse, Z)
        slopes = slopes / np.maximum(1.0 - leverage, 1e-6)
    middle = Z.T @ (Z * np.square(slopes)[:, None])
    return w, inverse @ middle @ inverse


def term_stability(
    estimator: PolynomialMKL,
    X: Any,
    y: Any,
    n_pairs: int = 10,
    random_state: Any = None,
) -> dict[str, Any]:
    """Return how often every term is chosen on random halves of the rows.

    The rows are split into two halves at random, `n_pairs` times, and a copy of the
    estimator is fitted on both. A term that depends on few rows, or that is nearly
    equal to another, is chosen on some halves only.

    Parameters
    ----------
    estimator : PolynomialMKLRegressor or PolynomialMKLClassifier
        It is not changed; ``C="bic"`` asks for lists only.
    X, y : as in its fit
    n_pairs : int
    random_state : int, RandomState or None

    Returns
    -------
    dict of columns
        term, kind, frequency, positive (share of the fits with the term in which its
        coefficient is above zero), most frequent first.

    References
    ----------
    Shah and Samworth (2013), Variable selection with error control.

    Examples
    --------
    >>> from manykernels import PolynomialMKLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 6))
    >>> y = X[:, 0] * X[:, 3] + 0.1 * rng.normal(size=200)
    >>> found = term_stability(PolynomialMKLRegressor(2, C="bic"), X, y, n_pairs=2)
    >>> found["term"][0], float(found["frequency"][0])
    ('x0 * x3', 1.0)
    """
    check_values({"n_pairs": n_pairs}, {"n_pairs": Whole(example=10)})
    rng, labels = choose_generator(random_state), np.asarray(y)
    signs: dict[str, list[int]] = {}
    kinds: dict[str, str] = {}
    for rows in _halves(len(labels), n_pairs, rng):
        part = X.iloc[rows] if hasattr(X, "iloc") else np.asarray(X)[rows]
        table = clone(estimator).fit(part, labels[rows]).interactions_
        for name, kind, sign in zip(
            table["interaction"], table["kind"], table["sign"], strict=True
        ):
            signs.setdefault(name, []).append(int(sign))
            kinds[name] = kind
    order = sorted(signs, key=lambda name: -len(signs[name]))
    return {
        "term": order,
        "kind": [kinds[name] for name in order],
        "frequency": np.array([len(signs[name]) / (2 * n_pairs) for name in order]),
        "positive": np.array([np.mean(np.array(signs[name]) > 0) for name in order]),
    }


def _halves(n: int, n_pairs: int, rng: np.random.Generator) -> list[Any]:
    halves = []
    for _ in range(n_pairs):
        order = rng.permutation(n)
        halves += [np.sort(order[: n // 2]), np.sort(order[n // 2 :])]
    return halves
