"""Losses of whole label sequences, in score space.

A chain's scores are one row per position (unary) and one table for pairs of
neighboring labels, or one per position (transitions); see
:mod:`manykernels.structured.chain_decoder`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.base.quoted import quoted
from manykernels.structured.chain_decoder import (
    cost_augmented,
    hamming_cost,
    log_partition,
    path_scores,
)

Labels = NDArray[np.int64]


class ChainLoss(Protocol):
    """A convex function of a chain's scores.

    Examples
    --------
    >>> def total(loss: ChainLoss) -> float:
    ...     one = np.zeros((1, 2)), np.zeros((2, 2)), np.array([0]), np.array([0, 1])
    ...     return float(loss.values(*one).sum())
    >>> total(StructuredHinge()), round(total(CRF()), 3)
    (1.0, 0.693)
    """

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def coarse(self) -> float:
        """Parts of the gradient below this may be rounded at random, or 0."""

    def values(
        self, unary: Array, transitions: Array, target: Labels, starts: Labels
    ) -> Array:
        """Loss of every chain."""

    def cost_table(self, n_labels: int) -> Array:
        """What a label costs in place of the true one (row)."""


@dataclass(frozen=True)
class StructuredHinge:
    r"""max over y' of score(y') - score(y) + cost(y, y').

    Parameters
    ----------
    cost : array of shape (labels, labels), optional
        Of each label (column) in place of the true one (row), summed over positions;
        zeros on the diagonal. 1 for every wrong label if not given.

    Examples
    --------
    >>> unary, starts = np.array([[0.5, 0.0], [3.0, 0.0]]), np.array([0, 2])
    >>> loss = StructuredHinge()
    >>> loss.values(unary, np.zeros((2, 2)), np.array([0, 0]), starts).tolist()
    [0.5]
    """

    cost: Array | None = None
    name: str = "structured_hinge"
    coarse: float = 0.0

    def values(
        self, unary: Array, transitions: Array, target: Labels, starts: Labels
    ) -> Array:
        """Loss of every chain; never negative, as y' = y is allowed."""
        table = self.cost_table(unary.shape[1])
        _, highest = cost_augmented(unary, transitions, target, table, starts)
        return highest - path_scores(unary, transitions, target, starts)

    def cost_table(self, n_labels: int) -> Array:
        """The cost as an array, checked."""
        if self.cost is None:
            return hamming_cost(n_labels)
        table = np.ascontiguousarray(self.cost, dtype=np.float64)
        wrong = table.shape != (n_labels, n_labels) or not np.isfinite(table).all()
        if wrong or np.any(table < 0.0) or np.any(np.diag(table) != 0.0):
            raise ValueError(
                f"cost must be a table of {n_labels} x {n_labels} numbers >= 0 with a "
                f"zero diagonal, got one of shape {table.shape}; leave it out to count "
                "wrong labels."
            )
        return table


@dataclass(frozen=True)
class CRF:
    r"""Minus the log probability of y: :math:`\log \sum_{y'} e^{s(y')} - s(y)`.

    Its gradient touches every label at every position. Parts smaller than `coarse`
    are replaced by 0 or `coarse` at random, without bias, when learning online; an
    update then costs about as much as one of the hinge loss.

    Parameters
    ----------
    coarse : float
        0 for exact gradients.

    Examples
    --------
    >>> starts = np.array([0, 1])
    >>> loss = CRF()
    >>> loss.values(np.zeros((1, 2)), np.zeros((2, 2)), np.array([0]), starts).round(4)
    array([0.6931])
    """

    coarse: float = 0.1
    name: str = "crf"

    def values(
        self, unary: Array, transitions: Array, target: Labels, starts: Labels
    ) -> Array:
        """Loss of every chain."""
        totals = log_partition(unary, transitions, starts)
        return totals - path_scores(unary, transitions, target, starts)

    def cost_table(self, n_labels: int) -> Array:
        """No cost: probabilities do not ask for a margin."""
        return np.zeros((n_labels, n_labels))


def chain_loss(name: str, cost: Any, n_labels: int) -> ChainLoss:
    """A loss by name, "hinge" or "crf"; only the hinge knows costs.

    Examples
    --------
    >>> chain_loss("crf", None, 2).name
    'crf'
    """
    if name == "crf":
        if cost is not None:
            raise ValueError(
                "cost belongs to loss='hinge', got it with loss='crf'; leave it out."
            )
        return CRF()
    try:
        table = None if cost is None else np.asarray(cost, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"cost must be a table of {n_labels} by {n_labels} numbers, got "
            f"{quoted(cost)}; give one row per true label, or None."
        ) from error
    hinge = StructuredHinge(table)
    hinge.cost_table(n_labels)
    return hinge
