"""Sections about single rows: where they lie, and why each was predicted so."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.report.html import charts
from manykernels.report.html.drawing import N_COLORS, number, percent, tenths
from manykernels.report.html.markup import Markup, data_block, joined, tag
from manykernels.report.html.parts import Section, figure, legend

MOST_ROWS = 5000  # in a page
OTHERS = "other classes"


def places(found: Any) -> Section | None:
    """Kernel PCA of the learned kernel."""
    overview = getattr(found, "overview_", None)
    if overview is None:
        return None
    first = first_time(found)
    place = {int(row): i for i, row in enumerate(found.predictions_["row"][first])}
    rows = [int(row) for row in overview.rows if int(row) in place]
    kept = np.isin(overview.rows, rows)
    names = [found.row_names_[row] for row in rows]
    at = [first[place[row]] for row in rows]
    true = [truth(found, i) for i in at]
    tips = [f"{name}: {told}" for name, told in zip(names, true, strict=True)]
    shares = " and ".join(percent(v) for v in overview.explained)
    caption = (
        "First two principal components of the learned kernel, which hold "
        f"{shares} of its variance. A press on a point shows the row below."
    )
    where = overview.places[kept]
    if found.classes_ is None:
        label = "Rows in the plane of the learned kernel, darker for larger targets"
        values = [float(np.ravel(found.predictions_["true"][i])[0]) for i in at]
        picture = charts.scatter(where, charts.steps(values), tips, rows, label)
        shown = figure(picture, caption + " Darker points have larger targets.")
    else:
        kinds, items = _class_kinds(found, at)
        label = (
            f"Rows of {len(found.classes_)} classes in the plane of the learned kernel"
        )
        boxes = legend("Classes", "kind", items)
        shown = figure(charts.scatter(where, kinds, tips, rows, label), caption, boxes)
    return Section("places", "Rows as the model sees them", shown)


def _class_kinds(found: Any, at: list[int]) -> tuple[np.ndarray, list[tuple[str, str]]]:
    """A color per class; the rarest share one where there are many."""
    labels = np.searchsorted(found.classes_, found.predictions_["true"][at])
    counts = np.bincount(labels, minlength=len(found.classes_))
    names = [str(label) for label in found.classes_]
    if len(names) > N_COLORS + 2:
        own = np.sort(np.argsort(-counts, kind="stable")[: N_COLORS - 1])
        kinds = np.full(len(names), N_COLORS - 1)
        kinds[own] = np.arange(len(own))
        items = [(str(k), names[label]) for k, label in enumerate(own)]
        return kinds[labels], [*items, (str(N_COLORS - 1), OTHERS)]
    return labels, [(str(k), name) for k, name in enumerate(names)]


def first_time(found: Any) -> np.ndarray:
    """Positions of the predictions of the first repeat: every row once."""
    return np.flatnonzero(found.predictions_["repeat"] == 0)


def truth(found: Any, i: int) -> str:
    """What is true of a row, in words."""
    value = found.predictions_["true"][i]
    if found.kind_ == "survival":  # a time that is not over has a plus
        return number(float(value[0])) + "+" * (not value[1])
    return str(value) if found.classes_ is not None else number(float(value))


def contributions(found: Any) -> Section | None:
    """Every row with the part of every view in its prediction."""
    parts = getattr(found, "contributions_", None)
    if parts is None:
        return None
    content = {"views": list(parts), "rows": _lines(found)}
    views = [
        tag("span", _swatch(v), " ", name, class_="view")
        for v, name in enumerate(parts)
    ]
    intro = (
        "Each bar is the part of one view in the decision: to the right where it "
        f"speaks for {_for(found)}, to the left where it speaks against."
    )
    return Section(
        "rows",
        "Why each row was predicted so",
        joined(
            tag("p", intro),
            tag("div", tag("div", views, class_="legend"), aria_label="Views"),
            _controls(found),
            tag("p", class_="count", id="row-count", aria_live="polite"),
            _table(found),
            tag(
                "button",
                "Show more",
                type="button",
                class_="tool",
                id="row-more",
                hidden=True,
            ),
            tag(
                "noscript", tag("p", "The list of rows needs the script of this page.")
            ),
            data_block("rows-data", content),
        ),
    )


def _for(found: Any) -> str:
    if found.classes_ is None:
        return "a larger value" if found.kind_ == "regression" else "a later event"
    if len(found.classes_) == 2:
        return str(found.classes_[1])
    return "the predicted class over the next"


def _swatch(v: int) -> Markup:
    box = tag("rect", width=12, height=12, class_=f"c{v % N_COLORS}")
    return tag("svg", box, width=12, height=12, viewBox="0 0 12 12", aria_hidden="true")


def _controls(found: Any) -> Markup:
    def choice(name: str, title: str, options: dict[str, str]) -> Markup:
        inner = [tag("option", words, value=value) for value, words in options.items()]
        return tag("label", title, tag("select", inner, id=name))

    search = tag("input", type="search", id="row-search", autocomplete="off")
    filters = {"all": "all rows"}
    if found.classes_ is not None:
        filters["wrong"] = "wrong predictions"
    orders = {"given": "as given", "unsure": "unsure first", "sure": "sure first"}
    return tag(
        "div",
        tag("label", "Find a row by name or class", search),
        choice("row-filter", "Show", filters),
        choice("row-order", "Order", orders),
        class_="controls",
        id="row-tools",
        hidden=True,
    )


def _table(found: Any) -> Markup:
    sure = "probability" if found.classes_ is not None else ""
    titles = ("row", "true", "predicted", sure, "parts of the views")
    heads = [tag("th", title, scope="col") for title in titles]
    inner = tag("table", tag("thead", tag("tr", heads)), tag("tbody"), id="rows-table")
    label = "Rows with the part of every view"
    return tag(
        "div",
        inner,
        class_="scroll",
        id="rows-list",
        tabindex=0,
        role="group",
        aria_label=label,
    )


def _lines(found: Any) -> list[dict[str, Any]]:
    table, parts = (
        found.predictions_,
        np.column_stack(list(found.contributions_.values())),
    )
    lines = []
    for i in first_time(found)[:MOST_ROWS]:
        row, guess = int(table["row"][i]), table["predicted"][i]
        known = found.classes_ is not None
        lines.append(
            {
                "at": row,
                "name": found.row_names_[row],
                "true": truth(found, i),
                "predicted": str(guess) if known else number(float(guess)),
                "sure": tenths(table["probability"][i]) if known else "",
                "wrong": bool(known and guess != table["true"][i]),
                "margin": round(abs(float(parts[i].sum())), 6),
                "parts": [float(f"{v:.3g}") for v in parts[i]],
            }
        )
    return sorted(lines, key=lambda line: line["at"])
