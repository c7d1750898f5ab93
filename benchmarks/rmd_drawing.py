"""Pictures of the saved results on randomized mirror descent, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from common import results_folder

IMAGES = Path(__file__).parents[1] / "docs" / "images"
# Okabe and Ito's palette, told apart with any common color blindness.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
KINDS = {
    "ours": COLORS[1],
    "paper": COLORS[0],
    "rival": "#999999",
    "check": "#cccccc",
}
LEAST_ERROR = 1e-12  # drawn where an error is rounding only


def draw_convergence(record: dict[str, Any], name: str, quick: bool) -> str:
    """Figure 1: one panel per data set."""
    curves = record["curves"]
    figure, axes = plt.subplots(1, len(curves), figsize=(3.2 * len(curves), 3.0))
    for ax, (data, lines) in zip(axes, curves.items(), strict=True):
        for color, (method, line) in zip(COLORS, lines.items(), strict=False):
            # A solver that has converged stays where it is.
            seconds = [*line["seconds"], record["limit"]]
            values = [*line["objective"], line["objective"][-1]]
            ax.step(seconds, values, where="post", color=color, label=method)
        ax.set(title=data, xlabel="CPU seconds", xlim=(0, record["limit"]))
        ax.set_yscale("log")
    axes[0].set_ylabel("objective")
    axes[-1].legend(fontsize=8)
    return _finish(figure, name, quick)


def draw_planted(record: dict[str, Any], name: str, quick: bool) -> str:
    """Figure 2: errors on the left, seconds on the right."""
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.6))
    for ax, key in zip(axes, ("error", "fit_seconds"), strict=True):
        values = np.array(record[key], dtype=float).mean(axis=1)
        for k, method in enumerate(record["methods"]):
            shown = (
                np.maximum(values[:, k], LEAST_ERROR)
                if key == "error"
                else values[:, k]
            )
            ax.plot(record["columns"], shown, "o-", ms=3, color=COLORS[k], label=method)
        ax.set_xlabel("columns")
        ax.set_yscale("log")
    axes[0].set_ylabel("test MSE / variance")
    axes[1].set_ylabel("CPU seconds of one fit")
    axes[0].legend(fontsize=8)
    return _finish(figure, name, quick)


def draw_tables(record: dict[str, Any], name: str, quick: bool) -> str:
    """Figure 3: a bar per method with its standard error, ours in color."""
    test = np.array(record["test"], dtype=float)  # data sets, runs, methods
    labels = record["methods"]  # the blend first
    colors = [COLORS[5], *(KINDS[kind] for kind in record["kinds"][1:])]
    figure, axes = plt.subplots(2, 3, figsize=(11.0, 8.0), sharey=True)
    for ax, data, values in zip(axes.flat, record["data_sets"], test, strict=True):
        mean = values.mean(axis=0)
        spread = values.std(axis=0, ddof=1) if len(values) > 1 else 0.0 * mean
        # A few methods are far off; the axis is for those that compete.
        right = min(1.1 * float(mean.max()), 2.2 * float(mean.min()))
        places = np.arange(len(labels))
        ax.barh(places, mean, xerr=spread / np.sqrt(len(values)), color=colors)
        ax.axvline(float(mean[0]), color=COLORS[5], lw=0.8)
        ax.set(title=data, xlim=(0.6 * float(mean.min()), right))
        ax.set_yticks(places, labels, fontsize=7)
    axes[0, 0].invert_yaxis()
    for ax in axes[1]:
        ax.set_xlabel("test MSE")
    return _finish(figure, name, quick)


def _finish(figure: Any, name: str, quick: bool) -> str:
    """Quick results do not replace a picture of the documentation."""
    folder = results_folder(quick) if quick else IMAGES
    folder.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(folder / f"{name}.png", dpi=110)
    plt.close(figure)
    return f"{folder.name}/{name}.png"


DRAW = {1: draw_convergence, 2: draw_planted, 3: draw_tables}
