r"""Best structures, sums over all of them, and the score of a given one.

A decoder holds the scores of the parts of a structure: labels and pairs of labels of a
sequence, or arcs of a tree. Losses and predictions ask it for no more than this.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manykernels.base.arrays import Array
from manykernels.hot import chain as hot_chains
from manykernels.hot import trees as hot_trees

Labels = NDArray[np.int64]


class Decoder(Protocol):
    """What a loss asks of a set of scored structures.

    Examples
    --------
    >>> def margin(decoder: Decoder, target: Any) -> Any:
    ...     return decoder.best()[1] - decoder.score(target)
    >>> margin(ChainDecoder([[0.5, 0.0]], np.zeros((2, 2))), [1]).tolist()
    [0.5]
    >>> float(margin(TreeDecoder([[0.0, 3.0], [0.0, 0.0]]), [0]))
    0.0
    """

    def best(self, target: Any = None, cost: Any = None) -> tuple[Any, Any]:
        """Structures of the highest score, plus the cost of each part if `target`."""

    def score(self, target: Any) -> Any:
        """Scores of given structures."""

    def log_partition(self) -> Any:
        """Log sum of exp(score) over all structures."""


class ChainMarginals(NamedTuple):
    """Probabilities under p(y) proportional to exp(score)."""

    labels: Array  # (positions, labels): P(y_t = k)
    pairs: Array  # as the transitions: expected number of times that k follows j
    log_partition: Array  # (chains,): log sum over y of exp(score)


class ChainDecoder:
    r"""Label sequences y with score :math:`\sum_t u_{t, y_t} + T_{t, y_{t-1}, y_t}`.

    Parameters
    ----------
    unary : array of shape (positions, labels)
    transitions : array of shape (labels, labels) or (positions, labels, labels)
        Row: the label before. Minus infinity forbids a pair. A table of a position
        scores the step to it; that of a chain's first position is not used.
    starts : array of shape (chains + 1,), optional
        Chain n has the positions ``starts[n]:starts[n + 1]``; one chain if not given.

    Examples
    --------
    >>> chain = ChainDecoder([[1.0, 0.0], [0.0, 0.1], [1.0, 0.0]], np.eye(2))
    >>> labels, scores = chain.best()
    >>> labels.tolist(), scores.tolist(), chain.score([0, 1, 0]).round(1).tolist()
    ([0, 0, 0], [4.0], [2.1])
    >>> one = ChainDecoder([[0.0, np.log(3.0)]], np.zeros((2, 2)))
    >>> one.marginals().labels.round(2).tolist(), one.log_partition().round(3).tolist()
    ([[0.25, 0.75]], [1.386])
    """

    def __init__(self, unary: Any, transitions: Any, starts: Any = None) -> None:
        self.unary = np.ascontiguousarray(unary, dtype=np.float64)
        transitions = np.ascontiguousarray(transitions, dtype=np.float64)
        self.one_table = transitions.ndim == 2
        self.tables = transitions[None] if self.one_table else transitions
        length, pair = len(self.unary), (self.unary.shape[-1],) * 2
        fits = self.tables.shape[1:] == pair and len(self.tables) in {1, length}
        if self.unary.ndim != 2 or not fits:
            raise ValueError(
                "expected scores of shape (positions, labels) and transitions of shape "
                "(labels, labels) or (positions, labels, labels), got "
                f"{self.unary.shape} and {transitions.shape}; give one row of scores "
                "for each position."
            )
        given = [0, length] if starts is None else starts
        self.starts = np.ascontiguousarray(given, dtype=np.int64)
        ends = self.starts[[0, -1]].tolist() if len(self.starts) else []
        if ends != [0, length] or np.any(np.diff(self.starts) < 1):
            raise ValueError(
                f"starts must rise from 0 to the number of positions ({length}), got "
                f"{self.starts.tolist()[:5]}...; a chain has at least one position."
            )
        self.n_chains = len(self.starts) - 1

    def best(self, target: Any = None, cost: Any = None) -> tuple[Labels, Array]:
        """Labels of the highest score (Viterbi), and that score of every chain.

        Parameters
        ----------
        target : array of shape (positions,), optional
            Maximize score(y) + sum_t cost[target_t, y_t] instead.
        cost : array of shape (labels, labels), optional
            1 for every wrong label if not given.
        """
        unary = self.unary
        if target is not None:
            # A cost that is a sum over positions is a change of their scores.
            table = hamming_cost(unary.shape[1]) if cost is None else np.asarray(cost)
            unary = unary + table[np.asarray(target, dtype=np.int64)]
        labels, scores = np.empty(len(unary), np.int64), np.empty(self.n_chains)
        hot_chains.best_paths(unary, self.tables, self.starts, labels, scores)
        return labels, scores

    def score(self, target: Any) -> Array:
        """Scores of given labels, one per chain."""
        scores, labels = np.empty(self.n_chains), np.asarray(target, dtype=np.int64)
        hot_chains.path_scores(self.unary, self.tables, self.starts, labels, scores)
        return scores

    def marginals(self) -> ChainMarginals:
        """Forward-backward: the gradient of the log partition, and its value.

        Sums are kept as logarithms, so scores may differ by thousands.
        """
        chances, pairs = np.empty(self.unary.shape), np.zeros(self.tables.shape)
        totals = np.empty(self.n_chains)
        hot_chains.many_marginals(
            self.unary, self.tables, self.starts, chances, pairs, totals
        )
        return ChainMarginals(chances, pairs[0] if self.one_table else pairs, totals)

    def log_partition(self) -> Array:
        """Log sum over y of exp(score), one per chain: half the work of `marginals`."""
        totals = np.empty(self.n_chains)
        hot_chains.log_sums(self.unary, self.tables, self.starts, totals)
        return totals

    def k_best(self, k: int) -> list[tuple[Labels, Array]]:
        """The k best label sequences of every chain, best first, and their scores.

        Exact. A chain that has fewer sequences, or fewer that are allowed, gives fewer.

        Examples
        --------
        >>> chain = ChainDecoder([[1.0, 0.0], [0.0, 0.5]], np.zeros((2, 2)))
        >>> labels, scores = chain.k_best(3)[0]
        >>> labels.tolist(), scores.tolist()
        ([[0, 1], [0, 0], [1, 1]], [1.5, 1.0, 0.5])
        """
        paths = []
        for a, b in zip(self.starts[:-1], self.starts[1:], strict=True):
            tables = self.tables[a:b] if len(self.tables) > 1 else self.tables
            # A chain has no more sequences than this; 2^63 of them are never reached.
            most = k if b - a >= 63 else min(k, self.unary.shape[1] ** int(b - a))
            labels, scores = np.zeros((most, b - a), np.int64), np.empty(most)
            hot_chains.k_best_paths(self.unary[a:b], tables, labels, scores)
            exists = scores > -np.inf
            paths.append((labels[exists], scores[exists]))
        return paths


def hamming_cost(n_labels: int) -> Array:
    """1 for a wrong label, 0 for the right one.

    Examples
    --------
    >>> hamming_cost(2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    return 1.0 - np.eye(n_labels)


class TreeMarginals(NamedTuple):
    """Probabilities under P(tree) proportional to exp(score)."""

    arcs: Array  # as the scores: P(head h of word m)
    log_partition: Array  # one for each sentence


class TreeDecoder:
    """Trees over the words of a sentence, scored by the sum of their arcs.

    Parameters
    ----------
    scores : array (n + 1, n + 1) or (sentences, n + 1, n + 1)
        scores[h, m] of the arc from head h to word m; node 0 is the root, words are
        numbered from 1. Column 0 and the diagonal are not read; minus infinity forbids
        an arc. Sentences have the same length. All results have the sentences as
        their first axis, if the scores have it.
    single_root : bool
        Whether exactly one word hangs on the root.

    Examples
    --------
    >>> tree = TreeDecoder([[0.0, 3.0, 2.0], [0.0, 0.0, 1.0], [0.0, 5.0, 0.0]])
    >>> heads, score = tree.best()
    >>> heads.tolist(), float(score), float(tree.score([0, 1]))
    ([2, 0], 7.0, 4.0)
    >>> equal = TreeDecoder(np.zeros((3, 3)), single_root=False).marginals()
    >>> equal.arcs[0].round(3).tolist(), float(np.exp(equal.log_partition).round(6))
    ([0.0, 0.667, 0.667], 3.0)
    """

    def __init__(self, scores: ArrayLike, single_root: bool = True) -> None:
        self.scores: Array = np.ascontiguousarray(scores, dtype=np.float64)
        self.single_root = bool(single_root)
        shape = self.scores.shape
        if len(shape) not in (2, 3) or shape[-1] != shape[-2] or shape[-1] < 2:
            raise ValueError(
                "scores must have the shape (n + 1, n + 1) or (sentences, n + 1, n + 1)"
                f" with the root and n words, got {shape}; node 0 is the root."
            )
        # A maximum is NaN where any value is.
        if not self.scores[..., 1:].max(initial=-np.inf) < np.inf:
            raise ValueError(
                "scores must be numbers or minus infinity, got NaN or infinity; forbid "
                "an arc with -inf."
            )
        self.n_words = shape[-1] - 1

    def best(self, target: Any = None, cost: float | None = None) -> tuple[Any, Any]:
        """Heads of the best tree, and its score; Chu-Liu-Edmonds in O(n^2).

        Parameters
        ----------
        target : array (n,) or (sentences, n), optional
            Maximize score(tree) + cost * (wrong heads) instead.
        cost : float, optional
            1 if not given.
        """
        scores = self.scores
        if target is not None:
            # A cost that is a sum over words is a change of the scores of arcs.
            costs = np.full(scores[..., 1:].shape, 1.0 if cost is None else cost)
            right = np.asarray(target, dtype=np.int64)[..., None, :]
            np.put_along_axis(costs, right, 0.0, axis=-2)
            scores = scores.copy()
            scores[..., 1:] += costs
        batch = scores.reshape(-1, self.n_words + 1, self.n_words + 1)
        lengths = np.full(len(batch), self.n_words)
        heads, exists = hot_trees.best_trees(batch, lengths, self.single_root)
        one_root = (heads == 0).sum(axis=1) == 1
        if not exists.all() or (self.single_root and not one_root.all()):
            raise self._no_tree()
        heads = heads.reshape(*scores.shape[:-2], self.n_words)
        return heads, self._total(scores, heads)

    def score(self, target: Any) -> Any:
        """Scores of given trees, by the head of every word."""
        return self._total(self.scores, target)

    def marginals(self) -> TreeMarginals:
        """Probabilities of all arcs by the matrix-tree theorem, in O(n^3).

        An elimination without subtractions: exact to rounding even where cycles are
        far heavier than any tree. An arc that is more than 700 worse than the best one
        into the same word counts as 700 worse.
        """
        size = self.n_words + 1
        batch = self.scores.reshape(-1, size, size)
        arcs, log_sums = np.zeros(batch.shape), np.empty(len(batch))
        weights, shares = np.zeros((2, size, size))
        through = np.zeros(size**3 // 3 + 1)
        for i, scores in enumerate(batch):
            log_sums[i] = hot_trees.tree_marginals(
                scores,
                self.n_words,
                self.single_root,
                weights,
                shares,
                through,
                arcs[i],
            )
        if np.any(log_sums == -np.inf):
            raise self._no_tree()
        axes = self.scores.shape[:-2]
        return TreeMarginals(arcs.reshape(self.scores.shape), log_sums.reshape(axes))

    def log_partition(self) -> Any:
        """Log sum over trees of exp(score)."""
        return self.marginals().log_partition

    def _total(self, scores: Array, heads: Any) -> Any:
        chosen = np.asarray(heads, dtype=np.int64)[..., None, :]
        return np.take_along_axis(scores[..., 1:], chosen, axis=-2).sum(axis=(-2, -1))

    def _no_tree(self) -> ValueError:
        hint = "pass single_root=False, or " if self.single_root else ""
        return ValueError(
            "expected scores that allow a tree, got too many arcs of minus infinity; "
            f"{hint}allow more arcs."
        )
