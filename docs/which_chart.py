"""Draw docs/images/which.svg: python docs/which_chart.py.

Three ladders of questions: yes leads to the right, to one line of code; no leads down.
Boxes bring their own ground, so that the picture is readable on light and on dark.
"""

from html import escape
from pathlib import Path

PATH = Path(__file__).parent / "images" / "which.svg"

LADDERS = {
    "Which estimator?": (
        ("unsure whether learned weights pay?", "Study().fit(X, y)"),
        ("classes?", "MKLClassifier()"),
        ("numbers, one or many per row?", "MKLRegressor()"),
        ("times, some of them censored?", "MKLSurvival()"),
        ("labels of items in a row?", "SequenceLabeler()"),
        ("heads of words?", "DependencyParser()"),
        ("a formula of few products of columns?", "PolynomialMKLRegressor()"),
    ),
    "Which solver?": (
        ("probabilities learned, six digits?", 'loss="log", tol=1e-6'),
        ("rows arrive in parts?", "partial_fit, budget=1000"),
        ("a paper's algorithm to compare with?", "solver=compare.SimpleMKL()"),
        ("otherwise", 'solver="auto": certified'),
    ),
    "Which storage?": (
        ("a GPU at hand, thousands of rows?", 'device="cuda"'),
        ("(1.5 F + 2) N² values fit in memory?", 'storage="auto" takes "gram"'),
        ("linear or approximate kernels only?", 'it takes "features"'),
        ("reading faster than computing?", 'it takes "memmap"'),
        ("all pairs of rows too many?", 'approximate="nystroem"'),
        ("otherwise", 'it takes "on_demand"'),
    ),
}

WIDTH, ROW, BOX, MARGIN = 620, 50, 34, 14
QUESTION, ANSWER = (MARGIN, 300), (346, 260)  # left edge and width
STYLE = """
text { font: 14px system-ui, sans-serif; }
.code { font: 13px ui-monospace, monospace; fill: #3d2c00; }
.head { font-size: 17px; font-weight: 600; fill: #ffffff; }
.ask { fill: #10314d; }
.small { font-size: 12px; fill: #7d8590; }
.line { stroke: #7d8590; stroke-width: 1.6; fill: none; marker-end: url(#tip); }
"""
TIP = (
    '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#7d8590"/></marker>'
)


def box(left, top, width, fill, text, kind):
    """A rounded box with its text in the middle."""
    middle = left + width / 2
    return (
        f'<rect x="{left}" y="{top}" width="{width}" height="{BOX}" rx="7" '
        f'fill="{fill}"/><text class="{kind}" x="{middle:g}" y="{top + 22}" '
        f'text-anchor="middle">{escape(text)}</text>'
    )


def line(points):
    """An arrow through the points."""
    return f'<path class="line" d="M{"L".join(f"{x:g} {y:g}" for x, y in points)}"/>'


def rung(top, question, answer, last):
    """A question, its answer, and the ways out of it."""
    (left, width), (right, wide) = QUESTION, ANSWER
    middle = top + BOX / 2
    yield box(left, top, width, "#cfe3f5", question, "ask")
    yield box(right, top, wide, "#ffe2a3", answer, "code")
    yield line([(left + width, middle), (right - 2, middle)])
    if not last:
        yield line([(left + 40, top + BOX), (left + 40, top + ROW - 2)])
        yield f'<text class="small" x="{left + 50}" y="{top + BOX + 13}">no</text>'
    if question != "otherwise":
        place = f'x="{left + width + 4}" y="{middle - 5:g}"'
        yield f'<text class="small" {place}>yes</text>'


def chart():
    """The picture as text."""
    parts, top = [], MARGIN
    for title, rungs in LADDERS.items():
        parts.append(box(MARGIN, top, WIDTH - 2 * MARGIN, "#1f4e79", title, "head"))
        top += ROW
        for question, answer in rungs:
            parts += rung(top, question, answer, (question, answer) == rungs[-1])
            top += ROW
        top += MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" '
        f'width="{WIDTH}" height="{top}" role="img">\n'
        f"<title>Which estimator, which solver, which storage</title>\n"
        f"<style>{STYLE}</style>\n<defs>{TIP}</defs>\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    PATH.write_text(chart(), encoding="utf-8")
