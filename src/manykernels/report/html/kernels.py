"""Sections about kernels: importance, likeness, stability, path, convergence."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.files.saved import certificate
from manykernels.report.html import charts
from manykernels.report.html.charts import Series
from manykernels.report.html.drawing import number, percent, tenths
from manykernels.report.html.markup import Markup, joined, tag
from manykernels.report.html.parts import (
    Column,
    Section,
    figure,
    folded,
    legend,
    table,
    tabs,
)

MOST_BARS = 30
MOST_CURVES = 8
MOST_EPOCHS = 400  # drawn of a history


def importance(found: Any) -> Section | None:
    """Shares on unseen rows, next to weights."""
    views = getattr(found, "view_importance_", None)
    if views is None:
        return _weights_alone(found)
    panels = []
    if views.names != found.importance_.names:
        panels.append(("views", _shares(views, None)))
    panels.append(
        ("kernels", _shares(found.importance_, getattr(found, "weights_", None)))
    )
    intro = (
        "A weight says what the model leaned on in training, and noise can have a "
        "large one. The share says what held on rows that the model had not seen: its "
        f"part of the {_what(found.kind_)}, with a 95 % interval."
    )
    return Section(
        "importance",
        "What matters, and what merely has weight",
        joined(tag("p", intro), tabs("importance-by", panels)),
    )


def _what(kind: str) -> str:
    return {
        "classification": "margin between the right class and the next",
        "regression": "covariance with the target",
        "survival": "difference between earlier and later events",
    }[kind]


def _shares(found: Any, weights: Any) -> Markup:
    order = np.argsort(-np.nan_to_num(found.share, nan=-1.0), kind="stable")
    shown, (low, high) = order[:MOST_BARS], found.interval()
    ranges = None
    if weights is not None and "lowest" in weights:
        ranges = [np.asarray(weights[end])[shown] for end in ("lowest", "highest")]
    picture = charts.importance_chart(
        [found.names[f] for f in shown],
        found.share[shown],
        low[shown],
        high[shown],
        found.weight[shown],
        ranges,
    )
    more = len(order) - len(shown)
    caption = (
        "Left: share with its 95 % interval; an interval that holds 0 is no evidence. "
        f"Right: weight{', with its range over splits' if ranges else ''}."
    )
    if more:
        caption += f" The {more} with the smallest shares are in the table only."
    return joined(figure(picture, caption), folded("Table", _share_table(found, order)))


def _share_table(found: Any, order: np.ndarray) -> Markup:
    columns = [Column("name", [found.names[f] for f in order])]
    for title, values in (
        ("share", found.share),
        ("standard error", found.std_error),
        ("weight", found.weight),
        ("score lost without it", found.drop),
        ("score lost, rows shuffled", found.permuted),
    ):
        values = np.asarray(values)[order]
        columns.append(Column(title, [tenths(v) for v in values], values))
    return table(columns, "Shares sum to one; what the score loses is not refitted")


def _weights_alone(found: Any) -> Section:
    model = found.model_
    weight = np.atleast_2d(model.kernel_weights_).mean(axis=0)
    order = np.argsort(-weight, kind="stable")[:MOST_BARS]
    picture = charts.weights_chart(
        [model.kernel_names_[f] for f in order], weight[order]
    )
    note = (
        "Weights are no importance: a kernel that fits the training rows well may say "
        "nothing about new ones. Pass unseen rows to the report to see what holds "
        "there."
    )
    return Section("importance", "Kernel weights", figure(picture, note))


def likeness(found: Any) -> Section | None:
    """Which kernels say the same."""
    overview = getattr(found, "overview_", None)
    if overview is None or len(overview.kernels) < 2:
        return None
    order = _alike_together(overview.alignments)
    values = overview.alignments[np.ix_(order, order)]
    names = [found.model_.kernel_names_[f] for f in overview.kernels[order]]
    few = len(names) <= charts.MOST_NUMBERED
    numbers = [[f"{v:.2f}" for v in row] for row in values] if few else None
    label = f"Centered alignment between {len(names)} kernels"
    picture = charts.heat_map(names, names, values, numbers, label)
    caption = (
        "Centered alignment: 1 (full color) where two kernels tell the same story, 0 "
        "where they have nothing in common. Kernels that are alike stand together; one "
        "of several alike can go."
    )
    everyone = len(found.model_.kernel_names_)
    if len(names) < everyone:
        caption += f" The {len(names)} heaviest of {everyone} kernels."
    return Section("likeness", "Which kernels say the same", figure(picture, caption))


def _alike_together(values: np.ndarray) -> np.ndarray:
    """An order in which likes are neighbors."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(values) < 3:
        return np.arange(len(values))
    far = 1.0 - np.clip(0.5 * (values + values.T), 0.0, 1.0)
    np.fill_diagonal(far, 0.0)
    return np.asarray(leaves_list(linkage(squareform(far, checks=False), "average")))


def stability(found: Any) -> Section | None:
    """Weights on halves of the rows."""
    stable = getattr(found, "stability_", None)
    if stable is None:
        return None
    weights = stable.weights[:, 0, 0]
    order = np.argsort(-weights.mean(axis=0), kind="stable")
    often, more = stable.frequency[0, 0], max(len(order) - MOST_BARS, 0)
    order = order[:MOST_BARS]
    low, high = np.percentile(weights, [5.0, 95.0], axis=0)
    columns = [
        Column("kernel", [stable.names[f] for f in order]),
        Column("selected", [f"{often[f]:.0%}" for f in order], often[order]),
        Column(
            "mean weight",
            [tenths(weights[:, f].mean()) for f in order],
            weights.mean(axis=0)[order],
        ),
        Column(
            "5 % to 95 % of the halves",
            [f"{tenths(low[f])} to {tenths(high[f])}" for f in order],
            high[order],
        ),
    ]
    intro = (
        f"The chosen p and C on {len(weights)} halves of the rows: selected is a "
        f"kernel with more than {percent(stable.threshold)} of the weight there."
    )
    if more:
        intro += f" The {more} lightest kernels are left out."
    return Section(
        "stability",
        "Would other rows choose the same?",
        joined(tag("p", intro), table(columns, "Weights on halves of the rows")),
    )


def path(found: Any) -> Section | None:
    """Weights and scores along C."""
    steps = getattr(found, "path_", None)
    if steps is None or len(steps["C"]) < 2:
        return _searched_path(found)
    names, groups = _by_view(found)
    sums = np.array(
        [[row[group].sum() for group in groups] for row in steps["weights"]]
    )
    heavy = np.argsort(-sums.max(axis=0), kind="stable")[:MOST_CURVES]
    curves = [Series(names[v], steps["C"], sums[:, v]) for v in sorted(heavy)]
    weights = charts.line_chart(
        curves, "C", "weight", log_x=True, marked=found.C_, form=percent, y_from=0.0
    )
    score = charts.line_chart(
        [Series("inner folds", steps["C"], steps["score"])],
        "C",
        found.metric_,
        log_x=True,
        marked=found.C_,
        height=220.0,
        form=percent if found.unit_[0] != 1.0 else number,
    )
    boxes = legend("Views", "series", [(one.name, one.name) for one in curves])
    caption = (
        f"Sums of kernel weights on all rows for every C at p = {found.p_:g}; the "
        f"dashed line is the C that the folds chose, {found.C_:g}."
    )
    return Section(
        "path",
        "From small C to large",
        joined(
            figure(weights, caption, boxes),
            figure(score, f"{found.metric_.capitalize()} on folds of all rows."),
        ),
    )


def _searched_path(found: Any) -> Section | None:
    """The scores of a search, where the model is one."""
    results = getattr(getattr(found, "model_", None), "cv_results_", None)
    if results is None or "param_C" not in results or "param_p" not in results:
        return None
    series = []
    for p in dict.fromkeys(np.asarray(results["param_p"]).tolist()):
        here = results["param_p"] == p
        series.append(
            Series(
                f"p = {p:g}", results["param_C"][here], results["mean_test_score"][here]
            )
        )
    if len(series[0].x) < 2:
        return None
    best = float(np.ravel(found.model_.best_C_)[0])
    picture = charts.line_chart(series, "C", "score", log_x=True, marked=best)
    boxes = legend("Exponents", "series", [(one.name, one.name) for one in series])
    caption = "Mean score of the search's folds; the dashed line is the chosen C."
    return Section("path", "From small C to large", figure(picture, caption, boxes))


def _by_view(found: Any) -> tuple[list[str], list[np.ndarray]]:
    """Names of views, or of kernels where no view has several, and their kernels."""
    view = np.array(found.weights_["view"])
    names = list(dict.fromkeys(view.tolist()))
    return names, [view == name for name in names]


def convergence(found: Any) -> Section | None:
    """The objective, the bound below it, and the gap."""
    model = getattr(found, "model_", None)
    history = [x for x in getattr(model, "history_", []) if hasattr(x, "gap")]
    if not history:
        return None
    step = max(1, len(history) // MOST_EPOCHS)
    history = history[::-1][::step][::-1]
    epochs = [line.epoch for line in history]
    best = np.minimum.accumulate([line.objective for line in history])
    gap = np.array([line.gap for line in history])
    bound = best * (1.0 - gap)
    sure = certificate(model)
    curves = [Series("objective", epochs, best), Series("lower bound", epochs, bound)]
    log = 0.0 < 10.0 * bound.min() < best.max()
    upper = charts.line_chart(curves, "epoch", "objective", band=True, log_y=log)
    positive = gap > 0.0
    lower = None
    if positive.sum() > 1:
        series = [Series("relative gap", np.array(epochs)[positive], gap[positive])]
        level = (sure["tol"], f"tol = {sure['tol']:g}") if sure["tol"] > 0.0 else None
        lower = figure(
            charts.line_chart(
                series, "epoch", "relative gap", log_y=True, level=level, height=220.0
            ),
            "The certified gap after every epoch, and the tolerance.",
        )
    told = (
        f"The model is at most {100 * sure['relative_gap']:.2g} % above the optimum of "
        "its problem, whatever the solver did: the lower bound proves it."
    )
    caption = "The optimum lies in the shaded band."
    boxes = legend("Curves", "series", [(one.name, one.name) for one in curves])
    return Section(
        "convergence",
        "How far from the optimum",
        joined(tag("p", told), figure(upper, caption, boxes), lower),
    )
