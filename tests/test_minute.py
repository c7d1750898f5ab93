"""The places that CONTRIBUTING.md names as answers to a newcomer's questions exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECTION = re.compile(r"^## The minute test$(.*?)^## ", re.M | re.S)
ROW = re.compile(r"^\| (.+\?) \| (.+) \|$", re.M)
PLACE = re.compile(r"`([\w/]+\.py)`(?:, `([\w.]+)`)?")


def questions() -> dict[str, str]:
    """Answers by question."""
    section = SECTION.search((ROOT / "CONTRIBUTING.md").read_text())
    assert section
    return dict(ROW.findall(section[1]))


def defined(tree: ast.Module) -> set[str]:
    """Classes, functions, methods and constants of a file."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{method.name}"
                for method in node.body
                if isinstance(method, ast.FunctionDef)
            }
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {t.id for t in targets if isinstance(t, ast.Name)}
    return names


def test_there_are_twelve_questions():
    assert len(questions()) >= 12


@pytest.mark.parametrize("question", list(questions()))
def test_the_answer_is_a_place(question):
    places = PLACE.findall(questions()[question])
    assert places
    for path, name in places:
        file = ROOT / "src" / "manykernels" / path
        assert file.is_file(), path
        if name:
            assert name in defined(ast.parse(file.read_text())), f"{path}: {name}"
