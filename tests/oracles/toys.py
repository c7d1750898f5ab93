"""Tiny problems with known structure, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.banks import Bank, GramBank
from manykernels.losses import MulticlassHinge
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Problem


def blobs(
    n_rows: int, n_classes: int, seed: int, n_columns: int = 6, spread: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian classes that overlap; every class has a row."""
    rng = np.random.default_rng(seed)
    target = np.arange(n_rows) % n_classes
    centers = rng.normal(size=(n_classes, n_columns))
    return centers[target] + spread * rng.normal(size=(n_rows, n_columns)), target


def unit_diagonal(gram: np.ndarray) -> np.ndarray:
    length = np.sqrt(np.diag(gram))
    return gram / np.outer(length, length)


def kernel_stack(X: np.ndarray, n_blocks: int, seed: int) -> np.ndarray:
    """(rows, blocks, rows): RBF, linear and pure-noise kernels in turn."""
    rng = np.random.default_rng(seed)
    grams = []
    for f in range(n_blocks):
        columns = rng.permutation(X.shape[1])[: 2 + f % 3]
        part = rng.normal(size=X.shape) if f % 4 == 3 else X[:, columns]
        inner = part @ part.T
        squares = np.diag(inner)
        distances = squares[:, None] + squares[None, :] - 2.0 * inner
        gram = inner + 1e-6 if f % 3 == 1 else np.exp(-(0.1 + 0.2 * f) * distances)
        grams.append(unit_diagonal(gram))
    return np.ascontiguousarray(np.stack(grams, axis=1))


def make_problem(
    stack_or_bank: np.ndarray | Bank,
    target: np.ndarray,
    p: float = 1.25,
    C: float = 1.0,
    sample_weight: np.ndarray | None = None,
    loss: Any = None,
) -> Problem:
    bank: Any = stack_or_bank
    if isinstance(bank, np.ndarray):
        bank = GramBank(bank)
    weight = np.ones(len(target)) if sample_weight is None else sample_weight
    return Problem(
        bank,
        np.asarray(target, dtype=np.int64),
        int(target.max()) + 1,
        loss or MulticlassHinge(),
        LpGroupNorm(p),
        C,
        np.asarray(weight, dtype=np.float64),
    )


def toy_problem(
    seed: int,
    n_rows: int = 24,
    n_blocks: int = 4,
    n_classes: int = 3,
    p: float = 1.25,
    C: float = 1.0,
    weighted: bool = False,
) -> Problem:
    X, target = blobs(n_rows, n_classes, seed)
    stack = kernel_stack(X, n_blocks, seed)
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.5, 2.0, n_rows) if weighted else None
    return make_problem(stack, target, p, C, weight)
