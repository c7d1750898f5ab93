"""A fitted model's kernels on some rows: how alike they are, and where rows lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from manykernels.banks import GramBank
from manykernels.banks.centered_alignment import alignments
from manykernels.mkl.combined_kernels import weighted_kernel
from manykernels.study.study_data import take_rows

MAX_DRAWN_ROWS = 1000  # more points hide each other
MAX_ALIGNED_ROWS = 300  # for which a matrix per kernel is held
MAX_DRAWN_KERNELS = 40  # of which the names can still be read


@dataclass(frozen=True)
class Overview:
    """What can be drawn of a fitted model on some rows.

    Attributes
    ----------
    rows : int array
        Positions of the rows that are drawn.
    places : array of shape (rows, 2)
        Their first two principal components in the learned kernel.
    explained : array of shape (2,)
        Shares of the variance in these.
    kernels : int array
        Positions of the kernels whose alignments are known, heaviest first.
    alignments : array of shape (kernels, kernels)

    Examples
    --------
    >>> import manykernels as mk
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mk.MKLClassifier("rbf@0-1; rbf@2-3", random_state=0).fit(X, y)
    >>> overview = Overview.of(model, X, len(X))
    >>> overview.places.shape, overview.alignments.shape
    ((150, 2), (2, 2))
    """

    rows: np.ndarray
    places: np.ndarray
    explained: np.ndarray
    kernels: np.ndarray
    alignments: np.ndarray

    @classmethod
    def of(cls, model: Any, X: Any, n_rows: int) -> Overview | None:
        """None where kernel values between the rows are not known."""
        order = np.random.default_rng(0).permutation(n_rows)
        rows, few = np.sort(order[:MAX_DRAWN_ROWS]), np.sort(order[:MAX_ALIGNED_ROWS])
        weights = np.atleast_2d(model._model.weights_at_new_rows).mean(axis=0)
        heaviest = np.argsort(-weights, kind="stable")[:MAX_DRAWN_KERNELS]
        if n_rows < 3:
            return None
        values = _between(model, X, rows, weights)
        if values is None:
            return None
        single = np.eye(len(weights))[heaviest]
        stack = np.array([_between(model, X, few, one) for one in single])
        places, explained = principal_components(values)
        return cls(
            rows,
            places,
            explained,
            heaviest,
            alignments(GramBank(stack.transpose(1, 0, 2))),
        )


def _between(
    model: Any, X: Any, rows: np.ndarray, weights: np.ndarray
) -> np.ndarray | None:
    """The combined kernel between some rows; None where only others are known."""
    given = model.__sklearn_tags__().input_tags.pairwise
    if not given:
        return weighted_kernel(model, weights, take_rows(X, rows), None)
    kernel = weighted_kernel(model, weights, X, None)
    square = kernel.shape[0] == kernel.shape[1]
    return kernel[np.ix_(rows, rows)] if square else None


def principal_components(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first two coordinates of every row, and their shares of the variance.

    Examples
    --------
    >>> rows = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 1.0]])
    >>> places, explained = principal_components(rows @ rows.T)
    >>> np.round(explained, 2)
    array([0.98, 0.02])
    """
    # Principal components of the features are those of the centered kernel.
    means = kernel.mean(axis=0)
    centered = kernel - means[:, None] - means + means.mean()
    n = len(centered)
    values, vectors = eigh(centered, subset_by_index=(n - 2, n - 1))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    # A sign that does not depend on the solver: the largest entry is positive.
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(2)])
    total = max(float(np.trace(centered)), np.finfo(float).tiny)
    return vectors * np.sqrt(values), values / total
