"""Every python block of the README and the documentation runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
RIVALS = {"MKLpy", "himalaya", "pycrfsuite", "torch"}  # compared with if installed
CITED = re.compile(
    r"(?P<name>[A-Z][a-zà-ÿ][\w-]*)(?:\s+et\s+al\.)?,?\s+\(?(?P<year>(?:19|20)\d\d)\)"
)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def blocks(page):
    """Blocks with blank lines before them, so that errors name the page's line."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        yield "\n" * (text[: match.start(1)].count("\n")) + match.group(1)


def with_code():
    return [page for page in PAGES if any(blocks(page))]


def test_pages_with_code_are_found():
    assert {"README.md", "quickstart.md"} <= {page.name for page in with_code()}


@pytest.mark.parametrize("page", with_code(), ids=lambda page: page.name)
def test_blocks_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("pandas")
    space = {"__name__": "__main__"}
    for block in blocks(page):
        try:
            exec(compile(block, str(page), "exec"), space)
        except ModuleNotFoundError as error:
            if error.name not in RIVALS:
                raise
            pytest.skip(f"all blocks ran but those that need {error.name}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = COMMENT.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        assert (page.parent / target).exists(), target


def test_papers_that_are_named_are_listed():
    """Whoever is cited by name and year, here or in a docstring, has a full entry."""
    listed = (ROOT / "docs/references.md").read_text(encoding="utf-8")
    known = {
        (author, year)
        for authors, year in re.findall(r"^- ([^()]+) \((\d{4})\)\.", listed, re.M)
        for author in re.findall(r"[\w-]+", authors)
    }
    sources = [*PAGES, *sorted((ROOT / "src").rglob("*.py"))]
    cited = {
        found.group("name", "year")
        for path in sources
        for found in CITED.finditer(path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 20
    assert cited <= known, cited - known


def test_the_paper_cites_what_it_lists_and_shows_what_is_there():
    text = (ROOT / "paper/paper.md").read_text(encoding="utf-8")
    body = re.sub(r"`[^`]*`", "", text.split("---", 2)[2])
    entries = (ROOT / "paper/paper.bib").read_text(encoding="utf-8")
    listed = re.findall(r"^@\w+\{(\w+),", entries, re.M)
    assert sorted(listed) == sorted(set(re.findall(r"@(\w+)", body)))
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", body)
    assert pictures and all((ROOT / "paper" / name).exists() for name in pictures)
