"""Objective, gap and accuracy in float64, computed outside the solvers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.banks import build_bank
from manykernels.kernels import KernelSet, as_kernels
from manykernels.losses import MulticlassHinge
from manykernels.norms import LpGroupNorm
from manykernels.solvers import DualAscent, Expansion, Problem

REFERENCE_TOL = 5e-4


def make_problem(bank: Any, target: np.ndarray, p: float, C: float) -> Problem:
    """The classification problem on a bank, all rows alike."""
    n_classes = int(target.max()) + 1
    weight = np.ones(len(target))
    return Problem(
        bank, target, n_classes, MulticlassHinge(), LpGroupNorm(p), C, weight
    )


def reference_bound(problem: Problem) -> float:
    """A lower bound on the optimum, from a solution that nobody times."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DualAscent(tol=REFERENCE_TOL, random_state=1).solve(problem).model
    return problem.objective(model) - problem.duality_gap(model)


@dataclass(frozen=True)
class Grader:
    """Kernels in float64 on the training rows, and the rows to test on."""

    kernels: KernelSet
    target: np.ndarray
    data_test: np.ndarray
    target_test: np.ndarray

    @classmethod
    def build(cls, texts: Any, bunch: Any) -> Grader:
        """From a data set with a training and a test part."""
        kernels = KernelSet.fit(as_kernels(texts), bunch.data, dtype=np.float64)
        return cls(kernels, bunch.target, bunch.data_test, bunch.target_test)

    def grade(
        self, models: dict[str, tuple[Expansion, float, float]]
    ) -> dict[str, dict[str, float]]:
        """Marks for each model, given with its p and C.

        `own_gap` uses the dual point made of the model's own coefficients. A better
        dual point bounds the optimum just as well, so `gap` takes the best lower
        bound that any model or a much tighter reference solution offers at that p.
        """
        bank = build_bank(self.kernels)
        marks = {}
        bounds: dict[tuple[float, float], float] = {}
        for name, (model, p, C) in models.items():
            problem = make_problem(bank, self.target, p, C)
            if (p, C) not in bounds:
                bounds[p, C] = reference_bound(problem)
            objective, gap = problem.objective(model), problem.duality_gap(model)
            bounds[p, C] = max(bounds[p, C], objective - gap)
            marks[name] = {"objective": objective, "own_gap": gap / objective}
        for name, (_, p, C) in models.items():
            objective = marks[name]["objective"]
            marks[name]["gap"] = (objective - bounds[p, C]) / objective
        for name, accuracy in self.accuracies(models).items():
            marks[name]["accuracy"] = accuracy
        return marks

    def accuracies(
        self, models: dict[str, tuple[Expansion, float, float]]
    ) -> dict[str, float]:
        """Share of test rows that each model gets right, one sweep for all."""
        right = dict.fromkeys(models, 0)
        for rows, block in self.kernels.cross(self.data_test):
            for name, (model, *_) in models.items():
                combined = np.tensordot(model.weights, block, axes=1)
                found = np.argmax(combined @ model.coef, axis=1)
                right[name] += int((found == self.target_test[rows]).sum())
        return {name: count / len(self.target_test) for name, count in right.items()}

    def mean_test_kernel(self) -> np.ndarray:
        """The averaged kernel between test and training rows."""
        blocks = [block.mean(axis=0) for _, block in self.kernels.cross(self.data_test)]
        return np.concatenate(blocks)
