"""A convex combination of several norms and priors, weighted by held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from manykernels.base.arrays import Array
from manykernels.base.machine import one_blas_thread
from manykernels.base.stored import storable
from manykernels.inputs.parameters import SEARCH, check_parameters
from manykernels.losses.one_score import ScoreLoss
from manykernels.products.base import RankOneKernels
from manykernels.products.fitted_products import FittedProducts, from_expansion
from manykernels.products.indices import Product
from manykernels.products.product_problem import ProductProblem
from manykernels.products.sparse.choice import HeldOutParts, Mode, ModePath, ModePoint
from manykernels.products.sparse.quadratic_programs import (
    newton_descent,
    simplex_quadratic,
)
from manykernels.solvers.loop import Callback

BLEND_C_GRID = tuple(10.0**k for k in range(-3, 5))
# With p = 4/3 all products have a weight, and those of three only add noise.
MAX_DENSE_DEGREE = 2
DENSE_PRIORS = (2.0, 3.0, 5.0)


class Member(NamedTuple):
    """A mode with its best C and its weight in the blend."""

    mode: Mode
    C: float
    weight: float


@dataclass(frozen=True)
class BlendedProducts(FittedProducts):
    """The blend as one model; C and result are those of the member with most weight.

    Examples
    --------
    >>> from manykernels.products.base import RankOneKernels
    >>> from manykernels.products.product_problem import ProductProblem
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> problem = ProductProblem(RankOneKernels(X), X[:, 0] * X[:, 1], np.ones(3))
    >>> found = ProductBlend(folds=3, random_state=0).solve(problem)
    >>> found.products[0], len(found.members) > 0
    ((0, 1), True)
    """

    members: tuple[Member, ...] = ()


def modes(degree: int) -> tuple[Mode, ...]:
    """p = 4/3 up to degree 2 with three priors, p = 1 up to `degree` with two.

    Examples
    --------
    >>> [mode.rho for mode in modes(3)]
    [(1.0, 1.0, 2.0), (1.0, 1.0, 3.0), (1.0, 1.0, 5.0), (1.0, 1.0, 2.0, 3.0), \
(1.0, 1.5, 3.0, 6.0)]
    """
    dense = {
        (1.0, 1.0, prior)[: min(degree, MAX_DENSE_DEGREE) + 1]: None
        for prior in DENSE_PRIORS
    }
    linear = tuple(float(max(d, 1)) for d in range(degree + 1))
    doubling = (1.0, *(1.5 * 2.0 ** (d - 1) for d in range(1, degree + 1)))
    return (
        *(Mode(4.0 / 3.0, rho) for rho in dense),
        Mode(1.0, linear),
        Mode(1.0, doubling),
    )


@storable
@dataclass(frozen=True)
class ProductBlend:
    r"""f = sum_m v_m f_m with :math:`v \ge 0, \sum_m v_m = 1`, one f_m for each mode.

    Every mode is fitted for growing C and scored by its loss on held-out rows: folds,
    the rows of `held_out`, or both. The weights v minimize the loss of the blend on
    the same rows. Every f_m is the fit on all rows but those of `held_out`.

    Only for kernels of rank one, where a blend is a sum of monomials like any f_m.

    Parameters
    ----------
    tol, max_iter, memory_limit
        As in ColumnGeneration; tol is that of all modes.
    random_state : seed or Generator
        Chooses the folds.
    folds : int
        Used unless there are as many held-out rows as others; 0 for none in any case.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 4))
    >>> y = X[:, 0] * X[:, 3] + 0.1 * rng.normal(size=80)
    >>> fitted = ProductBlend().solve(ProductProblem(RankOneKernels(X), y, np.ones(3)))
    >>> fitted.products[0], round(sum(m.weight for m in fitted.members), 6)
    ((0, 3), 1.0)
    """

    takes_weights: ClassVar[bool] = True  # of rows

    tol: float = 1e-2
    max_iter: int | None = None
    memory_limit: int | str | None = None
    random_state: Any = 0
    folds: int = 5

    def __post_init__(self) -> None:
        check_parameters(self, SEARCH)

    def solve(
        self,
        problem: ProductProblem,
        callback: Callback | None = None,
        held_out: tuple[Array, Array] | None = None,
    ) -> BlendedProducts:
        """The blend for a problem, of which p and C are not read and rho's length is.

        Parameters
        ----------
        problem : ProductProblem
        callback : callable, optional
            Sees the fits on all rows; returning True ends the search.
        held_out : pair of arrays, optional
            Columns and targets of more rows, to judge by.
        """
        rng = np.random.default_rng(self.random_state)
        parts = HeldOutParts.of(*_with_more_rows(problem, held_out), self.folds, rng)
        best: list[ModePoint] = []
        with one_blas_thread():
            for mode in modes(problem.degree):
                path = ModePath(self, parts, mode, callback, rng)
                best.append(path.best(BLEND_C_GRID, patience=2))
                if best[-1].result.stopped:
                    break
        judged = np.column_stack([point.scores for point in best])
        loss = parts.problem.loss.take(parts.judged)
        weights = blend_weights(loss, judged, parts.judged_target)
        return _blended(self, parts, best, weights)


def _with_more_rows(
    problem: ProductProblem, more: tuple[Array, Array] | None
) -> tuple[ProductProblem, int]:
    """The problem on more rows, and how many were added."""
    base = problem.base
    if not isinstance(base, RankOneKernels) or base.normalized:
        raise ValueError(
            "A blend needs one column per base kernel, neither matrices nor "
            f"normalized products, got {type(base).__name__}; give p a number."
        )
    if more is None:
        return problem, 0
    base = replace(base, columns=np.concatenate([base.columns, more[0]]))
    target = np.concatenate([problem.target, more[1]])
    return replace(problem, base=base, target=target), len(more[1])


def blend_weights(loss: ScoreLoss, scores: Array, target: Array) -> Array:
    """argmin over v >= 0, sum v = 1 of the mean loss of scores @ v, by Newton steps.

    Examples
    --------
    >>> from manykernels.losses.one_score import SquaredError
    >>> scores = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> blend_weights(SquaredError(), scores, np.array([0.75, 0.25]))
    array([0.75, 0.25])
    """
    n, count = scores.shape

    def mean_loss(v: Array) -> float:
        return float(loss.value(scores @ v, target).mean())

    def model_minimum(v: Array) -> Array:
        blend = scores @ v
        curvature = np.maximum(loss.curvature(blend, target), 1e-6)
        H = scores.T @ (scores * curvature[:, None]) / n
        linear = scores.T @ loss.gradient(blend, target) / n - H @ v
        return simplex_quadratic(H, linear, v)

    even = np.full(count, 1.0 / count)
    return newton_descent(mean_loss, model_minimum, even) if n and count > 1 else even


def _blended(
    settings: ProductBlend,
    parts: HeldOutParts,
    best: Sequence[ModePoint],
    weights: Array,
) -> BlendedProducts:
    """One list of products, whose coefficients are blended."""
    known = parts.parts[-1][0]
    coefs: dict[Product, float] = {}
    sizes: dict[Product, float] = {}
    intercept, fits = 0.0, []
    for point, weight in zip(best, weights, strict=True):
        task = replace(parts.task(point.mode, known), C=point.C)
        fits.append(from_expansion(task, point.result, settings))
        if weight == 0.0:
            continue
        intercept += weight * fits[-1].intercept
        assert fits[-1].coefs is not None
        for product, coef, size in zip(
            fits[-1].products, fits[-1].coefs, fits[-1].weights, strict=True
        ):
            coefs[product] = coefs.get(product, 0.0) + weight * coef
            sizes[product] = sizes.get(product, 0.0) + weight * size
    products = tuple(sorted(sizes, key=lambda product: -sizes[product]))
    total = max(sum(sizes.values()), 1e-300)
    first = fits[int(np.argmax(weights))]
    members = tuple(
        Member(point.mode, point.C, float(weight))
        for point, weight in zip(best, weights, strict=True)
        if weight > 0.0
    )
    return BlendedProducts(
        first.C,
        first.result,
        first.solver,
        products,
        np.array([sizes[product] / total for product in products]),
        np.array([coefs[product] for product in products]),
        intercept,
        first.factors,
        members=members,
    )
