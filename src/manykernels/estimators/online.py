"""partial_fit: OBSCURE's online stage on rows that arrive in parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.banks import build_bank
from manykernels.banks.base import support_of
from manykernels.kernels import KernelSet
from manykernels.losses import Loss
from manykernels.norms import LpGroupNorm
from manykernels.solvers import Expansion, Problem
from manykernels.solvers.mirror import MirrorDescent
from manykernels.solvers.requirements import require_hinge, require_smooth_norm

ETA = 2.0  # the paper's step


@dataclass(frozen=True)
class OnlinePast:
    """What an online learner remembers: its support rows and their coefficients."""

    kernels: KernelSet  # reference rows are the support rows
    coef: np.ndarray  # (support rows, classes)
    weights: np.ndarray  # (kernels,)
    target: np.ndarray  # (support rows,)
    sample_weight: np.ndarray  # (support rows,)

    @classmethod
    def of(
        cls, kernels: KernelSet, problem: Problem, model: Expansion
    ) -> OnlinePast:
        """Keep the support rows of a model on the kernels' reference rows."""
        support = support_of(model.coef)
        return cls(
            kernels.restrict(support),
            model.coef[support],
            model.weights,
            problem.target[support],
            problem.sample_weight[support],
        )


@dataclass(frozen=True)
class OnlineStep:
    """The rows at hand (support rows first, new rows last) as one problem."""

    kernels: KernelSet
    problem: Problem
    start: Expansion | None
    n_past: int

    @classmethod
    def first(
        cls, kernels: KernelSet, target: Any, weight: Any, settings: OnlineSettings
    ) -> OnlineStep:
        """Begin with these rows."""
        return cls(kernels, settings.problem(kernels, target, weight), None, 0)

    @classmethod
    def next(
        cls, past: OnlinePast, X: Any, target: Any, weight: Any, settings: Any
    ) -> OnlineStep:
        """Continue with new rows: none of the past rows is visited again."""
        kernels = past.kernels.extend(X)
        problem = settings.problem(
            kernels,
            np.concatenate([past.target, target]),
            np.concatenate([past.sample_weight, weight]),
        )
        coef = np.zeros((problem.n_rows, problem.n_outputs))
        coef[: len(past.coef)] = past.coef
        return cls(kernels, problem, Expansion(coef, past.weights), len(past.coef))

    def run(self, rng: np.random.Generator) -> tuple[MirrorDescent, int]:
        """One online pass over the new rows, in random order; returns its updates."""
        require_hinge(self.problem, "partial_fit")
        require_smooth_norm(self.problem, "partial_fit")
        descent = MirrorDescent(self.problem, self.start)
        order = self.n_past + rng.permutation(self.problem.n_rows - self.n_past)
        return descent, descent.run_pass(descent.rule(eta=ETA, online=True), order)


@dataclass(frozen=True)
class OnlineSettings:
    """What every step of one learner shares."""

    n_classes: int
    loss: Loss
    norm: LpGroupNorm
    C: float
    memory_limit: int | str | None

    def problem(self, kernels: KernelSet, target: Any, weight: Any) -> Problem:
        """The problem on the reference rows of these kernels."""
        bank = build_bank(kernels, memory_limit=self.memory_limit)
        return Problem(
            bank, target, self.n_classes, self.loss, self.norm, self.C, weight
        )
