"""LP-beta: one SVM per kernel, and a linear program that mixes their scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from manykernels.banks.base import support_of
from manykernels.banks.composed import weighted_sum
from manykernels.base.arrays import Array, Index
from manykernels.base.stored import Either, Floats, Part, Real, require_all, storable
from manykernels.compare.combinations.base import (
    CombinationData,
    CombinedKernelClassifier,
    only,
    restricted,
)
from manykernels.inputs.parameters import Number, OneOf
from manykernels.kernels.kernel_set import KernelSet
from manykernels.mkl.calibration import Temperature, fit_temperature
from manykernels.mkl.models.model import PREDICTION_BLOCK_BYTES, EvaluatedModel
from manykernels.mkl.search import Fold, make_folds
from manykernels.solvers.loop import require_whole
from manykernels.solvers.problem import Problem

CONSTRAINT_TOL = 1e-9  # rounding of a constraint, where scores are at most one


class Mixture(NamedTuple):
    """Weights of the classifiers, and what the linear program reached with them."""

    weights: Array  # (classifiers,), or (classes, classifiers)
    margin: float  # rho
    objective: float  # what is minimized


def mix_scores(
    scores: Array, target: Index, weight: Array, nu: float, per_class: bool = False
) -> Mixture:
    r"""minimize :math:`-\rho + \frac1{\nu W} \sum_i c_i \xi_i` over weights.

    Subject to :math:`\sum_f b_{f y_i} s_{f i y_i} - \sum_f b_{f y} s_{f i y} \ge \rho -
    \xi_i` for every wrong class y, b and the slacks not negative, and weights of
    every class that sum to one. Classes share their weights unless `per_class`.

    Parameters
    ----------
    scores : array of shape (classifiers, rows, classes)
        Of rows that the classifiers have not seen.
    target : array of shape (rows,)
    weight : array of shape (rows,)
    nu : float in (0, 1]
        Share of the rows that may miss the margin, at most.
    per_class : bool

    Examples
    --------
    >>> good = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> mix_scores(np.stack([-good, good]), np.array([0, 1]), np.ones(2), 0.5).weights
    array([0., 1.])
    """
    n_kernels, _, n_classes = scores.shape
    pairs = _wrong_classes(target, n_classes)
    # Tolerances of the program are absolute.
    unit = float(np.abs(scores).max()) or 1.0
    scores = scores / unit
    leads = (_leads_per_class if per_class else _leads)(scores, target, *pairs)
    program = _Program(leads, pairs[0], weight, nu, leads.shape[1] // n_kernels)
    found = program.solve()
    weights = np.maximum(found[: leads.shape[1]], 0.0).reshape(n_kernels, -1).T
    margin, objective = unit * found[-1], unit * float(program.costs @ found)
    return Mixture(weights if per_class else weights[0], float(margin), objective)


class _Program:
    """The linear program, whose constraints are added where they are missed.

    Few of the wrong classes of a row ever come close to its own: most constraints
    never matter. Variables are the weights, a slack per row, and the margin.
    """

    def __init__(
        self, leads: sp.csr_array, rows: Index, weight: Array, nu: float, n_sets: int
    ) -> None:
        self.leads = leads  # (pairs, weights)
        self.rows = rows  # of every pair
        self.n_weights = leads.shape[1]
        slack_costs = weight / (nu * weight.sum())
        self.costs = np.concatenate([np.zeros(self.n_weights), slack_costs, [-1.0]])
        # Weights are listed classifier by classifier; those of a class sum to one.
        sums = sp.kron(np.ones((1, self.n_weights // n_sets)), sp.eye(n_sets))
        rest = sp.csr_array((n_sets, len(weight) + 1))
        self.sums = sp.hstack([sums, rest], format="csr")

    def solve(self) -> Array:
        """The optimal values of all the variables."""
        mean = np.full(self.n_weights, self.sums.shape[0] / self.n_weights)
        used = self._closest(self.leads @ mean)
        while True:
            found = self._solve_with(used)
            missed = self._missed(found)
            missed[used] = 0.0
            if missed.max(initial=0.0) <= CONSTRAINT_TOL:
                return found
            worst = self._closest(-missed)
            used = np.union1d(used, worst[missed[worst] > CONSTRAINT_TOL])

    def _closest(self, leads: Array) -> Index:
        """The pair with the smallest lead of every row."""
        order = np.lexsort([leads, self.rows])
        first = np.unique(self.rows[order], return_index=True)[1]
        return order[first]

    def _missed(self, found: Array) -> Array:
        """By how much every constraint is missed."""
        weights, slacks = found[: self.n_weights], found[self.n_weights : -1]
        return np.asarray(found[-1] - slacks[self.rows] - self.leads @ weights)

    def _solve_with(self, used: Index) -> Array:
        """The program with some of the constraints."""
        n_slacks = len(self.costs) - self.n_weights - 1
        places = (np.arange(len(used)), self.rows[used])
        slacks = sp.csr_array((np.ones(len(used)), places), (len(used), n_slacks))
        ones = sp.csr_array(np.ones((len(used), 1)))
        found = linprog(
            self.costs,
            A_ub=sp.hstack([-self.leads[used], -slacks, ones], format="csr"),
            b_ub=np.zeros(len(used)),
            A_eq=self.sums,
            b_eq=np.ones(self.sums.shape[0]),
            bounds=[(0.0, None)] * (self.n_weights + n_slacks) + [(None, None)],
            method="highs-ipm",
        )
        if found.x is None:
            raise ValueError(
                "the scores of the kernels must allow an optimal mixture, got a linear "
                f"program without one (status {found.status}); check the kernels, or "
                "use a larger nu."
            )
        return np.asarray(found.x)


def _wrong_classes(target: Index, n_classes: int) -> tuple[Index, Index]:
    """All pairs of a row and a class that is not its own."""
    rows, wrong = np.nonzero(np.arange(n_classes) != target[:, None])
    return rows, wrong


def _leads(scores: Array, target: Index, rows: Index, wrong: Index) -> sp.csr_array:
    """By how much every classifier prefers the own class, (pairs, classifiers)."""
    return sp.csr_array((scores[:, rows, target[rows]] - scores[:, rows, wrong]).T)


def _leads_per_class(
    scores: Array, target: Index, rows: Index, wrong: Index
) -> sp.csr_array:
    """The same with a column for every classifier and class."""
    n_kernels, _, n_classes = scores.shape
    pairs = np.arange(len(rows))
    parts = []
    for f in range(n_kernels):
        values = [scores[f, rows, target[rows]], -scores[f, rows, wrong]]
        places = (np.tile(pairs, 2), np.concatenate([target[rows], wrong]))
        shape = (len(rows), n_classes)
        parts.append(sp.csr_array((np.concatenate(values), places), shape))
    return sp.hstack(parts, format="csr")


@storable(
    kernels=Part(KernelSet),
    coef=Floats("kernels", "support rows", "outputs"),
    weights=Either(Floats("kernels", low=0.0), Floats("outputs", "kernels", low=0.0)),
)
@dataclass(frozen=True)
class StackedModel(EvaluatedModel):
    """scores(x)_k = sum_f weights_kf sum_j k_f(x, x_j) coef_fjk.

    Every kernel has a classifier of its own; the weights mix their scores.
    """

    kernels: KernelSet  # reference rows are the support rows
    coef: Array  # (kernels, support rows, outputs)
    weights: Array  # (kernels,) or (outputs, kernels)

    def scores(self, X: Any, block_bytes: int = PREDICTION_BLOCK_BYTES) -> Array:
        """Scores of new rows, shape (rows, outputs)."""
        return np.asarray(self.block_scores(X, block_bytes).sum(axis=1))

    def block_scores(self, X: Any, block_bytes: int = PREDICTION_BLOCK_BYTES) -> Array:
        """Each kernel's part of the scores, shape (rows, kernels, outputs)."""
        factors = np.atleast_2d(self.weights).T  # (kernels, outputs or 1)
        blocks = self.used_kernels.cross(X, block_bytes)
        parts = [np.moveaxis(b @ self.coef, 0, 1) * factors for _, b in blocks]
        return np.concatenate([*parts, np.empty((0, *self.coef.shape[::2]))])

    def require_sound(self) -> None:
        """Raise a ValueError where kernels and coefficients disagree."""
        shape = (self.kernels.n_kernels, self.kernels.n_reference)
        checks = {
            "coefficients": self.coef.shape[:2] == shape,
            "rows": self.kernels.holds_rows,
        }
        require_all("a model of one classifier per kernel", checks)


class _KernelShare(NamedTuple):
    """What one kernel learns."""

    unseen: Array  # (rows, classes), scores without the row's fold
    coef: Array  # (rows, classes), from all the rows
    n_epochs: int


class LPBetaClassifier(CombinedKernelClassifier):
    r"""One SVM per kernel, their scores mixed with weights of a linear program.

    The SVMs score rows that they have not seen, by cross-validation; the weights
    maximize the margin of the mixed scores, where the share `nu` of the rows may miss
    it, and then the SVMs learn from all the rows. LP-beta has one weight per kernel,
    LP-B one per kernel and class.

    Parameters
    ----------
    kernels : None, str, Kernel, callable or list of these
        As in `MKLClassifier`.
    weights : {"shared", "per_class"}, default="shared"
        "shared" is LP-beta, "per_class" is LP-B.
    nu : float in (0, 1], default=0.5
        Share of the rows that may miss the margin, at most; small values listen to
        the hardest rows.
    C : float, default=1.0
        Weight of the losses in every SVM.
    cv : int, splitter or iterable, optional
        Leaves every row out once. None takes 5 folds with the same share of every
        class.
    tol, max_iter, class_weight, psd, storage, memory_limit : see `MKLClassifier`
    verbose, random_state : see `MKLClassifier`

    Attributes
    ----------
    kernel_weights_ : array of shape (n_kernels,) or (n_classes, n_kernels)
        Weights of the kernels' scores, summing to one over the kernels.
    margin_ : float
        The margin rho of the linear program, and `objective_` its optimum.
    objective_ : float
    dual_coef_ : array of shape (n_kernels, n_support, n_classes)
        Of the SVM of every kernel.
    support_ : array of int
        CombinationData rows that some of the SVMs need.
    n_iter_ : int
        Epochs of the longest fit of an SVM.
    kernel_views_ : see MKLClassifier
    kernel_names_, classes_, temperature_, n_features_in_ : see `MKLClassifier`
    feature_names_in_ : see `MKLClassifier`

    References
    ----------
    Gehler and Nowozin (2009), On feature combination for multiclass object
    classification. Their SVMs are one-vs-rest, these are multiclass.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LPBetaClassifier("rbf@0; rbf@1; rbf@2; rbf@3", C=10).fit(X, y)
    >>> model.score(X, y) > 0.9, bool(model.kernel_weights_[1] < 0.2)
    (True, True)
    """

    _rules = {
        **CombinedKernelClassifier._rules,
        "weights": OneOf("shared", "per_class"),
        "nu": Number(0.0, 1.0),
    }

    _stored = {
        name: rule
        for name, rule in CombinedKernelClassifier._stored.items()
        if name not in ("history_", "duality_gap_", "_labels")
    } | {"_model": Part(StackedModel), "margin_": Real()}

    def __init__(
        self,
        kernels: Any = None,
        weights: str = "shared",
        nu: float = 0.5,
        C: float = 1.0,
        cv: Any = None,
        **shared: Any,
    ) -> None:
        super().__init__(kernels, C, **shared)
        self.weights = weights
        self.nu = nu
        self.cv = cv

    def _learn(self, data: CombinationData) -> LPBetaClassifier:
        rows, n_kernels = data.targets, data.bank.n_blocks
        folds = make_folds(self.cv, rows.target, None, rows.kept, True)
        _require_partition(folds, len(rows.kept))
        parts = [self._learn_alone(data, f, folds) for f in range(n_kernels)]
        unseen = np.stack([part.unseen for part in parts])
        per_class = self.weights == "per_class"
        found = mix_scores(unseen, rows.target, rows.weight, self.nu, per_class)
        factors = np.atleast_2d(found.weights).T[:, None]  # (kernels, 1, classes or 1)
        mixed = np.sum(factors * unseen, axis=0)
        temperature = fit_temperature(mixed, rows.target, rows.weight)
        self._temperature = Temperature(temperature)
        self.margin_, self.objective_ = found.margin, found.objective
        self.n_iter_ = max(part.n_epochs for part in parts)
        coefs = np.stack([part.coef for part in parts])
        return self._store_stack(data, coefs, found.weights)

    def _learn_alone(
        self, data: CombinationData, f: int, folds: list[Fold]
    ) -> _KernelShare:
        """The SVM of one kernel, on all rows and without every fold."""
        alone = weighted_sum(data.bank, only(f, data.bank.n_blocks))
        problem = self._svm(alone, data.targets)
        unseen = self._unseen_scores(problem, folds)
        result = require_whole(self._solve_one(problem))
        coef = result.model.weights[0] * result.model.coef
        return _KernelShare(unseen, coef, len(result.history))

    def _unseen_scores(self, problem: Problem, folds: list[Fold]) -> Array:
        """Scores of every row by the fit without its fold, shape (rows, classes)."""
        scores = np.empty((problem.n_rows, problem.n_outputs))
        for train, held in folds:
            part = restricted(problem, problem.bank.take(train), train)
            solver = self._make_solver(self.random_state)
            model = require_whole(solver.solve(part)).model
            coef = np.zeros_like(scores)
            coef[train] = model.coef
            scores[held] = problem.bank.combine(model.weights, held) @ coef
        return scores

    def _store_stack(
        self, data: CombinationData, coefs: Array, weights: Array
    ) -> LPBetaClassifier:
        support = support_of(np.concatenate(coefs, axis=1))
        kernels = data.kernels.take(support, matrices=False)
        self._model = StackedModel(kernels, coefs[:, support], weights)
        self.support_ = data.targets.kept[support]
        self._show_model()
        return self

    def _certified(self) -> dict[str, Any]:
        return {"objective": self.objective_, "margin": self.margin_}


def _require_partition(folds: list[Fold], n_rows: int) -> None:
    held = np.concatenate([held for _, held in folds])
    counts = np.bincount(held, minlength=n_rows)
    if np.any(counts != 1):
        row = int(np.argmax(counts != 1))
        raise ValueError(
            f"cv must leave every row out exactly once, got row {row} left out "
            f"{counts[row]} times; choose for instance a StratifiedKFold."
        )
