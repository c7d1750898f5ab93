"""The referee: models are collected while a solver runs and graded when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from contest.datasets import Arena
from manykernels.solvers import Expansion, Problem

State = dict[str, Any]


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


@dataclass(frozen=True)
class Mark:
    """What a solver had after some seconds."""

    seconds: float
    objective: float
    bound: float  # the best dual value so far
    accuracy: float

    @property
    def gap(self) -> float:
        """Relative duality gap by the solver's own dual points."""
        return max(self.objective - self.bound, 0.0) / self.objective


def follow(solver: Any, problem: Problem, limit: float) -> Recorder:
    """Run a solver for `limit` seconds at most, and keep what it finds."""
    recorder = Recorder()
    solver.solve(
        problem,
        callback=lambda _: recorder.seconds() > limit,
        checkpoint=recorder,
    )
    return recorder


def grade(
    recorder: Recorder, problem: Problem, arena: Arena, most: int = 40
) -> list[Mark]:
    """Marks of the models, at most so many, spread over the logarithm of time."""
    marks: list[Mark] = []
    bound = 0.0
    for seconds, model, dual in _thin(recorder.models, most):
        objective = problem.objective(model)
        bound = max(bound, objective - problem.duality_gap(model, dual))
        marks.append(Mark(seconds, objective, bound, accuracy(arena, model)))
    return marks


def reached(
    recorder: Recorder, problem: Problem, eps: float, bound: float
) -> tuple[float, float]:
    """Rounds and seconds until the model is within eps of a bound on the optimum.

    Both are infinite where it never is. Kept models only get better, so a few are
    graded.
    """
    low, high = 0, len(recorder.models)
    while low < high:
        middle = (low + high) // 2
        objective = problem.objective(recorder.models[middle][1])
        if objective - bound <= eps * objective:
            high = middle
        else:
            low = middle + 1
    if low == len(recorder.models):
        return float("inf"), float("inf")
    return float(recorder.rounds[low]), recorder.models[low][0]


def _thin(models: list[Any], most: int) -> list[Any]:
    if len(models) <= most:
        return models
    kept = np.unique(np.geomspace(1, len(models), most).astype(int) - 1)
    return [models[i] for i in kept]


def accuracy(arena: Arena, model: Expansion) -> float:
    """Share of the test rows that a model gets right."""
    scores = sum(
        weight * (block @ model.coef)
        for weight, block in zip(model.weights, arena.test, strict=True)
        if weight > 0.0
    )
    return float(np.mean(np.argmax(scores, axis=1) == arena.target_test))


def first_time(marks: list[Mark], eps: float, bound: float | None = None) -> float:
    """Seconds to a relative gap of eps, infinity if never reached.

    With a `bound` of someone else's, the solver need not certify anything itself.
    """
    for mark in marks:
        known = mark.bound if bound is None else bound
        if mark.objective - known <= eps * mark.objective:
            return mark.seconds
    return float("inf")
