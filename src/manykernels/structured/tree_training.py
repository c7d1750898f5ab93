"""How a parser's weights are learned: settings, one fit or two, the model they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.hot.arcs import Corpus, arc_scores
from manykernels.structured.conllu import Sentence
from manykernels.structured.packed_weights import in_half_precision
from manykernels.structured.tree_learner import (
    Learned,
    TreeEpoch,
    TreeLearning,
    TreeRule,
    TreeState,
    learn_trees,
    template_norms,
)
from manykernels.structured.treebank import Layout, knows_tags, without_tags

MOST_TRIED = 200  # sentences that tell how much depends on tags


@dataclass(frozen=True)
class TreeModel:
    """Weights of all templates, and what they say about sentences.

    Parameters
    ----------
    layout : Layout
    weights : array
    norms : array
        ||w_t|| of every template; templates at zero are not looked at.
    """

    layout: Layout
    weights: NDArray[np.float32]
    norms: NDArray[np.float64]

    @classmethod
    def of(cls, layout: Layout, weights: NDArray[np.float32]) -> TreeModel:
        """With the norms of the weights."""
        return cls(layout, weights, template_norms(layout.compiled, weights))

    @property
    def in_use(self) -> NDArray[np.bool_]:
        """Templates that are not at zero."""
        return np.asarray(self.norms > 0.0)

    @property
    def names(self) -> list[str]:
        """The templates as texts."""
        return [str(template) for template in self.layout.templates]

    @property
    def strongest(self) -> list[str]:
        """Templates in use, strongest first."""
        names, order = self.names, np.argsort(-self.norms, kind="stable")
        return [names[t] for t in order if self.norms[t] > 0.0]

    def arc_scores(self, sentence: Sentence) -> NDArray[np.float64]:
        """scores[h, m] of the templates without a third word."""
        corpus = self.layout.vocabulary.encode([sentence])
        in_use = self.in_use.astype(np.float64)
        scores = arc_scores(corpus, self.layout.compiled, self.weights, in_use, 0)
        return np.asarray(scores, dtype=np.float64)

    def best_heads(self, corpus: Corpus, single_root: bool) -> NDArray[np.int32]:
        """The heads of the best trees, by row of the corpus."""
        layout = self.layout
        return layout.best_heads(self.weights, self.in_use, corpus, single_root)

    def untagged_score(
        self, sentences: Sequence[Sentence], single_root: bool
    ) -> float | None:
        """The share of right heads if words had no tags; None if tags say nothing.

        Some sentences from all over the treebank have to do.
        """
        vocabulary = self.layout.vocabulary
        if not knows_tags(vocabulary):
            return None
        some = sentences[:: -(-len(sentences) // MOST_TRIED)]
        corpus = vocabulary.encode(without_tags(some))
        rows = self.best_heads(corpus, single_root)
        found = np.concatenate(self.layout.by_sentence(corpus, rows))
        true = np.concatenate([s.heads or () for s in some])
        return float(np.mean(found == true))

    def compressed(self, keep: float, half: bool) -> TreeModel:
        """With the largest weights only, or in half precision."""
        return TreeModel.of(self.layout, compressed_weights(self.weights, keep, half))


def compressed_weights(
    weights: NDArray[np.float32], keep: float, half: bool
) -> NDArray[np.float32]:
    """The share of weights other than zero that are largest, rounded if asked for.

    Examples
    --------
    >>> compressed_weights(np.array([0.1, 0.0, -3.0], np.float32), 0.5, False).tolist()
    [0.0, 0.0, -3.0]
    """
    sizes = np.abs(weights[weights != 0.0])
    found = weights.copy()
    dropped = len(sizes) - int(np.ceil(keep * len(sizes)))
    if dropped:
        found[np.abs(found) <= np.partition(sizes, dropped - 1)[dropped - 1]] = 0.0
    if half:
        there = found != 0.0
        found[there] = in_half_precision(found[there])
    return found


@dataclass(frozen=True)
class TreeTraining:
    """The settings of a parser that its learning depends on.

    Parameters
    ----------
    solver : TreeLearning
    loss, regularizer, C, single_root
        Of the parser.
    seed : int
        Order of the sentences.
    callback : callable, optional
    """

    solver: TreeLearning
    loss: str
    regularizer: Any
    C: float
    single_root: bool
    seed: int = 0
    callback: Any = None

    def rule(self, n_sentences: int, plain: bool = False) -> TreeRule:
        """What a round does; `plain`: without the regularizer, by default steps."""
        solver = replace(self.solver, update="auto") if plain else self.solver
        penalty = None if plain else self.regularizer
        reg = 1.0 / (float(self.C) * n_sentences)
        return solver.rule(self.loss, penalty, reg, self.single_root)

    def go_on(
        self,
        state: TreeState,
        layout: Layout,
        sentences: Sequence[Sentence],
        n_epochs: int,
        plain: bool = False,
    ) -> tuple[TreeModel, Learned]:
        """More epochs, and the model after them."""
        rule = self.rule(len(sentences), plain)
        if state.from_weights:
            rule = replace(rule, dual_averaging=False)
        rng = np.random.default_rng([self.seed, state.rounds])
        corpus = layout.vocabulary.encode(sentences)
        learned = learn_trees(state, corpus, rule, n_epochs, rng, self.callback)
        weights = state.average() if self.solver.average else state.last()
        return TreeModel.of(layout, weights), learned

    def from_zero(
        self,
        layout: Layout,
        sentences: Sequence[Sentence],
        n_epochs: int,
        plain: bool = False,
    ) -> tuple[TreeModel, Learned]:
        """A fit that begins with all weights at zero."""
        state = TreeState(layout.compiled)
        return self.go_on(state, layout, sentences, n_epochs, plain)

    def in_two_fits(
        self,
        layout: Layout,
        sentences: Sequence[Sentence],
        n_epochs: tuple[int, int],
        n_templates: int | None,
        limit: int,
    ) -> tuple[TreeModel, Learned, list[TreeEpoch]]:
        """Choose templates, then learn from them alone, in `limit` bytes.

        The history of the first fit comes last. One that is ended is the model.
        """
        model, first = self.from_zero(layout, sentences, n_epochs[0])
        if first.ended:
            return model, first, []
        kept = model.strongest[:n_templates]
        if not kept:
            raise ValueError(
                "expected a regularizer that leaves some templates, got none with "
                f"C={self.C!r}; raise C."
            )
        del model  # as large as the one to come
        layout = layout.only(kept, limit)
        found = self.from_zero(layout, sentences, n_epochs[1], plain=True)
        return *found, first.history
