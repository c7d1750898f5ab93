"""A parser's templates as arrays, where their weights lie, and the weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.base.machine import require_memory
from manykernels.base.stored import (
    TEXTS,
    Bytes,
    Count,
    Either,
    Floats,
    Halves,
    ListOf,
    StoredWord,
    Wholes,
    require_all,
    storable,
)
from manykernels.hot.arcs import BIN_EDGES, MARGIN, Corpus, Templates, arc_scores
from manykernels.hot.tree_search import parse_corpus
from manykernels.structured.conllu import Sentence
from manykernels.structured.feature_templates import (
    ARC_TEMPLATES,
    FIELDS,
    PAIRS,
    FeatureTemplate,
)
from manykernels.structured.tree_learning import (
    WEIGHT_BYTES,
    Weights,
    template_norms,
)
from manykernels.structured.treebank import (
    N_SPECIAL,
    SENTENCE_COLUMNS,
    UNKNOWN,
    Vocabulary,
    heads_by_sentence,
    rows_of_words,
    without_tags,
)

FEWEST_BITS, MOST_BITS = 8, 22  # of the size of a template's table
MOST_TAGS = 256  # whose pairs are worth a table
THIRD_NODES = (None, "g", "s")  # by their codes in compiled loops
TAG_TRIAL_SENTENCES = 200  # that show how much depends on tags


@dataclass(frozen=True)
class ArcReach:
    """The longest arc between any two tags, by direction; longer ones are not tried.

    Parameters
    ----------
    field : int
        Which tags: the coarse ones, unless there are none.
    longest : array (tags, tags, 2)
        By the tag of head and modifier; 0: the modifier stands before the head.
    """

    field: int
    longest: np.ndarray

    @classmethod
    def of(cls, corpus: Corpus, sizes: Sequence[int], prune: bool) -> ArcReach:
        """From the heads of a corpus; any length if nothing is to be left out."""
        coarse, fine = FIELDS.index("upos"), FIELDS.index("xpos")
        use_coarse = sizes[coarse] > N_SPECIAL + 1 or sizes[fine] > MOST_TAGS
        field = coarse if use_coarse else fine
        n_tags = sizes[field]
        unbounded = np.iinfo(np.int32).max
        if not prune:
            return cls(field, np.full((n_tags, n_tags, 2), unbounded, np.int32))
        longest = np.zeros((n_tags, n_tags, 2), np.int32)
        rows, heads = rows_of_words(corpus)
        tags = corpus.tokens[:, field]
        place = (tags[heads], tags[rows], (rows > heads).astype(int))
        np.maximum.at(longest, place, np.abs(rows - heads).astype(np.int32))
        # Words with a tag that training has not had may hang anywhere.
        longest[UNKNOWN] = unbounded
        longest[:, UNKNOWN] = unbounded
        return cls(field, longest)


@storable(
    templates=TEXTS,
    vocabulary=ListOf(TEXTS, len(SENTENCE_COLUMNS)),
    reach_field=StoredWord(FIELDS.index("upos"), FIELDS.index("xpos")),
    reach=Wholes("tags", "tags", 2, low=0),
    bits=ListOf(Count(low=1)),
)
@dataclass(frozen=True)
class TemplateLayout:
    """The features that a parser reads, and where their weights lie.

    Parameters
    ----------
    templates : tuple of FeatureTemplate
    vocabulary : Vocabulary
    reach : ArcReach
    compiled : Templates
        All of it as arrays.
    """

    templates: tuple[FeatureTemplate, ...]
    vocabulary: Vocabulary
    reach: ArcReach
    compiled: Templates

    @classmethod
    def of(
        cls,
        templates: tuple[FeatureTemplate, ...],
        vocabulary: Vocabulary,
        reach: ArcReach,
        limit: int,
    ) -> TemplateLayout:
        """Tables as large as the templates need, within `limit` bytes."""
        bits = table_bits(templates, vocabulary.sizes, limit)
        compiled = compile_templates(templates, bits, reach)
        return cls(templates, vocabulary, reach, compiled)

    @classmethod
    def fit(
        cls,
        templates: tuple[FeatureTemplate, ...],
        sentences: Sequence[Sentence],
        min_count: int,
        prune_arcs: bool,
        limit: int,
    ) -> TemplateLayout:
        """Vocabulary and longest arcs of sentences, and tables for the weights."""
        vocabulary = Vocabulary.of(sentences, min_count)
        corpus = vocabulary.encode(sentences)
        reach = ArcReach.of(corpus, vocabulary.sizes, prune_arcs)
        return cls.of(templates, vocabulary, reach, limit)

    def to_stored(self) -> dict[str, Any]:
        return {
            "templates": [str(template) for template in self.templates],
            "vocabulary": [list(values) for values in self.vocabulary.values],
            "reach_field": self.reach.field,
            "reach": self.reach.longest,
            "bits": [int(32 - shift) for shift in self.compiled.shift],
        }

    @classmethod
    def from_stored(
        cls,
        templates: list[str],
        vocabulary: list[list[str]],
        reach_field: int,
        reach: np.ndarray,
        bits: list[int],
    ) -> TemplateLayout:
        parsed = tuple(map(ARC_TEMPLATES.parse, templates))
        words = Vocabulary(tuple(tuple(values) for values in vocabulary))
        needed = [_bits_needed(template, words.sizes) for template in parsed]
        require_all(
            "the layout of a parser",
            {
                "templates": len(set(parsed)) == len(parsed) > 0,
                "tags": len(reach) == words.sizes[reach_field],
                "table sizes": len(bits) == len(parsed)
                and all(b <= most for b, most in zip(bits, needed, strict=True)),
            },
        )
        longest = ArcReach(reach_field, reach.astype(np.int32))
        compiled = compile_templates(parsed, np.array(bits, np.int64), longest)
        return cls(parsed, words, longest, compiled)

    def widen(self, sentences: Sequence[Sentence]) -> None:
        """Arcs as long as those of new sentences are tried from now on."""
        corpus, longest = self.vocabulary.encode(sentences), self.reach.longest
        more = ArcReach.of(corpus, self.vocabulary.sizes, True)
        np.maximum(longest, more.longest, out=longest)

    def take(self, texts: Iterable[str], limit: int) -> TemplateLayout:
        """Some of the templates, whose tables may grow into the space of others."""
        kept = set(texts)
        templates = tuple(t for t in self.templates if str(t) in kept)
        return TemplateLayout.of(templates, self.vocabulary, self.reach, limit)


def compile_templates(
    templates: Sequence[FeatureTemplate], bits: NDArray[Any], reach: ArcReach
) -> Templates:
    """Return templates as arrays for the loops, with tables of 2^bits weights each."""
    head_atoms, head_side = _sides([t.side("h") for t in templates])
    modifier_atoms, modifier_side = _sides([t.side("m") for t in templates])
    third_atoms, third_side = _sides([t.side("gs") for t in templates])
    pairs, fields = (None, *PAIRS), (None, *FIELDS)
    return Templates(
        head_atoms,
        modifier_atoms,
        head_side,
        modifier_side,
        np.array([pairs.index(t.pair) for t in templates]),
        np.array([fields.index(t.each_field) - 1 for t in templates]),
        np.concatenate([[0], np.cumsum(2 ** bits.astype(np.int64))]),
        (32 - bits).astype(np.uint32),
        reach.longest,
        reach.field,
        third_atoms,
        third_side,
        np.array([THIRD_NODES.index(t.third_node) for t in templates]),
    )


def _bits_needed(template: FeatureTemplate, sizes: Sequence[int]) -> int:
    """Bits of the size of a template's table."""
    combinations = {None: 1, "direction": 2, "distance": 2 * (len(BIN_EDGES) + 1)}[
        template.pair
    ]
    # A third word stands left of, between or right of the two.
    combinations *= 1 if template.third_node is None else 3
    fields = [field for _, _, field in template.atoms]
    for field in filter(None, (*fields, template.each_field)):
        combinations *= sizes[FIELDS.index(field)]
    # Twice as many places as combinations keep collisions rare.
    return int(np.clip(combinations.bit_length() + 1, FEWEST_BITS, MOST_BITS))


def table_bits(
    templates: Sequence[FeatureTemplate], sizes: Sequence[int], limit: int
) -> NDArray[np.int64]:
    """Return sizes of tables, of which the largest shrink until all fit the limit."""
    needed = [_bits_needed(template, sizes) for template in templates]
    for most in range(MOST_BITS, FEWEST_BITS - 1, -1):
        bits = np.minimum(needed, most).astype(np.int64)
        n_bytes = int(np.sum(2**bits)) * WEIGHT_BYTES
        if n_bytes <= limit:
            return bits
    raise ValueError(
        f"memory_limit must allow at least {n_bytes} bytes for {len(needed)} templates,"
        f" got {limit}; raise it."
    )


def _sides(sides: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The different sides as a table padded with -1, and the side of each template.

    Many templates share a side, whose code is then computed once per word.
    """
    different = list(dict.fromkeys(sides))
    table = np.full((len(different), max(1, *map(len, different))), -1, np.int64)
    for row, side in zip(table, different, strict=True):
        codes = [(o + MARGIN) * len(FIELDS) + FIELDS.index(f) for o, f in side]
        row[: len(side)] = codes
    return table, np.array([different.index(side) for side in sides])


@dataclass(frozen=True)
class TreeModel:
    """Weights of all templates, and the trees that they lead to.

    Parameters
    ----------
    layout : TemplateLayout
    weights : array
    norms : array
        ||w_t|| of every template; templates at zero are skipped.
    """

    layout: TemplateLayout
    weights: Weights
    norms: Array

    @classmethod
    def of(cls, layout: TemplateLayout, weights: Weights) -> TreeModel:
        """With the norms of the weights."""
        return cls(layout, weights, template_norms(layout.compiled, weights))

    @property
    def names(self) -> list[str]:
        """The templates as texts."""
        return [str(template) for template in self.layout.templates]

    @property
    def strongest(self) -> list[str]:
        """Templates in use, strongest first."""
        names, order = self.names, np.argsort(-self.norms, kind="stable")
        return [names[t] for t in order if self.norms[t] > 0.0]

    def arc_scores(self, sentence: Sentence) -> Array:
        """scores[h, m] of the templates without a third word."""
        corpus = self.layout.vocabulary.encode([sentence])
        scores = arc_scores(
            corpus, self.layout.compiled, self.weights, self._in_use(), 0
        )
        return np.asarray(scores, dtype=np.float64)

    def best_heads(self, corpus: Corpus, single_root: bool) -> NDArray[np.int32]:
        """The heads of the best trees, by row of the corpus."""
        heads = np.zeros(len(corpus.tokens), np.int32)
        parse_corpus(
            corpus,
            self.layout.compiled,
            self.weights,
            self._in_use(),
            bool(single_root),
            heads,
        )
        return heads

    def untagged_score(
        self, sentences: Sequence[Sentence], single_root: bool
    ) -> float | None:
        """The share of right heads if words had no tags; None if there are no tags.

        Some sentences from all over the treebank have to do.
        """
        vocabulary = self.layout.vocabulary
        if not vocabulary.has_tags:
            return None
        sample = sentences[:: -(-len(sentences) // TAG_TRIAL_SENTENCES)]
        corpus = vocabulary.encode(without_tags(sample))
        rows = self.best_heads(corpus, single_root)
        heads = np.concatenate(heads_by_sentence(corpus, rows))
        true = np.concatenate([s.heads or () for s in sample])
        return float(np.mean(heads == true))

    def compressed(self, keep: float, half: bool) -> TreeModel:
        """With the largest weights only, or in half precision."""
        return TreeModel.of(self.layout, compressed_weights(self.weights, keep, half))

    def _in_use(self) -> Array:
        return (self.norms > 0.0).astype(np.float64)


def compressed_weights(weights: Weights, keep: float, half: bool) -> Weights:
    """Return the share of nonzero weights that are largest, rounded if asked for.

    Examples
    --------
    >>> compressed_weights(np.array([0.1, 0.0, -3.0], np.float32), 0.5, False).tolist()
    [0.0, 0.0, -3.0]
    """
    sizes = np.abs(weights[weights != 0.0])
    kept = weights.copy()
    dropped = len(sizes) - int(np.ceil(keep * len(sizes)))
    if dropped:
        # Everything up to the largest weight that has to go; ties go together.
        kept[np.abs(kept) <= np.partition(sizes, dropped - 1)[dropped - 1]] = 0.0
    if half:
        kept[kept != 0.0] = in_half_precision(kept[kept != 0.0])
    return kept


def in_half_precision(values: Weights) -> NDArray[np.float16]:
    """Round, but keep within the range of half precision, and away from zero.

    Examples
    --------
    >>> in_half_precision(np.array([1e6, 1e-9], np.float32)).tolist()
    [65504.0, 5.960464477539063e-08]
    """
    limits = np.finfo(np.float16)
    size = np.clip(np.abs(values), limits.smallest_subnormal, limits.max)
    return np.asarray(np.copysign(size, values), dtype=np.float16)


@storable(
    size=Count(),
    mask=Bytes("bytes"),
    values=Either(Floats("weights"), Halves("weights")),
)
@dataclass(frozen=True)
class PackedWeights:
    """One bit for every weight, and the values of those that are not zero.

    Values that half precision holds without loss are stored so; see
    `DependencyParser.compressed`.

    Examples
    --------
    >>> packed = PackedWeights.of(np.array([0.0, 0.5, 0.0], np.float32))
    >>> packed.values, packed.weights()
    (array([0.5], dtype=float16), array([0. , 0.5, 0. ], dtype=float32))
    """

    size: int
    mask: NDArray[np.uint8]
    values: NDArray[Any]

    @classmethod
    def of(cls, weights: Weights) -> PackedWeights:
        """Weights in any shape."""
        flat = weights.ravel()
        values = flat[flat != 0.0]
        half = in_half_precision(values)
        exact = np.array_equal(half.astype(np.float32), values)
        return cls(flat.size, np.packbits(flat != 0.0), half if exact else values)

    def weights(self) -> Weights:
        """All of them again, one after the other."""
        require_memory(5 * self.size, None, "reading the weights of a parser")
        weights = np.zeros(self.size, np.float32)
        weights[self._nonzero()] = self.values
        return weights

    def require_sound(self) -> None:
        """Raise where the bits and the values disagree."""
        require_all("weights", {"size": len(self.mask) == -(-self.size // 8)})
        require_all("weights", {"values": self._nonzero().sum() == len(self.values)})

    def _nonzero(self) -> NDArray[np.bool_]:
        return np.unpackbits(self.mask, count=self.size).astype(np.bool_)
