"""Templates of arc features: which values of head, modifier and surroundings to join.

A template is written as text: `"h.form m-1.upos m.upos distance"` has one feature for
every combination of the head's form, the tags of the modifier and of the word before
it, and the distance. A third word may join them: `g`, the head's head, or `s`, the
modifier's next sibling on the way to the head. All templates come from the short lists
below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from manykernels.base.quoted import quoted
from manykernels.base.stored import TEXT, storable

FIELDS = ("form", "lemma", "upos", "xpos", "feats", "suffix")
PAIRS = ("direction", "distance")
REACH = 2  # words to the left and right that an atom may look at
ATOM = re.compile(rf"([hmgs])([+-][1-{REACH}])?\.({'|'.join(FIELDS)})")
BETWEEN = re.compile(rf"between\.({'|'.join(FIELDS[2:4])})")

Atom = tuple[int, str]  # offset and field


@storable(text=TEXT)
@dataclass(frozen=True)
class ArcTemplate:
    """Atoms of the head and of the modifier, and what lies between them.

    Parameters
    ----------
    head, modifier : tuple of (int, str)
        Offset of a word from the head (or modifier), and one of its fields.
    pair : str, optional
        "direction", or "distance", which is signed and in bins.
    between : str, optional
        "upos" or "xpos": one feature for each tag that occurs between the two.
    third : tuple of (int, str)
        Atoms of a third word, likewise; where it stands is part of the feature.
    relative : str, optional
        Which word that is: "g", the head's head, or "s", the next child of the same
        head on the way from the modifier to the head.

    Examples
    --------
    >>> str(ArcTemplate(((0, "form"),), ((-1, "upos"), (0, "upos")), "distance"))
    'h.form m-1.upos m.upos distance'
    """

    head: tuple[Atom, ...] = ()
    modifier: tuple[Atom, ...] = ()
    pair: str | None = None
    between: str | None = None
    third: tuple[Atom, ...] = ()
    relative: str | None = None

    def __str__(self) -> str:
        words = [
            f"{side}{offset or '':+}.{field}" if offset else f"{side}.{field}"
            for side, atoms in self._sides()
            for offset, field in atoms
        ]
        words += [] if self.between is None else [f"between.{self.between}"]
        return " ".join(words + ([] if self.pair is None else [self.pair]))

    def _sides(self) -> Iterator[tuple[str, tuple[Atom, ...]]]:
        if self.relative is not None:
            yield self.relative, self.third
        yield "h", self.head
        yield "m", self.modifier

    def to_stored(self) -> dict[str, Any]:
        """In a file it is its text."""
        return {"text": str(self)}

    @staticmethod
    def from_stored(text: str) -> ArcTemplate:
        """The template that a text in a file describes."""
        return parse_template(text)


def parse_template(text: str) -> ArcTemplate:
    """The template that a text describes.

    Examples
    --------
    >>> parse_template("h.lemma m+1.xpos direction").modifier
    ((1, 'xpos'),)
    """
    sides: dict[str, list[Atom]] = {"h": [], "m": [], "g": [], "s": []}
    pair = between = None
    words = text.split() if isinstance(text, str) else []
    for word in words:
        if match := ATOM.fullmatch(word):
            sides[match[1]].append((int(match[2] or 0), match[3]))
        elif (match := BETWEEN.fullmatch(word)) and between is None:
            between = match[1]
        elif word in PAIRS and pair is None:
            pair = word
        else:
            raise _not_a_template(text, word)
    head, modifier, *thirds = (tuple(sorted(set(sides[side]))) for side in "hmgs")
    n_atoms = len(head) + len(modifier) + sum(map(len, thirds))
    if not words or n_atoms < sum(map(len, sides.values())):
        raise _not_a_template(text, "a repeated word" if words else "none")
    relatives = [name for name, atoms in zip("gs", thirds, strict=True) if atoms]
    if len(relatives) > 1 or (relatives and between):
        raise _not_a_template(text, "more than one of g, s and between")
    third = thirds[0] or thirds[1]
    relative = relatives[0] if relatives else None
    return ArcTemplate(head, modifier, pair, between, third, relative)


def arc_templates(choice: Any = "standard") -> tuple[ArcTemplate, ...]:
    """Templates by the name of a set, "standard" or "full", or from texts.

    Examples
    --------
    >>> len(arc_templates("full")), len(arc_templates("standard"))
    (507, 169)
    >>> [str(t) for t in arc_templates(["m.upos h.upos"])]
    ['h.upos m.upos']
    """
    if isinstance(choice, str):
        if choice not in SETS:
            raise ValueError(
                f"templates must be one of {', '.join(SETS)}, or a list of texts, got "
                f"{quoted(choice)}; choose one of these."
            )
        return tuple(dict.fromkeys(SETS[choice]()))
    if not isinstance(choice, Iterable) or not getattr(choice, "ndim", 1):
        raise TypeError(
            f"templates must be one of {', '.join(SETS)}, or a list of texts, got "
            f"{quoted(choice)}; choose one of these."
        )
    given = [t if isinstance(t, ArcTemplate) else parse_template(t) for t in choice]
    if not given or len(set(given)) < len(given):
        raise ValueError(
            f"templates must be a list of different texts, got {len(given)} of which "
            f"{len(set(given))} differ; leave out the others."
        )
    return tuple(given)


def for_loss(
    templates: tuple[ArcTemplate, ...], choice: Any, loss: str
) -> tuple[ArcTemplate, ...]:
    """Those that a loss can take: the CRF sums over all trees, arc by arc.

    A set by its name is cut down; templates that were named one by one are not.
    """
    alone = tuple(t for t in templates if t.relative is None)
    if loss == "hinge" or len(alone) == len(templates):
        return templates
    if isinstance(choice, str):
        return alone
    odd = next(str(t) for t in templates if t.relative is not None)
    raise ValueError(
        "loss='crf' needs templates of head and modifier alone, got a third word in "
        f"{odd!r}; use loss='hinge', or leave it out."
    )


def _not_a_template(text: Any, word: str) -> ValueError:
    return ValueError(
        "expected words such as h.form, m-1.upos, g.lemma, s.upos, between.xpos, "
        f"{' or '.join(PAIRS)} in a template, got {word!r} in {text!r}; write for "
        "example 'h.upos m.form distance'."
    )


# --- the sets ----------------------------------------------------------------

# What one word shows of itself, alone or joined.
OWN = tuple(
    tuple((0, field) for field in fields)
    for fields in (
        ("form",),
        ("lemma",),
        ("upos",),
        ("xpos",),
        ("form", "upos"),
        ("form", "xpos"),
        ("lemma", "upos"),
        ("lemma", "xpos"),
    )
)
BRIEF = tuple(OWN[k] for k in (0, 1, 2, 3, 4, 7))
TAGS = ("upos", "xpos")
WORDS = ("form", "lemma")
# Offsets of the tags that are joined: the word itself with neighbors on some sides.
WINDOWS = ((0,), (-1, 0), (0, 1), (-1, 0, 1))
FAR_WINDOWS = ((-2, -1, 0), (0, 1, 2))


def _tags(field: str, offsets: Sequence[int]) -> tuple[Atom, ...]:
    return tuple((offset, field) for offset in offsets)


def _alone(sides: Any, pairs: Sequence[str | None]) -> Iterator[ArcTemplate]:
    for side, pair in product(sides, pairs):
        yield ArcTemplate(side, (), pair)
        yield ArcTemplate((), side, pair)


def _joined(heads: Any, modifiers: Any, pairs: Any) -> Iterator[ArcTemplate]:
    for head, modifier, pair in product(heads, modifiers, pairs):
        yield ArcTemplate(head, modifier, pair)


def _windows(field: str, windows: Any) -> list[tuple[Atom, ...]]:
    return [_tags(field, window) for window in windows]


def _standard() -> Iterator[ArcTemplate]:
    """Templates for arcs alone, and those with a third word, 169 of them."""
    yield from _arcs()
    yield from map(parse_template, [*_morphology(), *_third_words()])


def _morphology() -> Iterator[str]:
    """Features of inflection, joined with tags, and ends of words."""
    inflected = "{0}.upos {0}.feats"
    head, modifier = inflected.format("h"), inflected.format("m")
    for pair in PAIRS:
        for other in ("upos", "lemma"):
            yield f"h.{other} {modifier} {pair}"
            yield f"{head} m.{other} {pair}"
        yield f"{head} {modifier} {pair}"
    around = ("{1}", "{0}-1.upos {1}", "{1} {0}+1.upos")
    for first, second in list(product(around, around))[1:]:
        sides = first.format("h", head), second.format("m", modifier)
        yield f"{' '.join(sides)} direction"
    ends = ("suffix", "suffix {0}.upos")
    for end, other in product(ends, ("lemma", "upos")):
        yield f"h.{end.format('h')} m.{other} direction"
        yield f"h.{other} m.{end.format('m')} direction"
    for first, second in product(ends, ends):
        yield f"h.{first.format('h')} m.{second.format('m')} direction"


def _third_words() -> Iterator[str]:
    """Tags of three words, and lemmas of one or two of them."""
    for third in "gs":
        for words in (
            "{0}.upos m.upos",
            "{0}.lemma m.upos",
            "{0}.upos m.lemma",
            "{0}.lemma m.lemma",
            "{0}.upos h.upos m.upos",
            "{0}.xpos h.xpos m.xpos",
            "{0}.lemma h.upos m.upos",
            "{0}.upos h.lemma m.upos",
            "{0}.upos h.upos m.lemma",
            "{0}.upos h.lemma m.lemma",
            "{0}.upos {0}.feats h.upos h.feats m.upos m.feats",
        ):
            yield f"{words.format(third)} direction"
    yield "s.lemma h.lemma m.upos direction"


def _arcs() -> Iterator[ArcTemplate]:
    """The templates that parsers have used for long, 116 of them."""
    yield from _alone(OWN, ["distance"])
    yield from _joined(BRIEF, BRIEF, ["direction"])
    for head, modifier in product(BRIEF, BRIEF):
        if head in BRIEF[2:4] or modifier in BRIEF[2:4]:
            yield ArcTemplate(head, modifier, "distance")
    for field, pair in zip(TAGS, PAIRS[::-1], strict=True):
        windows = _windows(field, WINDOWS)
        yield from list(_joined(windows, windows, [pair]))[1:]
        far = _windows(field, FAR_WINDOWS)
        yield from _joined(windows[:1], far, [pair])
        yield from _joined(far, windows[:1], [pair])
        own = windows[0]
        yield ArcTemplate(own, own, "direction", field)
    yield ArcTemplate(OWN[1], OWN[2], "direction", "upos")
    yield ArcTemplate(OWN[2], OWN[1], "direction", "upos")
    yield ArcTemplate(OWN[2], OWN[2], "distance", "upos")
    yield ArcTemplate(OWN[3], OWN[3], "distance", "xpos")


def _full() -> Iterator[ArcTemplate]:
    """All combinations of the lists above, 507 of them."""
    yield from _alone(OWN, [None, *PAIRS])
    yield from _joined(OWN, OWN, [None, *PAIRS])
    for field in TAGS:
        yield from _tag_contexts(field)
        yield from _word_contexts(field)
        yield from _tags_between(field)
    upos, xpos = (_windows(field, WINDOWS[1:]) for field in TAGS)
    yield from _joined(upos, xpos, PAIRS)
    yield from _joined(xpos, upos, PAIRS)
    yield ArcTemplate(pair="distance")


def _tag_contexts(field: str) -> Iterator[ArcTemplate]:
    """Tags around head and modifier: near, further away, and of one of them only."""
    windows = _windows(field, WINDOWS)
    own = windows[:1]
    near = [pair for pair in product(windows, windows) if pair != (own[0], own[0])]
    for (head, modifier), pair in product(near, PAIRS):
        yield ArcTemplate(head, modifier, pair)
    far = _windows(field, FAR_WINDOWS)
    yield from _joined(own, far, PAIRS)
    yield from _joined(far, own, PAIRS)
    yield from _joined(far, far, PAIRS)
    yield from _alone(windows[1:], PAIRS)
    beside = _windows(field, ((-1,), (1,)))
    yield from _joined(own, beside, PAIRS)
    yield from _joined(beside, own, PAIRS)


def _word_contexts(field: str) -> Iterator[ArcTemplate]:
    """A word on one side, tags around the other; words on both sides and one tag."""
    windows = _windows(field, WINDOWS[1:])
    for word in WORDS:
        side = ((0, word),)
        yield from _joined([side], windows, PAIRS)
        yield from _joined(windows, [side], PAIRS)
        for offset, pair in product((-1, 1), PAIRS):
            beside = ((offset, field),)
            yield ArcTemplate(tuple(sorted(side + beside)), side, pair)
            yield ArcTemplate(side, tuple(sorted(side + beside)), pair)


def _tags_between(field: str) -> Iterator[ArcTemplate]:
    own, lemma = _tags(field, (0,)), ((0, "lemma"),)
    for pair in PAIRS:
        yield ArcTemplate(own, own, pair, field)
        yield ArcTemplate(lemma, own, pair, field)
        yield ArcTemplate(own, lemma, pair, field)
    yield ArcTemplate(own, (), "direction", field)
    yield ArcTemplate((), own, "direction", field)
    yield ArcTemplate((), (), "distance", field)


SETS = {"standard": _standard, "full": _full}
