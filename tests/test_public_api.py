"""The names that users rely on."""

import inspect
import subprocess
import sys

import pytest

import manykernels as mk


def test_every_public_name_is_there():
    for name in mk.__all__:
        assert getattr(mk, name) is not None


@pytest.mark.parametrize(
    "name",
    [
        "Linear",
        "Polynomial",
        "RBF",
        "Laplacian",
        "ChiSquared",
        "Intersection",
        "Cosine",
        "BSpline",
        "Precomputed",
        "Distance",
        "Custom",
    ],
)
def test_kernels_take_columns_and_a_name(name):
    parameters = inspect.signature(getattr(mk.kernels, name)).parameters
    assert {"columns", "name"} <= set(parameters)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (mk.solvers, ["Auto", "DualAscent", "Obscure", "Pegasos"]),
        (mk.norms, ["LpGroupNorm"]),
        (mk.losses, ["MulticlassHinge"]),
    ],
)
def test_submodules(module, names):
    assert set(names) <= set(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)


def test_classifier_parameters_and_defaults():
    parameters = inspect.signature(mk.MKLClassifier).parameters
    assert list(parameters)[:7] == [
        "kernels",
        "p",
        "C",
        "loss",
        "solver",
        "tol",
        "max_iter",
    ]
    defaults = mk.MKLClassifier().get_params()
    assert defaults["C"] == 1.0 and defaults["loss"] == "hinge"
    assert defaults["solver"] == "auto" and defaults["tol"] == 1e-2
    assert 1.0 <= defaults["p"] <= 2.0


def test_public_methods_have_docstrings():
    for name, method in inspect.getmembers(mk.MKLClassifier, inspect.isfunction):
        if not name.startswith("_"):
            assert method.__doc__, f"{name} has no docstring"


def test_importing_is_silent_and_pulls_in_no_plotting():
    code = (
        "import sys, manykernels\n"
        "print(sorted({'matplotlib', 'torch', 'dask'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]" and done.stderr == ""
