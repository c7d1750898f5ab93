"""Every public name has a page in the reference, and an example."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import manykernels as mk
from tests.all_estimators import ESTIMATORS

API = Path(__file__).parents[1] / "docs" / "api"
# Modules to import from, beside those that are names of the package.
OTHERS = ["report", "study"]
MODULES = [name for name in mk.__all__ if inspect.ismodule(getattr(mk, name))] + OTHERS
BLOCK = re.compile(r"^\.\. autosummary::\n(?:   :.*\n)*\n((?:   \S+\n)+)", re.M)
HOME = re.compile(r"^\.\. currentmodule:: (\S+)", re.M)


def listed() -> list[str]:
    """Names of all tables of the reference, in full."""
    names = []
    for page in API.glob("*.rst"):
        text = page.read_text(encoding="utf-8")
        home = HOME.search(text)
        assert home, page.name
        found = " ".join(BLOCK.findall(text)).split()
        names += [f"{home[1]}.{name}" for name in found]
    return names


def public() -> dict[str, object]:
    """Public names of the package and of its public modules, in full."""
    homes = {"manykernels": mk} | {
        f"manykernels.{m}": import_module(f"manykernels.{m}") for m in MODULES
    }
    return {
        f"{home}.{name}": getattr(module, name)
        for home, module in homes.items()
        for name in module.__all__
        if not name.startswith("_")
    }


OBJECTS = public()
LISTED = listed()


def test_every_public_name_is_in_the_reference() -> None:
    """Once, under one of its names."""
    pages = [id(OBJECTS[name]) for name in LISTED]
    missing = [n for n, thing in OBJECTS.items() if id(thing) not in set(pages)]
    modules = {f"manykernels.{name}" for name in MODULES}
    assert {name for name in missing if name not in modules} == set()
    assert len(pages) == len(set(pages))


def test_every_public_module_has_a_page() -> None:
    homes = [HOME.search(page.read_text())[1] for page in API.glob("*.rst")]
    assert sorted(homes) == sorted(
        ["manykernels", *(f"manykernels.{m}" for m in MODULES)]
    )


def described() -> list[str]:
    """Classes and functions under their first name."""
    seen: dict[int, str] = {}
    for name, thing in OBJECTS.items():
        if inspect.isclass(thing) or inspect.isroutine(thing):
            seen.setdefault(id(thing), name)
    return list(seen.values())


@pytest.mark.parametrize("name", described())
def test_a_public_name_has_an_example(name: str) -> None:
    assert ">>> " in (OBJECTS[name].__doc__ or ""), f"{name}: no example"


@pytest.mark.parametrize("name", sorted({*ESTIMATORS, "Study"}))
def test_the_diagram_of_an_estimator_links_to_its_page(name: str) -> None:
    cls = ESTIMATORS.get(name, mk.Study)
    link = cls._get_doc_link(cls.__new__(cls))
    site, _, page = link.rpartition("api/generated/")
    assert site == "https://manykernels.github.io/manykernels/"
    assert page.removesuffix(".html") in LISTED


def test_the_diagram_of_a_model_has_the_link() -> None:
    model = mk.MKLClassifier()
    assert f'href="{model._get_doc_link()}"' in model._repr_html_()


def test_an_estimator_of_somebody_else_has_none() -> None:
    class Own(mk.MKLClassifier):
        pass

    assert Own()._get_doc_link() == ""
