"""SPOM: the online proximal method with the regularizer of multiple kernel learning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from manykernels.banks.base import Bank
from manykernels.base.machine import one_blas_thread, require_memory, stack_bytes
from manykernels.norms.regularizers import SquaredPNorm
from manykernels.solvers.loop import (
    Callback,
    Checkpoint,
    Iterate,
    Resumable,
    SolveResult,
    run,
)
from manykernels.solvers.problem import Expansion, Problem
from manykernels.structured.chain_blocks import ChainBlocks, ChainWeights
from manykernels.structured.chain_learning import (
    ChainDescent,
    ChainProblem,
    ChainProgress,
)
from manykernels.structured.online_proximal import OnlineProximal
from manykernels.structured.structured_problem import (
    CRF,
    StructuredHinge,
    StructuredLoss,
)


@dataclass(frozen=True)
class SPOM:
    r"""Multiclass multiple kernel learning as chains of length one.

    Each visit takes a gradient step on one row's loss and the proximal step of
    :math:`\eta\lambda \frac12 \|w\|_{2,p}^2`. Blocks shrink at different rates, so that
    a block has coefficients :math:`A_f` of its own. The returned model has one matrix
    for all, their sum, and the weights with which it fits the blocks best; objective
    and certificate are those of the returned model.

    Parameters
    ----------
    epochs : int
    tol : float
        Relative duality gap at which to stop.
    eta0 : float or "auto"
        See :class:`manykernels.structured.OnlineProximal`.
    step : str
    average : bool
        Certify and return means of all models so far.
    random_state : int, Generator or None

    References
    ----------
    Martins, Smith, Xing, Aguiar, Figueiredo: Online Learning of Structured Predictors
    with Multiple Kernels, AISTATS 2011, Algorithm 3.

    Examples
    --------
    >>> import manykernels as mk
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mk.MKLClassifier("rbf; linear", p=1.5, solver=SPOM(20, random_state=0))
    >>> model.fit(X, y).score(X, y) > 0.9, model.duality_gap_ > 0.0
    (True, True)
    """

    epochs: int = 50
    tol: float = 0.0
    eta0: float | str = "auto"
    step: str = "epoch"
    average: bool = False
    random_state: int | np.random.Generator | None = None

    def solve(
        self,
        problem: Problem,
        start: Expansion | None = None,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> SolveResult:
        """Run the epochs, or stop at the relative gap `tol`."""
        if checkpoint is not None:
            raise ValueError(
                "SPOM keeps no checkpoints, got checkpoint=...; leave it out or choose "
                "solver='auto'."
            )
        rng = np.random.default_rng(self.random_state)
        with one_blas_thread():
            chains = chain_problem(problem)
            method = OnlineProximal(
                self.epochs, self.step, self.eta0, self.average
            ).resolved(chains)
            begun = None if start is None else _progress(chains.blocks, start)
            if self.eta0 == "auto":
                seed = int(rng.integers(2**32))
                method = replace(method, eta0=method.best_step(chains, begun, seed))
            search = _SPOMEpochs(problem, chains, method, begun, rng)
            return run(search, problem.zero(), tol=self.tol, callback=callback)


class _SPOMEpochs(Resumable):
    """The search that the shared loop follows; `solve` takes no checkpoint of it."""

    def __init__(
        self,
        problem: Problem,
        chains: ChainProblem,
        method: OnlineProximal,
        start: ChainProgress | None,
        rng: np.random.Generator,
    ) -> None:
        self.problem, self.chains, self.method, self.rng = problem, chains, method, rng
        self.descent = ChainDescent(chains, method, start)

    def iterates(self) -> Iterator[Iterate | None]:
        """One epoch each."""
        for epoch in range(1, self.method.epochs + 1):
            order = self.rng.permutation(self.chains.n_examples)
            steps = self.method.steps(self.chains, epoch, self.descent.n_steps)
            updates, _ = self.descent.run_pass(order, steps, self.rng)
            yield self._iterate(updates)

    def _iterate(self, updates: int) -> Iterate:
        progress = self.descent.progress()
        weights = progress.average if self.method.average else progress.last
        problem = self.problem
        model = shared_expansion(problem, self.chains.blocks, weights)
        norms = problem.theta_norms(model.coef)
        scores = problem.bank.scores(model.coef, model.weights)
        scale = problem.best_scale(scores, model.weights * norms)
        model = Expansion(scale * model.coef, model.weights)
        value = problem.primal_value(scale * scores, scale * model.weights * norms)
        unit = problem.loss.make_feasible(
            model.coef / problem.bound[:, None], problem.target
        )
        dual = unit * problem.bound[:, None]
        bound = problem.dual_bound(dual, problem.theta_norms(dual))
        return Iterate(value, bound, updates, lambda: model, lambda: dual)


def chain_problem(problem: Problem) -> ChainProblem:
    """Rows as chains of length one."""
    return ChainProblem(
        chain_blocks(problem.bank),
        np.arange(problem.n_rows + 1),
        np.asarray(problem.target, np.int64),
        problem.n_outputs,
        chain_loss(problem),
        SquaredPNorm(problem.norm.p).terms(),
        problem.C,
        problem.sample_weight,
        uses_pairs=False,
    )


def chain_loss(problem: Problem) -> StructuredLoss:
    """The loss of chains that is the problem's on chains of length one."""
    if problem.loss.has_hinge_dual:
        return StructuredHinge()
    if problem.loss.scores_are_logits:
        return CRF()
    raise ValueError(
        "SPOM handles the losses hinge, log only, got the loss "
        f"{problem.loss.name!r}; choose another solver."
    )


def chain_blocks(bank: Bank) -> ChainBlocks:
    """The bank's kernel values; coefficients of rows need kernels, not features."""
    blocks = list(range(bank.n_blocks))
    stored, sparse = bank.stored_rows(), bank.sparse_matrices()
    if stored is not None:
        return ChainBlocks(stored, [], [], blocks, [])
    if sparse is not None:
        nothing = np.empty((bank.n_rows, 0, bank.n_rows), bank.dtype)
        return ChainBlocks(nothing, sparse, [], blocks, [])
    n_bytes = stack_bytes(bank.n_rows, bank.n_blocks, bank.dtype.itemsize)
    require_memory(n_bytes, None, "all kernel values, which SPOM reads many times,")
    return ChainBlocks(bank.rows(np.arange(bank.n_rows)), [], [], blocks, [])


def shared_expansion(
    problem: Problem, blocks: ChainBlocks, weights: ChainWeights
) -> Expansion:
    """The nearest w_f = d_f sum_i phi_f(x_i) A_i with one A, the sum of their own.

    d_f = <w_f, theta_f> / ||theta_f||^2, scaled to ||d||_r = 1 as everywhere.
    """
    coef = weights.coef.sum(axis=0)
    fitted = np.zeros(blocks.n_blocks)
    for f, block in enumerate(blocks.kernel_block):
        scores = blocks.kernel_scores(f, coef)
        square = float(np.sum(coef * scores))
        if square > 0.0:
            fitted[block] = max(float(np.sum(weights.coef[f] * scores)), 0.0) / square
    if not fitted.any():
        return problem.zero()
    kernel_weights = problem.norm.normalize_weights(fitted)
    return Expansion(coef * (fitted.max() / kernel_weights.max()), kernel_weights)


def _progress(blocks: ChainBlocks, start: Expansion) -> ChainProgress:
    """An expansion as a model of its own coefficients per block."""
    zero = ChainWeights.zero(blocks, start.coef.shape[1])
    parts = [start.weights[block] * start.coef for block in blocks.kernel_block]
    return ChainProgress(ChainWeights(np.array(parts), zero.table, zero.pairs), None, 0)
