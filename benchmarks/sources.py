"""Which code a benchmark measures, and whether it is still the same.

A benchmark depends on its script and on every file of manykernels, of this folder and
of the tests that can be reached from it by imports. Names are followed to the file that
defines them, so `from manykernels.solvers import Auto` reaches auto.py and what that
imports, but not its neighbors. Comments, docstrings and blank lines do not count as
code.
"""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
TESTS = ROOT / "tests"
HOMES = {"manykernels": ROOT / "src", "tests": ROOT}  # modules of others are here
# They write results down and measure nothing: a change in them ages no figure.
BOOKKEEPING = frozenset(FOLDER / name for name in ("evidence.py", "sources.py"))
# Saving knows every class there is; it counts where a benchmark itself names it.
SAVING = ROOT / "src" / "manykernels" / "files"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def fingerprints(script: Path) -> dict[str, str]:
    """A hash of the code of every file that the script depends on."""
    return {
        path.relative_to(ROOT).as_posix(): fingerprint(path)
        for path in sorted(needed(script.resolve()))
        if path.is_relative_to(ROOT)
    }


def changed(recorded: Mapping[str, str]) -> list[str]:
    """Files of a record whose code is no longer what it was.

    New files need no look: nothing reaches them unless a recorded file has changed.
    """
    return [
        name
        for name, value in recorded.items()
        if not (ROOT / name).is_file() or fingerprint(ROOT / name) != value
    ]


@cache
def fingerprint(path: Path) -> str:
    """Twelve digits of the hash of a file's code."""
    return hashlib.sha256(code(path.read_text("utf-8")).encode()).hexdigest()[:12]


def code(text: str) -> str:
    """The text without comments, docstrings and blank lines."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, False) is not None:
            says = node.body[0]
            lines[says.lineno - 1] = lines[says.lineno - 1][: says.col_offset]
            lines[says.lineno : says.end_lineno] = [""] * (
                (says.end_lineno or says.lineno) - says.lineno
            )
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def needed(script: Path) -> set[Path]:
    """The script and all files that can be reached from it."""
    found: set[Path] = set()
    ahead = [script]
    while ahead:
        path = ahead.pop()
        if path not in found | BOOKKEEPING:
            found.add(path)
            ahead += reached(path)
    return found


@cache
def reached(path: Path) -> frozenset[Path]:
    """The files that define what a file imports and uses."""
    found: set[Path | None] = set()
    for tree in _programs(path):
        modules = dict(_imported_modules(tree))
        for node in _running(tree):
            if isinstance(node, ast.ImportFrom):
                # A module that is imported as a whole counts where its names are used.
                names = [alias.name for alias in node.names]
                names = [name for name in names if not _file(f"{node.module}.{name}")]
                found |= {_definition(node.module or "", name) for name in names}
            elif (chain := _chain(node)) and chain[0] in modules:
                found.add(_definition(modules[chain[0]], *chain[1:]))
    if path.parent not in (FOLDER, SAVING) and not path.is_relative_to(TESTS):
        found = {one for one in found if one and one.parent != SAVING}
    return frozenset(one for one in found if one and one != path)


def _programs(path: Path) -> Iterator[ast.AST]:
    """A file, and programs inside of it that it hands to a process of their own."""
    tree = ast.parse(path.read_text("utf-8"))
    yield tree
    for node in ast.walk(tree) if path.parent == FOLDER else ():
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and "import" in text and "manykernels" in text:
            with suppress(SyntaxError):  # only words about it
                yield ast.parse(text)


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but imports for the type checker; of a.b.c only the whole."""
    ahead = [tree]
    while ahead:
        node = ahead.pop()
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        ahead += [] if _chain(node) else ast.iter_child_nodes(node)


def _chain(node: ast.AST) -> tuple[str, ...]:
    """The names of a.b.c; empty for anything else."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute) and (start := _chain(node.value)):
        return (*start, node.attr)
    return ()


def _imported_modules(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Names that stand for modules of ours: (name, module)."""
    for node in _running(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = alias.name if alias.asname else alias.name.partition(".")[0]
                if _file(module):
                    yield alias.asname or module, module
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if _file(f"{node.module}.{alias.name}"):
                    yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _file(module: str) -> Path | None:
    """The file of a module of ours, None for those of others."""
    folder = HOMES.get(module.partition(".")[0], FOLDER)
    path = folder.joinpath(*module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


def _definition(module: str, *names: str) -> Path | None:
    """The file that defines module.name.name..., through packages that pass it on."""
    path = _file(module)
    if path is None or path.name != "__init__.py" or not names:
        return path
    if _file(f"{module}.{names[0]}"):
        return _definition(f"{module}.{names[0]}", *names[1:])
    origin = _passed_on(path).get(names[0])
    return _definition(*origin, *names[1:]) if origin else path


@cache
def _passed_on(path: Path) -> dict[str, tuple[str, str]]:
    """What a package imports from elsewhere: name to (module, name there).

    Names that it imports when asked for are known from its imports for type checkers.
    """
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
