"""What the site is made from: pages that stay plain, a chart that is drawn."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INCLUDED = {"changelog", "contributing", "security"}


@pytest.fixture(scope="module")
def for_the_site():
    return runpy.run_path(str(DOCS / "_ext" / "plain_pages.py"))["for_the_site"]


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("page", "site"),
    [
        ("14†<!-- = a.b : .1f --> times", "14† times"),
        ("<!-- table: x -->\n| a |\n<!-- end -->\n", "\n| a |\n\n"),
        ("```\n14<!-- = a -->\n```\n", "```\n14<!-- = a -->\n```\n"),
        ("<!-- site: {.doors} -->\n- a", "{.doors}\n- a"),
        ("[a](b.md#c) [d](https://e.org)", "[a](b.md#c) [d](https://e.org)"),
        ("[s](../SECURITY.md#what)", "[s](security.md#what)"),
        (
            "[m](../Makefile)",
            "[m](https://github.com/manykernels/manykernels/blob/main/Makefile)",
        ),
        (
            "| [a](a.md) | [b](b.md) |\n<!-- toctree -->",
            "| [a](a.md) | [b](b.md) |\n```{toctree}\n:hidden:\n\na.md\nb.md\n```",
        ),
        ("<!-- include: ../X.md -->", "[p](views.md)"),
    ],
)
def test_a_page_as_the_site_shows_it(for_the_site, page, site):
    assert for_the_site(page, "docs", {"X.md": "[p](docs/views.md)"}.get) == site


def test_every_page_has_its_place(for_the_site):
    """A page that no table lists is found by nobody, and fails make docs."""
    pages = {path.stem for path in DOCS.glob("*.md")}
    shown = "".join(for_the_site(read(f"docs/{p}.md"), "docs", read) for p in pages)
    trees = re.findall(r"^```{toctree}\n(.*?)```", shown, re.M | re.S)
    placed = [Path(line).stem for tree in trees for line in tree.splitlines()[2:]]
    assert pages - {"index"} <= set(placed)


def test_a_table_of_contents_names_a_page_once(for_the_site):
    pages = [path.stem for path in DOCS.glob("*.md")]
    shown = "".join(for_the_site(read(f"docs/{p}.md"), "docs", read) for p in pages)
    trees = re.findall(r"^```{toctree}\n(.*?)```", shown, re.M | re.S)
    placed = [line for tree in trees for line in tree.splitlines()[2:] if line]
    assert len(placed) == len(set(placed))


def test_the_chart_is_what_its_script_draws():
    drawn = runpy.run_path(str(DOCS / "which_chart.py"))["chart"]()
    assert drawn == read("docs/images/which.svg")


@pytest.mark.parametrize(
    ("short", "braced"),
    [
        (r"\frac12 \|w\|^2", r"\frac{1}{2} \|w\|^2"),
        (r"\frac\lambda2 x", r"\frac{\lambda}{2} x"),
        (r"\tfrac1{N W} x", r"\tfrac{1}{N W} x"),
        (r"\frac{1-\sigma}2 3", r"\frac{1-\sigma}{2} 3"),
    ],
)
def test_a_fraction_takes_single_tokens_as_tex_does(short, braced):
    pytest.importorskip("docutils")
    mathml = runpy.run_path(str(DOCS / "_ext" / "mathml.py"))["mathml"]
    assert mathml(short) == mathml(braced)
    assert "<mfrac" in mathml(short)


def test_every_example_has_its_place_in_the_story():
    story = runpy.run_path(str(DOCS / "_ext" / "gallery_order.py"))["STORY"]
    files = {path.stem.removeprefix("plot_") for path in ROOT.glob("examples/plot_*")}
    assert files == set(story)
