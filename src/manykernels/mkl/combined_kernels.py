"""One kernel out of many: the learned sum, and the consensus without a target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from manykernels.banks import Storage, build_bank
from manykernels.banks.centered_alignment import centered_products, ratio
from manykernels.base.quoted import quoted
from manykernels.kernels.base import VALUE_RTOL
from manykernels.kernels.kernel_set import KernelSet
from manykernels.kernels.pairwise import (
    KERNEL_BLOCK_BYTES,
    make_symmetric,
    row_blocks,
)
from manykernels.mkl.estimator import MKLEstimator
from manykernels.mkl.ranking import fitted_kernels

CENTERED_ZERO_RTOL = 1e-6  # of the mean diagonal: smaller values are rounding
EQUAL_EIGENVALUE_RTOL = 1e-10  # closer eigenvalues are taken for one


def combined_kernel(
    model: Any, X: Any, Y: Any = None, *, target: int | None = None
) -> np.ndarray:
    r"""The learned kernel :math:`k(x, y) = \sum_f w_f k_f(x, y)` between any rows.

    The weights are `kernel_weights_`, and all constants (widths, means, scaling) are
    those of the training rows. Without Y the matrix is exactly symmetric. All rows are
    new rows: a nugget is zero between them.

    Parameters
    ----------
    model : fitted MKLClassifier, MKLRegressor, MKLSurvival or their searches
    X : table, views or kernel matrices, as in `predict`
        Rows of the result.
    Y : table or views, optional
        Columns of the result; X itself by default. Kernel matrices already say between
        which rows they are: with them the columns are the training rows, and there can
        be no Y.
    target : int, optional
        Whose weights, where every target has its own.

    Returns
    -------
    kernel : array of shape (n, m), float64

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from manykernels import MKLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifier("rbf@0-1; rbf@2-3", random_state=0).fit(X, y)
    >>> scores = combined_kernel(model, X, X[model.support_]) @ model.dual_coef_
    >>> bool(np.allclose(scores, model.decision_function(X), atol=1e-5))
    True
    """
    if not isinstance(model, MKLEstimator):
        raise TypeError(
            "combined_kernel needs a fitted MKLClassifier, MKLRegressor or MKLSurvival,"
            f" got {quoted(type(model).__name__)}; fit one of these first."
        )
    model._require_fitted()
    weights = _weights(model._model.weights_at_new_rows, target)
    return weighted_kernel(model, weights, X, Y)


def weighted_kernel(model: Any, weights: np.ndarray, X: Any, Y: Any) -> np.ndarray:
    """The same sum of a model's kernels with any weights."""
    kernels: KernelSet = model._model.kernels
    rows = model._read_new(X)
    if not kernels.are_given:
        others = None
        if Y is not None:
            others = model._read_new(Y)
        return combined_pairs(kernels, weights, rows, others)
    if Y is not None:
        raise ValueError(
            "Y must be left out with precomputed kernels, got a second stack; X alone "
            "says between which rows its values are."
        )
    return _combined_stack(kernels, weights, rows)


def combined_pairs(
    kernels: KernelSet, weights: np.ndarray, X: Any, Y: Any = None
) -> np.ndarray:
    """Return sum_f weights_f k_f(x_i, y_j) in float64, for any rows X and Y.

    Without Y the rows X against themselves, exactly symmetric. The constants are
    those of the training rows. Given matrices have no such values.

    Examples
    --------
    >>> from manykernels.kernels import Linear
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> kernels = KernelSet.fit([Linear(normalize=None)], [[1.0], [2.0]])
    >>> combined_pairs(kernels, np.array([2.0]), [[3.0], [4.0]], [[5.0]]).tolist()
    [[30.0], [40.0]]
    """
    fitted = kernels.only(np.flatnonzero(weights), np.float64)
    left = fitted.new_rows(X)
    right = left if Y is None else fitted.new_rows(Y)
    out = np.zeros((len(left[0]), len(right[0])))
    diagonal = np.zeros(len(right[0]))
    for group, a, b in zip(fitted.groups, left, right, strict=True):
        of_b = {f: fitted.scaling_of_new(group, f, b) for f in group.members}
        of_a = of_b
        if a is not b:
            of_a = {f: fitted.scaling_of_new(group, f, a) for f in group.members}
        for rows in row_blocks(len(a), len(b), 8, KERNEL_BLOCK_BYTES):
            # Of a symmetric matrix only what is right of the diagonal.
            columns = slice(rows.start if a is b else 0, len(b))
            for f, block in group.blocks(fitted, a.take(rows), b.take(columns)):
                side, other = of_a[f].take(rows), of_b[f].take(columns)
                block = fitted.scalings[f].finish(block, side, other)
                out[rows, columns] += weights[f] * block
        if Y is None:
            for f in group.members:
                own = fitted.new_diagonal(group, f, b, of_b[f])
                diagonal += weights[f] * own
    if Y is None:
        make_symmetric(out, diagonal)
    return out


class Consensus(NamedTuple):
    """A kernel matrix, the weight of every kernel in it, and the kernels' names."""

    kernel: np.ndarray
    weights: np.ndarray
    names: list[str]


def consensus_kernel(
    X: Any,
    kernels: Any = None,
    *,
    psd: Any = "check",
    storage: Storage | str = "auto",
    memory_limit: int | str | None = None,
    random_state: int | None = None,
) -> Consensus:
    r"""The kernel that most kernels agree with, without a target (STATIS).

    With :math:`S_f = H K_f H / \|H K_f H\|` and :math:`A_{fg} = \langle S_f, S_g
    \rangle`, the alignments (RV coefficients), the weights are the leading eigenvector
    of A, divided by its sum, and the kernel is :math:`\sum_f w_f S_f`. A kernel unlike
    all the others gets little weight; where several eigenvectors lead, all kernels have
    the same say in which.

    Parameters
    ----------
    X : table (array, CSR, data frame), views or kernel matrices
    kernels : None, str, Kernel, callable or list of these
        As in `MKLClassifier`.
    psd, storage, memory_limit, random_state : see `MKLClassifier`

    Returns
    -------
    kernel : array of shape (n, n)
        Centered and exactly symmetric.
    weights : array of shape (n_kernels,)
        Not negative, summing to one.
    names : list of str

    References
    ----------
    Lavit, Escoufier, Sabatier and Traissac (1994), The ACT (STATIS method).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, _ = load_iris(return_X_y=True)
    >>> found = consensus_kernel(X, "rbf@0; rbf@1; rbf@2; rbf@3")
    >>> found.kernel.shape, found.names[int(found.weights.argmin())]
    ((150, 150), 'rbf@1')
    """
    *_, fitted = fitted_kernels(X, None, kernels, psd, random_state)
    bank = build_bank(fitted, storage, memory_limit)
    products = centered_products(bank, np.full(bank.n_rows, 1.0 / bank.n_rows))
    lengths = np.sqrt(np.diag(products))
    # What centering leaves of a constant kernel is rounding.
    lengths[lengths <= CENTERED_ZERO_RTOL * bank.diagonals().mean(axis=0)] = 0.0
    weights = _leading(ratio(products, np.outer(lengths, lengths)))
    scaled = ratio(weights, bank.n_rows * lengths)
    kernel = bank.combine_precisely(scaled, np.arange(bank.n_rows))
    return Consensus(_centered(kernel), weights, list(bank.names))


def _weights(weights: np.ndarray, target: int | None) -> np.ndarray:
    """One weight per kernel, of the target that is asked for."""
    if weights.ndim == 1:
        if target is not None:
            raise ValueError(
                "target must be None where all targets share their kernel weights, got "
                f"{quoted(target)}; leave it out."
            )
        return weights
    if target not in range(len(weights)):
        raise ValueError(
            f"target must be one of 0 to {len(weights) - 1}, as every target has kernel"
            f" weights of its own, got {quoted(target)}; choose one."
        )
    return np.asarray(weights[target])


def _combined_stack(kernels: KernelSet, weights: np.ndarray, X: Any) -> np.ndarray:
    """Given values with all training rows, scaled as in fit and summed."""
    used = kernels.only(np.flatnonzero(weights), np.float64)
    whole = replace(used, support=np.arange(kernels.n_train))
    blocks = [np.einsum("f,fij->ij", weights, block) for _, block in whole.cross(X)]
    out = np.concatenate([np.empty((0, kernels.n_train)), *blocks])
    square = out.shape[0] == out.shape[1]
    size = VALUE_RTOL * np.abs(out).max(initial=0.0)
    if square and np.abs(out - out.T).max(initial=0.0) <= size:
        out = 0.5 * (out + out.T)  # the training rows, up to rounding
    return out


def _leading(alignments: np.ndarray) -> np.ndarray:
    """Where powers of the matrix turn equal weights, with a sum of one."""
    values, vectors = np.linalg.eigh(alignments)
    if values[-1] <= 0.0:
        raise ValueError(
            "a consensus needs a kernel that is not constant, got constant ones only; "
            "choose other kernels or columns."
        )
    # Several equal eigenvalues span a plane, of which no vector is singled out: the
    # limit of powers of the matrix is its projection of the vector of ones.
    leaders = vectors[:, values >= (1.0 - EQUAL_EIGENVALUE_RTOL) * values[-1]]
    weights = np.maximum(leaders @ leaders.sum(axis=0), 0.0)
    return np.asarray(weights / weights.sum())


def _centered(kernel: np.ndarray) -> np.ndarray:
    means = kernel.mean(axis=0)
    out = kernel - means[:, None] - means + means.mean()
    return np.asarray(0.5 * (out + out.T))
