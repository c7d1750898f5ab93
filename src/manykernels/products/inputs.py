"""From a table and base kernels to what the solvers over products need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from manykernels.base.memory import require_memory
from manykernels.inputs.parameters import choose_generator, require_number
from manykernels.inputs.tables import (
    check_matrices,
    check_table,
    reads_matrices,
    training_kernels,
)
from manykernels.kernels import KernelSet
from manykernels.products.base import BaseKernels, DenseKernels, RankOneKernels
from manykernels.products.blend import ProductBlend
from manykernels.products.fit import ProductFit
from manykernels.products.model import ColumnScale, single_features

BLEND_TOL = 1e-2  # more precise members do not predict better


@dataclass(frozen=True)
class Prepared:
    """Base kernels on the training rows, and how new rows get there."""

    base: BaseKernels
    scale: ColumnScale | None
    kernels: KernelSet | None
    names: list[str]


def check_X(estimator: Any, X: Any, reset: bool, min_rows: int = 1) -> Any:
    """A dense table of finite numbers, or kernel matrices if these are given."""
    if reads_matrices(estimator.base_kernels):
        return check_matrices(estimator, X, reset, min_rows)
    # scikit-learn's own words for sparse input; then the columns are named if bad.
    validate_data(
        estimator,
        X,
        reset=reset,
        dtype=np.float64,
        ensure_all_finite=False,
        ensure_min_samples=min_rows,
    )
    return check_table(estimator, X, reset, min_rows).astype(np.float64, copy=False)


def prepare(estimator: Any, X: Any, given: Any) -> Prepared:
    """Scale the columns, fit the base kernels and see whether they have rank one.

    `given` is X before it was checked, for selectors of columns by name.
    """
    wanted = estimator.base_kernels
    if wanted is None:
        scale = ColumnScale.fit(X, _standardize(estimator.standardize))
        columns = RankOneKernels(scale.apply(X), _normalized(estimator))
        return Prepared(columns, scale, None, _names(estimator))
    specs = training_kernels(wanted, given)
    scaled_columns = None
    if not reads_matrices(wanted):
        scaled_columns = ColumnScale.fit(X, _standardize(estimator.standardize))
        X = scaled_columns.apply(X)
    kernels = KernelSet.fit(
        specs,
        X,
        feature_names=getattr(estimator, "feature_names_in_", None),
        dtype=np.float64,
        random_state=choose_generator(estimator.random_state),
    )
    base = _base(kernels, estimator.memory_limit, _normalized(estimator))
    return Prepared(base, scaled_columns, kernels, list(kernels.names))


def _normalized(estimator: Any) -> bool:
    """Whether products are scaled, which the sampler for other p cannot do."""
    return bool(estimator.normalize) and estimator.p == 1


def _base(kernels: KernelSet, memory_limit: Any, normalized: bool) -> BaseKernels:
    if _has_rank_one(kernels):
        everything = np.arange(kernels.n_kernels)
        columns = single_features(kernels.features() or [], everything)
        return RankOneKernels(columns, normalized)
    # The matrices and their upper triangles.
    n, r = kernels.n_reference, kernels.n_kernels
    require_memory(12 * r * n * n, memory_limit, f"{r} base kernels on {n} rows")
    return DenseKernels(kernels.stack())


def _has_rank_one(kernels: KernelSet) -> bool:
    return kernels.is_explicit and set(kernels.n_feature_columns()) == {1}


def _names(estimator: Any) -> list[str]:
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return [f"x{j}" for j in range(estimator.n_features_in_)]
    return [str(name) for name in names]


def _standardize(value: Any) -> bool | str:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str) and value == "auto":
        return value
    raise ValueError(
        f"standardize must be True, False or 'auto', got {value!r}; choose one of "
        "these."
    )


def choose_degree_weights(degree: Any, weights: Any) -> np.ndarray:
    """rho_0, ..., rho_D from the parameters `degree` and `degree_weights`.

    Examples
    --------
    >>> choose_degree_weights(2, None)
    array([1., 1., 1.])
    """
    whole = isinstance(degree, Integral) and not isinstance(degree, bool)
    if not whole or degree < 1:
        raise ValueError(
            f"degree must be a whole number of at least 1, got {degree!r}; choose for "
            "instance 3."
        )
    if weights is None:
        return np.ones(int(degree) + 1)
    is_list = isinstance(weights, (Sequence, np.ndarray)) and not isinstance(
        weights, str
    )
    rho = np.array(weights if is_list else [], dtype=float)
    good = rho.shape == (int(degree) + 1,) and np.isfinite(rho).all()
    if not (good and (rho > 0.0).all()):
        raise ValueError(
            f"degree_weights must be {degree + 1} positive numbers, one for each of "
            f"the degrees 0 to {degree}, got {weights!r}; give for instance "
            f"{[1] * int(degree) + [2]}."
        )
    return rho


def choose_p(p: Any) -> float:
    """The exponent of the group norm, below 2; a blend has several of its own."""
    if is_blend(p):
        return 4.0 / 3.0
    if isinstance(p, str):
        raise ValueError(
            f"p must be a number in [1, 1.99] or 'blend', got {p!r}; choose one of "
            "these."
        )
    value = require_number("p", p, 1.0, 2.0, low_ok=True)
    if value > 1.99:
        raise ValueError(
            f"p must be a number in [1, 1.99], got {p!r}; with p = 2 all products have "
            "the same weight, which is the polynomial kernel of MKLClassifier."
        )
    return value


def is_blend(p: Any) -> bool:
    """Whether several norms and priors are to be fitted."""
    return isinstance(p, str) and p == "blend"


def choose_fit(estimator: Any) -> ProductFit | ProductBlend:
    """The solver settings of an estimator, checked."""
    C = estimator.C
    if not (isinstance(C, str) and C == "auto"):
        if isinstance(C, str):
            raise ValueError(
                f"C must be a positive number or 'auto', got {C!r}; choose one of "
                "these."
            )
        C = require_number("C", C, 0.0)
    refit = estimator.refit
    if refit is not None and not isinstance(refit, (bool, np.bool_)):
        raise ValueError(
            f"refit must be True, False or None, got {refit!r}; choose one of these."
        )
    limit = estimator.max_iter
    whole = isinstance(limit, Integral) and not isinstance(limit, bool)
    if limit is not None and not (whole and limit >= 1):
        raise ValueError(
            f"max_iter must be a positive whole number or None, got {limit!r}; choose "
            "for instance 500."
        )
    tol = require_number("tol", estimator.tol, 0.0, low_ok=True)
    rng = choose_generator(estimator.random_state)
    if is_blend(estimator.p):
        _require_free(estimator)
        return ProductBlend(max(tol, BLEND_TOL), limit, estimator.memory_limit, rng)
    return ProductFit(
        C,
        None if refit is None else bool(refit),
        tol,
        limit,
        estimator.memory_limit,
        rng,
    )


def _require_free(estimator: Any) -> None:
    """Raise where a parameter names what a blend chooses for each of its members."""
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
