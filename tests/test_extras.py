"""The core works with the core's libraries; others are asked for in one sentence."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

from manykernels.base.imports import MissingLibraryError, require_library

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def core_modules() -> list[str]:
    """Modules of the dependencies in pyproject.toml and of what these require."""
    lines = list(tomllib.loads(PROJECT.read_text())["project"]["dependencies"])
    found: set[str] = set()
    while lines:
        line = lines.pop()
        name = re.match(r"[\w.-]+", line)[0].lower()
        if "extra ==" not in line and name not in found:
            found.add(name)
            lines += requires(name) or []
    modules = packages_distributions().items()
    return [m for m, owners in modules if found & {o.lower() for o in owners}]


BLOCKER = f"""
import sys
from importlib.abc import MetaPathFinder

class OnlyCore(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        known = sys.stdlib_module_names | {{*{core_modules()!r}, "manykernels"}}
        if top not in known and not top.startswith("_"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, OnlyCore())
"""


def run(code: str, code_expected: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKER + code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code_expected, done.stderr
    return done


def test_fit_predict_save_and_load_need_only_the_core(tmp_path):
    done = run(f"""
import numpy as np, manykernels as mk
X = np.random.default_rng(0).normal(size=(40, 3))
model = mk.MKLClassifier("rbf; linear", verbose=1, random_state=0).fit(X, X[:, 0] > 0)
model.save({str(tmp_path / "m")!r})
same = mk.load({str(tmp_path / "m")!r})
assert (same.predict(X) == model.predict(X)).all()
mk.MKLRegressorCV("rbf", ps=[1.5], Cs=[1.0], cv=2, verbose=1).fit(X, X[:, 0])
assert mk.compare is not None
""")
    assert done.stdout == ""
    assert "epoch   1   objective" in done.stderr
    assert "searching p and C: 1 of" in done.stderr


def test_pictures_and_reports_ask_for_their_libraries():
    done = run("""
import manykernels as mk
from manykernels.report import plot_fit
model = mk.MKLClassifier("linear").fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
assert "above the optimum" in model._repr_html_()
for draw in (plot_fit, lambda model: model.report("model.html")):
    try:
        draw(model)
    except ImportError as error:
        print(error)
""")
    for line, library in zip(
        done.stdout.splitlines(), ("matplotlib", "jinja2"), strict=True
    ):
        assert line == (
            f"expected the library {library}, which is not installed; call pip install "
            '"manykernels[plot]".'
        )


def test_the_command_line_asks_for_its_libraries():
    done = run("from manykernels.cli import run; run()", 1)
    assert done.stdout == ""
    assert done.stderr.strip() == (
        "Error: expected the library typer, which is not installed; call pip install "
        '"manykernels[cli]".'
    )


def test_other_failures_of_an_import_stay_what_they_are(tmp_path, monkeypatch):
    (tmp_path / "needs_another.py").write_text("import no_such_library")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_library") as caught:
        require_library("needs_another", "cli")
    assert not isinstance(caught.value, MissingLibraryError)
