"""Kernel weights and convergence as pictures, drawn without a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from manykernels.base.extras import require_library
from manykernels.report.bars import weight_bars
from manykernels.solvers import Epoch

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: told apart with any common color blindness.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
GRAY = "#666666"
MOST_BARS = 16


def plot_weights(
    ax: Axes,
    names: Sequence[str],
    weights: Sequence[float],
    groups: Sequence[str] | None = None,
    limit: int = MOST_BARS,
) -> None:
    """Draw one horizontal bar per kernel, largest on top, colored by group.

    Parameters
    ----------
    ax : matplotlib Axes
    names, weights : sequences of equal length
    groups : sequence of str, optional
        What each kernel belongs to, for instance its view.
    limit : int
        Kernels with a bar of their own; the others share one bar per group.
    """
    groups = [""] * len(names) if groups is None else list(groups)
    _require_equal_lengths(names, weights, groups)
    bars = weight_bars(names, weights, groups, limit)
    order = list(dict.fromkeys(groups))
    for group in order:
        places = [i for i, bar in enumerate(bars) if bar.group == group]
        total = sum(w for w, g in zip(weights, groups, strict=True) if g == group)
        ax.barh(
            places,
            [bars[i].weight for i in places],
            color=COLORS[order.index(group) % len(COLORS)],
            label=f"{group} ({groups.count(group)} kernels, {total:.0%} of the weight)",
        )
    ax.set_yticks(range(len(bars)), [bar.label for bar in bars], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel("kernel weight (all sum to 1)")
    ax.set_title("What the model listens to")
    if any(order):
        ax.legend(loc="lower right", fontsize=8)
    tidy(ax)


def plot_convergence(ax: Axes, history: Sequence[Epoch]) -> None:
    """Draw the best objective and the certified lower bound after every epoch.

    The optimum lies in the shaded band between the two.
    """
    epochs, best, bound = _certificate(history)
    ax.plot(epochs, best, "o-", color=COLORS[0], ms=3, label="objective")
    ax.plot(epochs, bound, "s--", color=COLORS[1], ms=3, label="certified lower bound")
    ax.fill_between(epochs, bound, best, color=GRAY, alpha=0.15, lw=0)
    # Worth a logarithm only when it spans decades; a bound of zero has none.
    if 0.0 < 10.0 * bound.min() < best.max():
        ax.set_yscale("log")
    ax.set_ylabel("objective")
    ax.set_title("The optimum is between the lines")
    ax.legend(fontsize=8)
    _epoch_axis(ax)


def plot_gap(ax: Axes, history: Sequence[Epoch], tol: float | None = None) -> None:
    """Draw the certified relative gap after every epoch, and the tolerance."""
    epochs = [line.epoch for line in history]
    gaps = [line.gap for line in history]
    ax.plot(epochs, gaps, "o-", color=COLORS[2], ms=3)
    if any(gap > 0.0 for gap in gaps):
        ax.set_yscale("log")
    if tol:
        ax.axhline(tol, color=GRAY, lw=1, ls=":")
        ax.annotate(f"tol = {tol:g}", (epochs[0], tol), fontsize=8, va="bottom")
    ax.set_ylabel("relative gap")
    _epoch_axis(ax)


def plot_fit(
    model: Any, groups: Sequence[str] | None = None, title: str | None = None
) -> Figure:
    """Return a figure of a fitted classifier: weights left, convergence right.

    Parameters
    ----------
    model : fitted MKLClassifier
    groups : sequence of str, optional
        What each kernel belongs to; gives the colors.
    title : str, optional

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import manykernels as mk
    >>> X, y = load_iris(return_X_y=True)
    >>> figure = plot_fit(mk.MKLClassifier("rbf@0; rbf@2", random_state=0).fit(X, y))
    >>> [ax.get_xlabel() for ax in figure.axes]
    ['kernel weight (all sum to 1)', '', 'epoch']
    """
    _require_fitted(model)
    figure = new_figure(10.0, 4.6)
    grid = figure.add_gridspec(2, 2, width_ratios=(1.15, 1.0), height_ratios=(1.6, 1.0))
    weights = figure.add_subplot(grid[:, 0])
    plot_weights(weights, model.kernel_names_, model.kernel_weights_, groups)
    upper = figure.add_subplot(grid[0, 1])
    plot_convergence(upper, model.history_)
    upper.set_xlabel("")
    lower = figure.add_subplot(grid[1, 1], sharex=upper)
    plot_gap(lower, model.history_, model.tol)
    if title:
        figure.suptitle(title)
    return figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, with matplotlib imported late: it is slow to load.

    A figure of its own leaves pyplot's windows and global state alone.
    """
    library = require_library("matplotlib.figure", "plot")
    figure: Figure = library.Figure(figsize=(width, height), layout="constrained")
    return figure


def _certificate(
    history: Sequence[Epoch],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Epochs, the lowest objective so far, and the bound that goes with its gap."""
    epochs = np.array([line.epoch for line in history])
    best = np.minimum.accumulate([line.objective for line in history])
    return epochs, best, best * (1.0 - np.array([line.gap for line in history]))


def _epoch_axis(ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("epoch")
    ax.grid(alpha=0.3, which="major")
    tidy(ax)


def tidy(ax: Axes) -> None:
    """No frame at the top and on the right."""
    ax.spines[["top", "right"]].set_visible(False)


def _require_equal_lengths(*sequences: Sequence[Any]) -> None:
    lengths = [len(sequence) for sequence in sequences]
    if len(set(lengths)) > 1:
        raise ValueError(
            "names, weights and groups must have one entry per kernel, got "
            f"{lengths[0]}, {lengths[1]} and {lengths[2]}; give all three the same "
            "length."
        )


def _require_fitted(model: Any) -> None:
    if not hasattr(model, "history_"):
        raise ValueError(
            f"plot_fit needs a fitted MKLClassifier, got {type(model).__name__} "
            "without a history; call fit first."
        )
