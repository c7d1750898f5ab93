"""Figures that draw themselves in a notebook, and inside a page as SVG."""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from manykernels.report.pictures import COLORS, GRAY

INK, RULE, MUTED = "#1b1f24", "#dfe1dc", "#9aa3ab"
# The style sheet has a value of every variable for light and for dark pages.
COLOR_VARIABLES = {
    **{color: f"var(--c{k})" for k, color in enumerate(COLORS)},
    INK: "var(--ink)",
    GRAY: "var(--soft)",
    RULE: "var(--rule)",
    MUTED: "var(--muted)",
}
PAGE_STYLE: Any = {
    "svg.fonttype": "none",  # texts stay texts: readable aloud, and small
    "svg.hashsalt": "manykernels",  # the same figure, the same file
    "text.parse_math": False,  # a name may hold dollar signs
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11.0,
    "text.color": GRAY,
    "axes.labelcolor": INK,
    "axes.edgecolor": RULE,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "grid.color": RULE,
    "legend.frameon": False,
    "xtick.color": GRAY,
    "ytick.color": GRAY,
}
# Characters that a name may have and that XML cannot hold.
NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
# All marks lie inside of their axes, so nothing needs to be clipped.
UNUSED = ("metadata", "clipPath", "style")
FONT = re.compile("'DejaVu Sans'[^;]*")
DIGITS = re.compile(r"(\d+\.\d)\d+")


class ShownFigure(Figure):
    """A figure of its own, without pyplot and its global state.

    Notebooks draw figures that pyplot knows; this one draws itself.

    Examples
    --------
    >>> ShownFigure()._repr_png_()[1:4]
    b'PNG'
    """

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format="png")
        return stream.getvalue()


@contextmanager
def page_style() -> Iterator[None]:
    """Figures of this block have the fonts and colors of a page."""
    with matplotlib.rc_context(PAGE_STYLE), warnings.catch_warnings():
        # The reader's browser has letters that the measuring font lacks.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield


def describe(
    artist: Artist,
    titles: Sequence[str] = (),
    rows: Sequence[int] = (),
    **attributes: str,
) -> None:
    """Give marks a title each (a tooltip) and a row, and their group attributes.

    matplotlib writes the gid of an artist as the id of its group: it carries all this
    as JSON until `to_svg` puts it in place.
    """
    group = {
        "attributes": {name.replace("_", "-"): v for name, v in attributes.items()},
        "titles": list(titles),
        "rows": [int(row) for row in rows],
    }
    artist.set_gid(json.dumps(group))


def to_svg(figure: Figure, name: str, label: str) -> Markup:
    """Return a figure as an element of a page, in the colors of its style sheet.

    Parameters
    ----------
    figure : matplotlib Figure
    name : str
        Different for every figure of a page: opens the names of its parts.
    label : str
        What the figure shows, for those who cannot see it.

    Examples
    --------
    >>> figure = ShownFigure(figsize=(2.0, 1.0))
    >>> str(to_svg(figure, "empty", "Nothing"))[:44]
    '<svg viewBox="0 0 144 72" class="chart" role'
    """
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(NOT_XML.sub("\ufffd", stream.getvalue()))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in UNUSED]:
            parent.remove(child)
    for element in list(root.iter()):
        _adapt(element, name)
    width = root.attrib["viewBox"].split()[2]
    root.attrib = {"viewBox": root.attrib["viewBox"], "class": "chart", "role": "img"}
    root.attrib |= {"aria-label": label, "style": f"--width:{width}px"}
    root.tail = None
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _adapt(element: ElementTree.Element, name: str) -> None:
    """References and colors of the page, and what `describe` has left."""
    attributes = element.attrib
    attributes.pop("clip-path", None)
    identity = attributes.pop("id", "")
    if element.tag != "g" and identity:
        attributes["id"] = f"{name}-{identity}"
    for key in [key for key in attributes if key.endswith("}href")]:
        attributes["href"] = f"#{name}-{attributes.pop(key)[1:]}"
    for key in ("d", "x", "y", "transform"):  # a tenth of a pixel is enough
        if key in attributes:
            attributes[key] = DIGITS.sub(r"\1", " ".join(attributes[key].split()))
    if "style" in attributes:
        style = FONT.sub("system-ui, sans-serif", attributes["style"])
        attributes["style"] = re.sub(
            "#[0-9a-f]{6}", lambda hit: COLOR_VARIABLES.get(hit[0], hit[0]), style
        )
    if identity.startswith("{"):
        _describe_marks(element, json.loads(identity))


def _describe_marks(group: ElementTree.Element, content: dict[str, Any]) -> None:
    group.attrib |= content["attributes"]
    # Repeated marks are references to one shape; others are paths of their own.
    marks = list(group.iter("use")) or list(group.iter("path"))
    for mark, title in zip(marks, content["titles"], strict=False):
        ElementTree.SubElement(mark, "title").text = title
    for mark, row in zip(marks, content["rows"], strict=False):
        mark.attrib |= {"class": "mark", "data-row": str(row)}
