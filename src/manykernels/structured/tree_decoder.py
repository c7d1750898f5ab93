"""Best trees and arc probabilities for the words of a sentence.

scores[h, m] belongs to the arc from head h to word m; node 0 is the root, and words are
numbered from 1. Column 0 and the diagonal are not read; minus infinity forbids an arc.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manykernels.hot import trees as hot

Heads = NDArray[np.int64]


class TreeDistribution(NamedTuple):
    """log sum over trees of exp(score), and the probability of every arc.

    Examples
    --------
    >>> found = tree_marginals(np.zeros((2, 2)))  # one word, one tree
    >>> found.log_partition, found.marginals[0].tolist()
    (0.0, [0.0, 1.0])
    """

    log_partition: float
    marginals: NDArray[np.float64]  # (n + 1, n + 1)


def best_tree(
    scores: ArrayLike, single_root: bool = True, cost: ArrayLike | None = None
) -> Heads:
    """argmax over trees of sum_m scores[head(m), m] + cost[head(m), m].

    Chu-Liu-Edmonds in O(n^2): a maximum spanning arborescence.

    Parameters
    ----------
    scores : array (n + 1, n + 1)
    single_root : bool
        Whether exactly one word hangs on the root.
    cost : array (n + 1, n + 1), optional
        Added to the scores; see `tree_cost`.

    Returns
    -------
    array (n,)
        The head of each word.

    Examples
    --------
    >>> scores = np.array([[0.0, 3.0, 2.0], [0.0, 0.0, 1.0], [0.0, 5.0, 0.0]])
    >>> best_tree(scores).tolist()
    [2, 0]
    """
    values = _checked(scores)
    if cost is not None:
        values = values + _checked(cost)
    n = len(values) - 1
    heads, found = hot.best_trees(values[None], np.array([n]), bool(single_root))
    _require_found(heads, found, single_root)
    return np.asarray(heads[0], dtype=np.int64)


def best_trees(scores: ArrayLike, single_root: bool = True) -> NDArray[np.int64]:
    """The best tree of each of many sentences of the same length.

    Parameters
    ----------
    scores : array (sentences, n + 1, n + 1)
    single_root : bool

    Returns
    -------
    array (sentences, n)

    Examples
    --------
    >>> best_trees(np.zeros((4, 2, 2))).tolist()
    [[0], [0], [0], [0]]
    """
    values = _checked(scores, n_axes=3)
    lengths = np.full(len(values), values.shape[1] - 1)
    heads, found = hot.best_trees(values, lengths, bool(single_root))
    _require_found(heads, found, single_root)
    return np.asarray(heads, dtype=np.int64)


def tree_marginals(scores: ArrayLike, single_root: bool = True) -> TreeDistribution:
    """P(arc) under P(tree) = exp(score of the tree) / sum over all trees.

    The matrix-tree theorem in O(n^3), by an elimination without subtractions: exact to
    rounding even where cycles are far heavier than any tree. An arc that is more than
    700 worse than the best one into the same word counts as 700 worse.

    Parameters
    ----------
    scores : array (n + 1, n + 1)
    single_root : bool
        Whether exactly one word hangs on the root.

    Examples
    --------
    >>> found = tree_marginals(np.zeros((3, 3)), single_root=False)
    >>> round(float(np.exp(found.log_partition)), 6)  # trees over two words
    3.0
    >>> found.marginals[0].round(3).tolist()
    [0.0, 0.667, 0.667]
    """
    values = _checked(scores)
    size = len(values)
    room = np.zeros((3, size, size))
    through = np.zeros(size**3 // 3 + 1)
    a, shares, marginals = room
    log_partition = float(
        hot.tree_marginals(
            values, size - 1, bool(single_root), a, shares, through, marginals
        )
    )
    if log_partition == -np.inf:
        raise _no_tree(single_root)
    return TreeDistribution(log_partition, marginals)


def tree_cost(heads: ArrayLike) -> NDArray[np.float64]:
    """cost[h, m] = 1 for every arc that is not in the tree.

    Examples
    --------
    >>> tree_cost([0, 1]).tolist()
    [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 1.0, 1.0]]
    """
    given = np.asarray(heads, dtype=np.int64)
    cost = np.ones((len(given) + 1, len(given) + 1))
    cost[given, np.arange(1, len(given) + 1)] = 0.0
    cost[:, 0] = 0.0
    return cost


def _checked(scores: ArrayLike, n_axes: int = 2) -> NDArray[np.float64]:
    values: NDArray[Any] = np.ascontiguousarray(scores, dtype=np.float64)
    sides = values.shape[-2:]
    if values.ndim != n_axes or sides[0] != sides[-1] or sides[0] < 2:
        expected = ("(n + 1, n + 1)", "(sentences, n + 1, n + 1)")[n_axes - 2]
        raise ValueError(
            f"scores must have the shape {expected} with the root and n words, got "
            f"{values.shape}; node 0 is the root."
        )
    # A maximum is NaN where any value is.
    highest = values[..., 1:].max(initial=-np.inf)
    if not highest < np.inf:
        raise ValueError(
            "scores must be numbers or minus infinity, got NaN or infinity; forbid an "
            "arc with -inf."
        )
    return values


def _require_found(
    heads: NDArray[np.int64], found: NDArray[np.bool_], single_root: bool
) -> None:
    one_root = (heads == 0).sum(axis=1) == 1
    if not found.all() or (single_root and not one_root.all()):
        raise _no_tree(single_root)


def _no_tree(single_root: bool) -> ValueError:
    hint = "pass single_root=False, or " if single_root else ""
    return ValueError(
        "expected scores that allow a tree, got too many arcs of minus infinity; "
        f"{hint}allow more arcs."
    )
