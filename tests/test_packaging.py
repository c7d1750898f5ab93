"""What a package index and a code host read: it agrees with the code."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import manykernels as mk

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
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
    for job in workflow["jobs"].values():
        assert job["runs-on"] and job["steps"]
        assert set(job.get("needs", "").split()) <= set(workflow["jobs"])
        for step in job["steps"]:
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


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
)
def test_templates_of_issues_ask_something(path):
    form = yaml.safe_load(path.read_text())
    if path.name != "config.yml":
        assert form["name"] and form["description"]
        assert len({part["id"] for part in form["body"]}) == len(form["body"])
