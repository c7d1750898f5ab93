"""Templates of features of arcs and of relations: which values are joined.

A template is written as text: `"h.form m-1.upos m.upos distance"` has one feature for
every combination of the head's form, the tags of the modifier and of the word before
it, and the distance. More words may join them: `g`, the head's head, and `s`, the
modifier's next sibling on the way to the head; for relations, whose tree is known, also
`l` and `r`, the modifier's first and last child. All templates come from the short
lists below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from manykernels.base.quoted import quoted
from manykernels.hot.arcs import MARGIN

FIELDS = ("form", "lemma", "upos", "xpos", "feats", "suffix")
PAIRS = ("direction", "distance")
TEMPLATE_NODES = "gshmlr"  # in the order of a template's text

Atom = tuple[str, int, str]  # node, offset and field


@dataclass(frozen=True)
class FeatureTemplate:
    """Values of words around an arc that are joined.

    Parameters
    ----------
    atoms : tuple of (str, int, str)
        A node, the offset of a word from it, and one of the word's fields; sorted.
    pair : str, optional
        "direction", or "distance", which is signed and in bins.
    each : str, optional
        "between.upos": one feature for each tag that occurs between head and modifier;
        "children.lemma": one for every child of the modifier.

    Examples
    --------
    >>> str(FeatureTemplate((("h", 0, "upos"), ("m", -1, "form")), "direction"))
    'h.upos m-1.form direction'
    """

    atoms: tuple[Atom, ...]
    pair: str | None = None
    each: str | None = None

    def __str__(self) -> str:
        words = [
            f"{node}{offset:+d}.{field}" if offset else f"{node}.{field}"
            for node, offset, field in sorted(
                self.atoms, key=lambda atom: (TEMPLATE_NODES.index(atom[0]), *atom[1:])
            )
        ]
        return " ".join([*words, *filter(None, (self.each, self.pair))])

    def side(self, nodes: str) -> tuple[tuple[int, str], ...]:
        """Offsets and fields of the atoms of some nodes."""
        atoms = [atom for atom in self.atoms if atom[0] in nodes]
        return tuple((offset, field) for _, offset, field in atoms)

    @property
    def third_node(self) -> str | None:
        """The node beside head and modifier, "g" or "s", of a template of arcs."""
        return next((node for node, *_ in self.atoms if node in "gs"), None)

    @property
    def each_field(self) -> str | None:
        """The field of the words that have a feature each."""
        return None if self.each is None else self.each.partition(".")[2]


@dataclass(frozen=True)
class TemplateGrammar:
    """Words that templates of one sort may hold, and the sets that have names."""

    parameter: str  # of the parser
    choices: str
    sort: str
    atom: re.Pattern[str]
    each: re.Pattern[str]
    examples: tuple[str, str]
    sets: Mapping[str, Callable[[], Iterable[str]]] = field(default_factory=dict)

    def parse(self, text: Any) -> FeatureTemplate:
        """Return the template that a text describes.

        Examples
        --------
        >>> ARC_TEMPLATES.parse("h.lemma m+1.xpos direction").side("m")
        ((1, 'xpos'),)
        """
        atoms: list[Atom] = []
        pair = each = None
        words = text.split() if isinstance(text, str) else []
        for word in words:
            if match := self.atom.fullmatch(word):
                atoms.append((match[1], int(match[2] or 0), match[3]))
            elif self.each.fullmatch(word) and each is None:
                each = word
            elif word in PAIRS and pair is None:
                pair = word
            else:
                raise self._not_a_template(text, repr(word))
        if not words or len(set(atoms)) < len(atoms):
            raise self._not_a_template(text, "a repeated word" if words else "none")
        return FeatureTemplate(tuple(sorted(atoms)), pair, each)

    def read(self, choice: Any) -> tuple[FeatureTemplate, ...]:
        """Return the templates of a set by its name, or of a list of texts.

        Examples
        --------
        >>> len(ARC_TEMPLATES.read("full")), len(ARC_TEMPLATES.read("standard"))
        (507, 169)
        >>> [str(template) for template in LABEL_TEMPLATES.read(["m.upos h.upos"])]
        ['h.upos m.upos']
        """
        if isinstance(choice, str) and choice in self.sets:
            return tuple(map(self.parse, dict.fromkeys(self.sets[choice]())))
        listed = isinstance(choice, Iterable) and not isinstance(choice, str)
        if getattr(choice, "ndim", 1) != 1:  # an array that cannot be iterated over
            listed = False
        templates = tuple(self.parse(text) for text in choice) if listed else ()
        if not templates or len(set(templates)) < len(templates):
            raise ValueError(
                f"{self.parameter} must be {self.choices} a list of different texts, "
                f"got {quoted(choice)}; choose one of these."
            )
        return templates

    def _not_a_template(self, text: Any, word: str) -> ValueError:
        words, example = self.examples
        return ValueError(
            f"expected words such as {words}, {' or '.join(PAIRS)} in a {self.sort}, "
            f"got {word} in {text!r}; write for example {example!r}."
        )


class ArcGrammar(TemplateGrammar):
    """Arcs are compiled: one third word, or words between, but not both."""

    def parse(self, text: Any) -> FeatureTemplate:
        template = super().parse(text)
        thirds = {node for node, *_ in template.atoms if node in "gs"}
        if len(thirds) + (template.each is not None and bool(thirds)) > 1:
            raise self._not_a_template(text, "more than one of g, s and between")
        return template


def _atoms(nodes: str) -> re.Pattern[str]:
    return re.compile(rf"([{nodes}])([+-][1-{MARGIN}])?\.({'|'.join(FIELDS)})")


def templates_for_loss(
    templates: tuple[FeatureTemplate, ...], choice: Any, loss: str
) -> tuple[FeatureTemplate, ...]:
    """Return those that a loss can take: the CRF sums over all trees, arc by arc.

    A set by its name is cut down; templates that were named one by one are not.
    """
    alone = tuple(t for t in templates if t.third_node is None)
    if loss == "hinge" or len(alone) == len(templates):
        return templates
    if isinstance(choice, str):
        return alone
    odd = next(str(t) for t in templates if t.third_node is not None)
    raise ValueError(
        "loss='crf' needs templates of head and modifier alone, got a third word in "
        f"{odd!r}; use loss='hinge', or leave it out."
    )


# --- templates of arcs ---------------------------------------------------------------
#
# A side is a text with {0} for the node: what one word shows, alone or joined.


def _side(*fields: str) -> str:
    return " ".join(f"{{0}}.{field}" for field in fields)


def _window(field: str, *offsets: int) -> str:
    return " ".join(f"{{0}}{k:+d}.{field}" if k else f"{{0}}.{field}" for k in offsets)


def _joined(heads: Any, modifiers: Any, pairs: Any) -> Iterator[str]:
    for head, modifier, pair in product(heads, modifiers, pairs):
        yield f"{head.format('h')} {modifier.format('m')} {pair}"


def _alone(sides: Any, pairs: Any) -> Iterator[str]:
    for side, pair in product(sides, pairs):
        yield from _joined([side], [""], [pair])
        yield from _joined([""], [side], [pair])


WORD_SIDES = (
    *map(_side, ("form", "lemma", "upos", "xpos")),
    *(_side(word, tag) for word in ("form", "lemma") for tag in ("upos", "xpos")),
)
BRIEF_SIDES = (*WORD_SIDES[:4], WORD_SIDES[4], WORD_SIDES[7])
# Offsets of the tags that are joined: the word itself with neighbors on some sides.
TAG_WINDOWS = ((0,), (-1, 0), (0, 1), (-1, 0, 1))
FAR_TAG_WINDOWS = ((-2, -1, 0), (0, 1, 2))


def _windows(field: str, windows: Any) -> list[str]:
    return [_window(field, *window) for window in windows]


def _standard_arcs() -> Iterator[str]:
    """Templates for arcs alone, and those with a third word, 169 of them."""
    yield from _classic_arcs()
    yield from _morphology()
    yield from _third_words()


def _morphology() -> Iterator[str]:
    """Features of inflection, joined with tags, and ends of words."""
    inflected, tag, lemma = _side("upos", "feats"), _side("upos"), _side("lemma")
    for pair in PAIRS:
        for other in (tag, lemma):
            yield from _joined([other], [inflected], [pair])
            yield from _joined([inflected], [other], [pair])
        yield from _joined([inflected], [inflected], [pair])
    around = (inflected, f"{{0}}-1.upos {inflected}", f"{inflected} {{0}}+1.upos")
    yield from list(_joined(around, around, ["direction"]))[1:]
    ends = (_side("suffix"), _side("suffix", "upos"))
    for end, other in product(ends, (lemma, tag)):
        yield from _joined([end], [other], ["direction"])
        yield from _joined([other], [end], ["direction"])
    yield from _joined(ends, ends, ["direction"])


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


def _classic_arcs() -> Iterator[str]:
    """The templates that parsers have used for long, 116 of them."""
    yield from _alone(WORD_SIDES, ["distance"])
    yield from _joined(BRIEF_SIDES, BRIEF_SIDES, ["direction"])
    for head, modifier in product(BRIEF_SIDES, BRIEF_SIDES):
        if head in BRIEF_SIDES[2:4] or modifier in BRIEF_SIDES[2:4]:
            yield from _joined([head], [modifier], ["distance"])
    for tag, pair in zip(("upos", "xpos"), PAIRS[::-1], strict=True):
        windows, far = _windows(tag, TAG_WINDOWS), _windows(tag, FAR_TAG_WINDOWS)
        yield from list(_joined(windows, windows, [pair]))[1:]
        yield from _joined(windows[:1], far, [pair])
        yield from _joined(far, windows[:1], [pair])
        yield f"h.{tag} m.{tag} between.{tag} direction"
    yield "h.lemma m.upos between.upos direction"
    yield "h.upos m.lemma between.upos direction"
    yield "h.upos m.upos between.upos distance"
    yield "h.xpos m.xpos between.xpos distance"


def _full_arcs() -> Iterator[str]:
    """All combinations of the lists above, 507 of them: those of the SPOM paper."""
    yield from _alone(WORD_SIDES, ["", *PAIRS])
    yield from _joined(WORD_SIDES, WORD_SIDES, ["", *PAIRS])
    for tag in ("upos", "xpos"):
        yield from _tag_contexts(tag)
        yield from _word_contexts(tag)
        yield from _tags_between(tag)
    upos, xpos = (_windows(tag, TAG_WINDOWS[1:]) for tag in ("upos", "xpos"))
    yield from _joined(upos, xpos, PAIRS)
    yield from _joined(xpos, upos, PAIRS)
    yield "distance"


def _tag_contexts(tag: str) -> Iterator[str]:
    """Tags around head and modifier: near, further away, and of one of them only."""
    windows, far = _windows(tag, TAG_WINDOWS), _windows(tag, FAR_TAG_WINDOWS)
    yield from list(_joined(windows, windows, PAIRS))[len(PAIRS) :]
    yield from _joined(windows[:1], far, PAIRS)
    yield from _joined(far, windows[:1], PAIRS)
    yield from _joined(far, far, PAIRS)
    yield from _alone(windows[1:], PAIRS)
    beside = _windows(tag, ((-1,), (1,)))
    yield from _joined(windows[:1], beside, PAIRS)
    yield from _joined(beside, windows[:1], PAIRS)


def _word_contexts(tag: str) -> Iterator[str]:
    """A word on one side, tags around the other; words on both sides and one tag."""
    windows = _windows(tag, TAG_WINDOWS[1:])
    for word in (_side("form"), _side("lemma")):
        yield from _joined([word], windows, PAIRS)
        yield from _joined(windows, [word], PAIRS)
        for offset, pair in product((-1, 1), PAIRS):
            both = f"{word} {_window(tag, offset)}"
            yield from _joined([both], [word], [pair])
            yield from _joined([word], [both], [pair])


def _tags_between(tag: str) -> Iterator[str]:
    for pair in PAIRS:
        yield f"h.{tag} m.{tag} between.{tag} {pair}"
        yield f"h.lemma m.{tag} between.{tag} {pair}"
        yield f"h.{tag} m.lemma between.{tag} {pair}"
    yield f"h.{tag} between.{tag} direction"
    yield f"m.{tag} between.{tag} direction"
    yield f"between.{tag} distance"


ARC_TEMPLATES = ArcGrammar(
    "templates",
    "one of standard, full, or",
    "template",
    _atoms("hmgs"),
    re.compile(r"between\.(upos|xpos)"),
    ("h.form, m-1.upos, g.lemma, s.upos, between.xpos", "h.upos m.form distance"),
    {"standard": _standard_arcs, "full": _full_arcs},
)


# --- templates of relations ----------------------------------------------------------


def _standard_relations() -> Iterator[str]:
    """Features that separate relations when the tree is known."""
    tags = (_side("upos"), _side("xpos"), _side("upos", "feats"))
    lemma = _side("lemma")
    words = (_side("form"), lemma, _side("suffix"), *tags)
    for node, word in product("hm", words):
        yield f"{word.format(node)} direction"
    yield from _joined((lemma, *tags), (lemma, *tags), ["direction"])
    yield "h.upos m.upos distance"
    yield "h.form m.form direction"
    yield "h.suffix m.suffix direction"
    for tag in ("upos", "xpos"):
        for offset in (-2, -1, 1, 2):
            yield f"m{offset:+d}.{tag} m.{tag} direction"
        for offset in (-1, 1):
            yield f"h.{tag} m{offset:+d}.{tag} m.{tag} direction"
            yield f"h{offset:+d}.{tag} h.{tag} m.{tag} direction"
    for offset in (-1, 1):
        yield f"m{offset:+d}.lemma m.upos direction"
        yield f"m{offset:+d}.lemma h.upos m.upos direction"
    for relative in "gs":
        yield f"{relative}.upos h.upos m.upos direction"
        yield f"{relative}.lemma h.upos m.upos direction"
    yield "s.upos m.lemma direction"
    for child in "lr":
        yield f"{child}.upos h.upos m.upos direction"
        yield f"{child}.lemma h.upos m.upos direction"
        yield f"{child}.lemma h.lemma m.upos direction"
        yield f"{child}.xpos m.xpos direction"
    for tag in ("upos", "xpos", "lemma"):
        yield f"children.{tag} m.upos direction"
        yield f"children.{tag} h.upos m.upos direction"
    yield "children.lemma h.lemma m.upos direction"
    yield "l.upos r.upos h.upos m.upos direction"


LABEL_TEMPLATES = TemplateGrammar(
    "label_templates",
    "'standard', None or",
    "label template",
    _atoms(TEMPLATE_NODES),
    re.compile(rf"children\.({'|'.join(FIELDS)})"),
    ("h.form, m-1.upos, g.lemma, children.lemma", "h.lemma m.upos direction"),
    {"standard": _standard_relations},
)
