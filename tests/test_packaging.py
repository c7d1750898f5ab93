"""What a package index and a code host read: it agrees with the code."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import manykernels as mk
from manykernels.files import saved

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
KEYS = {
    *("runs-on", "timeout-minutes", "steps", "strategy", "needs", "if"),
    *("environment", "permissions"),
}
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def test_there_is_one_version():
    assert PROJECT["dynamic"] == ["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == mk.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Homepage"]


def test_a_release_says_what_changed():
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] == mk.__version__


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_whole(path):
    """Every job runs somewhere, ends, and uses actions of a stated version."""
    workflow = yaml.safe_load(path.read_text())
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert workflow["permissions"] == {"contents": "read"}
    assert set(workflow) == {"name", True, "permissions", "jobs"} | (  # True: "on"
        set(workflow) & {"concurrency"}
    )
    for job in workflow["jobs"].values():
        assert job["runs-on"] and job["steps"] and job["timeout-minutes"]
        assert set(job) <= KEYS
        assert set(job.get("needs", "").split()) <= set(workflow["jobs"])
        for step in job["steps"]:
            assert set(step) <= {"name", "uses", "run", "with", "if"}
            for expression in re.findall(r"\$\{\{(.*?)\}\}", str(step)):
                assert expression.strip().startswith(("matrix.", "github."))
            assert re.fullmatch(r"[\w./-]+@[\w./-]+", step.get("uses", "a@b"))
            assert ("uses" in step) != ("run" in step)
            made = re.findall(r"\bmake ([\w-]+)", step.get("run", ""))
            assert set(made) <= targets


def test_claimed_versions_of_python_are_tested():
    claimed = {
        line.rpartition(" ")[2]
        for line in PROJECT["classifiers"]
        if re.search(r":: 3\.\d+$", line)
    }
    tests = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())
    assert claimed <= set(tests["jobs"]["tests"]["strategy"]["matrix"]["python"])


def test_a_release_is_published_without_a_password():
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "refs/tags/v" in jobs["publish"]["if"]
    assert "secrets." not in str(jobs)


def test_the_site_is_linked():
    assert PROJECT["urls"]["Documentation"] == saved.SITE


def test_the_source_distribution_has_all_that_is_tracked_and_needed():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())
    sdist = listed["tool"]["hatch"]["build"]["targets"]["sdist"]
    needed = {"src", "tests", "docs", "examples", "benchmarks", "Makefile"}
    assert {f"/{name}" for name in needed} <= set(sdist["include"])
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {f"/{line.strip('/')}" for line in ignored if line.startswith("docs/")} == (
        set(sdist["exclude"])
    )


# What Windows does not have; the rest of the standard library is the same there.
MISSING = ("fcntl", "resource", "pwd", "grp", "termios", "posix")
WITHOUT = """
import os, sys, tempfile
for name in {missing!r}:
    sys.modules[name] = None
for name in ("sysconf", "fork", "O_NONBLOCK", "fchmod", "getuid"):
    delattr(os, name)
import numpy as np
import manykernels as mk
X = np.random.default_rng(0).normal(size=(40, 4))
with tempfile.TemporaryDirectory() as folder:
    storage = mk.Storage("memmap", folder=folder)
    model = mk.MKLClassifier("rbf; linear", storage=storage, random_state=0)
    model.fit(X, X[:, 0] > 0).save(os.path.join(folder, "model.mk"))
    print(mk.load(os.path.join(folder, "model.mk")).score(X, X[:, 0] > 0) > 0.9)
"""


def test_nothing_needs_a_posix_module():
    code = WITHOUT.format(missing=MISSING)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
)
def test_templates_of_issues_ask_something(path):
    form = yaml.safe_load(path.read_text())
    if path.name != "config.yml":
        assert form["name"] and form["description"]
        assert len({part["id"] for part in form["body"]}) == len(form["body"])
