"""Handwriting, Table 1 of the SPOM paper: train on one fold, test on the other nine."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import parse, save, show
from ocr_data import MODELS, Fold, learn, words_of_all

from manykernels.base.machine import one_blas_thread

GRID = [(C, eta0) for C in (1.0, 10.0) for eta0 in (0.1, 0.3)]
# Figures of the paper, in %, and its C = 1 / (lambda N) by cross-validation as well.
PAPER = dict(
    zip(
        MODELS,
        (71.8, 85.5, 84.1, 84.3, 87.5, 87.5, 75.4, 83.0, 85.2, 85.2),
        strict=True,
    )
)
RULE = (
    "linear (L)",
    "quadratic (Q)",
    "Gaussian (G)",
    "average (L+Q+G)/3",
    "MKL L, Q, G",
)


def main() -> None:
    options = parse(
        __doc__ or "",
        folds=(10, "training folds"),
        parts=(3, "parts of the cross-validation inside a training fold"),
    )
    data = words_of_all()
    folds = []
    with one_blas_thread():
        for number in range(options.folds):
            folds.append(run_fold(data, number, options.parts))
            report(folds, options.parts)


def run_fold(data: Any, number: int, n_parts: int) -> dict[str, dict[str, Any]]:
    """Accuracy, seconds and settings of every model on one fold."""
    fold = Fold(data, number)
    found: dict[str, dict[str, Any]] = {}
    fitted = {}
    for name, model in MODELS.items():
        C, eta0 = fold.choose(model, GRID, n_parts)
        result, seconds = learn(fold.problem(model, C), eta0)
        fitted[name] = model, result.weights
        found[name] = {"C": C, "eta0": eta0, "seconds": seconds}
        found[name]["norms"] = result.block_norms.tolist()
    for name in RULE:
        # eta0 as in the paper: the smallest objective after five epochs.
        result, _ = learn(fold.problem(MODELS[name], 10.0), "auto")
        fitted[f"rule: {name}"] = MODELS[name], result.weights
        found[f"rule: {name}"] = {"C": 10.0, "eta0": result.eta0}
    for name, accuracy in fold.test_accuracies(fitted).items():
        found[name]["accuracy"] = 100.0 * accuracy
    return found


def report(folds: list[dict[str, dict[str, Any]]], n_parts: int) -> None:
    """Means over the folds, printed and stored."""
    table = {}
    for name in folds[0]:
        accuracy = [fold[name]["accuracy"] for fold in folds]
        seconds = [fold[name].get("seconds", np.nan) for fold in folds]
        table[name] = {
            "accuracy": float(np.mean(accuracy)),
            "deviation": float(np.std(accuracy)),
            "cpu_seconds": float(np.mean(seconds)),
            "paper": PAPER.get(name),
            "C": [fold[name]["C"] for fold in folds],
            "eta0": [fold[name]["eta0"] for fold in folds],
        }
    rows = [
        [
            name,
            f"{r['accuracy']:.2f} +- {r['deviation']:.2f}",
            r["cpu_seconds"],
            r["paper"],
        ]
        for name, r in table.items()
    ]
    show(f"{len(folds)} folds", ["", "accuracy", "CPU seconds", "paper"], rows)
    save("ocr", seeds=[0], folds=len(folds), parts=n_parts, grid=GRID, table=table)


if __name__ == "__main__":
    main()
