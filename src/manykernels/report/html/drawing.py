"""Axes, marks and texts of small pictures, drawn by hand as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.report.html.markup import Markup, joined, tag

N_COLORS = 8  # of the style sheet: classes c0 to c7
TICKS = 5  # on an axis, about


@dataclass(frozen=True)
class Scale:
    """Numbers to pixels, linearly or by logarithms.

    Examples
    --------
    >>> Scale(0.0, 2.0, 100.0, 200.0)(0.5), Scale(0.01, 100.0, 0.0, 400.0, True)(1.0)
    (125.0, 200.0)
    """

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    @classmethod
    def over(
        cls, values: Any, start: float, stop: float, log: bool = False, room: float = 0
    ) -> Scale:
        """Around all finite values, with some room on both sides."""
        found = np.asarray(values, dtype=float).ravel()
        found = found[np.isfinite(found) & ((found > 0.0) | (not log))]
        low, high = (found.min(), found.max()) if len(found) else (0.0, 1.0)
        if log:
            low, high = (low, high) if high > low else (low / 2.0, high * 2.0)
            grow = (high / low) ** room
            return cls(float(low / grow), float(high * grow), start, stop, True)
        more = room * (high - low) if high > low else 0.5 * abs(high) + 1e-3
        return cls(float(low - more), float(high + more), start, stop)

    def __call__(self, value: float) -> float:
        low, high, at = self.low, self.high, float(value)
        if self.log:
            low, high, at = np.log([low, high, max(at, self.low)])
        share = (at - low) / (high - low) if high > low else 0.5
        return float(self.start + share * (self.stop - self.start))

    def ticks(self) -> list[float]:
        """Round numbers, about five."""
        if self.log:
            exponents = np.arange(
                np.ceil(np.log10(self.low) - 1e-9),
                np.floor(np.log10(self.high) + 1e-9) + 1,
            )
            step = max(1, len(exponents) // (TICKS + 1) + 1) if len(exponents) else 1
            found = (10.0 ** exponents[::step]).tolist()
            return found if len(found) > 1 else [self.low, self.high]
        width = (self.high - self.low) / TICKS
        power = 10.0 ** np.floor(np.log10(width))
        step = power * min((1, 2, 5, 10), key=lambda k: abs(k * power - width))
        first = np.ceil(self.low / step - 1e-9)
        last = np.floor(self.high / step + 1e-9)
        return (np.arange(first, last + 1) * step).round(12).tolist()


def number(value: float) -> str:
    """A number at a tick or in a tip.

    Examples
    --------
    >>> number(0.30000000000000004), number(1e-3), number(20.0)
    ('0.3', '0.001', '20')
    """
    value = round(value, 12) + 0.0  # no minus before zero
    return f"{value:.3g}" if abs(value) < 1e4 else f"{value:.0e}"


def percent(value: float) -> str:
    """A share in percent, at a tick or where digits say little.

    Examples
    --------
    >>> percent(0.5), percent(-1e-20), percent(0.1234)
    ('50 %', '0 %', '12.3 %')
    """
    return f"{round(100.0 * value, 9) + 0.0:.3g} %"


def tenths(value: float) -> str:
    """A share in percent with one digit behind the point, for columns of a table.

    Examples
    --------
    >>> tenths(0.96), tenths(float("nan"))
    ('96.0 %', '–')
    """
    return f"{100.0 * value:.1f} %" if value == value else "–"


def svg(width: float, height: float, label: str, *children: Any) -> Markup:
    """A picture that says what it shows to those who cannot see it."""
    return tag(
        "svg",
        *children,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        aria_label=label,
        style=f"--width:{width:.0f}px",
        class_="chart",
    )


def line(x1: float, y1: float, x2: float, y2: float, **attributes: Any) -> Markup:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def text(x: float, y: float, words: Any, anchor: str = "start", **more: Any) -> Markup:
    """Words at a place."""
    anchor_ = None if anchor == "start" else anchor
    return tag("text", words, x=x, y=y, text_anchor=anchor_, **more)


def bar(x: float, y: float, width: float, height: float, **more: Any) -> Markup:
    """A filled box; a negative width goes to the left."""
    return tag(
        "rect", x=min(x, x + width), y=y, width=abs(width), height=height, **more
    )


def whisker(scale: Scale, low: float, high: float, y: float) -> Markup | None:
    """An interval with ends."""
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    a, b = scale(low), scale(high)
    path = f"M{a:.1f} {y - 4:.1f}v8m0-4H{b:.1f}m0-4v8"
    return tag("path", d=path, class_="whisker")


SHAPES = (
    "M{x:.1f} {y:.1f}m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0",  # circle
    "M{x:.1f} {y:.1f}m-3.2-3.2h6.4v6.4h-6.4z",  # square
    "M{x:.1f} {y:.1f}m0-4.2l4 7h-8z",  # triangle
    "M{x:.1f} {y:.1f}m0-4.4l4.4 4.4l-4.4 4.4l-4.4-4.4z",  # diamond
    "M{x:.1f} {y:.1f}m0 4.2l4-7h-8z",  # triangle, point down
    "M{x:.1f} {y:.1f}m-1.3-4h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7v-2.6h2.7z",  # plus
)


def mark(x: float, y: float, kind: int, tip: str | None = None, **more: Any) -> Markup:
    """A mark whose color and shape both say what it belongs to."""
    shape = SHAPES[kind % len(SHAPES)].format(x=x, y=y)
    title = None if tip is None else tag("title", tip)
    return tag("path", title, d=shape, class_=f"mark c{kind % N_COLORS}", **more)


def legend_mark(kind: int) -> Markup:
    """The mark of a kind, for a legend."""
    shape = mark(7.0, 7.0, kind)
    return tag(
        "svg", shape, viewBox="0 0 14 14", width=14, height=14, aria_hidden="true"
    )


def bottom_axis(scale: Scale, y: float, top: float, title: str, form: Any) -> Markup:
    """Ticks with grid lines up to `top`, and a title."""
    parts = []
    for tick in scale.ticks():
        x = scale(tick)
        parts.append(line(x, top, x, y, class_="grid"))
        parts.append(text(x, y + 16, form(tick), "middle"))
    middle = 0.5 * (scale.start + scale.stop)
    return joined(parts, text(middle, y + 34, title, "middle", class_="axis"))


def left_axis(scale: Scale, x: float, right: float, title: str, form: Any) -> Markup:
    """Ticks with grid lines to the right, and a title above."""
    parts = []
    for tick in scale.ticks():
        y = scale(tick)
        parts.append(line(x, y, right, y, class_="grid"))
        parts.append(text(x - 8, y + 4, form(tick), "end"))
    above = min(scale.start, scale.stop) - 12
    return joined(parts, text(x - 40, above, title, class_="axis"))


def curve(xs: Sequence[float], ys: Sequence[float], kind: int) -> Markup:
    """A line through points."""
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
    return tag("polyline", points=points, class_=f"curve c{kind % N_COLORS}")
