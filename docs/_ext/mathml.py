"""Formulas as MathML, which browsers draw themselves: no script, no network."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def _inline(writer, node):
    writer.body.append(str(tex2mathml(node.astext(), as_block=False)))
    raise nodes.SkipNode


def _display(writer, node):
    number = f'<span class="eqno">({node["number"]})</span>' if node["number"] else ""
    writer.body.append(
        writer.starttag(node, "div", CLASS="math")
        + number
        + str(tex2mathml(node.astext(), as_block=True))
        + "</div>\n"
    )
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
