"""Contests are fair: one referee, the same gaps for all, spreads, rows of their own."""

from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pytest

from manykernels.banks import GramBank
from manykernels.solvers import Auto, Obscure


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
    from contest.objective import Graded, accuracy, follow
    from grade import make_problem

    problem = make_problem(arena.bank, arena.target, 1.25, 1.0)
    result = solver.solve(problem)
    recorder = follow(solver, problem, np.inf)
    graded, last = Graded(recorder, problem), len(recorder.models) - 1
    assert recorder.rounds[-1] == recorder.done == len(result.history)
    assert graded.objective(last) == pytest.approx(result.objective, rel=1e-6)
    # The referee may find better dual points than the solver, but none above the best.
    gap = 1.0 - graded.bound(last) / graded.objective(last)
    assert gap <= result.relative_gap * 1.001 + 1e-6
    assert graded.bound(last) <= Auto(1e-6, random_state=0).solve(problem).objective
    scores = arena.bank.scores(result.model.coef, result.model.weights)
    expected = np.mean(np.argmax(scores, axis=1) == arena.target)
    assert accuracy(arena, result.model) == expected
    for bound in (None, graded.bound(last)):
        for eps in (0.5, 0.1, 1e-9):
            assert graded.first(eps, bound) == first_by_hand(graded, eps, bound)


def first_by_hand(graded, eps, bound):
    recorder = graded.recorder
    for number, (seconds, *_) in enumerate(recorder.models):
        known = graded.bound(number) if bound is None else bound
        if graded.objective(number) - known <= eps * graded.objective(number):
            return recorder.rounds[number], seconds
    return np.inf, np.inf


def test_quartiles_know_never_and_noise(scripts):
    from contest.objective import apart, quartiles

    found = quartiles([1.0, 2.0, np.inf])
    assert found == {"q25": 1.5, "median": 2.0, "q75": None}
    assert quartiles([np.inf] * 3) == dict.fromkeys(("q25", "median", "q75"))
    early, late = quartiles([1.0, 1.1, 1.2]), quartiles([2.0, 2.1, 2.2])
    assert apart(early, late) and apart(late, early)
    assert not apart(early, quartiles([1.0, 1.1, 5.0]))
    assert not apart(late, found) and apart(quartiles([0.1, 0.2, 0.3]), found)


@pytest.mark.parametrize("p", [1.0, 1.25])
def test_a_run_ends_at_the_gap_that_was_asked_for(arena, p):
    from contest.solvers import GAPS, entrants
    from grade import make_problem

    problem = make_problem(arena.bank, arena.target, p, 10.0)
    for entrant in entrants(p):
        assert entrant.inner
        for gap in GAPS:
            solver = entrant.make(gap, 0)
            found = solver.solve(problem, callback=lambda line: line.epoch > 20)
            gaps = [line.gap for line in found.history]
            assert all(value > gap for value in gaps[:-1]), entrant.name
            assert gaps[-1] <= gap or len(gaps) > 20, entrant.name


@pytest.mark.parametrize("p", [1.0, 1.25])
def test_the_race_times_everybody_and_calls_noise_noise(arena, p):
    import race
    from contest.solvers import OURS, entrants

    options = Namespace(C=1.0, limit=0.02, quick=True)
    runs = []
    for seed in range(2):
        found, floor = race.run_contest(arena, p, seed, options)
        runs += found
        assert 0.0 < floor < np.inf
    floors = [{"data": "blobs", "p": p, "seconds": floor}]
    summary = race.summary("blobs", p, runs, floors)
    assert set(summary["solvers"]) == {entrant.name for entrant in entrants(p)}
    for run in runs:
        times = [np.inf if t is None else t for t in run["reached"]]
        assert times == sorted(times)
    for leads in summary["leads"].values():
        for found in leads.values():
            if found is not None:
                assert found["rival"] != OURS and found["times"] > 0.0
    loose = {entrant.name for entrant in entrants(p) if entrant.shares_looseness}
    precise = summary["leads"]["precise"]["reached"]
    assert precise is None or precise["rival"] not in loose


def test_every_seed_has_rows_of_its_own(scripts, monkeypatch):
    from contest import datasets
    from views import DataSet, split_rows

    images = np.arange(50.0)[:, None]
    bunch = SimpleNamespace(
        data=images, target=np.arange(50), data_test=images, target_test=np.arange(50)
    )
    monkeypatch.setattr(datasets.mk.datasets, "load_mnist", lambda: bunch)
    first, second = (datasets.mnist_images(10, 5, seed) for seed in (0, 1))
    assert len(np.unique(first[0])) == 10 and np.array_equal(first[0][:, 0], first[1])
    assert set(first[1]) != set(second[1]) and set(first[3]) != set(second[3])

    target = np.arange(40) % 2
    data = DataSet("some", dict, ("rbf",), 10, n_test=12)
    (train, test), (other, _) = (split_rows(data, target, seed) for seed in (0, 1))
    assert len(train) == 10 and len(test) == 12 and not set(train) & set(test)
    assert set(train) != set(other)

    own = (np.arange(20), np.arange(30, 40))
    given = DataSet("some", dict, ("rbf",), 10, own_split=lambda seed: own)
    train, test = split_rows(given, target, 0)
    assert set(train) < set(own[0]) and len(train) == 10
    assert np.array_equal(test, own[1])
    whole = DataSet("some", dict, ("rbf",), 20, own_split=lambda seed: own)
    assert np.array_equal(split_rows(whole, target, 3)[0], own[0])


def test_the_course_of_obscure_is_that_of_the_solver(arena):
    from dataclasses import replace

    import questions
    from grade import make_problem

    flipped = np.where(np.arange(60) % 7 == 0, (arena.target + 1) % 3, arena.target)
    noisy = replace(arena, target=flipped)
    problem = make_problem(noisy.bank, noisy.target, 1.25, 1.0)
    looks = list(questions.course(problem, noisy, np.random.default_rng(0)))
    solver = Obscure(questions.ONLINE, questions.BATCH, random_state=0)
    history = solver.solve(problem).history
    assert all(line.updates for line in history)
    passes, updates, _ = looks[-1]
    assert passes == len(history) == questions.ONLINE + questions.BATCH
    assert updates == sum(line.updates for line in history)
    assert looks[0][0] < 0.1


def test_svrg_pays_for_unit_kernels_with_one_more_power(scripts):
    import svrg_epochs

    options = Namespace(rows=30, classes=3, C=1.0)
    found = svrg_epochs.theory_steps(4 / 3, (4, 16), options)
    exponents = found["exponents"]
    assert found["paper"] == pytest.approx(0.5)
    assert exponents["L"] == pytest.approx(1.0)
    assert exponents["steps"] == pytest.approx(1.5, abs=0.02)
    assert exponents["steps_if_L_stayed"] == pytest.approx(0.5, abs=0.05)
    assert exponents["combined_L"] == pytest.approx(0.5)


def test_solvers_are_set_beside_solvers_of_the_same_problem(arena):
    import growth

    for group in growth.GROUPS.values():
        assert "auto" in group.solvers and len(group.solvers) > 1
        problem = group.problem(arena.bank, arena.target)
        objectives = [
            make(1e-2, 0)
            .solve(problem, callback=lambda line: line.epoch > 300)
            .objective
            for make in group.solvers.values()
        ]
        assert max(objectives) <= 1.05 * min(objectives)
