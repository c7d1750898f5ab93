"""partial_fit: OBSCURE's online stage on rows that arrive in parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manykernels.banks import build_bank
from manykernels.estimators.choices import choose_norm
from manykernels.estimators.inputs import reads_matrices
from manykernels.estimators.targets import Labelled
from manykernels.kernels import KernelSet
from manykernels.losses import Loss
from manykernels.model import BlockModel
from manykernels.norms import LpGroupNorm
from manykernels.solvers import Epoch, Expansion, Obscure, Problem, SolveResult
from manykernels.solvers.loop import Iterate, run
from manykernels.solvers.mirror import MirrorDescent
from manykernels.solvers.requirements import require_hinge


def learns_online(estimator: Any) -> bool:
    """Whether `partial_fit` is there, as scikit-learn's `available_if` asks.

    The error says why not: tools that try `hasattr` then find no `partial_fit`.
    """
    if reads_matrices(estimator.kernels):
        raise ValueError(
            "partial_fit needs kernels on feature columns, got given matrices; call "
            "fit with one stack of all the rows."
        )
    if choose_norm(estimator.p).p <= 1.0:
        raise ValueError(
            f"partial_fit needs 1 < p <= 2, got p={estimator.p:g}; use for instance "
            "p=1.05, or fit for exactly sparse weights."
        )
    if estimator.class_weight == "balanced":
        raise ValueError(
            "partial_fit needs class_weight as a dictionary or None, got 'balanced', "
            "which takes all the labels at once; write the weights out."
        )
    return True


@dataclass(frozen=True)
class OnlinePast:
    """What an online learner remembers: a model and the labels of its support rows."""

    model: BlockModel
    target: np.ndarray  # (support rows,)
    sample_weight: np.ndarray  # (support rows,)


@dataclass(frozen=True)
class OnlineSettings:
    """What every step of one learner shares."""

    n_classes: int
    loss: Loss
    norm: LpGroupNorm
    C: float
    storage: str
    memory_limit: int | str | None

    def problem(self, kernels: KernelSet, target: Any, weight: Any) -> Problem:
        """The problem on the reference rows of these kernels."""
        bank = build_bank(kernels, self.storage, self.memory_limit)
        return Problem(
            bank, target, self.n_classes, self.loss, self.norm, self.C, weight
        )


@dataclass(frozen=True)
class OnlineStep:
    """The rows at hand (support rows first, new rows last) as one problem."""

    kernels: KernelSet
    problem: Problem
    start: Expansion
    n_past: int

    @classmethod
    def first(
        cls, kernels: KernelSet, rows: Labelled, settings: OnlineSettings
    ) -> OnlineStep:
        """Begin with these rows."""
        problem = settings.problem(kernels, rows.target, rows.weight)
        return cls(kernels, problem, problem.zero(), 0)

    @classmethod
    def next(
        cls, past: OnlinePast, X: Any, rows: Labelled, settings: OnlineSettings
    ) -> OnlineStep:
        """Continue with new rows: none of the past rows is visited again."""
        kernels = past.model.kernels.extend(X)
        problem = settings.problem(
            kernels,
            np.concatenate([past.target, rows.target]),
            np.concatenate([past.sample_weight, rows.weight]),
        )
        known = past.model.expansion(settings.norm)
        coef = np.zeros((problem.n_rows, problem.n_outputs))
        coef[: len(known.coef)] = known.coef
        return cls(kernels, problem, Expansion(coef, known.weights), len(known.coef))

    def run(self, rng: np.random.Generator, history: list[Epoch]) -> SolveResult:
        """One online pass over the new rows, in random order.

        Objective and gap speak of the rows at hand.
        """
        require_hinge(self.problem, "partial_fit")
        result = run(self._pass(rng), self.start, tol=0.0)
        line = result.history[0]._replace(epoch=len(history) + 1)
        return replace(result, history=[*history, line])

    def _pass(self, rng: np.random.Generator) -> Iterator[Iterate]:
        descent = MirrorDescent(self.problem, self.start)
        order = self.n_past + rng.permutation(self.problem.n_rows - self.n_past)
        rule = descent.rule(eta=Obscure.eta, online=True)
        yield descent.iterate(descent.run_pass(rule, order))
