"""The online proximal method: a step on one loss, then a step on every regularizer."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manykernels.base import stored
from manykernels.base.arrays import Array
from manykernels.base.stored import FLAG, Count, Either, Maybe, Real, storable
from manykernels.inputs.parameters import (
    Flag,
    Number,
    OneOf,
    Rules,
    Whole,
    check_parameters,
    require_number,
)
from manykernels.solvers.loop import InterruptedFitWarning, require_whole
from manykernels.structured.chain_decoder import viterbi
from manykernels.structured.chain_descent import ChainDescent, ChainProgress
from manykernels.structured.chain_problem import ChainProblem, ChainWeights

STEPS = ("constant", "sqrt", "epoch", "strong")
UPDATES = ("gradient", "dual_averaging")
TRIED_STEPS = (0.01, 0.1, 1.0, 10.0)
TRIAL_EPOCHS = 5
RULES: Rules = {
    "epochs": Whole(example=20),
    "step": OneOf(*STEPS),
    "update": OneOf(*UPDATES),
    "sigma": Number(optional=True),
    "average": Flag(words=("tail",)),
}


@storable
class ChainEpoch(NamedTuple):
    """One line of the history."""

    epoch: int
    time: float
    objective: float  # of the last model
    online_loss: float  # mean loss of the chains before each of them was learned
    updates: int


ChainCallback = Callable[[ChainEpoch], object]
Validate = Callable[[ChainWeights], float]


@dataclass(frozen=True)
class ChainResult:
    """The chosen model, and where the method stood at the end."""

    weights: ChainWeights
    block_norms: Array  # of the chosen model; the label pairs are the last
    progress: ChainProgress
    objective: float
    history: list[ChainEpoch]
    eta0: float
    stopped: bool
    interrupted: bool = False


@storable(
    epochs=Count(1),
    step=stored.OneOf(*STEPS),
    eta0=Either(Real(0.0, above=True), stored.OneOf("auto")),
    sigma=Maybe(Real(0.0, above=True)),
    radius=Maybe(Real(0.0, above=True), stored.OneOf("bound")),
    average=Either(FLAG, stored.OneOf("tail")),
    update=stored.OneOf(*UPDATES),
    random_state=Maybe(Count()),
)
@storable
@dataclass(frozen=True)
class OnlineProximal:
    r"""w <- prox_J( ... prox_1(w - eta g)), then projection on a ball.

    g is a subgradient of one chain's loss and prox_j the proximity operator of
    :math:`\eta \lambda \Omega_j`. Dual averaging (Xiao, 2010) takes the steps from the
    sum of all t gradients so far: w <- prox of :math:`\eta t \lambda \Omega` at
    :math:`-\eta \sum g`. What one chain adds to a block without a signal is noise; a
    single proximal step is too small to undo it, the sum is not, so that such blocks
    come out at zero.

    Parameters
    ----------
    epochs : int
        Passes over the chains in random order.
    step : {"constant", "sqrt", "epoch", "strong"}
        eta0, eta0 / sqrt(t) as in the paper's Proposition 3, eta0 / sqrt(epoch) (for
        dual averaging eta0 / sqrt(passes over the chains)), or 1 / (sigma t), which
        asks for a regularizer that is strongly convex, with lambda sigma-strongly.
    eta0 : float or "auto"
        "auto" takes, from 0.01, 0.1, 1 and 10, the one with the smallest objective
        after five epochs, or with the best score where `solve` is given a
        validation function.
    sigma : float, optional
        Of "strong"; what is known of the regularizer if not given.
    radius : float, "bound" or None
        Project on :math:`\|w\| \le` radius; "bound" takes one that the optimum is
        known to obey.
    average : bool or "tail"
        Return the last model, the mean of all, or the mean of those in the second half
        of the epochs, which is the default: on text it is better than the last, and
        elsewhere as good. What is zero in the last model then is zero in the mean, so
        that penalties prune. Passes of `partial_fit` all count.
    update : {"gradient", "dual_averaging"}
        Which step is taken; the latter prunes.
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
    eta0: float | str = 0.1
    sigma: float | None = None
    radius: float | str | None = None
    average: bool | str = "tail"
    update: str = "gradient"
    random_state: int | np.random.Generator | None = None

    def __post_init__(self) -> None:
        check_parameters(self, RULES)
        if self.step == "strong" and self.sums:
            raise ValueError(
                "update='dual_averaging' needs a step with eta0, got step='strong'; "
                "choose 'epoch' or 'sqrt'."
            )
        if self.eta0 != "auto":
            require_number("eta0", self.eta0, 0.0)
        if self.radius not in (None, "bound"):
            require_number("radius", self.radius, 0.0)

    @property
    def sums(self) -> bool:
        """Whether steps start from the sum of all gradients."""
        return self.update == "dual_averaging"

    def descent(
        self, problem: ChainProblem, start: ChainProgress | None = None
    ) -> ChainDescent:
        """Where passes begin; refuses what this method does not do."""
        if self.sums and any(term.kind == "entries" for term in problem.terms):
            raise ValueError(
                "update='dual_averaging' needs a regularizer of block norms, got "
                "sparse group lasso; choose 'group_lasso' or update='gradient'."
            )
        return ChainDescent(
            problem,
            start,
            averaged=bool(self.average),
            radius=self.projection(problem),
            sums=self.sums,
            pruned=self.average == "tail",
        )

    def solve(
        self,
        problem: ChainProblem,
        start: ChainProgress | None = None,
        callback: ChainCallback | None = None,
        validate: Validate | None = None,
    ) -> ChainResult:
        """Learn from the chains; the callback may stop it by returning True.

        Parameters
        ----------
        problem : ChainProblem
        start : ChainProgress, optional
            Go on from there.
        callback : callable, optional
            Called with each line of the history.
        validate : callable, optional
            A score of a model, higher is better, by which eta0 is chosen.
        """
        rng = np.random.default_rng(self.random_state)
        if self.eta0 == "auto":
            seed = int(rng.integers(2**32))
            chosen = replace(self, eta0=self.best_step(problem, start, seed, validate))
            return chosen._run(problem, start, callback, np.random.default_rng(seed))
        return self._run(problem, start, callback, rng)

    def best_step(
        self,
        problem: ChainProblem,
        start: ChainProgress | None = None,
        seed: int = 0,
        validate: Validate | None = None,
    ) -> float:
        """The eta0 that does best after a few epochs, all on the same orders."""
        trial = replace(self, epochs=min(self.epochs, TRIAL_EPOCHS), random_state=seed)

        def badness(eta0: float) -> float:
            found = require_whole(replace(trial, eta0=eta0).solve(problem, start))
            value = found.objective
            if validate is not None:
                value = -validate(found.weights)
            return value if np.isfinite(value) else np.inf

        return min(TRIED_STEPS, key=badness)

    def _run(
        self,
        problem: ChainProblem,
        start: ChainProgress | None,
        callback: ChainCallback | None,
        rng: np.random.Generator,
    ) -> ChainResult:
        descent = self.descent(problem, start)
        history: list[ChainEpoch] = []
        began, stopped, interrupted = time.perf_counter(), False, False
        try:
            for epoch in range(1, self.epochs + 1):
                if self.average == "tail" and epoch == self.epochs // 2 + 1:
                    descent.forget_average()
                order = rng.permutation(problem.n_chains)
                steps = self.steps(problem, epoch, descent.n_steps)
                updates, loss = descent.run_pass(order, steps, rng)
                seconds, value = time.perf_counter() - began, descent.objective()
                history.append(ChainEpoch(epoch, seconds, value, loss, updates))
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
                stacklevel=2,
            )
        result = self._result(problem, descent, history, stopped)
        return replace(result, interrupted=interrupted)

    def _result(
        self,
        problem: ChainProblem,
        descent: ChainDescent,
        history: list[ChainEpoch],
        stopped: bool,
    ) -> ChainResult:
        progress = descent.progress()
        if self.average:
            weights = progress.average
            norms = problem.blocks.block_norms(weights)
            objective = problem.objective(weights)
        else:
            weights, norms = progress.last, descent.block_norms()
            objective = history[-1].objective if history else descent.objective()
        eta0 = float(self.eta0)
        return ChainResult(weights, norms, progress, objective, history, eta0, stopped)

    def steps(self, problem: ChainProblem, epoch: int, n_before: int) -> Array:
        """The step at every visit of this epoch."""
        visits = n_before + 1 + np.arange(problem.n_chains)
        if self.step == "strong":
            return np.asarray(1.0 / (self._sigma(problem) * visits), np.float64)
        passes = visits / problem.n_chains if self.sums else np.full(len(visits), epoch)
        divisors: dict[str, Array] = {
            "constant": np.ones(problem.n_chains),
            "sqrt": np.sqrt(visits),
            "epoch": np.sqrt(passes),
        }
        return np.asarray(float(self.eta0) / divisors[self.step])

    def _sigma(self, problem: ChainProblem) -> float:
        known = problem.strong_convexity()
        if known == 0.0:
            kinds = sorted({term.kind for term in problem.terms})
            raise ValueError(
                "step='strong' needs a regularizer that is strongly convex on every "
                "block (squared_l2, elastic_net, squared_p with p > 1), got terms "
                f"{', '.join(kinds)}; choose step='epoch' or 'sqrt'."
            )
        return known if self.sigma is None else float(self.sigma)

    def projection(self, problem: ChainProblem) -> float:
        """The radius of the ball; infinite for none."""
        if self.radius is None:
            return np.inf
        return problem.radius() if self.radius == "bound" else float(self.radius)


def label_accuracy(
    unary: Array, pairs: Array, target: NDArray[np.int64], starts: Sequence[int]
) -> float:
    """Share of the positions that are decoded right.

    Examples
    --------
    >>> label_accuracy(np.eye(2), np.zeros((2, 2)), np.array([0, 0]), [0, 2])
    0.5
    """
    return float(np.mean(viterbi(unary, pairs, starts) == target))
