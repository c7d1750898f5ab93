"""Relations of arcs: which label every word gets once its head is known.

A second, multiclass model on the arcs of a tree. A feature joins values of the arc's
words and their relatives in the tree; the features that occurred more than once in
training have a row of weights each, one weight per relation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manykernels.base.stored import TEXTS, Part, Wholes, require_all, storable
from manykernels.hot import tree_labels as hot
from manykernels.hot.arcs import BIN_EDGES, MARGIN, Corpus
from manykernels.structured.arc_templates import FIELDS
from manykernels.structured.conllu import BLANK, Sentence
from manykernels.structured.label_templates import LabelTemplate, parse_label_template
from manykernels.structured.packed_weights import PackedWeights

SLOT_BYTES = 8  # a weight and its share in the average, in single precision
FEWEST = 2  # a feature that was seen once says nothing about other arcs
STEP = 0.1  # the longest, for features of unit length

Codes = NDArray[np.uint32]
Rows = NDArray[np.int64]


class Arcs(NamedTuple):
    """For every word the rows of its relatives; `nobody` where there is none."""

    nodes: dict[str, Rows]
    nobody: int
    tokens: NDArray[np.int32]  # with one more row for nobody

    @classmethod
    def of(cls, corpus: Corpus, heads: NDArray[Any]) -> Arcs:
        """The arcs of a corpus; heads by row, as `corpus.heads`."""
        nobody = len(corpus.tokens)
        is_word = np.zeros(nobody, np.bool_)
        roots = np.empty(nobody, np.int64)
        for a, b in zip(corpus.starts[:-1], corpus.starts[1:], strict=True):
            is_word[a + MARGIN + 1 : b - MARGIN] = True
            roots[a:b] = a + MARGIN
        m = np.flatnonzero(is_word)
        head_of = np.full(nobody + 1, nobody, np.int64)
        head_of[m] = roots[m] + heads[m]
        h = head_of[m]
        first, last = np.full(nobody + 1, nobody), np.full(nobody + 1, -1)
        np.minimum.at(first, h, m)
        np.maximum.at(last, h, m)
        last[last < 0] = nobody
        nodes = {
            "m": m,
            "h": h,
            "g": head_of[h],
            "s": _inner_siblings(m, h, nobody),
            "l": first[m],
            "r": last[m],
        }
        margin = np.full((1, corpus.tokens.shape[1]), -1, np.int32)
        return cls(nodes, nobody, np.vstack([corpus.tokens, margin]))

    def values(self, node: str, offset: int, field: str) -> Codes:
        """A field of a relative of every word, or of its neighbor."""
        rows = self.nodes[node]
        beside = np.where(rows == self.nobody, rows, rows + offset)
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
        number = np.full(self.nobody + 1, -1, np.int64)
        number[self.nodes["m"]] = np.arange(len(self.nodes["m"]))
        parent = number[self.nodes["h"]]
        return parent[parent >= 0], self.nodes["m"][parent >= 0]


def _inner_siblings(m: Rows, h: Rows, nobody: int) -> Rows:
    """The child of the same head next to m on the way to the head."""
    order = np.lexsort((m, h))
    heads, words = h[order], m[order]
    before = np.concatenate([[nobody], words[:-1]])
    after = np.concatenate([words[1:], [nobody]])
    same_before = np.concatenate([[False], heads[1:] == heads[:-1]])
    same_after = np.concatenate([heads[1:] == heads[:-1], [False]])
    right = words > heads
    found = np.where(right & same_before & (before > heads), before, nobody)
    left = ~right & same_after & (after < heads)
    result = np.empty(len(m), np.int64)
    result[order] = np.where(left, after, found)
    return result


class Features(NamedTuple):
    """Codes of the features of all arcs, those of one arc after the other."""

    starts: Rows
    codes: Codes

    @classmethod
    def of(cls, templates: Sequence[LabelTemplate], arcs: Arcs) -> Features:
        """One code per template and arc, or one per child of the modifier."""
        n_arcs = len(arcs.nodes["m"])
        everyone = np.arange(n_arcs)
        parents, children = arcs.children()
        owners, codes = [], []
        for t, template in enumerate(templates):
            code = _mixed(arcs.pair(template.pair) ^ np.uint32(t << 8))
            for k, (node, offset, field) in enumerate(template.atoms):
                code = _joined(code, arcs.values(node, offset, field), k)
            if template.children is None:
                owners.append(everyone)
            else:
                seen = arcs.tokens[children, FIELDS.index(template.children)]
                code = _joined(code[parents], seen.astype(np.uint32), 31)
                owners.append(parents)
            codes.append(code)
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        starts = np.searchsorted(owner[order], np.arange(n_arcs + 1))
        return cls(starts, np.concatenate(codes)[order])


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
    templates : tuple of LabelTemplate
    relations : tuple of str
        In alphabetical order.
    keys : array (features,)
        Codes of the features that are known, rising.
    weights : array (features, relations)
    """

    templates: tuple[LabelTemplate, ...]
    relations: tuple[str, ...]
    keys: Codes
    weights: NDArray[np.float32]

    @classmethod
    def empty(
        cls,
        templates: tuple[LabelTemplate, ...],
        sentences: Sequence[Sentence],
        corpus: Corpus,
        limit: int,
    ) -> ArcLabeler:
        """Room for the features of sentences, the frequent ones if memory is short."""
        found = {label for s in sentences for label in s.deprels if label != BLANK}
        codes = Features.of(templates, Arcs.of(corpus, corpus.heads)).codes
        keys, counts = np.unique(codes, return_counts=True)
        room = limit // (SLOT_BYTES * len(found))
        fewest = FEWEST
        while np.sum(counts >= fewest) > room:
            fewest += 1
        kept = keys[counts >= fewest]
        weights = np.zeros((len(kept), len(found)), np.float32)
        return cls(templates, tuple(sorted(found)), kept, weights)

    def to_stored(self) -> dict[str, Any]:
        """What a file holds."""
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
        """The labeler of a file."""
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
            tuple(map(parse_label_template, templates)),
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
        starts, ids = self._known(corpus, corpus.heads)
        number = {label: k for k, label in enumerate(self.relations)}
        target = np.array([number.get(x, -1) for s in sentences for x in s.deprels])
        told = np.flatnonzero(target >= 0)
        weights, offset = self.weights.copy(), np.zeros_like(self.weights)
        rounds = 0
        for epoch in range(1, n_epochs + 1):
            if 1 < epoch == n_epochs // 2 + 1:
                offset[:] = 0.0
                rounds = 0
            order = rng.permutation(told)
            hot.learn_labels(weights, offset, starts, ids, target, order, STEP, rounds)
            rounds += len(order)
        mean = weights - offset / np.float32(max(rounds, 1))
        return ArcLabeler(self.templates, self.relations, self.keys, mean)

    def predict(self, corpus: Corpus, heads: NDArray[Any]) -> list[str]:
        """The relation of every word of a corpus; heads by row."""
        starts, ids = self._known(corpus, heads)
        found = hot.best_labels(self.weights, starts, ids)
        return [self.relations[k] for k in found.tolist()]

    def _known(
        self, corpus: Corpus, heads: NDArray[Any]
    ) -> tuple[Rows, NDArray[np.int32]]:
        """Features of the arcs as rows of the weights, -1 for those not known."""
        features = Features.of(self.templates, Arcs.of(corpus, heads))
        if not len(self.keys):
            return features.starts, np.full(len(features.codes), -1, np.int32)
        places = np.searchsorted(self.keys, features.codes)
        places[places == len(self.keys)] = 0
        there = self.keys[places] == features.codes
        return features.starts, np.where(there, places, -1).astype(np.int32)


def _mixed(x: Codes) -> Codes:
    """Every bit of the input moves half of those of the output."""
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x7FEB352D)
    x = x ^ (x >> np.uint32(15))
    x = x * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def _joined(code: Codes, values: Codes, place: int) -> Codes:
    return _mixed(code ^ (values * np.uint32(64) + np.uint32(place + 1)))
