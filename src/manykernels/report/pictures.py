"""Kernel weights and convergence as pictures, drawn without a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from manykernels.base.imports import require_library
from manykernels.inputs.reporting import shortened
from manykernels.solvers.loop import Epoch

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Darker relatives of Okabe and Ito's colors: distinct with any common color
# blindness, and with enough contrast on white for thin lines.
COLORS = (
    "#0072b2",
    "#d55e00",
    "#007f5c",
    "#b3558a",
    "#b07a00",
    "#2f8fc4",
    "#6f6a00",
    "#5f5f5f",
)
GRAY = "#565f69"
MAX_NAMED_CELLS = 40  # rows of cells with a name, a line of text each
MAX_NUMBERED_CELLS = 12  # rows of cells with a number in each


def plot_weights(
    ax: Axes,
    names: Sequence[str],
    weights: Sequence[float],
    groups: Sequence[str] | None = None,
    limit: int = 16,
) -> Any:
    """Draw one horizontal bar per kernel, largest on top, colored by group.

    Parameters
    ----------
    ax : matplotlib Axes
    names, weights : sequences of equal length
    groups : sequence of str, optional
        What each kernel belongs to, for instance its view.
    limit : int
        Kernels with a bar of their own; the others share one bar per group.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> figure = plot_weights(Figure().subplots(), ["a", "b"], [0.2, 0.8])
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['b', 'a']
    """
    groups = [""] * len(names) if groups is None else list(groups)
    lengths = [len(names), len(weights), len(groups)]
    if len(set(lengths)) > 1:
        raise ValueError(
            "names, weights and groups must have one entry per kernel, got "
            f"{lengths[0]}, {lengths[1]} and {lengths[2]}; give all three the same "
            "length."
        )
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
    ax.set_yticks(
        range(len(bars)), [shortened(bar.label, 40) for bar in bars], fontsize=8
    )
    ax.invert_yaxis()
    ax.set_xlabel("kernel weight (all sum to 1)")
    ax.set_title("What the model listens to")
    if any(order):
        ax.legend(loc="lower right", fontsize=8)
    hide_frame(ax)
    return ax.figure


def plot_convergence(ax: Axes, history: Sequence[Epoch]) -> Any:
    """Draw the best objective and the certified lower bound after every epoch.

    The optimum lies in the shaded band between the two.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from manykernels.solvers.loop import Epoch
    >>> lines = [Epoch(1, 0.1, 2.0, 0.5, 100), Epoch(2, 0.2, 1.5, 0.1, 200)]
    >>> plot_convergence(Figure().subplots(), lines).axes[0].get_ylabel()
    'objective'
    """
    epochs = [line.epoch for line in history]
    best = np.minimum.accumulate([line.objective for line in history])
    bound = best * (1.0 - np.array([line.gap for line in history]))
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
    return ax.figure


def plot_gap(ax: Axes, history: Sequence[Epoch], tol: float | None = None) -> Any:
    """Draw the certified relative gap after every epoch, and the tolerance.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from manykernels.solvers.loop import Epoch
    >>> lines = [Epoch(1, 0.1, 2.0, 0.5, 100), Epoch(2, 0.2, 1.5, 0.1, 200)]
    >>> plot_gap(Figure().subplots(), lines, tol=0.01).axes[0].get_yscale()
    'log'
    """
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
    return ax.figure


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
    if not hasattr(model, "history_"):
        raise ValueError(
            f"plot_fit needs a fitted MKLClassifier, got {type(model).__name__} "
            "without a history; call fit first."
        )
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


def plot_interactions(model: Any, ax: Axes | None = None, limit: int = 20) -> Any:
    """Draw one horizontal bar per interaction, strongest on top.

    Bars are coefficients of products of scaled columns, colored by sign; where a
    product is no single feature they are kernel weights.

    Parameters
    ----------
    model : fitted PolynomialMKLRegressor or PolynomialMKLClassifier
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.
    limit : int
        Interactions shown at most.

    Returns
    -------
    figure : matplotlib Figure

    Examples
    --------
    >>> import manykernels as mk
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(80, 6))
    >>> model = mk.PolynomialMKLRegressor().fit(X, X[:, 0] * X[:, 2] - X[:, 4])
    >>> figure = plot_interactions(model)
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['x4', 'x0 * x2']
    """
    if not hasattr(model, "interactions_"):
        raise ValueError(
            "plot_interactions needs a fitted PolynomialMKLRegressor or "
            f"PolynomialMKLClassifier, got {type(model).__name__} without "
            "interactions; call fit first."
        )
    table = model.interactions_
    shown = min(limit, table.n_rows)
    ax = new_figure(6.4, 1.6 + 0.26 * shown).add_subplot() if ax is None else ax
    signed = not np.isnan(table["coefficient"][:shown]).any()
    values = np.asarray(table["coefficient" if signed else "weight"][:shown])
    colors = {1: COLORS[0], -1: COLORS[1], 0: COLORS[2]}  # by sign, if any
    bar_colors = [colors[int(sign)] for sign in table["sign"][:shown]]
    labels = list(table["interaction"][:shown])
    if "class" in table:
        labels = [f"{a} [{b}]" for a, b in zip(labels, table["class"], strict=False)]
    ax.barh(range(shown), values, color=bar_colors)
    ax.set_yticks(range(shown), labels, fontsize=8)
    ax.invert_yaxis()
    ax.axvline(0.0, color=GRAY, lw=0.8)
    what = "coefficient of the product of scaled columns" if signed else "kernel weight"
    ax.set_xlabel(what)
    more = table.n_rows - shown
    ax.set_title("Strongest interactions" + (f" ({more} more)" if more else ""))
    hide_frame(ax)
    return ax.figure


def plot_alignments(
    alignments: Any, names: Sequence[str] | None = None, ax: Axes | None = None
) -> Any:
    """Draw how alike kernels are, each next to those that it is most like.

    Parameters
    ----------
    alignments : array of shape (n_kernels, n_kernels)
        From `kernel_alignments`.
    names : sequence of str, optional
        One per kernel; by default their positions.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    figure : matplotlib Figure

    Examples
    --------
    >>> import manykernels as mk
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> alike = mk.kernel_alignments(X, "rbf@0; rbf@1; linear@0")
    >>> figure = plot_alignments(alike, ["rbf@0", "rbf@1", "linear@0"])
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['rbf@1', 'rbf@0', 'linear@0']
    """
    values = np.asarray(alignments, dtype=float)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not values.size:
        raise ValueError(
            "alignments must have the shape (n_kernels, n_kernels), got "
            f"{values.shape}; pass what kernel_alignments returns."
        )
    labels = [str(f) for f in range(len(values))] if names is None else list(names)
    if len(labels) != len(values):
        raise ValueError(
            f"names must have one entry for each of {len(values)} kernels, got "
            f"{len(labels)}; name them all, or none."
        )
    order = _alike_together(values)
    values, labels = values[np.ix_(order, order)], [labels[f] for f in order]
    size = 2.4 + 0.3 * min(len(labels), MAX_NAMED_CELLS)
    ax = new_figure(size + 1.0, size).add_subplot() if ax is None else ax
    cells = draw_cells(ax, values, labels, [f"{v:.2f}" for v in values.ravel()])
    scale: Any = ax.figure.colorbar(cells, ax=ax, label="centered alignment")
    scale.solids.set_rasterized(False)  # a page takes no bitmaps
    ax.set_title("How alike the kernels are")
    return ax.figure


def plot_model(model: Any) -> Figure:
    """Return the figure that suits a fitted estimator, whichever it is.

    Interactions where it has some; weights and convergence where the history says how
    far the optimum is; else the weights of its kernels or templates.

    Examples
    --------
    >>> import manykernels as mk
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> figure = plot_model(mk.MKLRegressor("rbf@0; rbf@1").fit(X, X[:, 0]))
    >>> len(figure.axes)
    3
    """
    if hasattr(model, "interactions_"):
        return plot_interactions(model)
    if np.ndim(getattr(model, "kernel_weights_", 0.0)) == 1 and any(
        hasattr(line, "gap") for line in getattr(model, "history_", [])
    ):
        return plot_fit(model)
    tables = [
        value
        for value in model.summary().values()
        if isinstance(value, list) and value and isinstance(value[0], dict)
    ]
    if not tables:
        raise ValueError(
            f"expected a model with weights to draw, got {type(model).__name__}; see "
            "its summary instead."
        )
    names = [line["name"] for line in tables[0]]
    figure = new_figure(6.4, 4.6)
    axes = figure.add_subplot()
    plot_weights(axes, names, [line["weight"] for line in tables[0]])
    axes.set_xlabel("weight")
    return figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, with matplotlib imported late: it is slow to load.

    A figure of its own leaves pyplot's windows and global state alone.
    """
    require_library("matplotlib.figure", "plot")
    from manykernels.report.svg_figures import ShownFigure

    return ShownFigure(figsize=(width, height), layout="constrained")


class WeightBar(NamedTuple):
    """One bar: its label, its length and the group that gives its color."""

    label: str
    weight: float
    group: str


def weight_bars(
    names: Sequence[str], weights: Sequence[float], groups: Sequence[str], limit: int
) -> list[WeightBar]:
    """The `limit` largest weights, largest first, then one sum per group of the rest.

    Nothing is left out, so the bars always add up to the sum of the weights.

    Examples
    --------
    >>> bars = weight_bars(["a", "b", "c"], [0.5, 0.1, 0.4], ["x", "y", "y"], limit=2)
    >>> [(bar.label, bar.weight) for bar in bars]
    [('a', 0.5), ('c', 0.4), ('1 other (y)', 0.1)]
    """
    order = np.argsort(-np.asarray(weights, dtype=float), kind="stable")
    shown, rest = order[:limit], order[limit:]
    bars = [WeightBar(names[f], float(weights[f]), groups[f]) for f in shown]
    for group in dict.fromkeys(groups):
        members = [f for f in rest if groups[f] == group]
        if members:
            label = f"{len(members)} other" + (f" ({group})" if group else "")
            bars.append(
                WeightBar(label, float(sum(weights[f] for f in members)), group)
            )
    return bars


def _epoch_axis(ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("epoch")
    ax.grid(alpha=0.3, which="major")
    hide_frame(ax)


def hide_frame(ax: Axes) -> None:
    """Leave out the lines at the top and on the right."""
    ax.spines[["top", "right"]].set_visible(False)


def _alike_together(values: np.ndarray) -> list[int]:
    # Leaves of an average-linkage tree: neighbors are alike.
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(values) < 3:
        return list(range(len(values)))
    apart = np.clip(1.0 - 0.5 * (values + values.T), 0.0, None)
    np.fill_diagonal(apart, 0.0)
    tree = linkage(squareform(apart), method="average", optimal_ordering=True)
    return [int(f) for f in leaves_list(tree)]


def draw_cells(
    ax: Axes, values: np.ndarray, names: Sequence[str], numbers: Sequence[str]
) -> Any:
    """Draw a square of shades from 0 to 1, with names and numbers where they fit."""
    places = range(len(values))
    cells = ax.pcolormesh(places, places, values, vmin=0.0, vmax=1.0, cmap="cividis")
    ax.invert_yaxis()
    ax.set_aspect("equal")
    shown = places if len(values) <= MAX_NAMED_CELLS else []
    labels = [shortened(names[f], 30) for f in shown]
    ax.set_xticks(shown, labels, fontsize=8, rotation=90)
    ax.set_yticks(shown, labels, fontsize=8)
    if len(values) <= MAX_NUMBERED_CELLS:
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7}
        for (i, j), text in zip(np.ndindex(values.shape), numbers, strict=True):
            # The upper part of the color map is light. Black itself is not written to
            # SVG, where such a text would have the color of the page's texts.
            color = "#111111" if values[i, j] > 0.6 else "white"
            ax.text(j, i, text, color=color, **style)
    return cells
