"""The gallery: every example is whole and public, and some are run."""

import ast
import re
import runpy
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import manykernels

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# Those that take a second or so; building the documentation runs them all.
FAST = {
    "plot_choosing_p_and_c",
    "plot_first_steps",
    "plot_many_targets",
    "plot_streams",
    "plot_survival",
    "plot_which_view_matters",
}
DOTTED = re.compile(r"mk(\.\w+)+")
TITLE = re.compile(r"\n(?P<title>\S[^\n]*)\n(?P<rule>=+)\n\n\S")


def named(path):
    return path.stem


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def test_the_gallery_is_large_and_flat():
    assert len(EXAMPLES) >= 15
    assert all(path.stem.startswith("plot_") for path in EXAMPLES)
    assert {path.stem for path in EXAMPLES} >= FAST


@pytest.mark.parametrize("path", EXAMPLES, ids=named)
def test_it_opens_with_a_title_and_what_one_learns(path):
    found = TITLE.match(ast.get_docstring(tree(path), clean=False) or "")
    assert found, "expected a title, a line of = below it, and a paragraph"
    assert len(found["rule"]) == len(found["title"])


@pytest.mark.parametrize("path", EXAMPLES, ids=named)
def test_it_has_cells_and_a_picture(path):
    text = path.read_text(encoding="utf-8")
    compile(text, str(path), "exec")
    assert text.count("\n# %%\n") >= 3
    calls = [ast.unparse(n.func) for n in ast.walk(tree(path)) if type(n) is ast.Call]
    assert {"plt.subplots", "plt.figure"} & set(calls)
    assert calls.count("plt.show") >= 1


def private_names(found: ast.Module) -> set[str]:
    """What a script asks manykernels for that no module lists in `__all__`."""
    asked = set()
    for node in ast.walk(found):
        if isinstance(node, ast.Import):
            asked |= {a.name for a in node.names if a.name.startswith("manykernels")}
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module.split(".")[0] == "manykernels":
                asked |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):
            if DOTTED.fullmatch(name := ast.unparse(node)):
                asked.add(name.replace("mk.", "manykernels.", 1))
    return {name for name in asked if not is_public(name)}


def is_public(name: str) -> bool:
    """Whether every step of a dotted name is in `__all__` of the module before."""
    place: Any = manykernels
    parts = name.split(".")[1:]
    if parts and parts[0] in ("report", "study"):  # modules, and no names of mk
        place = import_module(f"manykernels.{parts.pop(0)}")
    for part in parts:
        if not isinstance(place, ModuleType):
            return True  # an attribute of a public object
        if part not in place.__all__:
            return False
        place = getattr(place, part)
    return True


@pytest.mark.parametrize("path", EXAMPLES, ids=named)
def test_it_uses_public_names_only(path):
    assert not private_names(tree(path))


def test_private_names_are_found():
    script = (
        "import manykernels as mk\n"
        "from manykernels.report.pictures import COLORS\n"
        "from manykernels.report import plot_fit\n"
        "mk.datasets.load_mnist, mk.datasets.download, mk.nothing\n"
    )
    assert private_names(ast.parse(script)) == {
        "manykernels.report.pictures.COLORS",
        "manykernels.datasets.download",
        "manykernels.nothing",
    }


@pytest.mark.parametrize("name", sorted(FAST))
def test_it_runs_and_draws(name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pyplot, "show", lambda: None)
    backend = import_module("matplotlib").get_backend()
    pyplot.switch_backend("agg")
    try:
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
        axes = [ax for n in pyplot.get_fignums() for ax in pyplot.figure(n).axes]
        assert capsys.readouterr().out and axes
        assert all(ax.has_data() for ax in axes)
    finally:
        pyplot.close("all")
        pyplot.switch_backend(backend)
