"""Searches over products can be put away after any round and taken up again."""

from copy import deepcopy

import numpy as np
import pytest

from manykernels.compare import HierarchicalKernelLearning, PolynomialKernelLearning
from manykernels.compare.products.hierarchical import HullSearch
from manykernels.compare.products.powers import CortesSearch
from manykernels.compare.products.uniform_coordinates import UniformMirrorSearch
from manykernels.products import (
    ColumnGeneration,
    Euclidean,
    ExplicitLpNorm,
    RandomizedMirrorDescent,
    ShiftedEntropy,
)
from manykernels.products.base import RankOneKernels
from manykernels.products.explicit_lp_norm import LpNormSearch
from manykernels.products.mirror_descent import MirrorSearch
from manykernels.products.product_problem import ProductExpansion, ProductProblem
from manykernels.products.sparse.column_generation import ColumnSearch
from manykernels.products.sparse.product_working_sets import working_set
from manykernels.solvers.loop import run
from tests.products.toys import gaussians, regression

X, Y = regression(n=40, r=6)
BASES = {"columns": RankOneKernels(X), "matrices": gaussians(X[:, :3])}


def drawing(problem, **options):
    options = {"max_iter": 60, "look_every": 10, "random_state": 0, **options}
    return RandomizedMirrorDescent(**options), problem


def generating(problem):
    settings = ColumnGeneration(top=2)
    return ColumnSearch(
        settings, problem, working_set(problem), settings.pricing(problem)
    )


SEARCHES = {
    "mirror descent": (4 / 3, lambda p: MirrorSearch(*drawing(p))),
    "steps of the paper": (4 / 3, lambda p: MirrorSearch(*drawing(p, step="theory"))),
    "entropy": (
        1.0,
        lambda p: MirrorSearch(*drawing(p, potential=ShiftedEntropy())),
    ),
    "uniform draws": (
        4 / 3,
        lambda p: UniformMirrorSearch(*drawing(p, potential=Euclidean()), None),
    ),
    "column generation": (1.0, generating),
    "explicit list": (4 / 3, lambda p: LpNormSearch(ExplicitLpNorm(), p, None)),
    "polynomial kernel": (
        4 / 3,
        lambda p: CortesSearch(PolynomialKernelLearning(tol=1e-12), p, None),
    ),
    "hierarchical": (
        4 / 3,
        lambda p: HullSearch(HierarchicalKernelLearning(top=1), p, None),
    ),
}
# Where a search cannot remember the slope of the last round, it ends at the same place.
SAME_END = {"polynomial kernel"}
# The round that was just shown is shown again.
REPEATS = {"explicit list", "column generation", "hierarchical"}


def made(name, base):
    p, make = SEARCHES[name]
    return make(ProductProblem(BASES[base], Y, np.array([1.0, 1.0, 2.0]), C=5.0, p=p))


def first(search, rounds):
    """The objectives of some rounds, and the generator to ask for more."""
    iterates = search.iterates()
    return [next(iterates).objective for _ in range(rounds)], iterates


CASES = [(name, base) for name in SEARCHES for base in BASES]
CASES.remove(("hierarchical", "matrices"))  # it reads columns only


@pytest.mark.parametrize(("name", "base"), CASES)
def test_a_restored_search_goes_on_as_the_other(name, base):
    search = made(name, base)
    begun, iterates = first(search, 2)
    state = deepcopy(search.state())
    ahead = [iterate.objective for iterate, _ in zip(iterates, range(3), strict=False)]
    assert ahead, "the search must not be over after two rounds"
    again = made(name, base)
    again.restore(state)
    if name in SAME_END:
        last = [iterate.objective for iterate in iterates][-1]
        other = [iterate.objective for iterate in again.iterates()][-1]
        np.testing.assert_allclose(other, last, rtol=1e-5)
        return
    repeats = int(name in REPEATS)
    after, _ = first(again, repeats + len(ahead))
    np.testing.assert_allclose(after, begun[2 - repeats :] + ahead, rtol=1e-7)


@pytest.mark.parametrize("name", ["mirror descent", "uniform draws"])
def test_a_state_is_not_changed_by_what_follows(name):
    search = made(name, "columns")
    _, iterates = first(search, 1)
    state = search.state()
    kept = deepcopy(state)
    next(iterates)
    for key in ("theta", "average"):
        np.testing.assert_array_equal(state[key], kept[key])
    assert search.state()["done"] > state["done"]


def test_draws_after_a_restart_are_not_those_before():
    one, two = made("mirror descent", "columns"), made("mirror descent", "columns")
    first(one, 2)
    two.restore(one.state())
    zero = ProductExpansion.zero(len(Y))
    assert run(two, zero, tol=0.0).history[-1].updates == 60
    assert two.state()["draws"] != one.state()["draws"]
