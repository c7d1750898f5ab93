"""The online proximal method: a step on one loss, then a step on every regularizer."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from manykernels.base import stored
from manykernels.base.arrays import Array
from manykernels.base.stored import FLAG, Count, Either, Maybe, Real, storable
from manykernels.inputs.parameters import (
    Flag,
    OneOf,
    Rules,
    Whole,
    check_parameters,
    require_number,
)
from manykernels.solvers.loop import InterruptedFitWarning, require_whole
from manykernels.structured.structured_problem import StructuredProblem

ONLINE_STEP_RULES = ("constant", "sqrt", "epoch", "strong")
ONLINE_UPDATES = ("auto", "gradient", "dual_averaging", "passive_aggressive")
TRIED_STEPS = (0.01, 0.1, 1.0, 10.0)
ONLINE_RULES: Rules = {
    "epochs": Whole(example=20),
    "step": OneOf(*ONLINE_STEP_RULES),
    "update": OneOf(*ONLINE_UPDATES),
    "average": Flag(words=("tail",)),
}

EpochCallback = Callable[[Any], object]


class Descent(Protocol):
    """A model of one problem while the method changes it.

    Examples
    --------
    >>> def last_line(descent: Descent) -> Any:
    ...     return descent.run_epoch(1, np.random.default_rng(0))
    """

    def run_epoch(self, epoch: int, rng: np.random.Generator) -> Any:
        """Visit all examples in random order; return a line of the history."""

    def forget_average(self) -> None:
        """Leave all models so far out of the average."""

    def result(self, history: list[Any]) -> StructuredResult:
        """The model that the method returns."""


@dataclass(frozen=True)
class StructuredResult:
    """The chosen model, and where the method stood at the end."""

    weights: Any
    block_norms: Array  # of the chosen model
    progress: Any  # for `start` of another call
    objective: float
    history: list[Any]
    eta0: float
    stopped: bool = False
    interrupted: bool = False


@storable(
    epochs=Count(1),
    step=stored.StoredWord(*ONLINE_STEP_RULES),
    eta0=Maybe(Either(Real(0.0, above=True), stored.StoredWord("auto"))),
    average=Either(FLAG, stored.StoredWord("tail")),
    update=stored.StoredWord(*ONLINE_UPDATES),
    random_state=Maybe(Count()),
)
@dataclass(frozen=True)
class OnlineProximal:
    r"""w <- prox_J( ... prox_1(w - eta g)), for label sequences and for trees.

    g is a subgradient of one example's loss and prox_j the proximity operator of
    :math:`\eta \lambda \Omega_j`. Dual averaging (Xiao, 2010) takes the steps from the
    sum of all t gradients so far: w <- prox of :math:`\eta t \lambda \Omega` at
    :math:`-\eta \sum g`. What one example adds to a block without a signal is noise; a
    single proximal step is too small to undo it, the sum is not, so that such blocks
    come out at zero.

    Parameters
    ----------
    epochs : int
        Passes over the examples in random order.
    step : {"constant", "sqrt", "epoch", "strong"}
        eta0, eta0 / sqrt(t) as in the paper's Proposition 3, eta0 / sqrt(epoch) (for
        dual averaging eta0 / sqrt(passes over the examples)), or 1 / (sigma t), which
        asks for a regularizer such that lambda Omega is sigma-strongly convex.
    eta0 : float, "auto" or None
        None takes 0.1 for sequences, and for trees 1 with the hinge and 5 with the CRF
        loss, whose steps are weighted by probabilities. "auto", for sequences only,
        takes from 0.01, 0.1, 1 and 10 the one with the smallest objective after five
        epochs.
    average : bool or "tail"
        Return the last model, the mean of all, or the mean of those in the second half
        of the epochs, which is the default: on text it is better than the last, and
        elsewhere as good. What is zero in the last model then is zero in the mean, so
        that penalties prune. Passes of `partial_fit` all count.
    update : {"auto", "gradient", "dual_averaging", "passive_aggressive"}
        Which step is taken. Dual averaging prunes. Passive-aggressive steps are as long
        as a sentence needs, eta0 at most; they are for trees with the hinge loss and
        without a regularizer. "auto" takes gradient steps for sequences; for trees it
        takes passive-aggressive steps where they are possible, and dual averaging
        where the regularizer prunes.
    random_state : int, Generator or None

    References
    ----------
    Martins, Smith, Xing, Aguiar, Figueiredo: Online Learning of Structured Predictors
    with Multiple Kernels, AISTATS 2011, Algorithm 1. Xiao: Dual Averaging Methods for
    Regularized Stochastic Learning and Online Optimization, JMLR 2010.

    Examples
    --------
    >>> import manykernels as mk
    >>> X = [[{"word": "the"}, {"word": "cat"}], [{"word": "a"}, {"word": "dog"}]]
    >>> y = [["det", "noun"], ["det", "noun"]]
    >>> solver = OnlineProximal(epochs=5, update="dual_averaging", random_state=0)
    >>> mk.SequenceLabeler(solver=solver).fit(X, y).predict(X[:1])[0].tolist()
    ['det', 'noun']
    """

    epochs: int = 20
    step: str = "epoch"
    eta0: float | str | None = None
    average: bool | str = "tail"
    update: str = "auto"
    random_state: int | np.random.Generator | None = None

    def __post_init__(self) -> None:
        check_parameters(self, ONLINE_RULES)
        if self.step == "strong" and self.sums:
            raise ValueError(
                "update='dual_averaging' needs a step with eta0, got step='strong'; "
                "choose 'epoch' or 'sqrt'."
            )
        if self.eta0 not in (None, "auto"):
            require_number("eta0", self.eta0, 0.0)

    @property
    def sums(self) -> bool:
        """Whether steps start from the sum of all gradients (dual averaging)."""
        return self.update == "dual_averaging"

    @property
    def first_step(self) -> float:
        """eta0, once it is a number."""
        assert isinstance(self.eta0, float | int)
        return float(self.eta0)

    def resolved(self, problem: StructuredProblem) -> OnlineProximal:
        """These settings with the update and the step that suit a problem."""
        update = problem.default_update if self.update == "auto" else self.update
        if update == "passive_aggressive" and update != problem.default_update:
            raise ValueError(
                "update='passive_aggressive' is for trees and needs the hinge loss and "
                f"no regularizer, got loss={problem.loss.name!r} and "
                f"{len(problem.terms)} terms of regularizers; use update='auto'."
            )
        if update == "dual_averaging":
            if any(term.kind == "entries" for term in problem.terms):
                raise ValueError(
                    "update='dual_averaging' needs a regularizer of block norms, got "
                    "sparse group lasso; choose 'group_lasso' or update='gradient'."
                )
        eta0 = problem.default_step if self.eta0 is None else self.eta0
        return replace(self, update=update, eta0=eta0)

    def solve(
        self,
        problem: StructuredProblem,
        start: Any = None,
        callback: EpochCallback | None = None,
    ) -> StructuredResult:
        """Learn from the examples; the callback may stop it by returning True.

        Parameters
        ----------
        problem : ChainProblem or TreeProblem
        start : progress of an earlier result, optional
            Go on from there.
        callback : callable, optional
            Called with each line of the history.
        """
        method, rng = self.resolved(problem), np.random.default_rng(self.random_state)
        if method.eta0 == "auto":
            seed = int(rng.integers(2**32))
            method = replace(method, eta0=method.best_step(problem, start, seed))
            # The trials had the same orders, in which this step was the best.
            rng = np.random.default_rng(seed)
        return method._run(problem.descent(method, start), callback, rng)

    def best_step(
        self, problem: StructuredProblem, start: Any = None, seed: int = 0
    ) -> float:
        """The eta0 that does best after a few epochs, all on the same orders."""
        # Five epochs show which step falls fastest.
        trial = replace(self, epochs=min(self.epochs, 5), random_state=seed)

        def objective(eta0: float) -> float:
            result = replace(trial, eta0=eta0).solve(problem, start)
            value = require_whole(result).objective
            return value if np.isfinite(value) else np.inf

        return min(TRIED_STEPS, key=objective)

    def _run(
        self,
        descent: Descent,
        callback: EpochCallback | None,
        rng: np.random.Generator,
    ) -> StructuredResult:
        history: list[Any] = []
        began, stopped, interrupted = time.perf_counter(), False, False
        try:
            for epoch in range(1, self.epochs + 1):
                # Early models are worse than late ones.
                if self.average == "tail" and 1 < epoch == self.epochs // 2 + 1:
                    descent.forget_average()
                line = descent.run_epoch(epoch, rng)
                history.append(line._replace(time=time.perf_counter() - began))
                stopped = callback is not None and bool(callback(history[-1]))
                if stopped:
                    break
        except KeyboardInterrupt:
            if not history:
                raise
            stopped = interrupted = True
            warnings.warn(
                f"The fit was interrupted after {len(history)} epochs; the model so "
                "far was kept.",
                InterruptedFitWarning,
                stacklevel=3,
            )
        result = descent.result(history)
        return replace(result, stopped=stopped, interrupted=interrupted)

    def steps(self, problem: StructuredProblem, epoch: int, n_before: int) -> Array:
        """The step at every visit of an epoch, after `n_before` visits in all."""
        n = problem.n_examples
        visits = n_before + 1 + np.arange(n)
        if self.step == "strong":
            # Pegasos: the regularizer's curvature sets the length of the steps.
            sigma = problem.strong_convexity()
            if sigma == 0.0:
                kinds = sorted({term.kind for term in problem.terms})
                raise ValueError(
                    "step='strong' needs a regularizer that is strongly convex on "
                    "every block (squared_l2, elastic_net, squared_p with p > 1), got "
                    f"terms {', '.join(kinds)}; choose step='epoch' or 'sqrt'."
                )
            return np.asarray(1.0 / (sigma * visits), np.float64)
        longest = np.full(n, self.first_step)
        if self.step == "constant" or self.update == "passive_aggressive":
            return longest
        if self.step == "sqrt":
            return np.asarray(longest / np.sqrt(visits))
        # Sums of gradients grow with every visit, so their steps must fall within an
        # epoch as well; single steps fall from epoch to epoch.
        passes = visits / n if self.sums else np.full(n, epoch)
        return np.asarray(longest / np.sqrt(passes))

    def dues(self, problem: StructuredProblem, steps: Array, n_before: int) -> Array:
        """Factors of the regularizer: of one step, or of all so far for their sum."""
        # The sum of t gradients is compared with t times the regularizer.
        asked = n_before + 1 + np.arange(len(steps)) if self.sums else 1.0
        return np.asarray(problem.reg * asked * steps)
