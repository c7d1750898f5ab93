"""The referee: models are collected while a solver runs and graded when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from contest.datasets import Arena
from manykernels.solvers import Auto
from manykernels.solvers.problem import Expansion, Problem

State = dict[str, Any]
NEVER = 1e300  # seconds
SHORT = 1.0  # seconds: the fastest of three such runs counts


class Recorder:
    """Keeps the best model after a round; what that costs is not on the clock.

    It takes the place of a checkpoint, which is where a search shows its state. Rounds
    that follow each other quickly are not all kept: times are right to `step`.
    """

    def __init__(self, step: float = 0.02) -> None:
        self.models: list[tuple[float, Expansion, np.ndarray | None]] = []
        self.rounds: list[int] = []  # of the models
        self.step = step  # relative
        self.done = 0
        self.lost = 0.0  # seconds spent here
        self.began = time.perf_counter()

    def load(self) -> None:
        """There is nothing to go on from."""

    def seconds(self) -> float:
        """On the clock so far."""
        return time.perf_counter() - self.began - self.lost

    def save(self, state: Callable[[], State], last: bool) -> None:
        """Copy the best model so far."""
        arrived = time.perf_counter()
        seconds = arrived - self.began - self.lost
        self.done += not last
        due = not self.models or seconds >= (1.0 + self.step) * self.models[-1][0]
        if due or (last and self.rounds[-1] < self.done):
            best = state()["best"]
            model = Expansion(best["coef"].copy(), best["weights"].copy())
            self.models.append((seconds, model, _dual(best)))
            self.rounds.append(self.done)
        self.lost += time.perf_counter() - arrived


def _dual(best: State) -> np.ndarray | None:
    return None if best["dual_coef"] is None else best["dual_coef"].copy()


def follow(solver: Any, problem: Problem, limit: float) -> Recorder:
    """Run a solver for `limit` seconds at most, and keep what it finds."""
    recorder = Recorder()
    solver.solve(
        problem,
        callback=lambda _: recorder.seconds() > limit,
        checkpoint=recorder,
    )
    return recorder


def fastest_run(
    make: Callable[[], Any], problem: Problem, limit: float, again: bool = True
) -> Recorder:
    """The first run, or the fastest of three where a run is short."""
    runs = [follow(make(), problem, limit)]
    if again and runs[0].models[-1][0] < SHORT:
        runs += [follow(make(), problem, limit) for _ in range(2)]
    return min(runs, key=lambda run: run.models[-1][0])


class Graded:
    """Objective, bound and accuracy of the models of a run, computed when asked for.

    Models and bounds only get better, so that the first good one is found by halving,
    to the round: nobody's time is rounded up to the next model that was looked at.
    """

    def __init__(self, recorder: Recorder, problem: Problem) -> None:
        self.recorder = recorder
        self.problem = problem
        self._objectives: dict[int, float] = {}
        self._bounds: dict[int, float] = {}

    def objective(self, number: int) -> float:
        """Primal value of a model."""
        if number not in self._objectives:
            model = self.recorder.models[number][1]
            self._objectives[number] = self.problem.objective(model)
        return self._objectives[number]

    def bound(self, number: int) -> float:
        """The dual value that the solver could show with that model."""
        if number not in self._bounds:
            _, model, dual = self.recorder.models[number]
            gap = self.problem.duality_gap(model, dual)
            self._bounds[number] = self.objective(number) - gap
        return self._bounds[number]

    def first(self, eps: float, bound: float | None = None) -> tuple[float, float]:
        """Rounds and seconds to a relative gap of eps, infinite if never reached.

        With a `bound` of someone else's, the solver need not certify anything itself.
        """
        models = self.recorder.models
        low, high = 0, len(models)
        while low < high:
            middle = (low + high) // 2
            known = self.bound(middle) if bound is None else bound
            if self.objective(middle) - known <= eps * self.objective(middle):
                high = middle
            else:
                low = middle + 1
        if low == len(models):
            return float("inf"), float("inf")
        return float(self.recorder.rounds[low]), models[low][0]


def some(recorder: Recorder, most: int) -> list[int]:
    """Numbers of the models, at most so many, spread over the logarithm of time."""
    n_models = len(recorder.models)
    if n_models <= most:
        return list(range(n_models))
    kept = np.unique(np.geomspace(1, n_models, most).round().astype(int) - 1)
    return [int(number) for number in kept]


def accuracy(arena: Arena, model: Expansion) -> float:
    """Share of the test rows that a model gets right."""
    coef = model.coef.astype(arena.test.dtype)  # or blocks would be converted
    scores = sum(
        weight * (block @ coef)
        for weight, block in zip(model.weights, arena.test, strict=True)
        if weight > 0.0
    )
    return float(np.mean(np.argmax(scores, axis=1) == arena.target_test))


def best_bound(problem: Problem, tol: float) -> float:
    """A dual value within `tol` of the optimum, by the automatic solver."""
    result = Auto(tol, 500, random_state=0).solve(problem)
    return problem.objective(result.model) - problem.duality_gap(
        result.model, result.dual_coef
    )


def quartiles(values: Sequence[float]) -> dict[str, float | None]:
    """Of times, of which some may be infinite: None for never."""
    found = np.percentile(np.minimum(values, NEVER), [25, 50, 75])
    names = ("q25", "median", "q75")
    return {
        name: float(value) if value < NEVER / 1e3 else None
        for name, value in zip(names, found, strict=True)
    }


def apart(one: dict[str, float | None], other: dict[str, float | None]) -> bool:
    """Whether the quartiles of two times do not overlap: else the lead is noise."""
    (low, high), (other_low, other_high) = (
        [np.inf if times[key] is None else times[key] for key in ("q25", "q75")]
        for times in (one, other)
    )
    return bool(high < other_low or other_high < low)
