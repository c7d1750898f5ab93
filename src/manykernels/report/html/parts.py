"""Pieces of a page: sections, figures, tables, legends, tabs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from manykernels.report.html.drawing import legend_mark
from manykernels.report.html.markup import Markup, joined, tag


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading and a place in its list."""

    name: str  # in the address
    title: str
    body: Markup

    def render(self) -> Markup:
        """With its heading."""
        head = tag("h2", self.title, id=f"{self.name}-title")
        labeled = f"{self.name}-title"
        return tag("section", head, self.body, id=self.name, aria_labelledby=labeled)


def figure(picture: Markup, caption: Any, *more: Any) -> Markup:
    """A picture that may be wider than the screen, and what it says."""
    return tag(
        "figure",
        more,
        tag("div", picture, class_="scroll"),
        tag("figcaption", caption),
    )


@dataclass(frozen=True)
class Column:
    """One column of a table: texts to show, and numbers to sort by."""

    title: str
    shown: Sequence[Any]
    values: Sequence[float] | None = None


def table(columns: Sequence[Column], caption: str, ours: int | None = None) -> Markup:
    """A table that is sorted by a press on a head; row `ours` is set in bold."""
    heads = [
        tag(
            "th",
            tag("button", column.title, type="button"),
            scope="col",
            class_="n" if column.values is not None else None,
        )
        for column in columns
    ]
    rows = []
    for i in range(len(columns[0].shown)):
        cells = [_cell(column, i) for column in columns]
        rows.append(tag("tr", cells, class_="ours" if i == ours else None))
    inner = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", heads)),
        tag("tbody", rows),
        class_="sortable",
    )
    return tag(
        "div", inner, class_="scroll", tabindex=0, role="group", aria_label=caption
    )


def _cell(column: Column, i: int) -> Markup:
    if column.values is None:
        return tag("td", column.shown[i])
    value = float(column.values[i])
    key = None if value != value else repr(value)
    return tag("td", column.shown[i], class_="n", data_value=key)


def folded(title: str, *children: Any) -> Markup:
    """What only some want to see."""
    return tag("details", tag("summary", title), children)


def legend(
    what: str, name: str, items: Sequence[tuple[str, str]], shown: int | None = None
) -> Markup:
    """Boxes that show and hide; items are (value of the data attribute, words).

    The first `shown` boxes are checked, by default all of them.
    """
    labels = []
    for k, (value, words) in enumerate(items):
        box = tag(
            "input",
            type="checkbox",
            checked=shown is None or k < shown,
            data_shows=json.dumps([name, value]),
        )
        labels.append(tag("label", box, legend_mark(k), tag("span", words)))
    hidden = tag("legend", what, class_="soft")
    return tag("fieldset", hidden, labels, class_="legend")


def tabs(name: str, panels: Sequence[tuple[str, Markup]]) -> Markup:
    """One of several panels at a time; a single one needs no tabs."""
    if len(panels) == 1:
        return panels[0][1]
    buttons, bodies = [], []
    for k, (title, body) in enumerate(panels):
        place = f"{name}-{k}"
        buttons.append(
            tag(
                "button",
                title,
                type="button",
                role="tab",
                id=f"{place}-tab",
                aria_controls=place,
            )
        )
        bodies.append(
            tag("div", body, id=place, role="tabpanel", aria_labelledby=f"{place}-tab")
        )
    listed = tag("div", buttons, role="tablist", class_="tabs", aria_label="Show")
    return joined(listed, bodies)


def facts(pairs: Sequence[tuple[str, Any]]) -> Markup:
    """Names and what they are, side by side."""
    inner = [joined(tag("dt", name), tag("dd", value)) for name, value in pairs]
    return tag("dl", inner, class_="done")
