"""The built site as files: links that lead somewhere, nothing from a network."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.test_reference import LISTED

LOADED = {"script", "img", "link", "iframe", "source"}


class Page(HTMLParser):
    """Names, links and loaded files of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.comments: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        found = dict(attributes)
        self.names |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        elif tag in LOADED and "canonical" not in found.get("rel", ""):
            self.loaded |= {found[key] for key in ("src", "href") if found.get(key)}

    def handle_comment(self, comment: str) -> None:
        self.comments.append(comment)


@cache
def page(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def pages(built: Path) -> list[Path]:
    """Pages to read; the theme brings templates that are no pages."""
    return [p for p in sorted(built.rglob("*.html")) if "_static" not in p.parts]


def dead(source: Path, link: str) -> bool:
    """Whether an internal link leads nowhere."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return False
    path = (source.parent / unquote(parts.path)).resolve() if parts.path else source
    if not path.is_file():
        return True
    wanted = unquote(parts.fragment)
    return bool(wanted) and path.suffix == ".html" and wanted not in page(path).names


def test_no_internal_link_is_dead(built: Path) -> None:
    found = {
        f"{source.relative_to(built)} -> {link}"
        for source in pages(built)
        for link in page(source).links | page(source).loaded
        if dead(source, link)
    }
    assert found == set()


def test_nothing_is_loaded_from_a_network(built: Path) -> None:
    loaded = {link for source in pages(built) for link in page(source).loaded}
    assert {link for link in loaded if urlsplit(link).netloc} == set()


def test_sources_of_figures_are_not_shown(built: Path) -> None:
    for source in pages(built):
        remarks = " ".join(page(source).comments)
        assert not re.search(r"^\s*(=|table:|end|given|legend)", remarks), source


def test_every_public_name_has_a_built_page(built: Path) -> None:
    names = {path.stem for path in (built / "api/generated").glob("*.html")}
    assert {"manykernels.MKLClassifier", "manykernels.kernels.RBF"} <= names
    assert names == set(LISTED)


def test_examples_can_be_downloaded(built: Path) -> None:
    """As scripts and as notebooks, each with a picture."""
    for source in (built / "auto_examples").glob("plot_*.html"):
        links = {Path(urlsplit(link).path).name for link in page(source).links}
        assert {f"{source.stem}.py", f"{source.stem}.ipynb"} <= links
        assert any("_images/" in link for link in page(source).loaded), source.name
