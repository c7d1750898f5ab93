"""Parameters and tables of the estimators over products, checked and scaled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.base.machine import require_memory
from manykernels.base.quoted import quoted
from manykernels.base.tables import count_rows
from manykernels.device import Device, open_device, read_device
from manykernels.inputs.parameters import (
    LARGEST_PENALTY,
    Flag,
    Number,
    OneOf,
    ReadBy,
    Rules,
    Whole,
    choose_generator,
    draw_seed,
)
from manykernels.inputs.table import check_matrices, check_table
from manykernels.inputs.training_kernels import training_kernels
from manykernels.inputs.views import are_views
from manykernels.inputs.wrappers import from_other_libraries
from manykernels.kernels.base import reads_matrices
from manykernels.kernels.kernel_set import KernelSet
from manykernels.losses.one_score import ScoreLoss, Weighted
from manykernels.products.base import BaseKernels, DenseKernels, RankOneKernels
from manykernels.products.blend import ProductBlend
from manykernels.products.fitted_products import FittedProducts
from manykernels.products.indices import useful_powers
from manykernels.products.product_fit import ProductFit
from manykernels.products.product_models import ColumnScale, single_features
from manykernels.products.sparse.column_generation import ColumnGeneration
from manykernels.targets import read_weights

MAX_DEGREE = 100  # products of more factors underflow or overflow
# Parameters of both estimators; each adds its own.
POLYNOMIAL_RULES: Rules = {
    "degree": Whole(example=3, high=MAX_DEGREE),
    "p": Number(1.0, 1.99, low_ok=True, words=("blend",)),
    "C": Number(words=("auto", "bic"), largest=LARGEST_PENALTY),
    "refit": Flag(optional=True),
    "standardize": Flag(words=("auto",)),
    "normalize": Flag(),
    "powers": Flag(),
    "solver": OneOf("auto", method="solve"),
    "device": ReadBy(read_device, optional=True),
}


@dataclass(frozen=True)
class PreparedBase:
    """Base kernels on the training rows, and the scale that new rows need."""

    base: BaseKernels
    scale: ColumnScale | None
    kernels: KernelSet | None
    names: list[str]


def check_X(estimator: Any, X: Any, reset: bool, min_rows: int = 1) -> Any:
    """Return a dense table of finite numbers, or the given kernel matrices."""
    X = from_other_libraries(X)
    if reads_matrices(estimator.base_kernels):
        return check_matrices(estimator, X, reset, min_rows)
    if are_views(X):
        raise TypeError(
            f"{type(estimator).__name__} learns from one table, got several views "
            f"({type(X).__name__}); join their columns, for instance with "
            "pd.concat(tables, axis=1), or use MKLClassifier or MKLRegressor."
        )
    table = check_table(estimator, X, reset, min_rows, sparse=False)
    return table.astype(np.float64, copy=False)


def prepare(
    estimator: Any, X: Any, given: Any, kept: np.ndarray, weights: np.ndarray | None
) -> list[PreparedBase]:
    """Scale the columns and fit the base kernels.

    There are two results where columns may have a natural zero or not, and C is
    chosen. `given` is X before validation, for selectors of columns by name. Only the
    rows `kept` count, by their weights.
    """
    if estimator.base_kernels is None:
        X = X if weights is None else X[kept]
        scales = ColumnScale.choices(X, estimator.standardize, weights)
        chosen = estimator.p == 1 and isinstance(estimator.C, str)
        return [
            PreparedBase(
                _rank_one(estimator, s.apply(X), weights),
                s,
                None,
                estimator.column_names(),
            )
            for s in (scales if chosen else scales[-1:])
        ]
    return [_prepare_kernels(estimator, X, given, kept, weights)]


def _prepare_kernels(
    estimator: Any, X: Any, given: Any, kept: np.ndarray, weights: np.ndarray | None
) -> PreparedBase:
    wanted = estimator.base_kernels
    specs = training_kernels(wanted, given)
    scaled_columns, counted = None, weights
    if not reads_matrices(wanted):
        X = X if weights is None else X[kept]
        scaled_columns = ColumnScale.fit(X, estimator.standardize, weights)
        X = scaled_columns.apply(X)
    elif weights is not None:  # given matrices keep the columns of all rows
        counted = np.zeros(len(X[0]))
        counted[kept] = weights
    kernels = KernelSet.fit(
        specs,
        X,
        feature_names=getattr(estimator, "feature_names_in_", None),
        dtype=np.float64,
        random_state=choose_generator(estimator.random_state),
        sample_weight=counted,
    )
    if weights is not None and len(kept) < kernels.n_reference:
        kernels = kernels.take(kept)
    base = _base(estimator, kernels, weights)
    return PreparedBase(base, scaled_columns, kernels, list(kernels.names))


def choose_device(estimator: Any) -> Device | None:
    """Return the device that searches all products; None is the processor."""
    if estimator.device is None:
        return None
    if estimator.p != 1:
        raise ValueError(
            "device needs p = 1, whose search of all products it takes over, got "
            f"p={estimator.p!r}; use device=None."
        )
    device = open_device(estimator.device)
    if device.precise != device.dtype(np.float64):
        raise ValueError(
            "PolynomialMKL needs a device with double precision, got "
            f"device={estimator.device!r}; use device=None."
        )
    return device


def fit_best(
    options: list[PreparedBase], fit: Callable[[PreparedBase], FittedProducts]
) -> tuple[PreparedBase, FittedProducts]:
    """Fit on every preparation and return the best one with its model.

    A later preparation replaces an earlier one only where it is clearly better.
    """
    best = options[0], fit(options[0])
    for ready in options[1:]:
        if best[1].result.stopped:
            break
        fitted = fit(ready)
        if not fitted.result.stopped and fitted.beats(best[1]):
            best = ready, fitted
    return best


def _rank_one(
    estimator: Any, columns: np.ndarray, weights: np.ndarray | None = None
) -> RankOneKernels:
    """Return columns as base kernels; p = 1 normalizes products and limits powers.

    The sampler for other p supports neither.
    """
    normalized = bool(estimator.normalize) and estimator.p == 1
    around_mean = bool(getattr(estimator, "fit_intercept", False))
    limits = _limits(columns, int(estimator.degree) if estimator.powers else 1)
    if estimator.powers and not normalized:
        limits = None
    return RankOneKernels(
        columns,
        normalized,
        limits,
        around_mean,
        weights,
        device=choose_device(estimator),
    )


def choose_weights(
    estimator: Any, X: Any, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the rows of positive weight, and their weights; None for equal ones.

    A weight of two is a row twice where C is a number. Where C is chosen, weights are
    relative: they have the mean one.
    """
    if sample_weight is None:
        return np.arange(count_rows(X)), None
    solver = estimator.solver
    if not isinstance(solver, str) and not getattr(solver, "takes_weights", False):
        raise ValueError(
            "sample_weight needs a solver that knows weights of rows, such as "
            f"ColumnGeneration(), got {type(solver).__name__}; leave it out, or repeat "
            "rows."
        )
    weights = read_weights(sample_weight, count_rows(X))
    kept = np.flatnonzero(weights)
    weights = weights[kept]
    return kept, weights / weights.mean() if isinstance(estimator.C, str) else weights


def weighted(loss: ScoreLoss, weights: np.ndarray | None) -> ScoreLoss:
    """Return the loss, weighted by rows where they have weights."""
    return loss if weights is None else Weighted(loss, weights)


def _limits(columns: np.ndarray, most: int) -> np.ndarray | None:
    """Return how often each column may be a factor; None for any number."""
    limits = useful_powers(columns, most)
    return limits if most == 1 or np.any(limits < most) else None


def _base(
    estimator: Any, kernels: KernelSet, weights: np.ndarray | None
) -> BaseKernels:
    if _has_rank_one(kernels):
        everything = np.arange(kernels.n_kernels)
        columns = single_features(kernels.features() or [], everything)
        return _rank_one(estimator, columns, weights)
    if not estimator.powers:
        raise ValueError(
            "powers=False needs columns, or base kernels with a single feature, got "
            f"base_kernels={quoted(estimator.base_kernels)}; leave powers out."
        )
    # The matrices and their upper triangles.
    n, r = kernels.n_reference, kernels.n_kernels
    limit = getattr(estimator.solver, "memory_limit", None)
    require_memory(12 * r * n * n, limit, f"{r} base kernels on {n} rows")
    return DenseKernels(kernels.stack(), choose_device(estimator))


def _has_rank_one(kernels: KernelSet) -> bool:
    return kernels.is_explicit and set(kernels.n_feature_columns()) == {1}


def choose_degree_weights(degree: Any, weights: Any) -> np.ndarray:
    """Return rho_0, ..., rho_D from the parameters `degree` and `degree_weights`.

    Examples
    --------
    >>> choose_degree_weights(2, None)
    array([1., 1., 1.])
    """
    if weights is None:
        return np.ones(int(degree) + 1)
    is_list = isinstance(weights, (Sequence, np.ndarray)) and not isinstance(
        weights, str
    )
    try:
        rho = np.array(weights if is_list else [], dtype=float)
    except (TypeError, ValueError):
        rho = np.array([])
    good = rho.shape == (int(degree) + 1,) and np.isfinite(rho).all()
    if not (good and (rho > 0.0).all()):
        raise ValueError(
            f"degree_weights must be {degree + 1} positive numbers, one for each of "
            f"the degrees 0 to {degree}, got {quoted(weights)}; give for instance "
            f"{[1] * int(degree) + [2]}."
        )
    return rho


def choose_p(p: float | str) -> float:
    """Return the exponent of the group norm; a blend chooses its own."""
    return 4.0 / 3.0 if is_blend(p) else float(p)


def is_blend(p: float | str) -> bool:
    """Whether several norms and priors are to be fitted."""
    return isinstance(p, str) and p == "blend"


def choose_tol(solver: Any, p: float | str) -> float:
    """Return the relative gap at which the solver stops."""
    default = ProductBlend.tol if is_blend(p) else ColumnGeneration.tol
    return float(getattr(solver, "tol", default))


def choose_fit(estimator: Any) -> ProductFit | ProductBlend:
    """Return the procedure that fits the model of an estimator."""
    solver, seed = estimator.solver, None
    if estimator.random_state is not None:
        seed = draw_seed(estimator.random_state)
    given = None if isinstance(solver, str) else solver
    if is_blend(estimator.p):
        _require_free(estimator)
        return ProductBlend(random_state=seed) if given is None else given
    if isinstance(given, ProductBlend):
        raise ValueError(
            f"solver=ProductBlend(...) needs p='blend', got p={estimator.p!r}; set p, "
            "or choose another solver."
        )
    return ProductFit(estimator.C, estimator.refit, given, seed)


def _require_free(estimator: Any) -> None:
    """Raise where a parameter is set that a blend chooses for its members."""
    others = estimator.solver
    if not isinstance(others, str | ProductBlend):
        raise ValueError(
            f"solver must be 'auto' or a ProductBlend with p='blend', got {others!r}; "
            "leave it out, or give p a number."
        )
    given = {
        "C": estimator.C if estimator.C != "auto" else None,
        "degree_weights": estimator.degree_weights,
        "refit": estimator.refit or None,
    }
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{name} must keep its default with p='blend', whose members have "
                f"their own, got {value!r}; leave it out, or give p a number."
            )
