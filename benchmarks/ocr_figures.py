"""Handwriting, Figures 1 and 2 of the SPOM paper: accuracy and objective by time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from common import parse, save, show
from ocr_data import MODELS, Fold, learn, words_of_all

from manykernels.base.machine import one_blas_thread
from manykernels.compare.structured_wrappers import StructuredWrapper
from manykernels.structured import OnlineProximal

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "ocr.png"
SHOWN = ("linear (L)", "quadratic (Q)", "average (L+Q+G)/3", "MKL L, Q, G", "MKL L, B1")
EPOCHS = (1, 2, 3, 5, 8, 12, 20)
WRAPPER_C = 100.0  # as in the paper


def main() -> None:
    options = parse(__doc__ or "", fold=(1, "training fold"), rounds=(28, "SVM calls"))
    with one_blas_thread():
        fold = Fold(words_of_all(), options.fold)
        curves = accuracy_curves(fold)
        races = objective_curves(fold, options.rounds)
    draw(curves, races)
    rows = [[name, *[p[1] for p in points]] for name, points in curves.items()]
    show("accuracy after epochs", ["", *map(str, EPOCHS)], rows)
    rows = [[name, *points[-1]] for name, points in races.items()]
    show("C = 100", ["", "epochs", "objective"], rows)
    save(
        "ocr_figures",
        seeds=[0],
        accuracy=curves,
        objective=races,
        epochs=EPOCHS,
        C=WRAPPER_C,
    )


def accuracy_curves(fold: Fold) -> dict[str, list[tuple[float, float]]]:
    """(CPU seconds of training, test accuracy) after some epochs."""
    fitted, seconds = {}, {}
    for name in SHOWN:
        problem = fold.problem(MODELS[name], 10.0)
        learn(problem, 0.1, 1)  # compiles, or reads what was compiled
        for epochs in EPOCHS:
            result, spent = learn(problem, 0.1, epochs)
            fitted[f"{name}|{epochs}"] = MODELS[name], result.weights
            seconds[f"{name}|{epochs}"] = spent
    found = fold.test_accuracies(fitted)
    return {
        name: [(seconds[f"{name}|{n}"], 100 * found[f"{name}|{n}"]) for n in EPOCHS]
        for name in SHOWN
    }


def objective_curves(fold: Fold, rounds: int) -> dict[str, list[tuple[int, float]]]:
    """(epochs, objective), as in the paper; nobody's steps are tuned for it.

    No seconds: the wrappers' objective is computed from all kernels after every call,
    which takes longer than their epochs.
    """
    problem = fold.problem(MODELS["MKL L, Q, G"], WRAPPER_C)
    online = OnlineProximal(100, "epoch", 0.1, random_state=0).solve(problem)
    races = {"SPOM": [(line.epoch, line.objective) for line in online.history]}
    for name, rule in (("Gauss-Seidel", "gauss_seidel"), ("SimpleMKL", "gradient")):
        found = StructuredWrapper(rule, rounds, random_state=0).solve(problem)
        races[name] = [(epochs, value) for epochs, value, _ in found.history]
    return races


def draw(curves: dict[str, list[Any]], races: dict[str, list[Any]]) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    for name, points in curves.items():
        left.plot(*np.array(points).T, marker="o", markersize=3, label=name)
    left.set_xlabel("CPU seconds of training")
    left.set_ylabel("test accuracy, % of letters")
    for name, lines in races.items():
        epochs, values = np.array(lines).T
        right.plot(epochs, values, marker="o", markersize=2, label=name)
    right.set_yscale("log")
    right.set_xlabel("epochs")
    right.set_ylabel("objective, C = 100")
    for axis in (left, right):
        axis.legend(fontsize=8)
        axis.grid(alpha=0.3)
    figure.tight_layout()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main()
