"""The product kernel: rows are alike where every kernel has large values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.banks import Bank
from manykernels.banks.base import support_of
from manykernels.banks.composed import merged
from manykernels.base.arrays import Array, Values
from manykernels.base.quoted import quoted
from manykernels.base.stored import Floats, Part, Real, require_all, storable
from manykernels.compare.combinations.base import (
    CombinationData,
    CombinedKernelClassifier,
)
from manykernels.inputs.parameters import Number, ParameterRule
from manykernels.kernels import RBF, ChiSquared, Distance, Laplacian
from manykernels.kernels.kernel_scaling import check_matrix, sample_rows
from manykernels.kernels.kernel_set import KernelSet
from manykernels.mkl.calibration import Temperature, calibrate
from manykernels.mkl.models.model import PREDICTION_BLOCK_BYTES

# Every positive power of exp(-distance) is a kernel.
EXPONENTIAL_KERNELS = (RBF, Laplacian, ChiSquared, Distance)


@dataclass(frozen=True)
class PowerProduct:
    """prod_f K_f(i, j)^power, from values of shape (rows, kernels, n).

    Examples
    --------
    >>> PowerProduct(0.5)(np.array([[[4.0], [9.0]]])).tolist()
    [[6.0]]
    """

    power: float

    def __call__(self, values: Values) -> Values:
        if self.power != 1.0:
            values = self._root(values)
        return np.asarray(np.prod(values, axis=1))

    def _root(self, values: Values) -> Values:
        lowest = values.min(initial=0.0)
        if lowest < 0.0 and not float(self.power).is_integer():
            raise ValueError(
                f"power={self.power:.3g} needs kernels without negative values, got "
                f"{lowest:.3g}; use power=1 for the plain product."
            )
        return np.asarray(values**self.power)


@storable(
    kernels=Part(KernelSet),
    coef=Floats("support rows", "outputs"),
    power=Real(low=0.0, above=True),
)
@dataclass(frozen=True)
class ProductModel:
    """scores(x) = sum_j prod_f k_f(x, x_j)^power coef_j over the support rows."""

    kernels: KernelSet  # reference rows are the support rows
    coef: Array  # (support rows, outputs)
    power: float

    def scores(self, X: Any, block_bytes: int = PREDICTION_BLOCK_BYTES) -> Array:
        """Scores of new rows, shape (rows, outputs)."""
        product = PowerProduct(self.power)
        blocks = self.kernels.astype(np.float64).cross(X, block_bytes)
        parts = [product(np.moveaxis(b, 0, 1)) @ self.coef for _, b in blocks]
        return np.concatenate([*parts, np.empty((0, self.coef.shape[1]))])

    def require_sound(self) -> None:
        """Raise a ValueError where kernels and coefficients disagree."""
        checks = {
            "coefficients": len(self.coef) == self.kernels.n_reference,
            "rows": self.kernels.holds_rows,
        }
        require_all("a model of one product", checks)


class _Power(ParameterRule):
    """A positive number or one of two words."""

    def check(self, name: str, value: Any) -> None:
        """Raise unless it is one of them."""
        if not isinstance(value, str):
            Number().check(name, value)
        elif value not in ("mean", "auto"):
            raise ValueError(
                f"{name} must be a positive number, 'mean' or 'auto', got "
                f"{quoted(value)}; choose one of these."
            )


class ProductKernelClassifier(CombinedKernelClassifier):
    r"""An SVM on :math:`K(i, j) = \prod_f K_f(i, j)^{power}`, entry by entry.

    The power 1 / F gives the geometric mean, which papers use as a baseline for
    kernels of the form exp(-distance): their distances are averaged. The power 1
    gives the plain product, a kernel whatever the kernels are.

    Parameters
    ----------
    kernels : None, str, Kernel, callable or list of these
        As in `MKLClassifier`.
    power : float, "mean" or "auto", default="auto"
        "mean" is 1 / n_kernels. "auto" is "mean" where all kernels are RBF, Laplacian,
        ChiSquared or Distance, and 1 otherwise.
    C : float, default=1.0
        Weight of the losses.
    tol, max_iter, class_weight, psd, storage, memory_limit : see `MKLClassifier`
    verbose, random_state : see `MKLClassifier`

    Attributes
    ----------
    power_ : float
        The power that was taken. A product has no `kernel_weights_`.
    dual_coef_ : array of shape (n_support, n_classes)
        ``prod_f K_f(X, X_support) ** power_ @ dual_coef_`` are the scores.
    kernel_views_ : see MKLClassifier
    kernel_names_, classes_, support_, objective_, duality_gap_ : see `MKLClassifier`
    history_, n_iter_, temperature_, n_features_in_ : see `MKLClassifier`
    feature_names_in_ : see `MKLClassifier`

    References
    ----------
    Gehler and Nowozin (2009), On feature combination for multiclass object
    classification.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ProductKernelClassifier("rbf@0-1; rbf@2-3", C=10).fit(X, y)
    >>> model.power_, model.score(X, y) > 0.95
    (0.5, True)
    """

    _rules = {**CombinedKernelClassifier._rules, "power": _Power()}

    _stored = {
        name: rule
        for name, rule in CombinedKernelClassifier._stored.items()
        if name != "_labels"
    } | {"_model": Part(ProductModel)}

    def __init__(
        self,
        kernels: Any = None,
        power: Any = "auto",
        C: float = 1.0,
        **shared: Any,
    ) -> None:
        super().__init__(kernels, C, **shared)
        self.power = power

    def _learn(self, data: CombinationData) -> ProductKernelClassifier:
        power = choose_power(self.power, data.kernels)
        bank = merged(data.bank, PowerProduct(power))
        if self.psd == "check" and not power.is_integer():
            _check_root(bank, power)
        problem = self._svm(bank, data.targets)
        result = self._solve_one(problem)
        coef = result.model.weights[0] * result.model.coef
        support = support_of(coef)
        kernels = data.kernels.take(support, matrices=False)
        self._model = ProductModel(kernels, coef[support], power)
        self._show_model()
        self.support_ = data.targets.kept[support]
        self._temperature = Temperature(calibrate(problem, result.model))
        self.objective_ = result.objective
        self.duality_gap_ = result.duality_gap
        self.history_ = result.history
        self.n_iter_ = len(result.history)
        return self

    @property
    def kernel_contributions(self) -> Any:  # type: ignore[override]
        """A product has no parts that sum to it."""
        raise AttributeError(
            "ProductKernelClassifier has no kernel_contributions: a product is no sum "
            "of parts; use AveragedKernelClassifier for that."
        )

    def _show_model(self) -> None:
        self.kernel_names_ = list(self._model.kernels.names)
        self.dual_coef_ = self._model.coef
        self.power_ = self._model.power

    def _shown_weights(self) -> Any:
        return np.full(len(self.kernel_names_), self.power_)


def choose_power(power: Any, kernels: KernelSet) -> float:
    """The power as a number."""
    if power == "auto":
        power = "mean" if all(map(_is_exponential, kernels.kernels)) else 1.0
    if power == "mean":
        return 1.0 / kernels.n_kernels
    return float(power)


def _is_exponential(kernel: Any) -> bool:
    changed = kernel.center or kernel.approximate is not None
    return isinstance(kernel, EXPONENTIAL_KERNELS) and not changed


def _check_root(bank: Bank, power: float) -> None:
    """Raise where roots of kernels, multiplied, are no kernel any more."""
    rows = sample_rows(bank.n_rows)
    matrix = bank.rows(rows)[:, 0, rows]
    try:
        check_matrix(matrix, "product")
    except ValueError as error:
        raise ValueError(
            f"power={power:.3g} must give a positive semi-definite product, got one "
            "with negative eigenvalues; use power=1 for the plain product."
        ) from error
