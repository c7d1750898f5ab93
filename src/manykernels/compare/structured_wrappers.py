"""Wrapper methods for structured MKL: weights outside, an SVM inside.

Both solve a structured SVM on the combined kernel with Pegasos, which is
:class:`OnlineProximal` with steps 1 / (lambda t), and change the weights in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from manykernels.base.arrays import Array
from manykernels.norms.proximity import project_simplex
from manykernels.norms.regularizers import SquaredL2
from manykernels.solvers.loop import require_whole
from manykernels.structured.chain_blocks import ChainBlocks, ChainWeights
from manykernels.structured.chain_learning import (
    ChainProblem,
    ChainProgress,
    chain_terms,
)
from manykernels.structured.online_proximal import OnlineProximal

# (epochs so far, the sparse MKL objective, kernel weights)
WrapperLine = tuple[int, float, Array]


@dataclass(frozen=True)
class WrapperResult:
    """Kernel weights on the simplex, the model, and the objective after each call."""

    kernel_weights: Array
    weights: ChainWeights
    objective: float
    history: list[WrapperLine]


@dataclass(frozen=True)
class StructuredWrapper:
    r"""min over beta on the simplex of an SVM with the kernel sum_f beta_f K_f.

    Parameters
    ----------
    rule : {"gauss_seidel", "gradient"}
        beta_f proportional to the norm of block f (Kloft et al.), or a projected step
        along the gradient -||theta_f||^2 / 2 (SimpleMKL).
    rounds : int
        Calls of the SVM.
    first_epochs, later_epochs : int
        Of Pegasos in the first call and, from there on with a warm start, in others.
    rate : float
        Length of the gradient's first step, relative to its largest entry.
    random_state : int, Generator or None

    Examples
    --------
    >>> from manykernels.structured.chain_blocks import ChainBlocks
    >>> from manykernels.structured.chain_learning import ChainProblem, chain_terms
    >>> from manykernels.structured.structured_problem import StructuredHinge
    >>> from manykernels.norms import SparseMKL
    >>> X = np.repeat(np.eye(2), 4, axis=0)
    >>> blocks = ChainBlocks.of([X @ X.T, np.eye(8)])
    >>> starts, labels = np.array([0, 4, 8]), np.repeat([0, 1], 4)
    >>> terms = chain_terms(SparseMKL(), 2, "fixed")
    >>> problem = ChainProblem(
    ...     blocks, starts, labels, 2, StructuredHinge(), terms, 1.0, np.ones(2)
    ... )
    >>> found = StructuredWrapper(rounds=3, random_state=0).solve(problem)
    >>> bool(found.kernel_weights[0] > found.kernel_weights[1])
    True
    """

    rule: str = "gauss_seidel"
    rounds: int = 20
    first_epochs: int = 20
    later_epochs: int = 3
    rate: float = 0.5
    random_state: int | np.random.Generator | None = None

    def __post_init__(self) -> None:
        if self.rule not in ("gauss_seidel", "gradient"):
            raise ValueError(
                "rule must be 'gauss_seidel' or 'gradient', got "
                f"{self.rule!r}; choose one of these."
            )

    def solve(
        self,
        problem: ChainProblem,
        callback: Callable[[WrapperLine], object] | None = None,
    ) -> WrapperResult:
        """Alternate on dense kernel blocks; the objective is that of `problem`."""
        _require_dense(problem)
        rng = np.random.default_rng(self.random_state)
        n_blocks = problem.blocks.n_blocks
        beta = np.full(n_blocks, 1.0 / n_blocks)
        progress: ChainProgress | None = None
        history: list[WrapperLine] = []
        epochs = 0
        for round_ in range(self.rounds):
            passes = self.first_epochs if round_ == 0 else self.later_epochs
            epochs += passes
            progress = self._svm(problem, beta, passes, progress, rng)
            coef = progress.last.coef[0]
            model = _as_blocks(beta, coef, progress.last.pairs)
            value = problem.objective(model)
            history.append((epochs, value, beta.copy()))
            if callback is not None and callback(history[-1]):
                break
            if round_ + 1 < self.rounds:
                norms = _theta_norms(problem.blocks, coef)
                beta = self._next(beta, norms, round_)
        return WrapperResult(beta, model, value, history)

    def _svm(
        self,
        problem: ChainProblem,
        beta: Array,
        epochs: int,
        start: ChainProgress | None,
        rng: np.random.Generator,
    ) -> ChainProgress:
        """Pegasos on the combined kernel, from where the last call ended."""
        combined = np.einsum("f,ifj->ij", beta, problem.blocks.dense)
        blocks = ChainBlocks.of([combined.astype(problem.blocks.dense.dtype)])
        svm = replace(problem, blocks=blocks, terms=chain_terms(SquaredL2(), 1))
        method = OnlineProximal(epochs, "strong", random_state=rng)
        return require_whole(method.solve(svm, start)).progress

    def _next(self, beta: Array, norms: Array, round_: int) -> Array:
        if self.rule == "gauss_seidel":
            fresh = beta * norms
        else:
            slope = norms**2 / max(float(np.max(norms**2)), np.finfo(float).tiny)
            length = self.rate / np.sqrt(1.0 + round_)
            fresh = project_simplex((beta + length * slope)[None])[0]
        total = float(fresh.sum())
        return fresh / total if total > 0.0 else beta


def _theta_norms(blocks: ChainBlocks, coef: Array) -> Array:
    """||theta_f|| with one coefficient matrix for all blocks."""
    squares = [
        float(np.sum(coef * blocks.kernel_scores(f, coef)))
        for f in range(blocks.n_kernels)
    ]
    return np.sqrt(np.maximum(squares, 0.0))


def _as_blocks(beta: Array, coef: Array, pairs: Array) -> ChainWeights:
    """w_f = beta_f theta_f."""
    n_labels = pairs.shape[0]
    return ChainWeights(beta[:, None, None] * coef, np.zeros((0, n_labels)), pairs)


def _require_dense(problem: ChainProblem) -> None:
    if problem.blocks.feature_block or problem.blocks.sparse:
        raise ValueError(
            "wrapper methods combine dense kernels, got sparse kernels or explicit "
            "features; use OnlineProximal, or pass dense matrices."
        )
