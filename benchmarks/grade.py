"""Objective, gap and accuracy in float64, computed outside the solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.banks import build_bank
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from manykernels.losses import MulticlassHinge
from manykernels.norms import LpGroupNorm
from manykernels.solvers.loop import SolveResult
from manykernels.solvers.problem import Expansion, Problem


def make_problem(bank: Any, target: np.ndarray, p: float, C: float) -> Problem:
    """The classification problem on a bank, all rows alike."""
    n_classes = int(target.max()) + 1
    weight = np.ones(len(target))
    return Problem(
        bank, target, n_classes, MulticlassHinge(), LpGroupNorm(p), C, weight
    )


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
        self, results: dict[str, tuple[SolveResult, float, float]]
    ) -> dict[str, dict[str, float]]:
        """Marks for each result, given with its p and C.

        The gap is that of the model against the dual point it came with, both
        evaluated here.
        """
        bank = build_bank(self.kernels)
        marks = {}
        accuracies = self.accuracies({n: r.model for n, (r, *_) in results.items()})
        for name, (result, p, C) in results.items():
            problem = make_problem(bank, self.target, p, C)
            objective = problem.objective(result.model)
            gap = problem.duality_gap(result.model, result.dual_coef)
            marks[name] = {
                "objective": objective,
                "gap": gap / objective,
                "reported_gap": result.relative_gap,
                "accuracy": accuracies[name],
            }
        return marks

    def accuracies(self, models: dict[str, Expansion]) -> dict[str, float]:
        """Share of test rows that each model gets right, one sweep for all."""
        right = dict.fromkeys(models, 0)
        for rows, block in self.kernels.cross(self.data_test):
            for name, model in models.items():
                combined = np.tensordot(model.weights, block, axes=1)
                found = np.argmax(combined @ model.coef, axis=1)
                right[name] += int((found == self.target_test[rows]).sum())
        return {name: count / len(self.target_test) for name, count in right.items()}

    def mean_test_kernel(self) -> np.ndarray:
        """The averaged kernel between test and training rows."""
        blocks = [block.mean(axis=0) for _, block in self.kernels.cross(self.data_test)]
        return np.concatenate(blocks)
