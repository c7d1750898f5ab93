"""What the two estimators over products share: checks, scores, tables and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manykernels.base.machine import require_memory
from manykernels.base.quoted import quoted
from manykernels.base.stored import (
    Count,
    Either,
    Floats,
    ListOf,
    Maybe,
    Names,
    Part,
    Real,
    require_all,
)
from manykernels.files import Saved, by_weight, certificate
from manykernels.inputs.data import (
    check_matrices,
    check_table,
)
from manykernels.inputs.parameters import (
    MODERATE,
    Flag,
    Number,
    OneOf,
    Rules,
    Whole,
    choose_generator,
)
from manykernels.inputs.reading import training_kernels
from manykernels.inputs.reporting import warn_unless_converged
from manykernels.inputs.views import are_views
from manykernels.kernels import KernelSet, reads_matrices
from manykernels.products.base import (
    BaseKernels,
    DenseKernels,
    Product,
    RankOneKernels,
    product_name,
)
from manykernels.products.blend import BlendedProducts, ProductBlend
from manykernels.products.column_generation import ColumnGeneration
from manykernels.products.fit import FittedProducts, ProductFit
from manykernels.products.model import (
    ColumnScale,
    InteractionTable,
    MonomialModel,
    PolynomialModel,
    ProductKernelModel,
    interaction_table,
    padded,
    single_features,
)
from manykernels.products.repeats import useful_powers
from manykernels.solvers import Epoch

MEMBER = ("p", "degree_weights", "C", "weight")  # what `blend_` says of each
# What both estimators take; each adds its own.
MOST_DEGREE = 100  # products of more kernels than that are rounding
RULES: Rules = {
    "degree": Whole(example=3, high=MOST_DEGREE),
    "p": Number(1.0, 1.99, low_ok=True, word="blend"),
    "C": Number(word="auto", largest=MODERATE),
    "refit": Flag(optional=True),
    "standardize": Flag(word="auto"),
    "normalize": Flag(),
    "powers": Flag(),
    "solver": OneOf("auto", method="solve"),
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


def prepare(estimator: Any, X: Any, given: Any) -> Prepared:
    """Scale the columns, fit the base kernels and see whether they have rank one.

    `given` is X before it was checked, for selectors of columns by name.
    """
    wanted = estimator.base_kernels
    if wanted is None:
        scale = ColumnScale.fit(X, estimator.standardize)
        columns = _rank_one(estimator, scale.apply(X))
        return Prepared(columns, scale, None, _names(estimator))
    specs = training_kernels(wanted, given)
    scaled_columns = None
    if not reads_matrices(wanted):
        scaled_columns = ColumnScale.fit(X, estimator.standardize)
        X = scaled_columns.apply(X)
    kernels = KernelSet.fit(
        specs,
        X,
        feature_names=getattr(estimator, "feature_names_in_", None),
        dtype=np.float64,
        random_state=choose_generator(estimator.random_state),
    )
    base = _base(estimator, kernels)
    return Prepared(base, scaled_columns, kernels, list(kernels.names))


def _rank_one(estimator: Any, columns: np.ndarray) -> RankOneKernels:
    """Columns, whose products p = 1 takes without needless powers and in one size.

    The sampler for other p can do neither.
    """
    normalized = bool(estimator.normalize) and estimator.p == 1
    around_mean = bool(getattr(estimator, "fit_intercept", False))
    limits = _limits(columns, int(estimator.degree) if estimator.powers else 1)
    if estimator.powers and not normalized:
        limits = None
    return RankOneKernels(columns, normalized, limits, around_mean)


def _limits(columns: np.ndarray, most: int) -> np.ndarray | None:
    """How often each column may be a factor; None where no power is needless."""
    limits = useful_powers(columns, most)
    return limits if most == 1 or np.any(limits < most) else None


def _base(estimator: Any, kernels: KernelSet) -> BaseKernels:
    if _has_rank_one(kernels):
        everything = np.arange(kernels.n_kernels)
        return _rank_one(
            estimator, single_features(kernels.features() or [], everything)
        )
    if not estimator.powers:
        raise ValueError(
            "powers=False needs columns, or base kernels with a single feature, got "
            f"base_kernels={quoted(estimator.base_kernels)}; leave powers out."
        )
    # The matrices and their upper triangles.
    n, r = kernels.n_reference, kernels.n_kernels
    limit = getattr(estimator.solver, "memory_limit", None)
    require_memory(12 * r * n * n, limit, f"{r} base kernels on {n} rows")
    return DenseKernels(kernels.stack())


def _has_rank_one(kernels: KernelSet) -> bool:
    return kernels.is_explicit and set(kernels.n_feature_columns()) == {1}


def _names(estimator: Any) -> list[str]:
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return [f"x{j}" for j in range(estimator.n_features_in_)]
    return [str(name) for name in names]


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
    solver, rng = estimator.solver, choose_generator(estimator.random_state)
    given = None if isinstance(solver, str) else solver
    if is_blend(estimator.p):
        _require_free(estimator)
        return ProductBlend(random_state=rng) if given is None else given
    if isinstance(given, ProductBlend):
        raise ValueError(
            f"solver=ProductBlend(...) needs p='blend', got p={estimator.p!r}; set p, "
            "or choose another solver."
        )
    return ProductFit(estimator.C, estimator.refit, given, rng)


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


class PolynomialMKL(Saved, BaseEstimator):
    """Scores, tables and files; the classes below add targets and losses."""

    _stored = {
        "_model": Part(MonomialModel, ProductKernelModel),
        "kernel_weights_": Floats("products", low=0.0),
        "kernel_names_": ListOf(Part(str), "products"),
        "interactions_": Part(InteractionTable),
        "C_": Either(Real(low=0.0, above=True), Floats("classes", low=0.0)),
        "blend_": Maybe(ListOf(Part(dict))),
        "objective_": Real(nan=True),
        "duality_gap_": Real(nan=True),
        "history_": ListOf(Part(Epoch)),
        "n_iter_": Count(low=1),
        "n_features_in_": Count(size="features"),
        "feature_names_in_": Maybe(Names("features")),
    }
    _model: PolynomialModel
    blend_: list[dict[str, Any]]

    def explain(self, limit: int | None = 20) -> str:
        """The strongest interactions in words, one line each.

        Coefficients belong to products of scaled columns; where a product is no
        single feature, its kernel weight stands instead.

        Parameters
        ----------
        limit : int, optional
            Lines at most; None for all.
        """
        check_is_fitted(self, "interactions_")
        lines = self.interactions_.lines(limit)
        more = self.interactions_.n_rows - len(lines)
        if more:
            lines.append(f"and {more} more")
        return "\n".join(lines) or "no interactions: a constant explains it best"

    def _restored(self) -> None:
        model, n = self._model, self.n_features_in_
        kernels, scale = model.kernels, model.scale
        n_classes = len(getattr(self, "classes_", ()))
        n_base = n if kernels is None else kernels.n_kernels
        given = reads_matrices(self.base_kernels)
        require_all(
            type(self).__name__,
            {
                "outputs": len(model.intercept) == (1 if n_classes < 3 else n_classes),
                "degree": model.products.shape[1] == self.degree,
                "products": len(model.products) == len(self.kernel_names_)
                and np.all(model.products < n_base),
                "scale": scale is None or len(scale.shift) == n,
                "kernels": kernels is None or kernels.width == n,
                "matrices": given == (kernels is not None and kernels.are_given),
                "blend": all(
                    set(MEMBER) <= set(m) for m in getattr(self, "blend_", [])
                ),
            },
        )
        row = np.zeros((1, n)) if kernels is None else kernels.blank_row()
        if row is not None and not np.isfinite(model.scores(row)).all():
            raise ValueError("its scores are no finite numbers")

    def _fitted_kernels(self) -> Any:
        assert self._model.kernels is not None
        return self._model.kernels.kernels

    def _facts(self) -> dict[str, Any]:
        return {
            **(
                {"classes": self.classes_.tolist()} if hasattr(self, "classes_") else {}
            ),
            "features": self.n_features_in_,
            "products": by_weight(self.kernel_names_, self.kernel_weights_),
            "certificate": certificate(self, choose_tol(self.solver, self.p)),
            "rounds": self.n_iter_,
        }

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "interactions_")
        return self._model.scores(check_X(self, X, reset=False))

    def _store(
        self,
        ready: Prepared,
        fits: Sequence[FittedProducts],
        scale: float,
        shift: float,
        labels: Sequence[Any] | None,
    ) -> None:
        """Fitted attributes; scores are multiplied by `scale` and then shifted."""
        worst = max(fits, key=lambda fit: fit.result.relative_gap)
        warn_unless_converged(worst.solver, worst.result)
        products = _union(fits)
        degree = int(self.degree)
        self._model = _model(ready, fits, products, degree, scale, shift)
        weights = np.mean([_aligned(f.weights, f, products) for f in fits], axis=0)
        self.kernel_weights_ = weights
        self.kernel_names_ = [product_name(i, ready.names) for i in products]
        self._table(ready.names, fits, scale, labels)
        objectives = [fit.result.objective for fit in fits]
        gaps = [fit.result.duality_gap for fit in fits]
        self.objective_ = float(np.mean(objectives))
        self.duality_gap_ = float(np.mean(gaps))
        self.history_ = [line for fit in fits for line in fit.result.history]
        self.n_iter_ = max(1, max(len(fit.result.history) for fit in fits))
        self.C_ = fits[0].C if len(fits) == 1 else np.array([fit.C for fit in fits])
        self._store_blend(fits, labels)

    def _store_blend(
        self, fits: Sequence[FittedProducts], labels: Sequence[Any] | None
    ) -> None:
        """One row per member, or no attribute where nothing was blended."""
        if hasattr(self, "blend_"):
            del self.blend_
        if all(isinstance(fit, BlendedProducts) for fit in fits):
            self.blend_ = [
                row if labels is None else {"class": labels[k], **row}
                for k, fit in enumerate(fits)
                for row in _members(fit)
            ]

    def _table(
        self,
        names: list[str],
        fits: Sequence[FittedProducts],
        scale: float,
        labels: Sequence[Any] | None,
    ) -> None:
        rows = [
            (product, fit.weights[i], _coef(fit, i, scale), k)
            for k, fit in enumerate(fits)
            for i, product in enumerate(fit.products)
        ]
        rows.sort(key=lambda row: -row[1])
        self.interactions_ = interaction_table(
            [row[0] for row in rows],
            names,
            [row[1] for row in rows],
            [row[2] for row in rows],
            None if labels is None else [labels[row[3]] for row in rows],
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = reads_matrices(self.base_kernels)
        tags.input_tags.pairwise = given
        tags.input_tags.three_d_array = given
        return tags


def _members(fit: FittedProducts) -> list[dict[str, Any]]:
    assert isinstance(fit, BlendedProducts)
    return [
        {
            "p": member.mode.p,
            "degree_weights": list(member.mode.rho),
            "C": member.C,
            "weight": member.weight,
        }
        for member in fit.members
    ]


def _union(fits: Sequence[FittedProducts]) -> list[Product]:
    """All products in use, strongest first by their mean weight."""
    totals: dict[Product, float] = {}
    for fit in fits:
        for product, weight in zip(fit.products, fit.weights, strict=True):
            totals[product] = totals.get(product, 0.0) + float(weight)
    return sorted(totals, key=lambda product: -totals[product])


def _aligned(values: Any, fit: FittedProducts, products: list[Product]) -> np.ndarray:
    """Values of a fit's products at their places among all of them."""
    known = dict(zip(fit.products, values, strict=True))
    return np.array([known.get(product, 0.0) for product in products])


def _coef(fit: FittedProducts, i: int, scale: float) -> float:
    return np.nan if fit.coefs is None else float(scale * fit.coefs[i])


def _model(
    ready: Prepared,
    fits: Sequence[FittedProducts],
    products: list[Product],
    degree: int,
    scale: float,
    shift: float,
) -> PolynomialModel:
    intercept = np.array([scale * fit.intercept + shift for fit in fits])
    index = padded(products, degree)
    if isinstance(ready.base, RankOneKernels):
        coefs = [scale * _aligned(fit.coefs, fit, products) for fit in fits]
        coef = np.array(coefs).reshape(len(fits), len(products)).T.copy()
        kernels = ready.kernels and ready.kernels.without_rows()
        return MonomialModel(ready.scale, kernels, index, coef, intercept)
    assert ready.kernels is not None
    rows = np.column_stack([fit.expansion.coef[:, 0] for fit in fits])
    support = np.flatnonzero(np.abs(rows).max(axis=1))
    weights = [_kernel_factors(fit, products) for fit in fits]
    return ProductKernelModel(
        ready.scale,
        ready.kernels.restrict(support, matrices=False),
        index,
        np.array(weights).reshape(len(fits), len(products)).T.copy(),
        scale * rows[support],
        intercept,
    )


def _kernel_factors(fit: FittedProducts, products: list[Product]) -> np.ndarray:
    """theta_i / rho_i^2 at the places of the products."""
    known = dict(zip(fit.expansion.products, fit.factors, strict=True))
    return np.array([known.get(product, 0.0) for product in products])
