"""Sentences and templates as the arrays that compiled loops read."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manykernels.base.stored import (
    TEXTS,
    Count,
    ListOf,
    OneOf,
    Wholes,
    require_all,
    storable,
)
from manykernels.hot.arcs import BIN_EDGES, MARGIN, Corpus, Templates
from manykernels.hot.tree_search import parse_corpus
from manykernels.structured.arc_templates import (
    FIELDS,
    PAIRS,
    REACH,
    ArcTemplate,
    Atom,
    parse_template,
)
from manykernels.structured.conllu import BLANK, Sentence

COLUMNS = (
    "forms",
    "lemmas",
    "upos",
    "xpos",
    "feats",
    "suffixes",
)  # of a Sentence, in the order of FIELDS
UNKNOWN, BEFORE, ROOT, AFTER, N_SPECIAL = 0, 1, 2, 3, 4
FEWEST_BITS, MOST_BITS = 8, 22
SLOT_BYTES = 8  # a weight and its share in the average, in single precision

MOST_TAGS = 256  # whose pairs are worth a table
UNBOUNDED = 2**30
RELATIVES = (None, "g", "s")
ANY_SIZE = 2**62  # no limit in bytes: a file says itself how large its tables are

assert REACH == MARGIN


@dataclass(frozen=True)
class Vocabulary:
    """The values of each field that were seen often enough; others are one unknown.

    Examples
    --------
    >>> vocabulary = Vocabulary.of([Sentence.of(["a", "b", "a"])], min_count=2)
    >>> vocabulary.values[0]
    ('a',)
    """

    values: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, sentences: Sequence[Sentence], min_count: int = 1) -> Vocabulary:
        """The values in sentences; tags count however rare they are."""
        counts = [
            Counter(v for s in sentences for v in getattr(s, name)) for name in COLUMNS
        ]
        fewest = (min_count, min_count, 1, 1, 1, min_count)
        return cls(
            tuple(
                tuple(sorted(v for v, count in c.items() if count >= least))
                for c, least in zip(counts, fewest, strict=True)
            )
        )

    @property
    def sizes(self) -> list[int]:
        """Codes of each field, the special ones included."""
        return [N_SPECIAL + len(values) for values in self.values]

    def encode(self, sentences: Sequence[Sentence]) -> Corpus:
        """The sentences as one table of codes with root and margins."""
        lengths = np.array([len(s) + 1 + 2 * MARGIN for s in sentences], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        words = np.ones(starts[-1], bool)
        tokens = np.full((starts[-1], len(FIELDS)), AFTER, np.int32)
        for k in range(MARGIN + 1):
            tokens[starts[:-1] + k] = ROOT if k == MARGIN else BEFORE
            words[starts[:-1] + k] = False
        for k in range(MARGIN):
            words[starts[1:] - 1 - k] = False
        for j, (name, values) in enumerate(zip(COLUMNS, self.values, strict=True)):
            known = {value: k for k, value in enumerate(values, N_SPECIAL)}
            cells = [known.get(v, UNKNOWN) for s in sentences for v in getattr(s, name)]
            tokens[words, j] = cells
        heads = np.zeros(starts[-1], np.int32)
        if all(sentence.heads is not None for sentence in sentences):
            heads[words] = [head for s in sentences for head in s.heads or ()]
        return Corpus(tokens, starts, heads)


@dataclass(frozen=True)
class Reach:
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
    def of(cls, corpus: Corpus, sizes: Sequence[int], prune: bool) -> Reach:
        """From the heads of a corpus; any length if nothing is to be left out."""
        coarse, fine = FIELDS.index("upos"), FIELDS.index("xpos")
        use_coarse = sizes[coarse] > N_SPECIAL + 1 or sizes[fine] > MOST_TAGS
        field = coarse if use_coarse else fine
        n_tags = sizes[field]
        if not prune:
            return cls(field, np.full((n_tags, n_tags, 2), UNBOUNDED, np.int32))
        longest = np.zeros((n_tags, n_tags, 2), np.int32)
        rows, heads = _rows_of_words(corpus)
        tags = corpus.tokens[:, field]
        place = (tags[heads], tags[rows], (rows > heads).astype(int))
        np.maximum.at(longest, place, np.abs(rows - heads).astype(np.int32))
        # Of unknown tags nothing is known.
        longest[UNKNOWN] = UNBOUNDED
        longest[:, UNKNOWN] = UNBOUNDED
        return cls(field, longest)


def _rows_of_words(corpus: Corpus) -> tuple[np.ndarray, np.ndarray]:
    """The rows of all words, and the rows of their heads."""
    spans = zip(corpus.starts[:-1], corpus.starts[1:], strict=True)
    rows = np.concatenate([np.arange(a + MARGIN + 1, b - MARGIN) for a, b in spans])
    roots = np.repeat(corpus.starts[:-1] + MARGIN, np.diff(corpus.starts))[rows]
    return rows, roots + corpus.heads[rows]


@storable(
    templates=TEXTS,
    vocabulary=ListOf(TEXTS, len(COLUMNS)),
    reach_field=OneOf(FIELDS.index("upos"), FIELDS.index("xpos")),
    reach=Wholes("tags", "tags", 2, low=0),
    bits=ListOf(Count(low=1)),
)
@dataclass(frozen=True)
class Layout:
    """What a parser looks at, and where its weights lie.

    Parameters
    ----------
    templates : tuple of ArcTemplate
    vocabulary : Vocabulary
    reach : Reach
    compiled : Templates
        All of it as arrays.
    """

    templates: tuple[ArcTemplate, ...]
    vocabulary: Vocabulary
    reach: Reach
    compiled: Templates

    @classmethod
    def of(
        cls,
        templates: tuple[ArcTemplate, ...],
        vocabulary: Vocabulary,
        reach: Reach,
        limit: int,
    ) -> Layout:
        """Tables for the templates within `limit` bytes."""
        compiled = compile_templates(templates, vocabulary.sizes, limit, reach)
        return cls(templates, vocabulary, reach, compiled)

    def to_stored(self) -> dict[str, Any]:
        """What a file holds: the compiled arrays follow from it."""
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
    ) -> Layout:
        """Compile anew what a file says; tables have the sizes that they had."""
        parsed = tuple(parse_template(text) for text in templates)
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
        longest = Reach(reach_field, reach.astype(np.int32))
        layout = cls.of(parsed, words, longest, ANY_SIZE)
        sizes = np.array(bits, dtype=np.int64)
        compiled = layout.compiled._replace(
            start=np.concatenate([[0], np.cumsum(2**sizes)]),
            shift=(32 - sizes).astype(np.uint32),
        )
        return replace(layout, compiled=compiled)

    @classmethod
    def fit(
        cls,
        templates: tuple[ArcTemplate, ...],
        sentences: Sequence[Sentence],
        min_count: int,
        prune_arcs: bool,
        limit: int,
    ) -> Layout:
        """Vocabulary and longest arcs of sentences, and room for the weights."""
        vocabulary = Vocabulary.of(sentences, min_count)
        corpus = vocabulary.encode(sentences)
        reach = Reach.of(corpus, vocabulary.sizes, prune_arcs)
        return cls.of(templates, vocabulary, reach, limit)

    def widen(self, sentences: Sequence[Sentence]) -> None:
        """Arcs as long as those of new sentences are tried from now on."""
        corpus, longest = self.vocabulary.encode(sentences), self.reach.longest
        more = Reach.of(corpus, self.vocabulary.sizes, True)
        np.maximum(longest, more.longest, out=longest)

    def best_heads(
        self,
        weights: np.ndarray,
        in_use: np.ndarray,
        corpus: Corpus,
        single_root: bool,
    ) -> np.ndarray:
        """The heads of the best trees, by row; templates not in use have no weights."""
        heads = np.zeros(len(corpus.tokens), np.int32)
        scales, n = in_use.astype(np.float64), len(corpus.starts) - 1
        one = bool(single_root)
        parse_corpus(corpus, self.compiled, weights, scales, one, 0, n, heads)
        return heads

    @staticmethod
    def by_sentence(corpus: Corpus, heads: np.ndarray) -> list[tuple[int, ...]]:
        """Heads by row as one tuple for each sentence."""
        spans = zip(corpus.starts[:-1], corpus.starts[1:], strict=True)
        return [tuple(heads[a + MARGIN + 1 : b - MARGIN].tolist()) for a, b in spans]

    def only(self, texts: Iterable[str], limit: int) -> Layout:
        """With these templates only, whose tables may grow into the room of others."""
        kept = set(texts)
        templates = tuple(t for t in self.templates if str(t) in kept)
        return Layout.of(templates, self.vocabulary, self.reach, limit)


def compile_templates(
    templates: Sequence[ArcTemplate], sizes: Sequence[int], limit: int, reach: Reach
) -> Templates:
    """Arrays for the loops; tables are as large as needed within `limit` bytes."""
    needed = [_bits_needed(template, sizes) for template in templates]
    bits = np.minimum(needed, _most_bits(needed, limit))
    head_atoms, head_side = _sides([template.head for template in templates])
    modifier_atoms, modifier_side = _sides([t.modifier for t in templates])
    third_atoms, third_side = _sides([t.third for t in templates])
    return Templates(
        head_atoms,
        modifier_atoms,
        head_side,
        modifier_side,
        np.array([_pair_code(template.pair) for template in templates]),
        np.array([_field_code(template.between) for template in templates]),
        np.concatenate([[0], np.cumsum(2 ** bits.astype(np.int64))]),
        (32 - bits).astype(np.uint32),
        reach.longest,
        reach.field,
        third_atoms,
        third_side,
        np.array([RELATIVES.index(template.relative) for template in templates]),
    )


def _bits_needed(template: ArcTemplate, sizes: Sequence[int]) -> int:
    """Bits of a table twice as large as the number of combinations, at most."""
    combinations = {None: 1, "direction": 2, "distance": 2 * (len(BIN_EDGES) + 1)}[
        template.pair
    ]
    atoms = template.head + template.modifier + template.third
    fields = [field for _, field in atoms]
    combinations *= 1 if template.relative is None else 3  # where the third word is
    for field in fields + ([] if template.between is None else [template.between]):
        combinations *= sizes[FIELDS.index(field)]
    return int(np.clip(combinations.bit_length() + 1, FEWEST_BITS, MOST_BITS))


def _most_bits(needed: Sequence[int], limit: int) -> int:
    """The largest size of a table with which all of them fit into the limit."""
    for bits in range(MOST_BITS, FEWEST_BITS - 1, -1):
        if sum(2 ** min(n, bits) for n in needed) * SLOT_BYTES <= limit:
            return bits
    least = sum(2 ** min(n, FEWEST_BITS) for n in needed) * SLOT_BYTES
    raise ValueError(
        f"memory_limit must allow at least {least} bytes for {len(needed)} templates, "
        f"got {limit}; raise it."
    )


def _sides(sides: Sequence[tuple[Atom, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """The different sides as a table padded with -1, and the side of each template."""
    different = list(dict.fromkeys(sides))
    table = np.full((len(different), max(1, *map(len, different))), -1, np.int64)
    for row, side in zip(table, different, strict=True):
        codes = [(o + MARGIN) * len(FIELDS) + FIELDS.index(f) for o, f in side]
        row[: len(side)] = codes
    return table, np.array([different.index(side) for side in sides])


def _pair_code(pair: str | None) -> int:
    return 0 if pair is None else 1 + PAIRS.index(pair)


def _field_code(field: str | None) -> int:
    return -1 if field is None else FIELDS.index(field)


def knows_tags(vocabulary: Vocabulary) -> bool:
    """Whether tags told words apart."""
    return len(vocabulary.values[FIELDS.index("upos")]) > 1


def without_tags(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Words alone, beside their trees.

    Examples
    --------
    >>> without_tags([Sentence.of(["Go"], ["VERB"], xpos=["VB"])])[0].upos
    ('_',)
    """
    return [
        replace(s, lemmas=blank, upos=blank, xpos=blank, feats=blank)
        for s, blank in ((s, (BLANK,) * len(s)) for s in sentences)
    ]


def warn_of_missing_tags(
    vocabulary: Vocabulary, sentences: Sequence[Sentence], score: float | None
) -> None:
    """Say it where sentences lack the tags that a parser has learned from.

    `score` is the share of right heads in training sentences without tags, if known.
    """
    bare = sum(all(tag == BLANK for tag in sentence.upos) for sentence in sentences)
    if bare and knows_tags(vocabulary):
        n_tags = len(vocabulary.values[FIELDS.index("upos")])
        expected = (
            "most heads to be wrong"
            if score is None
            else f"about {100.0 * score:.0f} % of the heads to be right, as in "
            "training sentences without theirs"
        )
        warnings.warn(
            f"{bare} of {len(sentences)} sentences have no tags, of which this parser "
            f"knows {n_tags}; expect {expected}, or tag the words first "
            "(manykernels parse --tag).",
            stacklevel=3,
        )


def check_sentences(sentences: Any, heads: bool = False) -> list[Sentence]:
    """A list of sentences with words, and with heads that form trees if asked for."""
    given = isinstance(sentences, Iterable) and not isinstance(
        sentences, str | Sentence
    )
    found = list(sentences) if given else []
    if not given or not found:
        raise ValueError(
            "expected a list with at least one sentence, got "
            f"{'an empty one' if given else type(sentences).__name__}; read some with "
            "manykernels.structured.read_conllu."
        )
    for i, sentence in enumerate(found):
        if not isinstance(sentence, Sentence):
            raise TypeError(
                "expected sentences of manykernels.structured, got "
                f"{type(sentence).__name__} at position {i}; read them with "
                "read_conllu, or make them with Sentence.of."
            )
        if not len(sentence):
            raise ValueError(
                f"expected words in every sentence, got none at position {i}; leave "
                "it out."
            )
        if heads and sentence.heads is None:
            raise ValueError(
                "expected a head for every word, got none in the sentence at position "
                f"{i}; leave it out, or fill in the seventh column."
            )
    return found


def check_treebank(sentences: Any, single_root: bool) -> list[Sentence]:
    """A list of sentences with heads that form trees, of one root if that matters."""
    found = check_sentences(sentences, heads=True)
    for i, sentence in enumerate(found):
        heads = sentence.heads or ()
        n_roots = sum(head == 0 for head in heads)
        if not _is_tree(heads):
            raise ValueError(
                f"expected heads that form a tree, got {_listed(heads)} in the "
                f"sentence at position {i}; correct or leave out the sentence."
            )
        if single_root and n_roots > 1:
            raise ValueError(
                f"expected one word with head 0 per sentence, got {n_roots} at "
                f"position {i}; pass single_root=False, or leave out the sentence."
            )
    return found


def _is_tree(heads: Sequence[int]) -> bool:
    """Whether every word hangs on the root, by following heads once each."""
    reached = [True] + [False] * len(heads)
    for start in range(1, len(heads) + 1):
        path: list[int] = []
        node = start
        while not reached[node]:
            if not 0 <= heads[node - 1] <= len(heads) or len(path) > len(heads):
                return False
            path.append(node)
            node = heads[node - 1]
        for node in path:
            reached[node] = True
    return True


def _listed(heads: Sequence[int]) -> str:
    shown = ", ".join(str(head) for head in heads[:12])
    return f"{shown}{', ...' if len(heads) > 12 else ''}"
