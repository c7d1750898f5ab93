r"""Chains of labels: the best one, the costliest one, and marginals.

The set is all label sequences y of length L; the score of one is
:math:`\sum_t u_{t, y_t} + \sum_{t>1} T_{t, y_{t-1}, y_t}`. Transitions T are one table
for all positions, or one for each, which then scores the step to it from the position
before (that of a chain's first position is not used). All functions take one chain, or
many laid end to end, of which chain n has the positions ``starts[n]:starts[n + 1]``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.hot import chain as hot

Labels = NDArray[np.int64]


class Marginals(NamedTuple):
    """Probabilities under p(y) proportional to exp(score).

    Examples
    --------
    >>> found = marginals(np.zeros((2, 2)), np.zeros((2, 2)))
    >>> found.labels.tolist(), found.pairs.tolist()
    ([[0.5, 0.5], [0.5, 0.5]], [[0.25, 0.25], [0.25, 0.25]])
    """

    labels: Array  # (positions, labels): P(y_t = k)
    pairs: Array  # as the transitions: expected number of times that k follows j
    log_partition: Array  # (chains,): log sum over y of exp(score)


def viterbi(unary: Any, transitions: Any, starts: Any = None) -> Labels:
    """Labels of the highest score; ties go to the first label.

    Parameters
    ----------
    unary : array of shape (positions, labels)
    transitions : array of shape (labels, labels) or (positions, labels, labels)
        Row: the label before. Minus infinity forbids a pair.
    starts : array of shape (chains + 1,), optional
        One chain if not given.

    Examples
    --------
    >>> viterbi([[1.0, 0.0], [0.0, 0.1], [1.0, 0.0]], np.zeros((2, 2))).tolist()
    [0, 1, 0]
    >>> viterbi([[1.0, 0.0], [0.0, 0.1], [1.0, 0.0]], np.eye(2)).tolist()
    [0, 0, 0]
    """
    unary, transitions, starts = _checked(unary, transitions, starts)
    labels = np.empty(len(unary), np.int64)
    hot.best_paths(unary, transitions, starts, labels, np.empty(len(starts) - 1))
    return labels


def path_scores(unary: Any, transitions: Any, labels: Any, starts: Any = None) -> Array:
    """Scores of given labels, one per chain.

    Examples
    --------
    >>> path_scores([[1.0, 0.0], [0.0, 0.1]], np.eye(2), [0, 0]).tolist()
    [2.0]
    """
    unary, transitions, starts = _checked(unary, transitions, starts)
    scores = np.empty(len(starts) - 1)
    given = np.asarray(labels, dtype=np.int64)
    hot.path_scores(unary, transitions, starts, given, scores)
    return scores


def cost_augmented(
    unary: Any, transitions: Any, target: Any, cost: Any = None, starts: Any = None
) -> tuple[Labels, Array]:
    """argmax and max over y of score(y) + sum_t cost[target_t, y_t].

    The cost is 1 for every wrong label if not given.

    Examples
    --------
    >>> labels, values = cost_augmented([[0.5, 0.0]], np.zeros((2, 2)), [0])
    >>> labels.tolist(), values.tolist()
    ([1], [1.0])
    """
    unary, transitions, starts = _checked(unary, transitions, starts)
    n_labels = unary.shape[1]
    table = hamming_cost(n_labels) if cost is None else np.asarray(cost, np.float64)
    labels, values = np.empty(len(unary), np.int64), np.empty(len(starts) - 1)
    raised = unary + table[np.asarray(target, dtype=np.int64)]
    hot.best_paths(raised, transitions, starts, labels, values)
    return labels, values


def marginals(unary: Any, transitions: Any, starts: Any = None) -> Marginals:
    """Forward-backward: the gradient of the log partition, and its value.

    Sums are kept as logarithms, so scores may differ by thousands.

    Examples
    --------
    >>> found = marginals([[0.0, np.log(3.0)]], np.zeros((2, 2)))
    >>> found.labels.round(2).tolist(), found.log_partition.round(3).tolist()
    ([[0.25, 0.75]], [1.386])
    """
    one_table = np.ndim(transitions) == 2
    unary, transitions, starts = _checked(unary, transitions, starts)
    chances, pairs = np.empty(unary.shape), np.zeros(transitions.shape)
    totals = np.empty(len(starts) - 1)
    hot.many_marginals(unary, transitions, starts, chances, pairs, totals)
    return Marginals(chances, pairs[0] if one_table else pairs, totals)


def log_partition(unary: Any, transitions: Any, starts: Any = None) -> Array:
    """Log sum over y of exp(score), one per chain: half the work of `marginals`.

    Examples
    --------
    >>> log_partition(np.zeros((2, 3)), np.zeros((3, 3))).round(4).tolist()
    [2.1972]
    """
    unary, transitions, starts = _checked(unary, transitions, starts)
    totals = np.empty(len(starts) - 1)
    hot.log_sums(unary, transitions, starts, totals)
    return totals


def k_best(
    unary: Any, transitions: Any, k: int, starts: Any = None
) -> list[tuple[Labels, Array]]:
    """The k best label sequences of every chain, best first, and their scores.

    Exact. A chain that has fewer sequences, or fewer that are allowed, gives fewer.

    Returns
    -------
    list of (labels of shape (found, length), scores of shape (found,)), one per chain

    Examples
    --------
    >>> labels, scores = k_best([[1.0, 0.0], [0.0, 0.5]], np.zeros((2, 2)), 3)[0]
    >>> labels.tolist(), scores.tolist()
    ([[0, 1], [0, 0], [1, 1]], [1.5, 1.0, 0.5])
    """
    unary, transitions, starts = _checked(unary, transitions, starts)
    found = []
    for a, b in zip(starts[:-1], starts[1:], strict=True):
        own = transitions[a:b] if len(transitions) > 1 else transitions
        # As many beginnings as there are sequences are enough, and take no more room.
        most = k if b - a >= 63 else min(k, unary.shape[1] ** int(b - a))
        labels, scores = np.zeros((most, b - a), np.int64), np.empty(most)
        hot.k_best_paths(unary[a:b], own, labels, scores)
        exists = scores > -np.inf
        found.append((labels[exists], scores[exists]))
    return found


def hamming_cost(n_labels: int) -> Array:
    """1 for a wrong label, 0 for the right one.

    Examples
    --------
    >>> hamming_cost(2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    return 1.0 - np.eye(n_labels)


def _checked(unary: Any, transitions: Any, starts: Any) -> tuple[Array, Array, Labels]:
    unary = np.ascontiguousarray(unary, dtype=np.float64)
    transitions = np.ascontiguousarray(transitions, dtype=np.float64)
    tables = transitions if transitions.ndim == 3 else transitions[None]
    pair, counts = (unary.shape[-1],) * 2, {1, len(unary)}
    if unary.ndim != 2 or tables.shape[1:] != pair or len(tables) not in counts:
        raise ValueError(
            "expected scores of shape (positions, labels) and transitions of shape "
            "(labels, labels) or (positions, labels, labels), got "
            f"{unary.shape} and {transitions.shape}; one row of scores belongs to each "
            "position."
        )
    if starts is None:
        starts = [0, len(unary)]
    starts = np.ascontiguousarray(starts, dtype=np.int64)
    good = len(starts) >= 1 and starts[0] == 0 and starts[-1] == len(unary)
    if not good or np.any(np.diff(starts) < 1):
        raise ValueError(
            "starts must rise from 0 to the number of positions "
            f"({len(unary)}), got {starts.tolist()[:5]}...; a chain has at least one "
            "position."
        )
    return unary, tables, starts
