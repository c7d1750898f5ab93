"""partial_fit: OBSCURE's online stage on rows that arrive in parts."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from manykernels.banks import Bank, OnDemandBank, Storage, build_bank
from manykernels.base.machine import one_blas_thread
from manykernels.base.stored import storable
from manykernels.kernels.base import reads_matrices
from manykernels.kernels.kernel_set import KernelSet
from manykernels.mkl.calibration import fit_temperature
from manykernels.mkl.models.model import BlockModel, Model, SupportLabels
from manykernels.norms import LpGroupNorm
from manykernels.solvers import InterruptedFitWarning
from manykernels.solvers.loop import Epoch, relative_gap
from manykernels.solvers.online import Budget, Stream
from manykernels.solvers.problem import Problem, require_hinge
from manykernels.targets import Labels

# Objective, gap and temperature are evaluated on so many of the newest rows.
EVALUATED_ROWS = 1000


def learns_online(estimator: Any) -> bool:
    """Whether the estimator has `partial_fit`, for scikit-learn's `available_if`.

    Raises with the reason: tools that try `hasattr` then find no `partial_fit`.
    """
    if reads_matrices(estimator.kernels):
        raise ValueError(
            "partial_fit needs kernels on feature columns, got given matrices; call "
            "fit with one stack of all the rows."
        )
    for name in ("loss", "p"):
        estimator._rules[name].check(name, getattr(estimator, name))
    loss = estimator._make_loss()
    if not loss.has_hinge_dual:
        raise ValueError(
            f"partial_fit handles the hinge loss only, got the loss {loss.name!r}; use "
            "loss='hinge', or fit."
        )
    if estimator.p <= 1.0:
        raise ValueError(
            f"partial_fit needs 1 < p <= 2, got p={estimator.p:g}; use for instance "
            "p=1.05, or fit for exactly sparse weights."
        )
    if estimator.nugget is not None:
        raise ValueError(
            "partial_fit needs nugget=None, got 'shared', which takes all the rows at "
            "once; leave it out, or fit."
        )
    if estimator.class_weight == "balanced":
        raise ValueError(
            "partial_fit needs class_weight as a dictionary or None, got 'balanced', "
            "which takes all the labels at once; write the weights out."
        )
    return True


@storable
class OnlineEpoch(NamedTuple):
    """One line of the history: a call to partial_fit. Opens as `Epoch` does.

    Objective and gap are those of the newest rows at hand, within the budget.
    """

    epoch: int
    time: float
    objective: float
    gap: float
    updates: int
    accuracy: float | None  # of the call's rows before they were learned
    progressive: float | None  # the same for all rows that were predicted so far
    predicted: int  # how many these are; a first call has no model to predict with
    support: int  # rows that the model keeps


@dataclass(frozen=True)
class OnlineSettings:
    """What every step of one learner shares."""

    norm: LpGroupNorm
    C: float
    storage: Storage
    memory_limit: int | str | None
    budget: Budget | None = None

    def problem(self, kernels: KernelSet, labels: Labels) -> Problem:
        """The problem on the reference rows of these kernels."""
        # A pass reads the kernel rows of updates once: no reason to store them all.
        if self.storage.kind in ("auto", "on_demand", "memmap"):
            bank: Bank = OnDemandBank(kernels)
        else:
            bank = build_bank(kernels, self.storage, self.memory_limit)
        return labels.problem(bank, self.norm, self.C)


@dataclass(frozen=True)
class OnlineUpdate:
    """The model after a call, with all that the estimator shows of it."""

    model: BlockModel
    labels: SupportLabels
    support: np.ndarray  # positions among the earlier support rows and the new rows
    objective: float
    duality_gap: float
    temperature: float
    history: list[Epoch | OnlineEpoch]


@dataclass(frozen=True)
class OnlineStep:
    """The rows at hand: support rows first, new rows last."""

    kernels: KernelSet
    labels: Labels  # kept: positions in the earlier support followed by all of X
    stream: Stream
    settings: OnlineSettings
    n_past: int

    @classmethod
    def first(
        cls, kernels: KernelSet, labels: Labels, settings: OnlineSettings
    ) -> OnlineStep:
        """Begin with these rows."""
        theta, zeros = np.zeros((0, labels.n_outputs)), np.zeros(kernels.n_kernels)
        stream = Stream(kernels, settings.norm, theta, zeros)
        return cls(kernels, labels, stream, settings, 0)

    @classmethod
    def next(
        cls,
        model: Model,
        past: SupportLabels,
        X: Any,
        labels: Labels,
        settings: OnlineSettings,
    ) -> OnlineStep:
        """Continue with new rows: none of the past rows is visited again."""
        kernels = model.kernels.extend(X)
        theta, square_norms = _theta(model, past, settings.norm)
        stream = Stream(kernels, settings.norm, theta, square_norms)
        n_past = len(theta)
        labels = replace(
            labels,
            kept=np.concatenate([np.arange(n_past), n_past + labels.kept]),
            target=np.concatenate([past.target, labels.target]),
            weight=np.concatenate([past.weight, labels.weight]),
        )
        return cls(kernels, labels, stream, settings, n_past)

    def run(
        self, rng: np.random.Generator, history: Sequence[Epoch | OnlineEpoch]
    ) -> OnlineUpdate:
        """Predict the new rows, then learn them in one pass in random order."""
        began = time.perf_counter()
        order = self.n_past + rng.permutation(len(self.labels.target) - self.n_past)
        require_hinge(self._problem(order[:1]), "partial_fit")
        with one_blas_thread():
            right = self._count_right(order)
            updates = self._learn(order)
            if self.settings.budget is not None:
                self.stream.trim(self.settings.budget)
            objective, bound, temperature = self._evaluate(order)
        line = OnlineEpoch(
            epoch=len(history) + 1,
            time=time.perf_counter() - began,
            objective=objective,
            gap=relative_gap(objective, bound),
            updates=updates,
            support=len(self.stream.support),
            **_progress(history, right, len(order)),
        )
        gap = max(objective - bound, 0.0)
        support = self.labels.kept[self.stream.support]
        return OnlineUpdate(
            *self._result(), support, objective, gap, temperature, [*history, line]
        )

    def _problem(self, rows: np.ndarray) -> Problem:
        return self.settings.problem(self.kernels.take(rows), self.labels.take(rows))

    def _count_right(self, order: np.ndarray) -> int | None:
        """New rows that the model knew already; None without a model."""
        if self.n_past == 0:
            return None
        return int(np.sum(self.stream.predict(order) == self.labels.target[order]))

    def _learn(self, order: np.ndarray) -> int:
        """One pass; Ctrl-C keeps what was learned until then."""
        importance = self.labels.weight / self.labels.weight.mean()
        tiles = self.stream.learn(
            order, self._problem, importance, self.settings.budget
        )
        n_seen, n_updates = 0, 0
        try:
            for n_rows, updates in tiles:
                n_seen, n_updates = n_seen + n_rows, n_updates + updates
        except KeyboardInterrupt:
            if not n_seen:
                raise
            warnings.warn(
                f"partial_fit was interrupted after {n_seen} of {len(order)} new rows; "
                "the model that learned these was kept.",
                InterruptedFitWarning,
                stacklevel=5,
            )
        return n_updates

    def _evaluate(self, order: np.ndarray) -> tuple[float, float, float]:
        """Objective, dual bound and temperature on the newest rows at hand.

        The dual point has the model's coefficients on these rows and none elsewhere.
        """
        rows = np.concatenate([np.arange(self.n_past), order])[-EVALUATED_ROWS:]
        problem, stream = self._problem(rows), self.stream
        model = stream.model()
        coef = np.zeros((len(self.labels.target), self.labels.n_outputs))
        coef[stream.support] = model.coef
        scores = stream.scores(rows)
        norms = model.weights * np.sqrt(stream.square_norms) / stream.norm.q
        objective = problem.primal_value(scores, norms)
        diagonal = model.weights @ problem.bank.diagonals().T
        held_out = scores - diagonal[:, None] * coef[rows]
        temperature = fit_temperature(held_out, problem.target, problem.sample_weight)
        return objective, _dual_bound(problem, coef[rows]), temperature

    def _result(self) -> tuple[BlockModel, SupportLabels]:
        """The model on its support rows, in order of arrival."""
        stream, support = self.stream, self.stream.support
        solution = stream.model()
        total = float(solution.weights.sum())
        kernels = self.kernels.take(support, matrices=False)
        model = BlockModel(kernels, total * solution.coef, solution.weights / total)
        square_norms = (total / stream.norm.q) ** 2 * stream.square_norms
        labels = self.labels.take(support)
        return model, SupportLabels(labels.target, labels.weight, square_norms)


def _theta(
    model: Model, labels: SupportLabels, norm: LpGroupNorm
) -> tuple[np.ndarray, np.ndarray | None]:
    """theta = q coef for the weights that mirror descent uses, and its norms."""
    known = model.expansion(norm)
    factor = norm.q / float(known.weights.sum())
    if labels.square_norms is None:
        return norm.q * known.coef, None
    return norm.q * known.coef, factor * factor * labels.square_norms


def _dual_bound(problem: Problem, coef: np.ndarray) -> float:
    """The best dual value along the coefficients, or along feasible ones near by."""
    unit = coef / problem.bound[:, None]
    if problem.loss.feasible_scale(unit, problem.target) == 0.0:  # after projection
        unit = problem.loss.make_feasible(unit, problem.target)
        coef = unit * problem.bound[:, None]
    squares = np.maximum(problem.bank.square_norms(coef), 0.0)
    return problem.dual_bound(coef, np.sqrt(squares))


def _progress(
    history: Sequence[Epoch | OnlineEpoch], right: int | None, n_rows: int
) -> dict[str, Any]:
    """Accuracy of this call and of all calls so far."""
    last = history[-1] if history else None
    known = last if isinstance(last, OnlineEpoch) else None
    predicted = known.predicted if known else 0
    progressive = known.progressive if known else None
    accuracy = None
    if right is not None:
        accuracy = right / n_rows
        total = right + predicted * (progressive or 0.0)
        predicted += n_rows
        progressive = total / predicted
    return {"accuracy": accuracy, "progressive": progressive, "predicted": predicted}
