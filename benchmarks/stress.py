"""Random problems that are hard on purpose: how many fits end without a certificate?

Kernels whose scales differ by up to 1e12, near-singular and rank-one kernels, copies of
kernels and of rows, wrong labels, raw tables; p from 1 to 2 and C from 1e-3 to 1e6. A
fit with the default limit is certified when its relative duality gap is at most `tol`.
Both sides of every certificate are computed again from the kernel values without the
library, in extended precision (80 bits, where the platform has them): that decides
whether one is false. With --compare the small problems are solved by CVXPY as well. At
such scales its own solution may be far from the optimum, so that optima above the
objective of a fitted model ("beaten") are counted apart.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import console, parse, save, show
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import ConvergenceWarning

import manykernels as mk
from manykernels.base.machine import one_blas_thread
from manykernels.kernels import RBF, Linear, Polynomial, Precomputed
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet

sys.path.insert(0, str(Path(__file__).parents[1]))

P = (1.0, 1.001, 1.01, 1.02, 1.04, 1.1, 1.25, 1.5, 2.0)
C = tuple(10.0**e for e in range(-3, 7))
TOL, TOL_CHANCES = (1e-2, 1e-3, 1e-5), (0.4, 0.4, 0.2)
EXTENDED = np.longdouble
SAME = 1e-6  # relative: how closely two ways to compute a value must agree
GENERAL_ROWS = 60  # CVXPY solves problems up to this size, times classes below 150
GENERAL_ERROR = 1e-5  # relative: what its own optimum may be off


@dataclass(frozen=True)
class Case:
    """One problem."""

    sort: str
    kernels: Any
    X: Any
    y: np.ndarray
    p: float
    C: float
    tol: float


def rows_and_labels(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Blobs of 2 to 5 classes, more or less apart."""
    n, width = int(rng.integers(10, 201)), int(rng.integers(2, 9))
    classes = int(rng.integers(2, 6))
    y = np.arange(n) % classes
    apart = 10.0 ** rng.uniform(-1, 1)
    return rng.normal(size=(n, width)) + apart * rng.normal(size=(classes, width))[y], y


def plain(rng: np.random.Generator, X: np.ndarray) -> list[np.ndarray]:
    """2 to 20 kernels of common shapes, on some of the columns each."""
    matrices = []
    for _ in range(int(rng.integers(2, 21))):
        some = X[:, rng.random(X.shape[1]) < 0.6]
        some = some if some.shape[1] else X
        square = np.square(some[:, None] - some[None]).sum(axis=2)
        product, width = some @ some.T, 10.0 ** rng.uniform(-2, 1)
        shapes = (product, (product + 1.0) ** 2, np.exp(-width * square))
        matrices.append(shapes[rng.integers(3)])
    return matrices


def scaled(rng: np.random.Generator) -> tuple[Any, Any, np.ndarray]:
    """Kernels whose scales differ."""
    X, y = rows_and_labels(rng)
    stack = [K * 10.0 ** rng.uniform(-6, 6) for K in plain(rng, X)]
    return Precomputed(normalize=None), stack, y


def singular(rng: np.random.Generator) -> tuple[Any, Any, np.ndarray]:
    """Rank one, low rank with a tiny rest, and nearly constant kernels."""
    X, y = rows_and_labels(rng)
    stack = plain(rng, X)
    for f in range(len(stack)):
        column = rng.normal(size=(len(y), int(rng.integers(1, 4))))
        rest = 10.0 ** rng.uniform(-12, -3)
        thin = column @ column.T + rest * np.eye(len(y))
        near_constant = 1.0 + rest * stack[f]
        stack[f] = (column[:, :1] @ column[:, :1].T, thin, near_constant, stack[f])[
            rng.integers(4)
        ]
    return Precomputed(normalize=rng.choice(["trace", None])), stack, y


def copied(rng: np.random.Generator) -> tuple[Any, Any, np.ndarray]:
    """Copies of kernels in other scales; copies of rows, with their labels or not."""
    X, y = rows_and_labels(rng)
    again = rng.integers(len(y), size=len(y) // 2)
    X[: len(again)] = X[again]
    if rng.random() < 0.5:
        y[: len(again)] = y[again]
        y[-int(y.max()) - 2 :] = np.arange(int(y.max()) + 2) % (y.max() + 1)
    stack = plain(rng, X)
    stack += [K * 10.0 ** rng.uniform(-3, 3) for K in stack[: len(stack) // 2]]
    return Precomputed(normalize=rng.choice(["trace", None])), stack[:20], y


def mislabeled(rng: np.random.Generator) -> tuple[Any, Any, np.ndarray]:
    """Up to half of the labels by lot, from a table."""
    X, y = rows_and_labels(rng)
    wrong = rng.random(len(y)) < rng.uniform(0.05, 0.5)
    y = np.where(wrong, rng.permutation(y), y)
    return table_kernels(rng, X.shape[1]), X, y


def raw(rng: np.random.Generator) -> tuple[Any, Any, np.ndarray]:
    """Public tables with columns as they were measured, from 1e-3 to 1e3."""
    load = (load_breast_cancer, load_wine)[rng.integers(2)]
    X, y = load(return_X_y=True)
    few = rng.permutation(len(y))[: int(rng.integers(20, min(201, len(y))))]
    return table_kernels(rng, X.shape[1]), X[few], y[few]


def table_kernels(rng: np.random.Generator, width: int) -> list[Any]:
    """2 to 20 kernels on columns, some without normalization."""
    kernels: list[Any] = []
    for _ in range(int(rng.integers(2, 21))):
        columns = np.flatnonzero(rng.random(width) < 0.5).tolist() or [0]
        options: Any = {
            "columns": columns,
            "normalize": rng.choice(["diagonal", "trace", None]),
        }
        kernels.append(
            (
                Linear(**options),
                Polynomial(degree=int(rng.integers(2, 4)), **options),
                RBF(10.0 ** rng.uniform(-4, 1), **options),
                RBF(**options),
            )[rng.integers(4)]
        )
    return kernels


SORTS: dict[str, Callable[[np.random.Generator], Any]] = {
    make.__name__: make for make in (scaled, singular, copied, mislabeled, raw)
}


def make_case(seed: int, number: int) -> Case:
    """Problem `number`: the sorts take turns."""
    rng = np.random.default_rng([seed, number])
    sort = list(SORTS)[number % len(SORTS)]
    settings = rng.choice(P), rng.choice(C), rng.choice(TOL, p=TOL_CHANCES)
    return Case(sort, *SORTS[sort](rng), *map(float, settings))


def fit(case: Case) -> tuple[Any, list[str], float]:
    """The model, the warnings about convergence, and the seconds."""
    model = mk.MKLClassifier(
        case.kernels, p=case.p, C=case.C, tol=case.tol, random_state=0
    )
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(case.X, case.y)
    seconds = time.perf_counter() - began
    unsure = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    return model, [str(w.message) for w in unsure], seconds


def gram(case: Case, dtype: Any) -> np.ndarray:
    """Kernel values of the training rows, (rows, kernels, rows), in float64."""
    kernels = as_kernels(case.kernels)
    with one_blas_thread():  # as in a fit: the last digit depends on it
        matrices = KernelSet.fit(kernels, case.X, dtype=dtype).stack()
    return np.moveaxis(matrices, 0, 1).astype(np.float64)


def recomputed(case: Case, model: Any, stack: np.ndarray) -> tuple[float, float]:
    """Objective and dual bound of a fitted model, from the definitions."""
    n, n_classes = len(case.y), len(model.classes_)
    target = np.searchsorted(model.classes_, case.y)
    own = np.eye(n_classes)[target]
    stack = stack.astype(EXTENDED)
    coef = np.zeros((n, n_classes), EXTENDED)
    coef[model.support_] = model.dual_coef_
    weights = model.kernel_weights_.astype(EXTENDED)
    scores = sum(d * (stack[:, f] @ coef) for f, d in enumerate(weights))
    margins = np.sum(own * scores, axis=1) - np.max(scores - 1e300 * own, axis=1)
    lengths = weights * _lengths(stack, coef)
    norm = p_norm(lengths, case.p)
    objective = norm**2 / (2 * case.C * n) + np.mean(np.maximum(1.0 - margins, 0.0))
    dual = np.zeros((n, n_classes)) if model.dual_point_ is None else model.dual_point_
    inside = np.all(dual <= case.C * own * (1 + 1e-9)) and (
        np.abs(dual.sum(axis=1)).max() <= 1e-9 * case.C
    )
    q = np.inf if case.p == 1.0 else case.p / (case.p - 1.0)
    largest = p_norm(_lengths(stack, dual), q)
    bound = np.sum(own * dual) / (case.C * n) - largest**2 / (2 * case.C * n)
    return float(objective), float(bound) if inside else -np.inf


def p_norm(values: np.ndarray, p: float) -> float:
    """By ratios: a huge p would overflow."""
    largest = values.max()
    return float(largest * np.linalg.norm(values / largest, ord=p)) if largest else 0.0


def _lengths(stack: np.ndarray, coef: np.ndarray) -> np.ndarray:
    coef = coef.astype(EXTENDED)
    squares = [np.sum(coef * (stack[:, f] @ coef)) for f in range(stack.shape[1])]
    return np.sqrt(np.maximum(squares, 0.0))


def general_optimum(case: Case, stack: np.ndarray) -> float | None:
    """CVXPY's; None where it does not trust its own solution."""
    from tests.oracles.optimum import cvxpy_optimum

    classes, target = np.unique(case.y, return_inverse=True)
    try:
        return cvxpy_optimum(stack, target, len(classes), case.p, case.C)
    except Exception as error:  # noqa: BLE001  another program's failures, of any sort
        console.print(f"  CVXPY: {type(error).__name__} {error}", markup=False)
        return None


def judge(number: int, case: Case, compare: bool) -> dict[str, Any]:
    """One line of the results."""
    model, messages, seconds = fit(case)
    gap = model.duality_gap_ / model.objective_ if model.objective_ > 0 else 0.0
    line: dict[str, Any] = {
        "number": number,
        "sort": case.sort,
        "rows": len(case.y),
        "kernels": len(model.kernel_weights_),
        "classes": len(model.classes_),
        "p": case.p,
        "C": case.C,
        "tol": case.tol,
        "gap": gap,
        "epochs": model.n_iter_,
        "seconds": seconds,
        "certified": gap <= case.tol,
        "warned": bool(messages),
        "message": messages[0] if messages else "",
    }
    stack = gram(case, model._model.kernels.dtype)
    objective, bound = recomputed(case, model, stack)
    line["recomputed_gap"] = (objective - bound) / objective
    if compare and len(case.y) <= GENERAL_ROWS:
        optimum = general_optimum(case, stack)
        line["above_optimum"] = (
            None if optimum is None else (objective - optimum) / optimum
        )
    return line


def is_false(line: dict[str, Any]) -> bool:
    """Whether a certified gap is contradicted, by the definitions or by CVXPY."""
    if not line["certified"]:
        return False
    above = line.get("above_optimum")
    return line["recomputed_gap"] > 1.01 * line["tol"] + SAME or (
        above is not None and above > 1.01 * line["tol"] + GENERAL_ERROR
    )


def is_beaten(line: dict[str, Any]) -> bool:
    """Whether CVXPY's optimum is clearly above the objective of a fitted model."""
    above = line.get("above_optimum")
    return above is not None and above < -GENERAL_ERROR


def main() -> None:
    options = parse(
        __doc__.splitlines()[0],
        problems=(330, "problems"),
        seed=(0, "of all problems"),
        only=(-1, "this problem alone"),
        compare=(False, "solve the small ones with CVXPY as well"),
        quick=(False, "a tenth of the problems"),
    )
    count = options.problems // (10 if options.quick else 1)
    numbers = range(count) if options.only < 0 else [options.only]
    lines = []
    for number in numbers:
        line = judge(number, make_case(options.seed, number), options.compare)
        lines.append(line)
        if not line["certified"] or is_false(line):
            facts = [f"{k} {v}" for k, v in line.items() if k != "message"]
            console.print(", ".join(facts), markup=False, soft_wrap=True)
    table = []
    for sort in [*SORTS, "all"]:
        those = [line for line in lines if sort in (line["sort"], "all")]
        table.append(
            [
                sort,
                len(those),
                sum(not line["certified"] for line in those),
                sum(is_false(line) for line in those),
                sum(line.get("above_optimum") is not None for line in those),
                sum(is_beaten(line) for line in those),
                sum(line["seconds"] for line in those),
            ]
        )
    columns = [
        "sort",
        "problems",
        "uncertified",
        "false",
        "compared",
        "beaten",
        "seconds",
    ]
    show("stress", columns, table)
    if options.only < 0:
        rows = [dict(zip(columns, row, strict=True)) for row in table]
        save("stress", options=vars(options), summary=rows, problems=lines)


if __name__ == "__main__":
    main()
