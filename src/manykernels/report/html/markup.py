"""HTML and SVG as text in which nothing from outside can be a tag."""

from __future__ import annotations

import json
from html import escape
from typing import Any


class Markup(str):
    """Text that is HTML already; every other text is escaped where it is put in."""

    __slots__ = ()


def tag(name: str, *children: Any, **attributes: Any) -> Markup:
    """<name attribute="...">children</name>; None and False leave an attribute out.

    Underscores of attributes are hyphens, and one at the end is dropped.

    Examples
    --------
    >>> tag("p", "a < b", tag("b", 3), class_="note", data_row=1)
    '<p class="note" data-row="1">a &lt; b<b>3</b></p>'
    """
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        words.append(key if value is True else f'{key}="{escape(_text(value))}"')
    return Markup(f"<{' '.join(words)}>{joined(*children)}</{name}>")


def joined(*children: Any) -> Markup:
    """Children one after the other; what is not markup is escaped."""
    return Markup("".join(_child(child) for child in children))


def _child(child: Any) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, list | tuple):
        return joined(*child)
    return escape(_text(child))


def _text(value: Any) -> str:
    """Coordinates need no more than a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def data_block(name: str, content: Any) -> Markup:
    r"""Data for the script of the page; no text in it can end the block.

    Examples
    --------
    >>> data_block("rows", ["</script>"])
    '<script type="application/json" id="rows">["\\u003c/script\\u003e"]</script>'
    """
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(
        f'<script type="application/json" id="{escape(name)}">{text}</script>'
    )
