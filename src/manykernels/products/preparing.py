"""From parameters and tables of the estimators to problems over products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.base.machine import require_memory
from manykernels.base.quoted import quoted
from manykernels.base.tables import count_rows
from manykernels.device import Device, open_device, read_device
from manykernels.inputs.data import check_matrices, check_table
from manykernels.inputs.foreign import on_processor
from manykernels.inputs.parameters import (
    MODERATE,
    Flag,
    Number,
    OneOf,
    ReadBy,
    Rules,
    Whole,
    choose_generator,
    draw_seed,
)
from manykernels.inputs.reading import training_kernels
from manykernels.inputs.views import are_views
from manykernels.kernels import KernelSet, reads_matrices
from manykernels.losses.one_score import ScoreLoss, Weighted
from manykernels.products.base import BaseKernels, DenseKernels, RankOneKernels
from manykernels.products.blend import ProductBlend
from manykernels.products.fitted_products import FittedProducts
from manykernels.products.indices import useful_powers
from manykernels.products.product_fit import ProductFit
from manykernels.products.product_models import ColumnScale, single_features
from manykernels.products.sparse.column_generation import ColumnGeneration
from manykernels.targets import read_weights

# What both estimators take; each adds its own.
MOST_DEGREE = 100  # products of more kernels than that are rounding
RULES: Rules = {
    "degree": Whole(example=3, high=MOST_DEGREE),
    "p": Number(1.0, 1.99, low_ok=True, words=("blend",)),
    "C": Number(words=("auto", "bic"), largest=MODERATE),
    "refit": Flag(optional=True),
    "standardize": Flag(words=("auto",)),
    "normalize": Flag(),
    "powers": Flag(),
    "solver": OneOf("auto", method="solve"),
    "device": ReadBy(read_device, optional=True),
}


@dataclass(frozen=True)
class Prepared:
    """Base kernels on the training rows, and how new rows get there."""

    base: BaseKernels
    scale: ColumnScale | None
    kernels: KernelSet | None
    names: list[str]


def check_X(estimator: Any, X: Any, reset: bool, min_rows: int = 1) -> Any:
    """A dense table of finite numbers, or kernel matrices if these are given."""
    X = on_processor(X)
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
) -> list[Prepared]:
    """Scale the columns, fit the base kernels and see whether they have rank one.

    More than one where it is in doubt which columns have a natural zero, and C is
    chosen. `given` is X before it was checked, for selectors of columns by name; only
    rows that are `kept` count, by their weights.
    """
    if estimator.base_kernels is None:
        X = X if weights is None else X[kept]
        scales = ColumnScale.choices(X, estimator.standardize, weights)
        chosen = estimator.p == 1 and isinstance(estimator.C, str)
        return [
            Prepared(
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
) -> Prepared:
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
    return Prepared(base, scaled_columns, kernels, list(kernels.names))


def choose_device(estimator: Any) -> Device | None:
    """Where all products are looked at; None is the processor."""
    if estimator.device is None:
        return None
    if estimator.p != 1:
        raise ValueError(
            "device needs p = 1, whose looks at all products it takes over, got "
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
    options: list[Prepared], fit: Callable[[Prepared], FittedProducts]
) -> tuple[Prepared, FittedProducts]:
    """The way to prepare the columns whose model is best, and that model.

    Later ways must be better than earlier ones.
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
    """Columns, whose products p = 1 takes without needless powers and in one size.

    The sampler for other p can do neither.
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
    """The rows that count, and their weights; None where all count alike.

    A weight of two is a row twice where C is a number. Where C is chosen, by rows or
    by their number, weights have the mean one.
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
    """The loss, by the weights of the rows where there are any."""
    return loss if weights is None else Weighted(loss, weights)


def _limits(columns: np.ndarray, most: int) -> np.ndarray | None:
    """How often each column may be a factor; None where no power is needless."""
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
    """rho_0, ..., rho_D from the parameters `degree` and `degree_weights`.

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
    """The exponent of the group norm; a blend has several of its own."""
    return 4.0 / 3.0 if is_blend(p) else float(p)


def is_blend(p: float | str) -> bool:
    """Whether several norms and priors are to be fitted."""
    return isinstance(p, str) and p == "blend"


def choose_tol(solver: Any, p: float | str) -> float:
    """The relative gap at which a solver stops, whether given or chosen for p."""
    default = ProductBlend.tol if is_blend(p) else ColumnGeneration.tol
    return float(getattr(solver, "tol", default))


def choose_fit(estimator: Any) -> ProductFit | ProductBlend:
    """How an estimator, whose parameters are checked, finds its model."""
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
    """Raise where a parameter names what a blend chooses for each of its members."""
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
