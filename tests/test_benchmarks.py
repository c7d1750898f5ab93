"""Figures on pages rest on saved results; scripts and solvers fit together."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_iris

import manykernels as mk

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
PAGES = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "paper" / "paper.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


# Measured before commits, or seeds, were recorded: only a new run can tell them.
OLDER = {"commit": {"rmd_figure_3"}}
OLDER["seeds"] = OLDER["commit"] | {
    "smooth_wrapper",
    "study",
    "survival_defaults",
}
RESULTS = sorted((FOLDER / "results").glob("*.json"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_results_say_which_commit_and_seeds_they_come_from(path):
    saved = json.loads(path.read_text("utf-8"))
    known = {"commit": saved["environment"].get("commit"), "seeds": saved.get("seeds")}
    for what, value in known.items():
        assert value is not None or path.stem in OLDER[what], f"no {what}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_show_what_was_saved(scripts, path):
    """Daggers are looked at before a change is merged: they age with other code."""
    import page

    text = path.read_text("utf-8")
    same = page.undated(page.filled(text)) == page.undated(text)
    assert same, f"{path.name} is not up to date: python benchmarks/page.py writes it"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_quote_no_figure_without_its_source(scripts, path):
    from quoted import unmarked

    found = unmarked(path.read_text("utf-8"))
    assert not found, "benchmarks/figures.py says how to name the source of a figure"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It takes 14 times as long, 0.35 s against 12 ms.", ["14", "0.35", "12"]),
        ("It takes 14<!-- = a.b --> times as long.", []),
        ("It takes 14†<!-- = a.b --> times as long, and 3 times.", ["3"]),
        ("An accuracy of 0.93 with p = 1, 1.05 and 1.1 to a gap of 0.01.", ["0.93"]),
        ("5,000 rows and 12 kernels, Python 3.11, C from {0.1, 10}.", []),
        ("It is there within 0.1 s, at p = 1.", ["0.1"]),
        ("At most 64 MB<!-- given -->, but 3 GB.", ["3"]),
        ("| rows | s |\n|---|---|\n| 500 | 7 |\n", ["7"]),
        ("<!-- given -->\n| rows | s |\n|---|---|\n| 500 | 7 |\n\n9 %", ["9"]),
        ("<!-- table: some -->\n| 1 | 2 |\n<!-- end -->\n`0.5 s`, 1.5 s", ["1.5"]),
        ("```\n0.5 s\n```\n[0.5](1.5)\n", ["0.5"]),
    ],
)
def test_measured_figures_are_told_from_chosen_ones(scripts, text, found):
    from quoted import unmarked

    assert [one.partition(": ")[2] for one in unmarked(text)] == found


def test_pages_with_figures_explain_the_dagger(scripts):
    import page

    for path in PAGES:
        text = path.read_text("utf-8")
        if page.TABLE.search(text) or page.MARK.search(text):
            assert page.LEGEND.search(text), path.name


def test_a_dagger_marks_what_is_older_than_the_code(scripts, monkeypatch):
    import page

    result = {"seconds": {"ours": 1.234, "theirs": 24.68}}
    monkeypatch.setattr(page, "load", lambda name: result)
    monkeypatch.setattr(page, "stale", lambda name: name == "old")
    text = "9.9<!-- = {}.seconds.theirs / {}.seconds.ours --> times\n<!-- legend -->\n"
    new, old = (page.filled((text + "<!-- end -->").format(n, n)) for n in ("a", "old"))
    assert new.startswith("20<!-- = a.seconds.theirs") and "†" not in new
    assert old.startswith("20†<!-- = old.") and page.MEANING in old
    assert page.filled(old) == old
    assert page.undated(old) == page.undated(new).replace("= a", "= old").replace(
        "/ a", "/ old"
    )
    monkeypatch.setattr(page, "stale", lambda name: False)
    assert "†" not in page.filled(old)


def test_figures_are_found_in_results_and_rounded(scripts):
    import figures

    lines = [{"data": "a", "p": p, "accuracy": 0.9 + p / 100} for p in (1, 1.5)]
    results = {"one": {"lines": lines, "by size": {"48": 1234.5}, "none": None}}
    text = (
        "0.1<!-- = one.lines(p=1.5).accuracy --> "
        '?<!-- = 100 * mean(one.lines(data="a").accuracy) : .1f --> '
        '99<!-- = one["by size"][48] --> -<!-- = 2 * one.none -->'
    )
    found = [figures.shown(m, results.__getitem__) for m in figures.MARK.finditer(text)]
    assert found == ["0.9", "91.3", "1,234", "-"]
    for wrong in ("one.no_such_key", "one.lines.accuracy", "one(", "open.read()"):
        with pytest.raises(ValueError, match="expected"):
            figures.value(wrong, results.__getitem__)


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [
        (0.0996, 2, "0.10"),
        (9.96, 2, "10"),
        (97.96, 3, "98.0"),
        (1234.5, 2, "1,234"),
        (3.21e-30, 2, "3.2e-30"),
        (0.0, 2, "0.0"),
        (-0.954, 2, "-0.95"),
    ],
)
def test_rounding_keeps_significant_digits(scripts, number, digits, text):
    import figures

    assert figures.rounded(number, digits) == text
    assert figures.rounded(number, figures.significant(text)) == text


def test_every_name_has_a_script(scripts):
    import run

    assert all((FOLDER / f"{name}.py").is_file() for name in run.KNOWN)


def test_every_script_imports_what_there_is(scripts):
    paths = [*FOLDER.glob("*.py"), *FOLDER.glob("*/*.py")]
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


def test_comments_and_docstrings_are_no_code(scripts):
    from sources import code

    plain = "def f(x):\n    return '# no comment'\n"
    spoken = (
        '"""Module."""\n\ndef f(x):  # a comment\n    """Says\n\n    much."""\n'
        "    # another\n    return '# no comment'\n"
    )
    assert code(spoken) == code(plain) == plain.rstrip()
    assert code(plain.replace("no", "any")) != code(plain)


def test_a_benchmark_depends_on_what_it_reaches(scripts):
    import sources

    def reached(script):
        files = sources.needed(FOLDER / script)
        return {path.relative_to(ROOT).as_posix() for path in files}

    found = reached("mnist_large.py")
    for name in ("solvers/auto", "hot/dual", "kernels/kernel_set", "mkl/classifier"):
        assert f"src/manykernels/{name}.py" in found
    assert {"benchmarks/mnist_large.py", "benchmarks/common.py"} <= found
    for room in ("structured", "products", "compare", "report", "cli"):
        assert not any(name.startswith(f"src/manykernels/{room}/") for name in found)
    # A program in a text, for a process of its own, counts as well.
    assert "src/manykernels/mkl/classifier.py" in reached("cold_start.py")
    # What it borrows from the tests is its own, and reads files.
    attacked = {"tests/fuzz/targets.py", "src/manykernels/files/saved.py"}
    assert attacked <= reached("fuzz.py")


def test_what_a_fit_runs_is_what_its_benchmark_depends_on(scripts):
    """Names may be imported in new ways: what runs must still be reached."""
    import sources

    ran = set()
    X, y = load_iris(return_X_y=True)
    model = mk.MKLClassifier("rbf; linear", random_state=0)
    model.fit(X, y).predict(X)  # imports and compiles
    sys.setprofile(lambda frame, *_: ran.add(frame.f_code.co_filename))
    try:
        model.fit(X, y).predict(X)
    finally:
        sys.setprofile(None)
    package = sources.ROOT / "src" / "manykernels"
    ours = {Path(name) for name in ran if name.startswith(str(package))}
    assert package / "solvers" / "auto.py" in ours
    missed = ours - sources.needed(FOLDER / "mnist_large.py")
    # Packages pass names on, and saving counts only where it is measured.
    passing = {package / "__init__.py", *sources.SAVING.glob("*.py")}
    assert not missed - passing


def test_only_changed_code_ages_a_result(scripts, monkeypatch, tmp_path):
    import evidence
    import run
    import sources

    (tmp_path / "a.py").write_text("one = 1\n")
    (tmp_path / "b.py").write_text("two = 2\n")
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    monkeypatch.setattr(evidence, "RESULTS", tmp_path)
    recorded = {n: sources.fingerprint(tmp_path / n) for n in ("a.py", "b.py")}
    environment = {"date": "2026-01-01", "seconds": 5.0, "sources": recorded}
    (tmp_path / "race.json").write_text(json.dumps({"environment": environment}))
    assert run.stands("race").state == "fresh"
    assert run.stale(["race", "growth"]) == ["growth"]
    quick = {"environment": environment, "options": {"quick": True}}
    (tmp_path / "growth.json").write_text(json.dumps(quick))
    assert run.stands("growth").why == ("a quick version only",)
    (tmp_path / "growth.json").unlink()
    sources.fingerprint.cache_clear()
    (tmp_path / "a.py").write_text("# Why.\n\none = 1\n")
    assert run.stands("race").state == "fresh"
    sources.fingerprint.cache_clear()
    (tmp_path / "a.py").write_text("one = 2\n")
    (tmp_path / "b.py").unlink()
    assert run.stands("race") == evidence.Standing(
        "stale", ("a.py", "b.py"), "2026-01-01", 5.0
    )
    assert run.stale(["growth", "race"]) == ["race", "growth"]


def test_what_is_saved_says_where_it_comes_from(scripts, monkeypatch, tmp_path):
    script = tmp_path / "some.py"
    script.write_text(
        "from common import parse, save\n"
        "import evidence\n"
        "from pathlib import Path\n"
        f"evidence.RESULTS = Path({str(tmp_path / 'a' / 'b')!r})\n"
        "evidence.RESULTS.mkdir(parents=True)\n"
        "parse('Some.', seeds=(3, 'splits'))\n"
        "save('some', figure=1 / 3)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
    subprocess.run([sys.executable, script, "--seeds=2"], env=environment, check=True)
    saved = json.loads((tmp_path / "a" / "b" / "some.json").read_text())
    assert saved["options"] == {"seeds": 2} and saved["seeds"] == [0, 1]
    assert saved["figure"] == 0.333333
    recorded = saved["environment"]
    assert recorded["command"] == "some.py --seeds=2" and recorded["seconds"] > 0
    assert "benchmarks/common.py" in recorded["sources"]


def test_several_runs_become_one(scripts):
    from common import medians

    runs = [{"seconds": float(s), "name": "a", "in": {"n": s}} for s in (5, 1, 2)]
    found = medians(runs)
    assert (found["seconds"], found["name"], found["in"]) == (2.0, "a", {"n": 2})
    spread = found["spread"]
    assert (spread["q25"], spread["q75"], spread["repeats"]) == (1.5, 3.5, 3)
