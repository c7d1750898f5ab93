"""Every python block of the README and the documentation runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
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
        exec(compile(block, str(page), "exec"), space)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = COMMENT.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        assert (page.parent / target).exists(), target
