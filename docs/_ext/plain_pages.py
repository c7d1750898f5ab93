"""Pages that are plain Markdown where they are read as files, and more on the site.

- Comments vanish: where a figure comes from is nothing to read.
- `<!-- site: ... -->` holds what only the site shows.
- `<!-- toctree -->` below a table makes the pages that it links the next in order, so
  that a page is listed once, in the table.
- `<!-- include: ../FILE.md -->` is the text of a file outside the folder.
- Links out of the folder lead to the page that includes the file, or to the source.
"""

import posixpath
import re
from pathlib import Path

SOURCE = "https://github.com/manykernels/manykernels/blob/main/"
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
}
# What opens first counts: a comment may hold a fence, and a fence a comment.
FENCE_OR_COMMENT = re.compile(
    r"(?P<fence>^(?P<mark>```+|~~~+)[^\n]*\n.*?^(?P=mark)[ \t]*$)"
    r"|<!--\s*(?P<comment>.*?)\s*-->",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)(?P<to>[^)#\s]+)(?=[)#])")


def for_the_site(text, folder, read):
    """The Markdown of a page in `folder` as the site wants it; `read` opens files."""
    done, linked, end = [], [], 0
    for found in FENCE_OR_COMMENT.finditer(text):
        before = _from_docs(text[end : found.start()], folder)
        linked += LINK.findall(before)
        shown = found["fence"]
        if shown is None:
            shown, linked = _comment(found["comment"], linked, folder, read)
        done += [before, shown]
        end = found.end()
    return "".join(done) + _from_docs(text[end:], folder)


def _comment(comment, linked, folder, read):
    """What the site shows for a comment, and the links that wait for a toctree."""
    kind, _, rest = comment.partition(":")
    if kind == "toctree":
        return _toctree(linked), []
    if kind == "site":
        return rest.strip(" \n"), linked
    if kind == "include":
        path = posixpath.normpath(posixpath.join(folder, rest.strip()))
        return for_the_site(read(path), posixpath.dirname(path), read), linked
    return "", linked


def _from_docs(text, folder):
    """Text whose links start from the folder of the documentation."""
    return LINK.sub(lambda link: _target(link["to"], folder), text)


def _target(link, folder):
    path = posixpath.normpath(posixpath.join(folder, link))
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return posixpath.relpath(path, "docs")
    return SOURCE + path


def _toctree(linked):
    pages = dict.fromkeys(name for name in linked if name.endswith((".md", ".rst")))
    return "```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```"


def _read_page(app, docname, source):
    root = Path(app.srcdir).parent

    def read(path):
        app.env.note_dependency(str(root / path))
        return (root / path).read_text(encoding="utf-8")

    if Path(app.env.doc2path(docname)).suffix == ".md":
        source[0] = for_the_site(source[0], "docs", read)


def setup(app):
    app.connect("source-read", _read_page)
    return {"parallel_read_safe": True}
