"""The pictures of docs/benchmarks.md, from saved tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

IMAGES = Path(__file__).parents[2] / "docs" / "images"
Load = Callable[[str], dict[str, Any]]
Lines = list[dict[str, Any]]


def draw_all(load: Load) -> None:
    """Every picture."""
    race = load("race")
    draw_race(race["runs"], race["lp_beta"])
    draw_crossed(load("combinations")["accuracies"], "rows", "combinations.png")
    draw_crossed(load("noise_kernels")["accuracies"], "noise", "noise_kernels.png")
    draw_mnist(load("mnist_growth")["marks"])


def draw_race(runs: Lines, lp_beta: Lines) -> None:
    """Flowers-17: distance from the optimum and accuracy over time."""
    other = next(one for one in lp_beta if one["seed"] == 0)
    own = [one for one in runs if one["data"] == "flowers17" and one["seed"] == 0]
    norms = list(dict.fromkeys(one["p"] for one in own))
    figure, axes = plt.subplots(
        len(norms), 2, figsize=(11, 3.5 * len(norms)), layout="constrained"
    )
    for (left, right), p in zip(axes, norms, strict=True):
        lines = [one for one in own if one["p"] == p]
        for solver in dict.fromkeys(one["solver"] for one in lines):
            finest = min(
                (one for one in lines if one["solver"] == solver),
                key=lambda one: one["asked"],
            )
            style = {"label": solver, "linewidth": 2.5 if solver == "auto" else 1.2}
            curve = finest["curve"]
            seconds = [one["seconds"] for one in curve]
            above = [max(one["above"], 1e-6) for one in curve]
            left.loglog(seconds, above, **style)
            right.semilogx(seconds, [100 * one["accuracy"] for one in curve], **style)
        left.set(
            ylabel="objective above the best bound", title=f"Flowers-17, p = {p:g}"
        )
        right.semilogx(other["seconds"], 100 * other["accuracy"], "k*", label="LP-beta")
        right.set(ylabel="test accuracy, %", title=f"Flowers-17, p = {p:g}")
        right.legend(fontsize=8)
    _finish(figure, axes, "seconds", "race_flowers17.png")


def draw_crossed(lines: Lines, axis: str, name: str) -> None:
    """Accuracy of every method against a size, with standard errors."""
    data_sets = list(dict.fromkeys(line["data"] for line in lines))
    figure, axes = plt.subplots(
        1, len(data_sets), figsize=(5 * len(data_sets), 4), layout="constrained"
    )
    for ax, data in zip(axes, data_sets, strict=True):
        own = [line for line in lines if line["data"] == data]
        sizes = sorted({line[axis] for line in own})
        for method in dict.fromkeys(line["method"] for line in own):
            table = [
                [
                    100 * line["accuracy"]
                    for line in own
                    if line["method"] == method and line[axis] == size
                ]
                for size in sizes
            ]
            errors = [np.std(row, ddof=1) / np.sqrt(len(row)) for row in table]
            ax.errorbar(
                sizes,
                [np.mean(row) for row in table],
                errors,
                label=method,
                linewidth=2.5 if method == "MKL" else 1.2,
            )
        ax.set(title=data, ylabel="test accuracy, %")
    axes[-1].legend(fontsize=8)
    labels = {"rows": "training rows", "noise": "irrelevant kernels"}
    _finish(figure, axes, labels[axis], name)


def draw_mnist(marks: Lines) -> None:
    """Accuracy over time for growing training sets; averaged and best as lines."""
    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for i, size in enumerate(sorted({mark["rows"] for mark in marks})):
        own = [mark for mark in marks if mark["rows"] == size]
        curve = [mark for mark in own if mark["model"] == "MKL"]
        ax.semilogx(
            [mark["seconds"] for mark in curve],
            [100 * mark["accuracy"] for mark in curve],
            color=f"C{i}",
            marker="o",
            markersize=3,
            label=f"{size:,} images",
        )
        for mark in own:
            if mark["model"] == "averaged kernel":
                ax.axhline(100 * mark["accuracy"], color=f"C{i}", ls=":", lw=1)
    ax.set(ylabel="test accuracy, %", title="MNIST; dotted: averaged kernel")
    ax.set_ylim(85, 100)
    ax.legend(fontsize=8)
    _finish(figure, np.array([ax]), "seconds", "mnist_growth.png")


def _finish(figure: Any, axes: Any, label: str, name: str) -> None:
    for ax in np.ravel(axes):
        ax.set_xlabel(label)
        ax.grid(alpha=0.3)
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(IMAGES / name, dpi=110)
    plt.close(figure)
