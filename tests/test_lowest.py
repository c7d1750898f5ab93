"""The versions that `make test-lowest` installs are the lowest that are allowed."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "pyproject.toml"


def versions(lines, sign):
    """Version numbers by name, without zeros at the end."""
    found = (re.fullmatch(rf"([\w-]+){sign}([\d.]+)", line) for line in lines)
    return {m[1]: re.sub(r"(\.0)+$", "", m[2]) for m in found if m is not None}


@pytest.mark.skipif(not PROJECT.exists(), reason="needs the source tree")
def test_constraints_are_the_declared_minima():
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras = project["optional-dependencies"]
    users = [*project["dependencies"], *extras["cli"], *extras["plot"]]
    tested = versions((ROOT / "tests" / "lowest.txt").read_text().splitlines(), "==")
    needed = versions(users, ">=")
    assert len(needed) == len(users), "every dependency has a lowest version"
    assert needed.items() <= tested.items()
    assert tested.items() <= (needed | versions(extras["dev"], ">=")).items()
