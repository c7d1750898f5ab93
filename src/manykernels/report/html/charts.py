"""The pictures of a report, each from numbers and names alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.inputs.reporting import shortened
from manykernels.report.html.drawing import (
    N_COLORS,
    Scale,
    bottom_axis,
    curve,
    left_axis,
    line,
    mark,
    number,
    percent,
    svg,
    text,
    whisker,
)
from manykernels.report.html.markup import Markup, joined, tag

WIDTH = 760.0
ROW = 26.0  # pixels of a line of bars
LABEL = 34  # letters of a name beside a bar
MOST_NAMED = 10  # columns of a heat map that have names
MOST_NUMBERED = 12  # rows of a heat map with a number in every cell


@dataclass(frozen=True)
class Series:
    """One curve: its name and its points, with errors where these are known."""

    name: str
    x: Any
    y: Any
    error: Any = None


def _label_width(names: Sequence[str]) -> float:
    longest = max((len(shortened(name, LABEL)) for name in names), default=0)
    return 16.0 + 7.1 * longest


def _name(x: float, y: float, name: str) -> Markup:
    """Shortened beside a bar; in full where a pointer rests on it."""
    return text(x, y, joined(shortened(name, LABEL), tag("title", name)), "end")


def scores_chart(
    names: Sequence[str],
    scores: Sequence[Any],
    mean: Any,
    error: Any,
    title: str,
    form: Any = number,
) -> Markup:
    """A line per method: mean with standard error, and a dot per split."""
    left, height = _label_width(names), ROW * len(names) + 58.0
    ends = [m + s * e for m, e in zip(mean, error, strict=True) for s in (-1, 1)]
    values = np.concatenate([*map(np.ravel, scores), np.nan_to_num(ends, nan=mean[0])])
    scale = Scale.over(values, left, WIDTH - 20.0, room=0.06)
    bottom = 12.0 + ROW * len(names)
    parts: list[Any] = [bottom_axis(scale, bottom, 8.0, title, form)]
    for k, name in enumerate(names):
        y = 12.0 + ROW * (k + 0.5)
        parts.append(_name(left - 12.0, y + 4, name))
        for value in np.ravel(scores[k]):
            parts.append(tag("circle", cx=scale(value), cy=y, r=2.6, class_="faint"))
        parts.append(whisker(scale, mean[k] - error[k], mean[k] + error[k], y))
        tip = f"{name}: {form(mean[k])} ± {form(error[k])}"
        parts.append(mark(scale(mean[k]), y, k and 1, tip))
    told = "; ".join(f"{n} {form(m)}" for n, m in zip(names, mean, strict=True))
    return svg(WIDTH, height, f"{title} by method: {told}", *parts)


def importance_chart(
    names: Sequence[str],
    share: Any,
    low: Any,
    high: Any,
    weight: Any,
    weight_range: Any = None,
) -> Markup:
    """Two bars per line: the share on unseen rows with its interval, and the weight."""
    left, top = _label_width(names), 30.0
    middle = left + 0.56 * (WIDTH - left)
    bottom = top + ROW * len(names)
    shares = Scale.over([0.0, *share, *low, *high], left, middle - 34.0, room=0.02)
    most = np.max([np.max(weight), np.max(weight_range or 0.0)])
    weights = Scale(0.0, float(most) * 1.02 or 1.0, middle, WIDTH - 24.0)
    parts: list[Any] = [
        text(left, 14, "share of what holds on unseen rows", class_="axis"),
        text(middle, 14, "kernel weight", class_="axis"),
        bottom_axis(shares, bottom, top - 6, "", percent),
        bottom_axis(weights, bottom, top - 6, "", percent),
        line(shares(0.0), top - 6, shares(0.0), bottom, class_="zero"),
    ]
    for k, name in enumerate(names):
        y, place = top + ROW * k + 5.0, top + ROW * (k + 0.5)
        tip = f"{name}: share {percent(share[k])} ({percent(low[k])} to "
        tip += f"{percent(high[k])}), weight {percent(weight[k])}"
        parts.append(_name(left - 12.0, place + 4, name))
        if np.isfinite(share[k]):
            width = shares(share[k]) - shares(0.0)
            kind = tag("title", tip)
            parts.append(bar_with(kind, shares(0.0), y, width, "c0"))
        parts.append(whisker(shares, low[k], high[k], place))
        width = weights(weight[k]) - weights(0.0)
        parts.append(bar_with(tag("title", tip), weights(0.0), y, width, "muted"))
        if weight_range is not None:
            low_end, high_end = (end[k] for end in weight_range)
            parts.append(whisker(weights, low_end, high_end, place))
    label = "Importance beside weights: " + "; ".join(
        f"{n} share {percent(s)}, weight {percent(w)}"
        for n, s, w in zip(names, share, weight, strict=True)
    )
    return svg(WIDTH, bottom + 26.0, label, *parts)


def bar_with(title: Markup, x: float, y: float, width: float, kind: str) -> Markup:
    """A bar of a line, with a tip."""
    box = {"x": min(x, x + width), "y": y, "width": abs(width), "height": ROW - 10.0}
    return tag("rect", title, class_=f"bar {kind}", rx=2, **box)


def weights_chart(names: Sequence[str], weight: Any) -> Markup:
    """A bar per kernel, where nothing is known of unseen rows."""
    left, bottom = _label_width(names), 12.0 + ROW * len(names)
    scale = Scale(0.0, float(np.max(weight)) * 1.02 or 1.0, left, WIDTH - 24.0)
    parts = [bottom_axis(scale, bottom, 8.0, "kernel weight", percent)]
    for k, name in enumerate(names):
        y = 12.0 + ROW * k
        tip = tag("title", f"{name}: {percent(weight[k])}")
        parts.append(_name(left - 12.0, y + 17, name))
        parts.append(bar_with(tip, left, y + 5, scale(weight[k]) - left, "muted"))
    told = "; ".join(f"{n} {percent(w)}" for n, w in zip(names, weight, strict=True))
    return svg(WIDTH, bottom + 44.0, f"Kernel weights: {told}", *parts)


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    shade: Any,
    numbers: Sequence[Sequence[str]] | None,
    label: str,
    down: str = "",
    across: str = "",
) -> Markup:
    """Cells whose shade is a number from 0 to 1, with texts where there is room.

    Columns with long names have numbers instead, which their rows repeat.
    """
    long = max(len(name) for name in columns) * 7.0 > 60.0 or len(columns) > MOST_NAMED
    if long:
        rows = [f"{shortened(name, LABEL - 4)}  {k}" for k, name in enumerate(rows, 1)]
    heads = [str(k) if long else name for k, name in enumerate(columns, 1)]
    left, top = max(_label_width(rows), 56.0), 40.0 if across else 24.0
    cell = min(64.0, (WIDTH - left - 10.0) / len(columns))
    height = min(cell, 34.0)
    parts: list[Any] = []
    if across:
        parts.append(text(left, 14, across, class_="axis"))
        parts.append(text(left - 12, 14, down, "end", class_="axis"))
    for j, head in enumerate(heads):
        if cell >= 13.0:
            parts.append(text(left + (j + 0.5) * cell, top - 7, head, "middle"))
    for i, name in enumerate(rows):
        y = top + i * height
        if height >= 9.0:
            parts.append(_name(left - 8.0, y + height / 2 + 4, name))
        for j, other in enumerate(columns):
            x, value = left + j * cell, float(np.clip(shade[i][j], 0.0, 1.0))
            tip = tag("title", f"{name} / {other}: {_cell(numbers, shade, i, j)}")
            box = {"x": x, "y": y, "width": cell - 1, "height": height - 1}
            opacity = f"{value:.3f}"
            parts.append(tag("rect", tip, class_="cell", fill_opacity=opacity, **box))
            if numbers is not None:
                dark = "on-dark" if value > 0.55 else None
                place = x + cell / 2, y + height / 2 + 4
                parts.append(text(*place, numbers[i][j], "middle", class_=dark))
    width = max(left + cell * len(columns) + 8.0, 260.0)
    return svg(width, top + height * len(rows) + 4.0, label, *parts)


def _cell(numbers: Any, shade: Any, i: int, j: int) -> str:
    return numbers[i][j] if numbers is not None else number(float(shade[i][j]))


def line_chart(
    series: Sequence[Series],
    x_title: str,
    y_title: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    marked: float | None = None,
    level: tuple[float, str] | None = None,
    band: bool = False,
    form: Any = number,
    height: float = 300.0,
    y_from: float | None = None,
) -> Markup:
    """Curves with marks; a vertical line at `marked`, a horizontal one at `level`.

    `band` shades what is between the first two curves.
    """
    xs = np.concatenate([np.ravel(one.x) for one in series])
    ys = np.concatenate([np.ravel(one.y) for one in series])
    more = [] if level is None else [level[0]]
    start = [] if y_from is None else [y_from]
    x = Scale.over(xs, 64.0, WIDTH - 24.0, log_x, room=0.02)
    y = Scale.over([*ys, *more, *start], height - 46.0, 34.0, log_y, room=0.05)
    parts: list[Any] = [
        bottom_axis(x, height - 46.0, 30.0, x_title, number),
        left_axis(y, 64.0, WIDTH - 24.0, y_title, form),
    ]
    if marked is not None:
        at = x(marked)
        parts.append(line(at, 30.0, at, height - 46.0, class_="chosen"))
    if level is not None:
        at = y(level[0])
        parts.append(line(64.0, at, WIDTH - 24.0, at, class_="chosen"))
        parts.append(text(WIDTH - 26.0, at - 5, level[1], "end"))
    if band and len(series) > 1:
        parts.append(_band(series[0], series[1], x, y))
    for k, one in enumerate(series):
        places = [(x(a), y(b)) for a, b in zip(one.x, one.y, strict=True)]
        parts.append(tag("g", _curve(one, places, k, form), data_series=one.name))
    label = f"{y_title} against {x_title}: {', '.join(one.name for one in series)}"
    return svg(WIDTH, height, label, *parts)


def _band(upper: Series, lower: Series, x: Scale, y: Scale) -> Markup:
    there = [f"{x(a):.1f},{y(b):.1f}" for a, b in zip(upper.x, upper.y, strict=True)]
    back = [f"{x(a):.1f},{y(b):.1f}" for a, b in zip(lower.x, lower.y, strict=True)]
    return tag("polygon", points=" ".join(there + back[::-1]), class_="band")


def _curve(one: Series, places: list[tuple[float, float]], k: int, form: Any) -> Markup:
    marks = []
    if len(places) <= 60:
        for (px, py), a, b in zip(places, one.x, one.y, strict=True):
            marks.append(mark(px, py, k, f"{one.name}: {number(a)}, {form(b)}"))
    return joined(curve([p[0] for p in places], [p[1] for p in places], k), marks)


def calibration_chart(series: Sequence[Series], x_title: str, shown: int) -> Markup:
    """What probabilities claim against how often it comes true.

    The first `shown` curves are there; the others wait for their box in the legend.
    """
    size, left, top = 420.0, 64.0, 34.0
    lowest = min(float(np.min(one.x)) for one in series)
    lowest = min([lowest, *(float(np.min(one.y)) for one in series)])
    start = max(0.0, np.floor(10.0 * lowest) / 10.0)
    x = Scale(start, 1.0, left, size)
    y = Scale(start, 1.0, top + size - left, top)
    parts: list[Any] = [
        bottom_axis(x, top + size - left, top - 4, x_title, percent),
        left_axis(y, left, size, "came true", percent),
        line(x(start), y(start), x(1.0), y(1.0), class_="chosen"),
    ]
    for k, one in enumerate(series):
        marks = [curve(list(map(x, one.x)), list(map(y, one.y)), k)]
        for a, b, e in zip(one.x, one.y, one.error, strict=True):
            ends = y(min(b + e, 1.0)), y(max(b - e, start))
            marks.append(line(x(a), ends[0], x(a), ends[1], class_="error"))
            tip = f"{one.name}: claims {percent(a)}, came true {percent(b)}"
            marks.append(mark(x(a), y(b), k, tip))
        parts.append(tag("g", marks, data_series=one.name, hidden=k >= shown))
    names = ", ".join(one.name for one in series)
    return svg(size + 24.0, size + 24.0, f"Calibration of {names}", *parts)


def scatter(
    places: Any, kinds: Any, tips: Sequence[str], rows: Sequence[int], label: str
) -> Markup:
    """Points whose color and shape say their kind; `rows` lets the page find them.

    Negative kinds are shades of one color, see `steps`.
    """
    height = 440.0
    x = Scale.over(places[:, 0], 64.0, WIDTH - 24.0, room=0.04)
    y = Scale.over(places[:, 1], height - 46.0, 34.0, room=0.04)
    parts: list[Any] = [
        bottom_axis(x, height - 46.0, 30.0, "first component", number),
        left_axis(y, 64.0, WIDTH - 24.0, "second component", number),
    ]
    for (a, b), kind, tip, row in zip(places, kinds, tips, rows, strict=True):
        more: dict[str, Any] = {"data_row": int(row), "data_kind": int(kind)}
        if kind < 0:
            more["fill_opacity"] = f"{0.1 - 0.9 * kind / N_COLORS:.2f}"
        parts.append(mark(x(a), y(b), max(int(kind), 0), tip, **more))
    return svg(WIDTH, height, label, *parts)


def steps(values: Any) -> np.ndarray:
    """Negative numbers that stand for shades: the larger the value, the darker.

    Examples
    --------
    >>> steps([3.0, 1.0, 2.0]).tolist()
    [-6, -1, -3]
    """
    order = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return -1 - (N_COLORS * order) // max(len(order), 1)


def predicted_chart(true: Any, predicted: Any, tips: Sequence[str]) -> Markup:
    """Predicted against true numbers; right is on the line."""
    size = 440.0
    both = np.concatenate([true, predicted])
    x = Scale.over(both, 70.0, size + 20.0, room=0.03)
    y = Scale(x.low, x.high, size, 34.0)
    parts: list[Any] = [
        bottom_axis(x, size, 30.0, "true", number),
        left_axis(y, 70.0, size + 20.0, "predicted", number),
        line(x(x.low), y(x.low), x(x.high), y(x.high), class_="chosen"),
    ]
    for a, b, tip in zip(true, predicted, tips, strict=True):
        parts.append(mark(x(a), y(b), 0, tip))
    return svg(size + 40.0, size + 44.0, "Predicted against true values", *parts)
