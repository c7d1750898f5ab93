"""The page of figures rests on saved results; scripts and solvers fit together."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from manykernels.banks import GramBank
from manykernels.solvers import Auto, Obscure

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def scripts(monkeypatch):
    """The folder of the benchmarks, for imports."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(FOLDER) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


def test_the_page_shows_what_was_saved(scripts):
    import page

    text = page.PAGE.read_text(encoding="utf-8")
    assert page.PLACE.findall(text)
    assert page.filled(text) == text


def test_every_name_has_a_script(scripts):
    import run

    assert all((FOLDER / f"{name}.py").is_file() for name in run.KNOWN)


def test_every_script_imports_what_there_is(scripts):
    paths = [*FOLDER.glob("*.py"), *FOLDER.glob("contest/*.py")]
    names = {".".join(path.relative_to(FOLDER).with_suffix("").parts) for path in paths}
    # himalaya.py looks for the package of its own name first, and ends without it.
    for name in names - {"himalaya"}:
        importlib.import_module(name)


def test_results_name_the_commit_they_come_from(scripts, tmp_path):
    import evidence

    def git(*words):
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", tmp_path, *identity, *words], check=True)

    assert evidence.commit(tmp_path) is None
    git("init", "--quiet")
    (tmp_path / "src").mkdir()
    code = tmp_path / "src" / "code.py"
    code.write_text("one = 1\n")
    git("add", "src")
    git("commit", "--quiet", "-m", "One")
    named = evidence.commit(tmp_path)
    assert re.fullmatch("[0-9a-f]{40}", named)
    code.write_text("one = 2\n")
    assert evidence.commit(tmp_path) == named + "+"


@pytest.fixture
def arena(scripts):
    """Sixty rows of three classes with two kernels; the test rows are the same."""
    from contest.datasets import Arena

    rng = np.random.default_rng(0)
    target = np.arange(60) % 3
    X = rng.normal(size=(60, 4)) + 2 * np.eye(3, 4)[target]
    stack = np.stack([X @ X.T, (X @ X.T) ** 2], axis=1)
    stack /= np.einsum("ifi->f", stack)[None, :, None] / 60
    test = np.moveaxis(stack, 1, 0)
    return Arena("blobs", GramBank(stack), test, target, target)


@pytest.mark.parametrize(
    "solver", [Auto(1e-4, random_state=0), Obscure(2, 50, random_state=0)]
)
def test_models_are_graded_from_outside(arena, solver):
    from contest.objective import accuracy, first_time, follow, grade, reached
    from grade import make_problem

    problem = make_problem(arena.bank, arena.target, 1.25, 1.0)
    result = solver.solve(problem)
    recorder = follow(solver, problem, np.inf)
    marks = grade(recorder, problem, arena, most=1000)
    assert recorder.rounds[-1] == recorder.done == len(result.history)
    assert marks[-1].objective == pytest.approx(result.objective, rel=1e-6)
    # The referee may find better dual points than the solver, but none above the best.
    assert marks[-1].gap <= result.relative_gap * 1.001 + 1e-6
    assert marks[-1].bound <= Auto(1e-6, random_state=0).solve(problem).objective
    scores = arena.bank.scores(result.model.coef, result.model.weights)
    assert marks[-1].accuracy == np.mean(np.argmax(scores, axis=1) == arena.target)
    assert accuracy(arena, result.model) == marks[-1].accuracy
    bound = marks[-1].bound
    for eps in (0.5, 0.1, 1e-9):
        rounds, seconds = reached(recorder, problem, eps, bound)
        assert seconds == first_time(marks, eps, bound)
        assert (rounds == np.inf) == (seconds == np.inf)
