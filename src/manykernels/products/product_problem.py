"""The problem over all products of at most D base kernels, and its certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from manykernels.base.arrays import Array, Index
from manykernels.losses.one_score import ScoreLoss, SquaredError
from manykernels.products.base import BaseKernels
from manykernels.products.indices import Product, n_products
from manykernels.solvers.problem import Expansion


@dataclass(frozen=True)
class ProductExpansion(Expansion):
    """A model on the training rows that uses few of the products.

    f = intercept + sum_i weights_i / rho_i^2 K_i coef over `products`; weights are
    non-negative with ||weights||_nu <= 1.

    Examples
    --------
    >>> model = ProductExpansion.zero(3)
    >>> model.products, model.intercept, model.coef.shape
    ((), 0.0, (3, 1))
    """

    products: tuple[Product, ...] = ()
    intercept: float = 0.0

    @classmethod
    def zero(cls, n_rows: int) -> ProductExpansion:
        """The model without any product."""
        return cls(np.zeros((n_rows, 1)), np.zeros(0))


@dataclass(frozen=True)
class ProductProblem:
    r"""minimize :math:`\frac\lambda2 (\sum_i \rho_i^p \|w_i\|^p)^{2/p} + mean\ loss`.

    The sum runs over all products of at most D base kernels, rho depends on the
    degree alone, and :math:`\lambda = 1 / (C n)`. With an intercept, which is not
    penalized, the constant product is superfluous: dual coefficients sum to zero.

    Parameters
    ----------
    base : BaseKernels
    target : array of shape (rows,)
        Numbers, or -1 and 1 for classification.
    rho : array of shape (D + 1,)
        Prior weights of the degrees 0, ..., D; a larger one makes them rarer.
    C : float
        Weight of the losses.
    p : float in [1, 2)
    loss : ScoreLoss
    intercept : bool
        Only for the squared loss.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.products.base import RankOneKernels
    >>> X = np.random.default_rng(0).normal(size=(20, 4))
    >>> problem = ProductProblem(RankOneKernels(X), X[:, 0] * X[:, 1], np.ones(4))
    >>> problem.degree, problem.n_products
    (3, 35)
    """

    base: BaseKernels
    target: Array
    rho: Array
    C: float = 1.0
    p: float = 4.0 / 3.0
    loss: ScoreLoss = SquaredError()
    intercept: bool = True

    def take(self, rows: Index) -> ProductProblem:
        """The same problem on some of the rows."""
        return replace(
            self,
            base=self.base.take(rows),
            target=self.target[rows],
            loss=self.loss.take(rows),
        )

    @property
    def degree(self) -> int:
        """The largest number of factors."""
        return len(self.rho) - 1

    @property
    def n_products(self) -> int:
        """Number of distinct products."""
        return n_products(self.base.n_base, self.degree, self.base.limits)

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return len(self.target)

    @property
    def scale(self) -> float:
        """C n: values are divided by it, so that the loss is a mean.

        n is the sum of the weights where rows have some.
        """
        return self.C * float(self.loss.weigh(np.ones(self.n_rows)).sum())

    @property
    def nu(self) -> float:
        """The exponent of the ball of the kernel weights, p / (2 - p)."""
        return round(self.p / (2.0 - self.p), 12)  # exactly 2 for p = 4 / 3

    @property
    def least_degree(self) -> int:
        """0, or 1 where an intercept makes the constant product superfluous."""
        return int(self.intercept)

    def primal_value(self, norm: float, scores: Array) -> float:
        """The objective from ||w||_{rho,p} and the scores, intercept included."""
        loss = float(self.loss.value(scores, self.target).sum())
        return (0.5 * norm * norm + self.C * loss) / self.scale

    def dual_value(self, coef: Array, dual_norm: float) -> float:
        """-C sum_t conjugate(a_t / C) - 1/2 dual_norm^2, over C n."""
        conjugate = float(self.loss.conjugate(coef / self.C, self.target).sum())
        return (-self.C * conjugate - 0.5 * dual_norm * dual_norm) / self.scale

    def dual_bound(self, coef: Array, dual_norm: float) -> float:
        """The largest dual value of t * coef, t <= 1 or any t for squared errors.

        dual_norm is (sum_i (a' K_i a / rho_i^2)^{q/2})^{1/q} over *all* products, or
        anything above it: then the bound is lower, and still a bound.
        """
        if self.loss.is_squared:
            gain = float(coef @ self.target)
            squares = float(coef @ self.loss.weigh(coef, -1.0))
            cost = squares / self.C + dual_norm * dual_norm
            return 0.5 * gain * abs(gain) / (cost * self.scale) if cost > 0 else 0.0
        best = minimize_scalar(
            lambda t: -self.dual_value(t * coef, t * dual_norm),
            bounds=(0.0, 1.0),
            method="bounded",
        )
        return max(-float(best.fun), self.dual_value(coef, dual_norm))
