"""Base of the two estimators over products: scores, tables and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

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
from manykernels.inputs.reporting import warn_unless_converged
from manykernels.kernels.base import reads_matrices
from manykernels.products.base import RankOneKernels
from manykernels.products.blend import BlendedProducts
from manykernels.products.fitted_products import FittedProducts
from manykernels.products.indices import Product, product_name
from manykernels.products.interaction_table import (
    InteractionTable,
    coefficient_table,
    formula_text,
    interaction_table,
)
from manykernels.products.preparing import PreparedBase, check_X, choose_tol
from manykernels.products.product_models import (
    MonomialModel,
    PolynomialModel,
    ProductKernelModel,
    padded,
)
from manykernels.products.sparse.choice import ChosenProducts
from manykernels.solvers.loop import Epoch

BLEND_MEMBER_KEYS = ("p", "degree_weights", "C", "weight")


class PolynomialMKL(Saved, BaseEstimator):
    """Base of the estimators over products: scores, tables and files."""

    _stored = {
        "_model": Part(MonomialModel, ProductKernelModel),
        "kernel_weights_": Floats("products", low=0.0),
        "kernel_names_": ListOf(Part(str), "products"),
        "interactions_": Part(InteractionTable),
        "C_": Either(Real(low=0.0, above=True), Floats("classes", low=0.0)),
        "blend_": Maybe(ListOf(Part(dict))),
        "candidates_": Maybe(ListOf(Part(dict))),
        "objective_": Real(nan=True),
        "duality_gap_": Real(nan=True),
        "history_": ListOf(Part(Epoch)),
        "n_iter_": Count(low=1),
        "n_features_in_": Count(size="features"),
        "feature_names_in_": Maybe(Names("features")),
    }
    _model: PolynomialModel
    blend_: list[dict[str, Any]]
    candidates_: list[dict[str, Any]]

    def explain(self, limit: int | None = 20) -> str:
        """Return the strongest interactions as text, one line each.

        Numbers are coefficients of products of scaled columns, or kernel weights where
        a product is not a single feature.

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

    def coefficients(self) -> dict[str, Any]:
        """Return the terms in the units of the table, intercept first.

        A dict of columns: term, kind and coefficient. Products of centered columns are
        multiplied out: (x - m) z is x z and -m z. A classifier's are those of its
        score, one column per class where there are more than two.
        """
        return coefficient_table(self.monomials(), self.column_names())

    def formula(self, digits: int = 6) -> str:
        """Return the prediction, or the score for two classes, as a formula.

        ``frame.eval(model.formula())`` is ``model.predict(frame)`` up to rounding;
        names that are no identifiers stand in backticks, as pandas writes them.
        """
        model = self.monomials()
        if model.coef.shape[1] != 1:
            raise ValueError(
                f"A formula is that of one score, got {model.coef.shape[1]} classes; "
                "use coefficients(), which has one column for each."
            )
        return formula_text(model, self.column_names(), digits)

    def monomials(self) -> MonomialModel:
        """Return the fitted sum of products of columns."""
        check_is_fitted(self, "interactions_")
        model = self._model
        if not isinstance(model, MonomialModel) or model.kernels is not None:
            raise ValueError(
                "Coefficients in the units of the table need columns as base kernels, "
                f"got base_kernels={quoted(self.base_kernels)}; leave them out."
            )
        return model

    def column_names(self) -> list[str]:
        """Return the names of the columns, x0, x1, ... where the table has none."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return [f"x{j}" for j in range(self.n_features_in_)]
        return [str(name) for name in names]

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
                    set(BLEND_MEMBER_KEYS) <= set(member)
                    for member in getattr(self, "blend_", [])
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
        ready: PreparedBase,
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
        self._store_candidates(fits)

    def _store_candidates(self, fits: Sequence[FittedProducts]) -> None:
        """Set held-out losses of all candidates, where C was chosen by them."""
        if hasattr(self, "candidates_"):
            del self.candidates_
        if isinstance(fits[0], ChosenProducts):
            self.candidates_ = [
                {"model": model, "loss": loss} for model, loss in fits[0].judged
            ]

    def _store_blend(
        self, fits: Sequence[FittedProducts], labels: Sequence[Any] | None
    ) -> None:
        """Set one row per member of a blend."""
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
    """Return all products in use, strongest first by their mean weight."""
    totals: dict[Product, float] = {}
    for fit in fits:
        for product, weight in zip(fit.products, fit.weights, strict=True):
            totals[product] = totals.get(product, 0.0) + float(weight)
    return sorted(totals, key=lambda product: -totals[product])


def _aligned(values: Any, fit: FittedProducts, products: list[Product]) -> np.ndarray:
    """Return the values of a fit's products in the order of all products."""
    known = dict(zip(fit.products, values, strict=True))
    return np.array([known.get(product, 0.0) for product in products])


def _coef(fit: FittedProducts, i: int, scale: float) -> float:
    return np.nan if fit.coefs is None else float(scale * fit.coefs[i])


def _model(
    ready: PreparedBase,
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
        ready.kernels.take(support, matrices=False),
        index,
        np.array(weights).reshape(len(fits), len(products)).T.copy(),
        scale * rows[support],
        intercept,
    )


def _kernel_factors(fit: FittedProducts, products: list[Product]) -> np.ndarray:
    """Return theta_i / rho_i^2 in the order of all products."""
    known = dict(zip(fit.expansion.products, fit.factors, strict=True))
    return np.array([known.get(product, 0.0) for product in products])
