"""The strongest interactions of a fitted model as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from manykernels.report.pictures import COLORS, GRAY, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 20


def plot_interactions(
    model: Any, ax: Axes | None = None, limit: int = MOST_BARS
) -> Any:
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
    _require_fitted(model)
    table = model.interactions_
    shown = min(limit, table.n_rows)
    ax = new_figure(6.4, 1.6 + 0.26 * shown).add_subplot() if ax is None else ax
    signed = not np.isnan(table["coefficient"][:shown]).any()
    values = np.asarray(table["coefficient" if signed else "weight"][:shown])
    ax.barh(range(shown), values, color=_colors(table["sign"][:shown]))
    ax.set_yticks(range(shown), _labels(table, shown), fontsize=8)
    ax.invert_yaxis()
    ax.axvline(0.0, color=GRAY, lw=0.8)
    what = "coefficient of the product of scaled columns" if signed else "kernel weight"
    ax.set_xlabel(what)
    more = table.n_rows - shown
    ax.set_title("Strongest interactions" + (f" ({more} more)" if more else ""))
    tidy(ax)
    return ax.figure


def _colors(signs: Any) -> list[str]:
    """Blue for positive, orange for negative, green where there is no sign."""
    names = {1: COLORS[0], -1: COLORS[1], 0: COLORS[2]}
    return [names[int(sign)] for sign in signs]


def _labels(table: Any, shown: int) -> list[str]:
    labels = list(table["interaction"][:shown])
    if "class" not in table:
        return labels
    return [f"{a} [{b}]" for a, b in zip(labels, table["class"], strict=False)]


def _require_fitted(model: Any) -> None:
    if not hasattr(model, "interactions_"):
        raise ValueError(
            "plot_interactions needs a fitted PolynomialMKLRegressor or "
            f"PolynomialMKLClassifier, got {type(model).__name__} without "
            "interactions; call fit first."
        )
