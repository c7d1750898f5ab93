"""Formulas as MathML, which browsers draw themselves: no script, no network."""

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

# TeX takes one token for each part of a fraction; docutils would read 12 as one number.
TOKEN = r"(\d|[A-Za-z]|\\[A-Za-z]+)"
FIRST = re.compile(r"(\\[dt]?frac)\s*" + TOKEN)
SECOND = re.compile(r"(\\[dt]?frac\{[^{}]*\})\s*" + TOKEN)


def mathml(formula, as_block=False):
    """The MathML of a formula in TeX."""
    formula = FIRST.sub(r"\1{\2}", formula)
    formula = SECOND.sub(r"\1{\2}", formula)
    return str(tex2mathml(formula, as_block=as_block))


def _inline(writer, node):
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _display(writer, node):
    number = f'<span class="eqno">({node["number"]})</span>' if node["number"] else ""
    writer.body.append(
        writer.starttag(node, "div", CLASS="math")
        + number
        + mathml(node.astext(), as_block=True)
        + "</div>\n"
    )
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
