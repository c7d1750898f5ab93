"""What the combinations share: find weights, then one SVM on the combined kernel."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from manykernels.banks import Bank
from manykernels.banks.composed import weighted_sum
from manykernels.base.arrays import Array
from manykernels.inputs.parameters import Rules, check_parameters, choose_generator
from manykernels.inputs.reporting import (
    progress_callback,
    shown_log,
    warn_unless_converged,
)
from manykernels.inputs.wrappers import rollback_on_error
from manykernels.kernels.kernel_set import KernelSet
from manykernels.losses import MulticlassHinge
from manykernels.mkl.choices import CLASSIFIER
from manykernels.mkl.classifier import MKLClassifier
from manykernels.norms import LpGroupNorm
from manykernels.solvers import Auto
from manykernels.solvers.loop import SolveResult
from manykernels.solvers.problem import Expansion, Problem
from manykernels.targets import Labels


class CombinationData(NamedTuple):
    """Everything that a combination learns from."""

    kernels: KernelSet
    bank: Bank
    targets: Labels
    seed: int
    counts: Array | None  # weights of the rows as they came, without class weights


class CombinedKernelClassifier(MKLClassifier):
    """An SVM on sum_f kernel_weights_f K_f, with weights that a subclass finds first.

    The SVM is the multiclass one of `MKLClassifier`, solved to a certified gap.
    Subclasses say how weights are found in `_find_weights`, name their own parameters
    in `__init__` and pass on the others as `**shared`.
    """

    _model: Any  # some combinations have models of another kind
    _rules: ClassVar[Rules] = {
        name: CLASSIFIER[name]
        for name in (
            *("C", "tol", "max_iter", "class_weight", "psd", "storage", "memory_limit"),
        )
    }

    def __init_subclass__(cls, **options: Any) -> None:
        """Spell `**shared` out in the signature, where scikit-learn looks it up."""
        super().__init_subclass__(**options)
        own = inspect.signature(cls.__init__)
        named = [p for p in own.parameters.values() if p.kind != p.VAR_KEYWORD]
        if len(named) < len(own.parameters):
            known = {parameter.name for parameter in named}
            shared = inspect.signature(CombinedKernelClassifier.__init__).parameters
            rest = [p for name, p in shared.items() if name not in known]
            whole = own.replace(parameters=[*named, *rest])
            cls.__init__.__signature__ = whole  # type: ignore[attr-defined]

    def __init__(
        self,
        kernels: Any = None,
        C: float = 1.0,
        *,
        tol: float = 1e-2,
        max_iter: int | None = None,
        class_weight: Any = None,
        psd: Any = "check",
        storage: Any = "auto",
        memory_limit: int | str | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.psd = psd
        self.storage = storage
        self.memory_limit = memory_limit
        self.verbose = verbose
        self.random_state = random_state

    @rollback_on_error
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Find the weights of the kernels, then learn coefficients.

        Parameters
        ----------
        X : table (array, CSR, data frame) or kernel matrices
        y : array of shape (n,)
            Labels of any type.
        sample_weight : array of shape (n,), optional
        """
        self._check_settings()
        data = self._training(X, y, sample_weight)
        self.classes_ = data.targets.classes
        return self._learn(data)

    def _check_settings(self) -> None:
        """Raise early where a parameter makes no sense."""
        check_parameters(self, self._rules)

    def _training(self, X: Any, y: Any, sample_weight: Any) -> CombinationData:
        X, y, sample_weight = self._match(X, y, sample_weight)
        read = self._read(X, y, sample_weight)
        counts = None
        if sample_weight is not None:
            counts = np.asarray(sample_weight, dtype=np.float64)[read.targets.kept]
        return CombinationData(read.kernels, read.bank, read.targets, read.seed, counts)

    def _learn(self, data: CombinationData) -> Any:
        weights = normalized(self._find_weights(data))
        problem = self._svm(weighted_sum(data.bank, weights), data.targets)
        result = self._solve_one(problem)
        found = Expansion(result.model.weights[0] * result.model.coef, weights)
        problem, result = replace(problem, bank=data.bank), replace(result, model=found)
        return self._finish(data, problem, result)

    @abstractmethod
    def _find_weights(self, data: CombinationData) -> Array:
        """Non-negative weights of the kernels, shape (kernels,)."""

    def _svm_C(self) -> float:
        """The C of the SVM on the combined kernel."""
        return float(self.C)

    def _make_loss(self) -> MulticlassHinge:
        return MulticlassHinge()

    def _svm(self, bank: Bank, labels: Labels) -> Problem:
        """The SVM on a bank of one block."""
        return labels.problem(bank, LpGroupNorm(2.0), self._svm_C())

    def _solve_one(self, problem: Problem) -> SolveResult:
        solver = self._make_solver(self.random_state)
        callback = progress_callback(self.verbose, self.tol, None)
        with shown_log() if self.verbose else nullcontext():
            result = solver.solve(problem, None, callback)
        warn_unless_converged(solver, result)
        return result

    def _make_solver(self, seed: Any) -> Any:
        limit = {} if self.max_iter is None else {"max_iter": self.max_iter}
        return Auto(tol=self.tol, random_state=choose_generator(seed), **limit)

    @property
    def partial_fit(self) -> Any:  # type: ignore[override]
        """Weights that are found first need all the rows at once."""
        raise AttributeError(
            f"{type(self).__name__} has no partial_fit: its weights need all the rows; "
            "use MKLClassifier to learn from parts."
        )


def normalized(weights: Array) -> Array:
    """Weights that sum to one; all alike where none of them is positive.

    Examples
    --------
    >>> normalized(np.array([3.0, 1.0])).tolist(), normalized(np.zeros(2)).tolist()
    ([0.75, 0.25], [0.5, 0.5])
    """
    total = float(weights.sum())
    if not total > 0.0:
        return np.full(len(weights), 1.0 / len(weights))
    return np.asarray(weights / total)


def only(position: int, n_kernels: int) -> Array:
    """The weights that pick one kernel."""
    return np.eye(n_kernels)[position]


def restricted(problem: Problem, bank: Bank, rows: np.ndarray) -> Problem:
    """The problem on some of the rows, which are those of the bank."""
    target, weight = problem.target[rows], problem.sample_weight[rows]
    return replace(problem, bank=bank, target=target, sample_weight=weight)
