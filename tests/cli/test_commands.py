"""The list of commands is shown without importing them, and says what they say."""

import inspect
import subprocess
import sys
from importlib import import_module

import pytest

from manykernels import mkl
from manykernels.cli.main import COMMANDS, load_command


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_says(name):
    home, summary = COMMANDS[name]
    function = getattr(import_module(f"manykernels.cli.{home}"), name.replace("-", "_"))
    assert inspect.getdoc(function).splitlines()[0] == summary
    assert load_command(name).name == name


def test_help_lists_all_commands_and_imports_none():
    script = """
import sys
from manykernels.cli.main import app
app(["--help"], standalone_mode=False)
heavy = {"sklearn", "scipy", "numba", "pandas"} & set(sys.modules)
print("imported:", sorted(heavy))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert all(name in done.stdout for name in COMMANDS)
    assert "imported: []" in done.stdout


def test_a_misspelled_command_is_named(call):
    assert "fitt" in call("fitt", code=2).output


def test_warm_up_says_when_it_is_done(call, monkeypatch):
    done = []
    monkeypatch.setattr(mkl, "warm_up", lambda: done.append(1))
    assert "ready" in call("warm-up", code=0).output
    assert done == [1]
