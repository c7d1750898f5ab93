"""Figures that only a report has, from numbers and names alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.ticker import LogFormatter, MaxNLocator

from manykernels.inputs.reporting import shortened
from manykernels.report.number_formats import number, percent
from manykernels.report.pictures import (
    COLORS,
    GRAY,
    draw_cells,
    hide_frame,
    new_figure,
    plot_alignments,
    plot_convergence,
    plot_gap,
    plot_weights,
)
from manykernels.report.svg_figures import INK, MUTED, describe, to_svg

# A point of matplotlib is a pixel of the page, whose column is as wide.
CHART_WIDTH = 760.0
BAR_HEIGHT = 26.0  # with the gap to the next bar
MAX_NAME = 34  # letters beside a bar; the tooltip has all of them
MARKERS = "os^DvP"  # marks of the legends, in the order of the colors
Format = Callable[[float], str]


@dataclass(frozen=True)
class ChartCurve:
    """A name and points, with errors where these are known."""

    name: str
    x: Any
    y: Any
    error: Any = None


def _figure(height: float, width: float = CHART_WIDTH) -> Any:
    return new_figure(width / 72.0, height / 72.0)


def _format_axis(axis: Any, form: Format) -> None:
    if axis.get_scale() == "log":  # matplotlib's own labels are formulas
        axis.set_major_formatter(LogFormatter())
        axis.set_minor_formatter(LogFormatter())
        return
    axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(lambda value, _: form(value))


def _name_bars(ax: Any, names: Sequence[str]) -> None:
    ax.set_yticks(range(len(names)), [shortened(name, MAX_NAME) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(length=0)
    ax.grid(axis="x")
    ax.set_axisbelow(True)
    hide_frame(ax)


def method_chart(
    names: Sequence[str],
    scores: Sequence[Any],
    mean: Any,
    error: Any,
    title: str,
    form: Format,
) -> Markup:
    """Draw a line per method: mean with standard error, and a dot per split."""
    figure = _figure(BAR_HEIGHT * len(names) + 50.0)
    ax = figure.add_subplot()
    for k, name in enumerate(names):
        ax.plot(scores[k], np.full(len(scores[k]), k), "o", ms=4.5, color=MUTED)
        (mark,) = ax.plot(mean[k], k, MARKERS[bool(k)], ms=7, color=COLORS[bool(k)])
        describe(mark, [f"{name}: {form(mean[k])} ± {form(error[k])}"])
    whiskers = {"fmt": "none", "ecolor": INK, "capsize": 3.0, "zorder": 1.0}
    ax.errorbar(mean, range(len(names)), xerr=np.nan_to_num(error), **whiskers)
    _name_bars(ax, names)
    _format_axis(ax.xaxis, form)
    ax.set_xlabel(title)
    shown = "; ".join(f"{n} {form(m)}" for n, m in zip(names, mean, strict=True))
    return to_svg(figure, "methods", f"{title} by method: {shown}")


def importance_chart(
    figure_name: str,
    names: Sequence[str],
    share: Any,
    interval: Any,
    weight: Any,
    weight_range: Any = None,
) -> Markup:
    """Draw shares on unseen rows with their intervals, and weights beside them."""
    figure = _figure(BAR_HEIGHT * len(names) + 62.0)
    left, right = figure.subplots(1, 2, sharey=True)
    places, whiskers = range(len(names)), {"fmt": "none", "ecolor": INK, "capsize": 3.0}
    tips = [
        f"{name}: share {percent(s)} ({percent(low)} to {percent(high)}), weight "
        f"{percent(w)}"
        for name, s, low, high, w in zip(names, share, *interval, weight, strict=True)
    ]
    share = np.nan_to_num(share)
    bars = [left.barh(places, share, color=COLORS[0], height=0.6)]
    bars.append(right.barh(places, weight, color=MUTED, height=0.6))
    for container in bars:
        for bar, tip in zip(container, tips, strict=True):
            describe(bar, [tip])
    left.errorbar(share, places, xerr=_lengths(share, interval), **whiskers)
    if weight_range is not None:
        # Of weights over splits; that on all rows may be outside of them.
        middle = np.mean(weight_range, axis=0)
        right.errorbar(middle, places, xerr=_lengths(middle, weight_range), **whiskers)
    left.axvline(0.0, color=INK, lw=0.8)
    for ax, title in ((left, "share on unseen rows"), (right, "kernel weight")):
        _name_bars(ax, names)
        _format_axis(ax.xaxis, percent)
        ax.set_xlabel(title)
    return to_svg(figure, figure_name, f"Importance beside weights: {'; '.join(tips)}")


def _lengths(middle: Any, ends: Any) -> np.ndarray:
    low, high = np.nan_to_num(np.asarray(ends, dtype=float))
    return np.maximum([middle - low, high - middle], 0.0)


def weight_chart(names: Sequence[str], weight: Any, limit: int) -> Markup:
    """Draw a bar per kernel."""
    figure = _figure(BAR_HEIGHT * (min(len(names), limit) + 1) + 44.0)
    ax = figure.add_subplot()
    plot_weights(ax, names, weight, limit=limit)
    ax.set_title("")
    shown = "; ".join(f"{n} {percent(w)}" for n, w in zip(names, weight, strict=True))
    return to_svg(figure, "weights", f"Kernel weights: {shown}")


def alignment_chart(alignments: np.ndarray, names: Sequence[str]) -> Markup:
    """Draw how alike kernels are."""
    size = min(190.0 + 16.0 * len(names), CHART_WIDTH - 80.0)
    figure = _figure(size, size + 80.0)
    ax = figure.add_subplot()
    plot_alignments(alignments, names, ax)
    ax.set_title("")
    label = f"Centered alignment between {len(names)} kernels"
    return to_svg(figure, "alignments", label)


def confusion_chart(counts: np.ndarray, names: Sequence[str]) -> Markup:
    """Draw rows by true class (down) and predicted class (across)."""
    size = min(170.0 + 30.0 * len(names), 640.0)
    figure = _figure(size, size)
    ax = figure.add_subplot()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    numbers = [str(int(count)) for count in counts.ravel()]
    cells = draw_cells(ax, shares, names, numbers)
    pairs = [f"{true} / {predicted}" for true in names for predicted in names]
    tips = [f"{pair}: {count}" for pair, count in zip(pairs, numbers, strict=True)]
    describe(cells, tips)
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    right = percent(np.trace(counts) / max(counts.sum(), 1))
    label = f"Confusion matrix of {len(names)} classes: {right} are right"
    return to_svg(figure, "confusion", label)


def path_chart(
    weights: Sequence[ChartCurve],
    scores: Sequence[ChartCurve],
    metric: str,
    chosen: float,
    form: Format,
) -> Markup:
    """Draw weights (if any) and scores against C, with a line at the chosen C."""
    panels: list[tuple[Sequence[ChartCurve], str, Format]] = []
    if weights:
        panels.append((weights, "weight", percent))
    panels.append((scores, metric, form))
    figure = _figure(80.0 + 200.0 * len(panels))
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for ax, (curves, title, style) in zip(axes, panels, strict=True):
        for k, curve in enumerate(curves):
            _draw_curve(ax, curve, k, style)
        ax.axvline(chosen, color=GRAY, lw=1.0, ls="--")
        ax.set_xscale("log")
        ax.set_ylabel(title)
        ax.grid()
        _format_axis(ax.xaxis, number)
        _format_axis(ax.yaxis, style)
        hide_frame(ax)
    axes[-1].set_xlabel("C")
    shown = ", ".join(curve.name for curve in weights or scores)
    return to_svg(figure, "path-curves", f"Weights and scores against C: {shown}")


def _draw_curve(
    ax: Any, curve: ChartCurve, k: int, form: Format, hidden: bool = False
) -> None:
    """A line, marks and errors in the color and shape of the legend's box."""
    color, marker = COLORS[k % len(COLORS)], MARKERS[k % len(MARKERS)]
    (line,) = ax.plot(curve.x, curve.y, marker=marker, ms=6, color=color)
    tips = [
        f"{curve.name}: {number(x)}, {form(y)}"
        for x, y in zip(curve.x, curve.y, strict=True)
    ]
    attributes = {"data_series": curve.name} | ({"hidden": ""} if hidden else {})
    describe(line, tips, [], **attributes)
    if curve.error is not None:
        bars = ax.errorbar(curve.x, curve.y, curve.error, fmt="none", ecolor=color)
        describe(bars.lines[2][0], [], [], **attributes)


def calibration_chart(curves: Sequence[ChartCurve], title: str, shown: int) -> Markup:
    """Draw observed frequencies against predicted probabilities.

    The first `shown` curves are visible; a box in the legend shows another.
    """
    figure = _figure(440.0, 440.0)
    ax = figure.add_subplot()
    lowest = min(float(np.min([curve.x, curve.y])) for curve in curves)
    start = max(0.0, np.floor(10.0 * lowest) / 10.0)
    # Probabilities that are right lie on the diagonal.
    ax.plot([start, 1.0], [start, 1.0], color=GRAY, lw=1.0, ls="--")
    for k, curve in enumerate(curves):
        _draw_curve(ax, curve, k, percent, hidden=k >= shown)
    ax.set(xlim=(start - 0.02, 1.02), ylim=(start - 0.02, 1.02))
    ax.set_xlabel(title)
    ax.set_ylabel("observed frequency")
    for axis in (ax.xaxis, ax.yaxis):
        _format_axis(axis, percent)
    ax.grid()
    hide_frame(ax)
    names = ", ".join(curve.name for curve in curves)
    return to_svg(figure, "calibration-curves", f"Calibration of {names}")


def row_chart(
    places: np.ndarray,
    kinds: np.ndarray | None,
    values: Any,
    tips: Sequence[str],
    rows: Sequence[int],
    label: str,
) -> Markup:
    """Draw rows in a plane; `rows` lets the page find them.

    Color and shape are those of the kind of a row; without kinds, shades grow with the
    rank of a value.
    """
    figure = _figure(440.0)
    ax = figure.add_subplot()
    shade = None
    if kinds is None:
        ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
        shade = np.linspace(0.1, 1.0, len(rows))[ranks]
        kinds = np.zeros(len(rows), dtype=int)
    for kind in np.unique(kinds):
        chosen = np.flatnonzero(kinds == kind)
        marks = ax.scatter(
            *places[chosen].T,
            s=36.0,
            marker=MARKERS[kind % len(MARKERS)],
            color=COLORS[kind % len(COLORS)],
            alpha=shade,
            linewidths=0.0,
        )
        names = [tips[int(i)] for i in chosen]
        where = [rows[int(i)] for i in chosen]
        describe(marks, names, where, data_kind=str(kind))
    ax.set_xlabel("first component")
    ax.set_ylabel("second component")
    ax.grid()
    ax.set_axisbelow(True)
    hide_frame(ax)
    return to_svg(figure, "row-plane", label)


def prediction_chart(true: Any, predicted: Any, tips: Sequence[str]) -> Markup:
    """Draw predicted against true numbers; right is on the line."""
    figure = _figure(460.0, 460.0)
    ax = figure.add_subplot()
    ends = [np.min([true, predicted]), np.max([true, predicted])]
    ax.plot(ends, ends, color=GRAY, lw=1.0, ls="--")
    marks = ax.scatter(true, predicted, s=30.0, color=COLORS[0], linewidths=0.0)
    describe(marks, tips)
    ax.set_xlabel("true")
    ax.set_ylabel("predicted")
    ax.grid()
    hide_frame(ax)
    return to_svg(figure, "predictions", "Predicted against true values")


def convergence_chart(history: Sequence[Any], tol: float) -> Markup:
    """Draw the objective above its certified bound, and the gap below."""
    figure = _figure(500.0)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    plot_convergence(upper, history)
    plot_gap(lower, history, tol)
    upper.set_title("")
    upper.set_xlabel("")
    for ax in (upper, lower):
        _format_axis(ax.yaxis, number)
    label = "Objective, certified lower bound and relative gap after every epoch"
    return to_svg(figure, "convergence-curves", label)
