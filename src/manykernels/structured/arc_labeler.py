"""Relations of arcs: which label every word gets once its head is known.

A second, multiclass model on the arcs of a tree. A feature joins values of the arc's
words and their relatives in the tree; the features that occurred more than once in
training have a row of weights each, one weight per relation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manykernels.base.stored import TEXTS, Part, Wholes, require_all, storable
from manykernels.hot import tree_labels as hot
from manykernels.hot.arcs import BIN_EDGES, MARGIN, Corpus
from manykernels.structured.conllu import BLANK, Sentence
from manykernels.structured.feature_templates import (
    FIELDS,
    LABEL_TEMPLATES,
    FeatureTemplate,
)
from manykernels.structured.tree_learning import WEIGHT_BYTES
from manykernels.structured.tree_model import PackedWeights, compressed_weights

LONGEST_LABEL_STEP = 0.1  # for features of unit length

Codes = NDArray[np.uint32]
Rows = NDArray[np.int64]


class ArcRelatives(NamedTuple):
    """The row of every word (m), its head (h) and more, `missing` where none exists."""

    nodes: dict[str, Rows]  # by the letters of templates
    missing: int
    tokens: NDArray[np.int32]  # with one more row for what is missing

    @classmethod
    def of(cls, corpus: Corpus, heads: NDArray[Any]) -> ArcRelatives:
        """The arcs of a corpus; heads by row, as `corpus.heads`."""
        missing = len(corpus.tokens)
        is_word = np.zeros(missing, np.bool_)
        roots = np.empty(missing, np.int64)
        for a, b in zip(corpus.starts[:-1], corpus.starts[1:], strict=True):
            is_word[a + MARGIN + 1 : b - MARGIN] = True
            roots[a:b] = a + MARGIN
        m = np.flatnonzero(is_word)
        head_of = np.full(missing + 1, missing, np.int64)
        head_of[m] = roots[m] + heads[m]
        h = head_of[m]
        first, last = np.full(missing + 1, missing), np.full(missing + 1, -1)
        np.minimum.at(first, h, m)
        np.maximum.at(last, h, m)
        last[last < 0] = missing
        nodes = {
            "m": m,
            "h": h,
            "g": head_of[h],
            "s": _inner_siblings(m, h, missing),
            "l": first[m],
            "r": last[m],
        }
        margin = np.full((1, corpus.tokens.shape[1]), -1, np.int32)
        return cls(nodes, missing, np.vstack([corpus.tokens, margin]))

    def values(self, node: str, offset: int, field: str) -> Codes:
        """A field of a relative of every word, or of its neighbor."""
        rows = self.nodes[node]
        beside = np.where(rows == self.missing, rows, rows + offset)
        return self.tokens[beside, FIELDS.index(field)].astype(np.uint32)

    def pair(self, name: str | None) -> Codes:
        """Direction or distance of every arc, in bins."""
        gap = self.nodes["m"] - self.nodes["h"]
        if name is None:
            return np.zeros(len(gap), np.uint32)
        bins = np.searchsorted(BIN_EDGES, np.abs(gap)) if name == "distance" else 0
        return np.asarray(2 * bins + (gap > 0) + 1, dtype=np.uint32)

    def children(self) -> tuple[Rows, Rows]:
        """Pairs of a word, by its number, and the row of one of its children."""
        number = np.full(self.missing + 1, -1, np.int64)
        number[self.nodes["m"]] = np.arange(len(self.nodes["m"]))
        parent = number[self.nodes["h"]]
        return parent[parent >= 0], self.nodes["m"][parent >= 0]

    def features(self, templates: Sequence[FeatureTemplate]) -> tuple[Rows, Codes]:
        """Where each arc's features start, and the codes of all of them.

        One code per template and arc, or one per child of the modifier.
        """
        n_arcs = len(self.nodes["m"])
        parents, children = self.children()
        owners, codes = [], []
        for t, template in enumerate(templates):
            # Codes of different templates start from different numbers.
            code = _mixed(self.pair(template.pair) ^ np.uint32(t << 8))
            for k, atom in enumerate(template.atoms):
                code = _joined(code, self.values(*atom), k)
            if template.each_field is None:
                owners.append(np.arange(n_arcs))
            else:
                column = FIELDS.index(template.each_field)
                values = self.tokens[children, column].astype(np.uint32)
                code = _joined(code[parents], values, 31)  # behind all atoms
                owners.append(parents)
            codes.append(code)
        owner = np.concatenate(owners)
        # From features by template to features by arc.
        order = np.argsort(owner, kind="stable")
        starts = np.searchsorted(owner[order], np.arange(n_arcs + 1))
        return starts, np.concatenate(codes)[order]


def _inner_siblings(m: Rows, h: Rows, missing: int) -> Rows:
    """The child of the same head next to m on the way to the head."""
    order = np.lexsort((m, h))
    heads, words = h[order], m[order]
    before = np.concatenate([[missing], words[:-1]])
    after = np.concatenate([words[1:], [missing]])
    same = heads[1:] == heads[:-1]
    same_before = np.concatenate([[False], same])
    same_after = np.concatenate([same, [False]])
    right = words > heads
    nearest = np.where(right & same_before & (before > heads), before, missing)
    left = ~right & same_after & (after < heads)
    siblings = np.empty(len(m), np.int64)
    siblings[order] = np.where(left, after, nearest)
    return siblings


@storable(
    templates=TEXTS,
    relations=TEXTS,
    keys=Wholes("features", low=0, below=2**32),
    packed=Part(PackedWeights),
)
@dataclass(frozen=True)
class ArcLabeler:
    """The relation of every arc: the one whose weights have the largest sum.

    Parameters
    ----------
    templates : tuple of FeatureTemplate
    relations : tuple of str
        In alphabetical order.
    keys : array (features,)
        Codes of the features that are known, rising.
    weights : array (features, relations)
    """

    templates: tuple[FeatureTemplate, ...]
    relations: tuple[str, ...]
    keys: Codes
    weights: NDArray[np.float32]

    @classmethod
    def empty(
        cls,
        templates: tuple[FeatureTemplate, ...],
        sentences: Sequence[Sentence],
        corpus: Corpus,
        limit: int,
    ) -> ArcLabeler:
        """Weights of zero for the features of sentences, as many as memory allows."""
        labels = {label for s in sentences for label in s.deprels if label != BLANK}
        _, codes = ArcRelatives.of(corpus, corpus.heads).features(templates)
        keys, counts = np.unique(codes, return_counts=True)
        # A feature of one training arc alone says nothing about other arcs.
        most, fewest = limit // (WEIGHT_BYTES * len(labels)), 2
        while np.sum(counts >= fewest) > most:
            fewest += 1
        kept = keys[counts >= fewest]
        weights = np.zeros((len(kept), len(labels)), np.float32)
        return cls(templates, tuple(sorted(labels)), kept, weights)

    def to_stored(self) -> dict[str, Any]:
        return {
            "templates": [str(template) for template in self.templates],
            "relations": list(self.relations),
            "keys": self.keys.astype(np.int64),
            "packed": PackedWeights.of(self.weights),
        }

    @classmethod
    def from_stored(
        cls,
        templates: list[str],
        relations: list[str],
        keys: NDArray[np.int64],
        packed: PackedWeights,
    ) -> ArcLabeler:
        require_all(
            "the relations of a parser",
            {
                "templates": len(set(templates)) == len(templates) > 0,
                "relations": len(set(relations)) == len(relations) > 0,
                "keys": np.all(keys[:-1] < keys[1:]),
                "weights": packed.size == len(keys) * len(relations),
            },
        )
        return cls(
            tuple(map(LABEL_TEMPLATES.parse, templates)),
            tuple(relations),
            keys.astype(np.uint32),
            packed.weights().reshape(len(keys), len(relations)),
        )

    def learned(
        self,
        sentences: Sequence[Sentence],
        corpus: Corpus,
        n_epochs: int,
        rng: np.random.Generator,
    ) -> ArcLabeler:
        """After some passes over arcs whose relation is known, in random order.

        The weights are the mean of those in the second half of the passes.
        """
        starts, ids = self._feature_rows(corpus, corpus.heads)
        number = {label: k for k, label in enumerate(self.relations)}
        target = np.array([number.get(x, -1) for s in sentences for x in s.deprels])
        labeled = np.flatnonzero(target >= 0)
        weights, offset = self.weights.copy(), np.zeros_like(self.weights)
        rounds = 0
        for epoch in range(1, n_epochs + 1):
            if 1 < epoch == n_epochs // 2 + 1:
                offset[:] = 0.0
                rounds = 0
            order = rng.permutation(labeled)
            hot.learn_labels(
                weights,
                offset,
                starts,
                ids,
                target,
                order,
                LONGEST_LABEL_STEP,
                rounds,
            )
            rounds += len(order)
        # The loop keeps the sum of the weights as what it lags behind the last ones.
        mean = weights - offset / np.float32(max(rounds, 1))
        return replace(self, weights=mean)

    def compressed(self, keep: float, half: bool) -> ArcLabeler:
        """With the largest weights only, or in half precision."""
        return replace(self, weights=compressed_weights(self.weights, keep, half))

    def predict(self, corpus: Corpus, heads: NDArray[Any]) -> list[str]:
        """The relation of every word of a corpus; heads by row."""
        starts, ids = self._feature_rows(corpus, heads)
        labels = hot.best_labels(self.weights, starts, ids)
        return [self.relations[k] for k in labels.tolist()]

    def _feature_rows(
        self, corpus: Corpus, heads: NDArray[Any]
    ) -> tuple[Rows, NDArray[np.int32]]:
        """Features of the arcs as rows of the weights, -1 for those of no row."""
        starts, codes = ArcRelatives.of(corpus, heads).features(self.templates)
        if not len(self.keys):
            return starts, np.full(len(codes), -1, np.int32)
        places = np.searchsorted(self.keys, codes)
        places[places == len(self.keys)] = 0
        is_known = self.keys[places] == codes
        return starts, np.where(is_known, places, -1).astype(np.int32)


def _mixed(x: Codes) -> Codes:
    """Every bit of the input moves half of those of the output."""
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x7FEB352D)
    x = x ^ (x >> np.uint32(15))
    x = x * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def _joined(code: Codes, values: Codes, place: int) -> Codes:
    return _mixed(code ^ (values * np.uint32(64) + np.uint32(place + 1)))
