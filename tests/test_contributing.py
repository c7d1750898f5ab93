"""The exercise of CONTRIBUTING, done: each addition touches one folder and works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import manykernels

ROOT = Path(__file__).parents[1]
PACKAGE = Path(manykernels.__file__).parent
FENCE = re.compile(r"^```(python|diff)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# (\S+\.py)\n")


def sections() -> dict[str, list[tuple[str, str]]]:
    """Headings "### Add a ..." and the blocks below them."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    exercise = text.split("## The exercise")[1].split("\n## ")[0]
    parts = re.split(r"^### Add a (.*)\n", exercise, flags=re.MULTILINE)[1:]
    return {
        name: FENCE.findall(body)
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def edited(text: str, lines: list[str]) -> str:
    """Lines with a plus go below the line before them, which must be there."""
    found, place = text.splitlines(), 0
    for line in lines:
        if line.startswith("+"):
            found.insert(place, line[1:])
            place += 1
        else:
            place = found.index(line[1:], place) + 1
    return "\n".join(found) + "\n"


def touch(package: Path, kind: str, block: str) -> str | None:
    """Write what a block says; the file's name, or None for a block to be run."""
    name = NAMED.match(block)
    if name is None:
        return None
    path, body = package / name[1], block[name.end() :]
    assert path.exists() == (kind == "diff"), f"{name[1]} is not what the page says"
    path.write_text(
        edited(path.read_text(), body.splitlines()) if kind == "diff" else body
    )
    return name[1]


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy of the package with all the additions."""
    folder = tmp_path_factory.mktemp("newcomer")
    ignored = shutil.ignore_patterns("__pycache__")
    package = Path(shutil.copytree(PACKAGE, folder / "manykernels", ignore=ignored))
    for blocks in sections().values():
        for kind, block in blocks:
            touch(package, kind, block)
    return folder


def test_the_exercise_is_whole() -> None:
    assert list(sections()) == ["kernel", "bank", "solver", "loss", "baseline"]


@pytest.mark.parametrize("name", sections())
def test_an_addition_touches_one_folder(name: str) -> None:
    files = [NAMED.match(block) for _, block in sections()[name]]
    assert len({file[1].split("/")[0] for file in files if file}) == 1


@pytest.mark.parametrize("name", sections())
def test_an_addition_works(name: str, copy: Path) -> None:
    scripts = [b for kind, b in sections()[name] if not NAMED.match(b)]
    assert scripts, "nothing tries the addition"
    # Small data: compiling loops for the copy would take longer than running them.
    env = os.environ | {"PYTHONPATH": str(copy), "NUMBA_DISABLE_JIT": "1"}
    for script in scripts:
        command = [sys.executable, "-W", "error::RuntimeWarning", "-c", script]
        done = subprocess.run(
            command, env=env, cwd=copy, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
