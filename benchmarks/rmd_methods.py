"""Randomized mirror descent, our modes and the paper's rivals, one interface.

Every method walks from strong to weak regularization and keeps what is best on the
validation rows; it stops when two values in a row were no better. A blend does so for
each of its members, and weighs them on the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rmd_data import Split

from manykernels.compare import (
    HierarchicalKernelLearning,
    PolynomialKernelLearning,
    PowerExpansion,
    UniformCoordinateDescent,
    UniformPower,
    power_scores,
)
from manykernels.products import (
    ColumnGeneration,
    ExplicitLpNorm,
    ProductBlend,
    RandomizedMirrorDescent,
)
from manykernels.products.base import RankOneKernels
from manykernels.products.product_fit import ProductFit
from manykernels.products.product_models import ColumnScale
from manykernels.products.product_problem import ProductExpansion, ProductProblem
from manykernels.products.sparse.product_working_sets import working_set

PATIENCE = 2


@dataclass(frozen=True)
class Method:
    """A name, a solver and what it learns from."""

    name: str
    solver: Any
    rho: tuple[float, ...]  # one prior weight per degree
    p: float = 4.0 / 3.0
    kind: str = "rival"  # or "paper", "ours", "check"

    def problem(self, split: Split) -> ProductProblem:
        """Squared errors on the training rows, the constant among the products."""
        return ProductProblem(
            split.known,
            split.target[split.train],
            np.array(self.rho, dtype=float),
            p=self.p,
            intercept=False,
        )


@dataclass(frozen=True)
class Outcome:
    """What a method reached; `seconds` are those of one fit, on average."""

    validation: float  # mean squared errors
    test: float
    reg: float  # of a blend, that of the member with most weight
    seconds: float = 0.0
    scores: np.ndarray | None = None  # of all rows


def mirror_descent(draws: int, seed: int = 0) -> RandomizedMirrorDescent:
    """Algorithm 2, looked at when it is done."""
    return RandomizedMirrorDescent(
        draws, tol=1e-2, patience=None, look_every=draws, random_state=seed
    )


def stoch(draws: int) -> list[Method]:
    """Algorithm 2 with the settings of the paper."""
    solver = mirror_descent(draws)
    return [
        Method("Stoch (d=2)", solver, (1, 1, 1), kind="paper"),
        Method("Stoch (d=3)", solver, (1, 1, 1, 1), kind="paper"),
        Method("Stoch (d=3, prior)", solver, (1, 1, 1, 2), kind="paper"),
    ]


def ours(draws: int) -> list[Method]:
    """The blend, which is our best mode, and single modes to compare it with."""
    stochastic, generating = mirror_descent(draws), ColumnGeneration(tol=1e-2)
    return [
        Method("Blend (d=3)", ProductBlend(), (1, 1, 1, 1), kind="ours"),
        Method("Stoch (d=2, prior 3)", stochastic, (1, 1, 3), kind="ours"),
        Method("Sparse (d=3, prior 2, 3)", generating, (1, 1, 2, 3), 1.0, "ours"),
        Method("Sparse (d=3, prior 3, 6)", generating, (1, 1.5, 3, 6), 1.0, "ours"),
    ]


def rivals(draws: int, max_active: int = 200) -> list[Method]:
    """All others. Bach's weights are 2^degree: without growth hulls become huge.

    The last two are no rivals but checks. One solves the problem of "Stoch (d=2, prior
    3)" on the explicit list of products, and is one of the members of the blend. The
    other is the blend that looks at the validation rows alone, as the rivals do.
    """
    bach = HierarchicalKernelLearning(tol=1e-2, max_active=max_active)
    kloft, cortes = ExplicitLpNorm(tol=1e-2, max_iter=50), PolynomialKernelLearning()
    ucd = UniformCoordinateDescent(draws, tol=1e-2, look_every=draws, random_state=0)
    return [
        Method("Bach (d=2)", bach, (1, 2, 4)),
        Method("Bach (d=3)", bach, (1, 2, 4, 8)),
        Method("Cortes (d=2)", cortes, (1, 1, 1)),
        Method("Cortes (d=3)", cortes, (1, 1, 1, 1)),
        Method("Kloft (p=1)", kloft, (1, 1), 1.0),
        Method("Kloft (p=2)", kloft, (1, 1)),
        Method("Kloft (p=2, d=2)", kloft, (1, 1, 1)),
        Method("UCD (d=2)", ucd, (1, 1, 1)),
        Method("Uniform (d=1)", UniformPower(), (1, 1)),
        Method("Uniform (d=2)", UniformPower(), (1, 1, 1)),
        Method("Uniform (d=3)", UniformPower(), (1, 1, 1, 1)),
        Method("Kloft (p=2, d=2, prior 3)", kloft, (1, 1, 3), kind="check"),
        Method("Blend (d=3, no folds)", ProductBlend(folds=0), (1,) * 4, kind="check"),
    ]


def best_on_validation(method: Method, split: Split, regs: Sequence[float]) -> Outcome:
    """The regularization with the least validation error, from strong to weak."""
    if isinstance(method.solver, ProductBlend):
        return blended(method, split)
    best, since, fits, began = None, 0, 0, time.process_time()
    for reg, model in _path(method, split, regs):
        fits += 1
        found = scores(method, split, model)
        validation, test = split.errors(found)
        if best is None or validation < best.validation:
            best, since = Outcome(validation, test, reg, scores=found), 0
        else:
            since += 1
        if since >= PATIENCE:
            break
    assert best is not None
    return replace(best, seconds=(time.process_time() - began) / fits)


def blended(method: Method, split: Split) -> Outcome:
    """The blend on the training rows, weighed on the validation rows.

    Where these are fewer than the training rows, folds of the training rows help to
    weigh. The grid is that of the others.
    """
    known = (split.base.columns[split.validation], split.target[split.validation])
    began = time.process_time()
    fitted = method.solver.solve(method.problem(split), None, known)
    seconds = time.process_time() - began
    Z = split.base.features(fitted.products)
    found = Z @ fitted.coefs + fitted.intercept
    return Outcome(*split.errors(found), 1.0 / fitted.C, seconds, found)


def _path(
    method: Method, split: Split, regs: Sequence[float]
) -> Iterator[tuple[float, Any]]:
    """Models for one value after the other, each from the last where a solver can."""
    problem = method.problem(split)
    start = (
        working_set(problem) if isinstance(method.solver, ColumnGeneration) else None
    )
    for reg in regs:
        task = replace(problem, C=1.0 / reg)
        if isinstance(method.solver, (UniformPower, ProductFit)):
            result = method.solver.solve(task)
        else:
            result = method.solver.solve(task, start)
        yield reg, result.model
        if isinstance(
            method.solver,
            (ExplicitLpNorm, HierarchicalKernelLearning, PolynomialKernelLearning),
        ):
            start = result.model


def scores(method: Method, split: Split, model: Any) -> np.ndarray:
    """Scores of all rows."""
    if isinstance(model, PowerExpansion):
        everything = np.arange(len(split.target))
        return power_scores(split.base, model, everything, split.train)
    assert isinstance(model, ProductExpansion)
    used = np.flatnonzero(model.weights)
    products = [model.products[i] for i in used]
    rho = np.array([method.rho[len(i)] for i in products])
    Z = split.base.features(products)
    pulls = model.coef[:, 0] @ Z[split.train]
    return Z @ (model.weights[used] / rho**2 * pulls) + model.intercept


def sparse_default(split: Split, degree: int = 3) -> tuple[float, float]:
    """Test error and seconds of PolynomialMKLRegressor's defaults: no grid.

    Its scaling leaves columns of nearly zero mean where they are: centering makes a sum
    of many monomials out of one.
    """
    base = RankOneKernels(ColumnScale.fit(split.raw[split.train]).apply(split.raw))
    problem = ProductProblem(
        RankOneKernels(base.columns[split.train]),
        split.target[split.train],
        np.ones(degree + 1),
        p=1.0,
    )
    began = time.process_time()
    fitted = ProductFit().solve(problem)
    seconds = time.process_time() - began
    Z = base.features(fitted.products)
    return split.errors(Z @ fitted.coefs + fitted.intercept)[1], seconds
