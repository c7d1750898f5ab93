"""Names and first sentences of the package: each is unique and stands alone."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src" / "manykernels"
# One per folder is the usual name of what the other files of the folder share.
SHARED_FILES = ("__init__.py", "base.py")
# Words that say nothing by themselves: a name needs another word.
EMPTY_WORDS = set(
    "there here own one such same told said seen look known found some everybody "
    "nobody somebody ours enough little most least".split()
)
# Sentences about people, and riddles (see CONTRIBUTING.md, "Words").
DIALECT = re.compile(
    r"\b(nobody|everybody|somebody|told|tells?|says so|say so|speaks? (of|against|for)|"
    r"gives up|ours|in peace|spared|is to be had)\b",
    re.IGNORECASE,
)


@cache
def trees() -> dict[Path, ast.Module]:
    return {f: ast.parse(f.read_text()) for f in sorted(SOURCES.rglob("*.py"))}


def module_names(kind: str) -> Iterator[tuple[str, Path]]:
    """Names of classes or constants at module level, or of files."""
    for path, tree in trees().items():
        if kind == "file":
            if path.name not in SHARED_FILES:
                yield path.name, path
            continue
        for node in tree.body:
            if kind == "class" and isinstance(node, ast.ClassDef):
                yield node.name, path
            if kind == "constant":
                yield from ((name, path) for name in assigned(node) if name.isupper())


def assigned(node: ast.stmt) -> list[str]:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [t.id for t in targets if isinstance(t, ast.Name) and len(t.id) > 1]


@pytest.mark.parametrize("kind", ["class", "file", "constant"])
def test_a_name_exists_once(kind):
    places = defaultdict(list)
    for name, path in module_names(kind):
        places[name].append(str(path.relative_to(SOURCES)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def definitions() -> Iterator[tuple[str, ast.AST]]:
    """Every class and function with the place where it stands."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                yield f"{path.relative_to(SOURCES)}:{node.lineno}", node


def test_names_hold_a_word_that_means_something():
    empty = [
        f"{place} {node.name}"
        for place, node in definitions()
        if (words := set(re.findall(r"[a-z]+", spaced(node.name))))
        and words <= EMPTY_WORDS
    ]
    assert empty == []


def spaced(name: str) -> str:
    """Words of a name in either case."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def test_docstrings_and_comments_are_about_code():
    found = []
    for path in trees():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := DIALECT.search(line):
                place = f"{path.relative_to(SOURCES)}:{number}"
                found.append(f"{place} {match.group()}: {line.strip()}")
    assert found == []


def test_arguments_are_not_hidden_in_a_tuple():
    """`data = (a, b); f(*data, c)` hides which argument is which."""
    hidden = []
    for place, node in definitions():
        if not isinstance(node, ast.FunctionDef):
            continue
        tuples = {
            name
            for statement in ast.walk(node)
            if isinstance(statement, ast.Assign)
            and isinstance(statement.value, ast.Tuple)
            for name in assigned(statement)
        }
        for call in ast.walk(node):
            if isinstance(call, ast.Call):
                hidden += [
                    f"{place} *{argument.value.id}"
                    for argument in call.args
                    if isinstance(argument, ast.Starred)
                    and isinstance(argument.value, ast.Name)
                    and argument.value.id in tuples
                ]
    assert hidden == []


@cache
def classes() -> dict[str, ast.ClassDef]:
    found = {}
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name] = node
    return found


def ancestors(node: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """Bases of a class that the package defines, by their names."""
    for base in node.bases:
        name = base.id if isinstance(base, ast.Name) else None
        if name in classes() and classes()[name] is not node:
            yield classes()[name]
            yield from ancestors(classes()[name])


def documented_methods(node: ast.ClassDef) -> dict[str, str]:
    return {
        method.name: ast.get_docstring(method) or ""
        for method in node.body
        if isinstance(method, ast.FunctionDef) and ast.get_docstring(method)
    }


def test_an_override_does_not_repeat_the_docstring_of_its_base():
    repeated = []
    for place, node in definitions():
        if isinstance(node, ast.ClassDef):
            inherited: dict[str, str] = {}
            for base in ancestors(node):
                inherited = documented_methods(base) | inherited
            for name, text in documented_methods(node).items():
                if text == inherited.get(name):
                    repeated.append(f"{place} {node.name}.{name}")
    assert repeated == []
