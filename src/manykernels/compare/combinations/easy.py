"""EasyMKL: weights from the margin between two classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.svm import SVC

from manykernels.banks.composed import weighted_sum
from manykernels.base.arrays import Array
from manykernels.base.machine import require_memory
from manykernels.compare.combinations.base import (
    CombinationData,
    CombinedKernelClassifier,
    normalized,
)
from manykernels.inputs.parameters import Number
from manykernels.mkl.calibration import (
    Temperature,
    fit_temperature,
    leave_one_out_scores,
)
from manykernels.solvers.loop import SolveResult
from manykernels.solvers.problem import Expansion

HARD_MARGIN_C = 1e12  # in effect infinite: lam bounds the coefficients
MARGIN_TOL = 1e-9  # of the optimality conditions, where the margin is 1
MARGIN_MATRICES = 4  # of all pairs of rows, in float64, that an SVM takes


def margin_distribution(kernel: Array, sign: Array, lam: float, weight: Array) -> Array:
    r"""minimize :math:`(1-\lambda) \gamma^\top Y K Y \gamma + \lambda \sum_i
    \gamma_i^2 / c_i` over distributions.

    The :math:`\gamma_i \ge 0` sum to one in each of the two classes. It is the dual of
    a hard-margin SVM on :math:`(1-\lambda) K + \lambda\, diag(1/c)`, up to the length
    of the solution.

    Parameters
    ----------
    kernel : array of shape (rows, rows)
    sign : array of shape (rows,)
        1 or -1.
    lam : float in (0, 1]
        Near 0 for the closest points of the classes' hulls, 1 for their means.
    weight : array of shape (rows,)

    Examples
    --------
    >>> sign, ones = np.array([1.0, 1.0, -1.0]), np.ones(3)
    >>> margin_distribution(np.eye(3), sign, 1.0, ones).round(6).tolist()
    [0.5, 0.5, 1.0]
    """
    matrix = (1.0 - lam) * np.asarray(kernel, dtype=np.float64)
    matrix[np.diag_indices_from(matrix)] += lam / weight
    svm = SVC(C=HARD_MARGIN_C, kernel="precomputed", tol=MARGIN_TOL).fit(matrix, sign)
    gamma = np.zeros(len(sign))
    gamma[svm.support_] = np.abs(svm.dual_coef_[0])
    for positive in (sign > 0.0, sign < 0.0):
        gamma[positive] /= gamma[positive].sum()
    return gamma


class OneClassSVM(NamedTuple):
    """The SVM of one class against the rest."""

    weights: Array  # (kernels,)
    coef: Array  # (rows,), of the score that is positive for the class
    left_out_scores: Array  # (rows,), estimates of the leave-one-out scores
    result: SolveResult


class EasyMKLClassifier(CombinedKernelClassifier):
    r"""An SVM on the sum of kernels in which two classes lie far apart.

    A distribution over the rows of each class, :math:`\gamma`, finds the points of the
    two classes that are closest to each other under the plain sum of the kernels; the
    weight of a kernel is its part of their squared distance,
    :math:`\gamma^\top Y K_f Y \gamma`. With more than two classes every one has
    weights and an SVM of its positive, against the rest.

    Parameters
    ----------
    kernels : None, str, Kernel, callable or list of these
        As in `MKLClassifier`.
    lam : float in (0, 1], default=0.1
        1 compares the means of the classes, small values the rows at the margin.
    C : float, default=1.0
        Weight of the losses.
    tol, max_iter, class_weight, psd, storage, memory_limit : see `MKLClassifier`
    verbose, random_state : see `MKLClassifier`

    Attributes
    ----------
    kernel_weights_ : array of shape (n_kernels,) or (n_classes, n_kernels)
        Sum to one over the kernels; a row per class if there are more than two.
    objective_, duality_gap_ : float
        Summed over the SVMs, where there is more than one; `history_` has the lines of
        one SVM after the other.
    history_ : list of Epoch
    kernel_views_ : see MKLClassifier
    kernel_names_, classes_, dual_coef_, support_, n_iter_ : see `MKLClassifier`
    temperature_, n_features_in_, feature_names_in_ : see `MKLClassifier`

    References
    ----------
    Aiolli and Donini (2015), EasyMKL: a scalable multiple kernel learning algorithm.
    Their last step is a kernel machine of another kind, here it is an SVM.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = EasyMKLClassifier("rbf@0; rbf@1; rbf@2; rbf@3", C=10).fit(X, y)
    >>> model.kernel_weights_.shape, model.score(X, y) > 0.95
    ((3, 4), True)
    """

    _rules = {**CombinedKernelClassifier._rules, "lam": Number(0.0, 1.0)}

    def __init__(
        self,
        kernels: Any = None,
        lam: float = 0.1,
        C: float = 1.0,
        **shared: Any,
    ) -> None:
        super().__init__(kernels, C, **shared)
        self.lam = lam

    def _learn(self, data: CombinationData) -> EasyMKLClassifier:
        if len(data.targets.classes) == 2:
            return super()._learn(data)
        return self._learn_each(data)

    def _find_weights(self, data: CombinationData) -> Array:
        return self._margin_weights(
            data, self._plain_sum(data), data.targets.target == 1
        )

    def _plain_sum(self, data: CombinationData) -> Array:
        """All kernels added up, shape (rows, rows)."""
        bank, n_rows = data.bank, data.bank.n_rows
        what = f"finding the margin of {n_rows} rows"
        require_memory(MARGIN_MATRICES * 8 * n_rows**2, self.memory_limit, what)
        return bank.combine(np.ones(bank.n_blocks), np.arange(n_rows))

    def _margin_weights(
        self, data: CombinationData, total: Array, positive: np.ndarray
    ) -> Array:
        """gamma' Y K_f Y gamma for some rows against the others.

        All alike where weights of zero leave one side only.
        """
        if positive.all() or not positive.any():
            return normalized(np.zeros(data.bank.n_blocks))
        sign = np.where(positive, 1.0, -1.0)
        gamma = margin_distribution(total, sign, self.lam, data.targets.weight)
        squares = data.bank.square_norms((sign * gamma)[:, None])
        return normalized(np.maximum(squares, 0.0))

    def _learn_each(self, data: CombinationData) -> EasyMKLClassifier:
        """One class against the rest, for every class."""
        rows, total = data.targets, self._plain_sum(data)
        machines = []
        for k in range(len(rows.classes)):
            positive = rows.target == k
            machines.append(
                self._separate(
                    data, positive, self._margin_weights(data, total, positive)
                )
            )
        model = Expansion(
            np.column_stack([svm.coef for svm in machines]),
            np.stack([svm.weights for svm in machines]),
        )
        left_out_scores = np.column_stack([svm.left_out_scores for svm in machines])
        temperature = Temperature(
            fit_temperature(left_out_scores, rows.target, rows.weight)
        )
        problem = self._svm(data.bank, rows)  # for its labels and weights only
        result = _joined_result([svm.result for svm in machines], model)
        return self._finish(data, problem, result, temperature)

    def _separate(
        self, data: CombinationData, positive: np.ndarray, weights: Array
    ) -> OneClassSVM:
        """Fit the SVM of some rows against the others."""
        two = replace(
            data.targets,
            classes=np.arange(2),
            target=np.asarray(positive, dtype=np.intp),
        )
        problem = self._svm(weighted_sum(data.bank, weights), two)
        result = self._solve_one(problem)
        model = result.model
        left_out_scores = leave_one_out_scores(problem, model)
        coef = model.weights[0] * (model.coef[:, 1] - model.coef[:, 0])
        return OneClassSVM(
            weights, coef, left_out_scores[:, 1] - left_out_scores[:, 0], result
        )


def _joined_result(results: list[SolveResult], model: Expansion) -> SolveResult:
    """Join the results of several problems."""
    return SolveResult(
        model,
        sum(result.objective for result in results),
        sum(result.duality_gap for result in results),
        [line for result in results for line in result.history],
        all(result.converged for result in results),
    )
