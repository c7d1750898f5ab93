"""Templates of relation features: what an arc's words and their relatives show.

Written as those of arcs, `"h.lemma m.upos direction"`, with more relatives to look at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from manykernels.base.quoted import quoted
from manykernels.structured.arc_templates import FIELDS, PAIRS, REACH

ATOM = re.compile(rf"([hmgslr])([+-][1-{REACH}])?\.({'|'.join(FIELDS)})")
CHILDREN = re.compile(rf"children\.({'|'.join(FIELDS)})")

LabelAtom = tuple[str, int, str]  # whose, offset and field


@dataclass(frozen=True)
class LabelTemplate:
    """Values of words around an arc that are joined.

    Parameters
    ----------
    atoms : tuple of (str, int, str)
        Whose value: "h" and "m" are head and modifier, "g" the head's head, "s" the
        modifier's next sibling on the way to the head, "l" and "r" its first and last
        child; the offset from that word; and a field.
    pair : str, optional
        "direction" or "distance".
    children : str, optional
        A field: one feature for every child of the modifier.

    Examples
    --------
    >>> str(LabelTemplate((("h", 0, "upos"), ("m", -1, "form")), "direction"))
    'h.upos m-1.form direction'
    """

    atoms: tuple[LabelAtom, ...]
    pair: str | None = None
    children: str | None = None

    def __str__(self) -> str:
        words = [
            f"{node}{offset:+d}.{field}" if offset else f"{node}.{field}"
            for node, offset, field in self.atoms
        ]
        words += [] if self.children is None else [f"children.{self.children}"]
        return " ".join(words + ([] if self.pair is None else [self.pair]))


def parse_label_template(text: Any) -> LabelTemplate:
    """The template that a text describes.

    Examples
    --------
    >>> parse_label_template("m.upos children.lemma").children
    'lemma'
    """
    atoms: list[LabelAtom] = []
    pair = children = None
    words = text.split() if isinstance(text, str) else []
    for word in words:
        if match := ATOM.fullmatch(word):
            atoms.append((match[1], int(match[2] or 0), match[3]))
        elif (match := CHILDREN.fullmatch(word)) and children is None:
            children = match[1]
        elif word in PAIRS and pair is None:
            pair = word
        else:
            raise _not_a_template(text, repr(word))
    if not words or len(set(atoms)) < len(atoms):
        raise _not_a_template(text, "a repeated word" if words else "none")
    return LabelTemplate(tuple(sorted(atoms)), pair, children)


def label_templates(choice: Any = "standard") -> tuple[LabelTemplate, ...]:
    """Templates by the name of a set, "standard", or from texts.

    Examples
    --------
    >>> [str(t) for t in label_templates(["m.upos h.upos"])]
    ['h.upos m.upos']
    """
    if choice == "standard":
        return tuple(map(parse_label_template, dict.fromkeys(_standard())))
    given = isinstance(choice, Iterable) and not isinstance(choice, str)
    found = [parse_label_template(text) for text in choice] if given else []
    if not found or len(set(found)) < len(found):
        raise ValueError(
            "label_templates must be 'standard', None or a list of different texts, "
            f"got {quoted(choice)}; choose one of these."
        )
    return tuple(found)


def _not_a_template(text: Any, word: str) -> ValueError:
    return ValueError(
        "expected words such as h.form, m-1.upos, g.lemma, children.lemma, "
        f"{' or '.join(PAIRS)} in a label template, got {word} in {text!r}; write for "
        "example 'h.lemma m.upos direction'."
    )


def _standard() -> Iterator[str]:
    """What tells relations apart when the tree is known."""
    tags = ("upos", "xpos", "upos {0}.feats")
    own = ("form", "lemma", "suffix", *tags)
    for word, field in product("hm", own):
        yield f"{word}.{field.format(word)} direction"
    for head, modifier in product(("lemma", *tags), ("lemma", *tags)):
        yield f"h.{head.format('h')} m.{modifier.format('m')} direction"
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
    yield "g.upos h.upos m.upos direction"
    yield "g.lemma h.upos m.upos direction"
    yield "s.upos h.upos m.upos direction"
    yield "s.lemma h.upos m.upos direction"
    yield "s.upos m.lemma direction"
    for child in "lr":
        yield f"{child}.upos h.upos m.upos direction"
        yield f"{child}.lemma h.upos m.upos direction"
        yield f"{child}.lemma h.lemma m.upos direction"
        yield f"{child}.xpos m.xpos direction"
    for field in ("upos", "xpos", "lemma"):
        yield f"children.{field} m.upos direction"
        yield f"children.{field} h.upos m.upos direction"
    yield "children.lemma h.lemma m.upos direction"
    yield "l.upos r.upos h.upos m.upos direction"
