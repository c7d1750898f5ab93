"""What the sections of a report show: figures, tables and numbers for its template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.files.saved import certificate
from manykernels.report import charts
from manykernels.report.charts import ChartCurve
from manykernels.report.number_formats import number, percent, tenths
from manykernels.report.pictures import COLORS, MAX_NAMED_CELLS

# What a reader takes in, and a browser draws without delay; tables have the rest.
MAX_SHARE_BARS = 30
MAX_PATH_CURVES = 8
MAX_EPOCH_MARKS = 400
MAX_POINTS = 2000
MAX_PAGE_ROWS = 5000
N_COLORS = len(COLORS)
Content = dict[str, Any]


@dataclass(frozen=True)
class PageColumn:
    """One column of a table: texts to show, and numbers to sort by."""

    title: str
    texts: Sequence[str]
    values: Sequence[float] | None = None

    @classmethod
    def of(
        cls, title: str, values: Iterable[Any], form: Callable[[Any], str] = tenths
    ) -> PageColumn:
        """Numbers, and their texts."""
        values = [float(value) for value in values]
        return cls(title, [form(value) for value in values], values)


def score_format(findings: Any) -> Callable[[float], str]:
    """Return how scores are written: shares in percent, others as numbers."""
    return tenths if findings.unit_[0] != 1.0 else number


def _rank(values: Any, limit: int | None = None) -> np.ndarray:
    """Positions, largest value first, NaN last."""
    values = np.nan_to_num(np.asarray(values, dtype=float), nan=-1.0)
    return np.argsort(-values, kind="stable")[:limit]


# --- predictions ----------------------------------------------------------------------


def methods(findings: Any) -> Content | None:
    """Every method on the same splits."""
    summary = getattr(findings, "summary_", None)
    if summary is None:
        return None
    form, names = score_format(findings), list(summary["title"])
    scores = [
        findings.scores_["score"][findings.scores_["method"] == method]
        for method in summary["method"]
    ]
    chart = charts.method_chart(
        names, scores, summary["score"], summary["std_error"], findings.metric_, form
    )
    ends = zip(summary["lowest"], summary["highest"], strict=True)
    columns = [
        PageColumn("method", names),
        PageColumn.of(findings.metric_, summary["score"], form),
        PageColumn("gain over uniform weights", _gains(findings), summary["gain"]),
        PageColumn(
            "lowest to highest",
            [f"{form(low)} to {form(high)}" for low, high in ends],
            summary["lowest"],
        ),
        PageColumn.of("seconds a split", summary["seconds"], "{:.2f}".format),
    ]
    return {"chart": chart, "columns": columns}


def _gains(findings: Any) -> list[str]:
    factor = findings.unit_[0]
    digits = 1 if factor != 1.0 else 3
    texts = []
    for line in findings.summary_.lines():
        size = round(factor * line["gain"], digits) + 0.0  # no minus before zero
        error = factor * line["gain_error"]
        text = f"{size:+.{digits}f}"
        text += "" if np.isnan(error) else f" ± {error:.{digits}f}"
        texts.append("reference" if line["method"] == "uniform" else text)
    return texts


def classes(findings: Any) -> Content | None:
    """The confusion matrix, and precision and recall of every class."""
    counts = getattr(findings, "confusion_", None)
    if counts is None:
        return None
    names = [str(label) for label in findings.classes_]
    chart = None
    if len(names) <= MAX_NAMED_CELLS:
        chart = charts.confusion_chart(counts, names)
    lines = [
        line for line in findings.class_results_.lines() if line["method"] == "mkl"
    ]
    columns = [
        PageColumn("class", [str(line["class"]) for line in lines]),
        PageColumn.of("rows", [line["rows"] for line in lines], "{:.0f}".format),
    ]
    for name in ("precision", "recall", "f1"):
        columns.append(PageColumn.of(name, [line[name] for line in lines]))
    return {"chart": chart, "columns": columns}


def values(findings: Any) -> Content | None:
    """Predicted against true numbers."""
    if getattr(findings, "kind_", None) != "regression":
        return None
    table = findings.predictions_
    chosen = np.random.default_rng(0).permutation(len(table["row"]))[:MAX_POINTS]
    row, true, predicted = (table[k][chosen] for k in ("row", "true", "predicted"))
    tips = [
        f"{findings.row_names_[i]}: true {number(a)}, predicted {number(b)}"
        for i, a, b in zip(row, true, predicted, strict=True)
    ]
    return {"chart": charts.prediction_chart(true, predicted, tips)}


def calibration(findings: Any) -> Content | None:
    """Observed frequencies in groups of equal predicted probability."""
    bins = getattr(findings, "calibration_", None)
    if bins is None:
        return None
    titles = getattr(findings, "titles_", {"mkl": "this model"})
    shown = 2  # learned and uniform weights, until others are chosen in the legend
    curves = []
    for method in dict.fromkeys(bins["method"].tolist()):
        chosen = bins["method"] == method
        columns = (bins[name][chosen] for name in ("probability", "frequency", "error"))
        curves.append(ChartCurve(titles[method], *columns))
    two = len(findings.classes_) == 2
    title = f"probability of {findings.classes_[1]}" if two else "predicted probability"
    return {
        "chart": charts.calibration_chart(curves, title, shown),
        "items": [(curve.name, curve.name) for curve in curves],
        "shown": shown,
        "two": two,
        "distances": [(c.name, tenths(np.mean(np.abs(c.x - c.y)))) for c in curves],
    }


def missing(findings: Any) -> Content | None:
    """Scores of rows by the views that they lack."""
    lines = getattr(findings, "missing_", None)
    if lines is None:
        return None
    form = score_format(findings)
    columns = [
        PageColumn("views that are missing", list(lines["lacking"])),
        PageColumn.of("rows", lines["rows"], "{:.0f}".format),
    ]
    for method, title in getattr(
        findings, "titles_", {"mkl": findings.metric_}
    ).items():
        texts = ["–" if np.isnan(value) else form(value) for value in lines[method]]
        columns.append(PageColumn(title, texts, lines[method]))
    return {"columns": columns}


# --- kernels --------------------------------------------------------------------------


def importance(findings: Any) -> Content:
    """Shares on unseen rows beside weights, or weights alone."""
    views = getattr(findings, "view_importance_", None)
    if views is None:
        weight = np.atleast_2d(findings.model_.kernel_weights_).mean(axis=0)
        names = findings.model_.kernel_names_
        return {"chart": charts.weight_chart(names, weight, MAX_SHARE_BARS)}
    weights = getattr(findings, "weights_", {})
    # Views come first: they are what most readers know by name.
    panels = [_shares("kernels", findings.importance_, weights)]
    if views.names != findings.importance_.names:
        panels.insert(0, _shares("views", views, {}))
    return {"panels": panels}


def _shares(by: str, findings: Any, weights: Any) -> Content:
    order = _rank(findings.share)
    shown = order[:MAX_SHARE_BARS]
    ranges = None
    if "lowest" in weights:
        ranges = [np.asarray(weights[end])[shown] for end in ("lowest", "highest")]
    chart = charts.importance_chart(
        f"importance-{by}",
        [findings.names[f] for f in shown],
        findings.share[shown],
        findings.interval()[:, shown],
        findings.weight[shown],
        ranges,
    )
    columns = [PageColumn("name", [findings.names[f] for f in order])]
    for title, values in (
        ("share", findings.share),
        ("standard error", findings.std_error),
        ("weight", findings.weight),
        ("score lost without it", findings.drop),
        ("score lost, rows shuffled", findings.permuted),
    ):
        columns.append(PageColumn.of(title, np.asarray(values)[order]))
    more = len(order) - len(shown)
    return {
        "title": by,
        "chart": chart,
        "ranges": bool(ranges),
        "more": more,
        "columns": columns,
    }


def likeness(findings: Any) -> Content | None:
    """Alignments between the heaviest kernels."""
    overview = getattr(findings, "overview_", None)
    if overview is None or len(overview.kernels) < 2:
        return None
    names = [findings.model_.kernel_names_[f] for f in overview.kernels]
    chart = charts.alignment_chart(overview.alignments, names)
    return {
        "chart": chart,
        "n_shown": len(names),
        "n_kernels": len(findings.model_.kernel_names_),
    }


def stability(findings: Any) -> Content | None:
    """Weights on halves of the rows."""
    stable = getattr(findings, "stability_", None)
    if stable is None:
        return None
    weights = stable.weights[:, 0, 0]
    mean, often = weights.mean(axis=0), stable.frequency[0, 0]
    order = _rank(mean, MAX_SHARE_BARS)
    ends = np.percentile(weights[:, order], [5.0, 95.0], axis=0)
    texts = [f"{tenths(low)} to {tenths(high)}" for low, high in ends.T]
    columns = [
        PageColumn("kernel", [stable.names[f] for f in order]),
        PageColumn.of("selected", often[order], "{:.0%}".format),
        PageColumn.of("mean weight", mean[order]),
        PageColumn("5 % to 95 % of the halves", texts, ends[1]),
    ]
    return {
        "columns": columns,
        "n_halves": len(weights),
        "threshold": percent(stable.threshold),
        "more": len(mean) - len(order),
    }


def path(findings: Any) -> Content | None:
    """Weights and scores along C."""
    steps = getattr(findings, "path_", None)
    if steps is None or len(steps["C"]) < 2:
        return _search_path(getattr(findings, "model_", None))
    # Kernels of a view add up to one curve.
    view, names = np.array(findings.weights_["view"]), list(findings.contributions_)
    sums = np.array([steps["weights"][:, view == name].sum(axis=1) for name in names])
    heaviest = np.sort(_rank(sums.max(axis=1), MAX_PATH_CURVES))
    weights = [ChartCurve(names[v], steps["C"], sums[v]) for v in heaviest]
    scores = [ChartCurve("inner folds", steps["C"], steps["score"])]
    form = percent if findings.unit_[0] != 1.0 else number
    return {
        "chart": charts.path_chart(
            weights, scores, findings.metric_, findings.C_, form
        ),
        "items": [(curve.name, curve.name) for curve in weights],
        "p": findings.p_,
        "C": findings.C_,
    }


def _search_path(model: Any) -> Content | None:
    results = getattr(model, "cv_results_", None)
    if results is None or "param_C" not in results or "param_p" not in results:
        return None
    curves = []
    for p in dict.fromkeys(np.asarray(results["param_p"]).tolist()):
        chosen = results["param_p"] == p
        columns = (results[name][chosen] for name in ("param_C", "mean_test_score"))
        curves.append(ChartCurve(f"p = {p:g}", *columns))
    if len(curves[0].x) < 2:
        return None
    best = float(np.ravel(model.best_C_)[0])
    return {
        "chart": charts.path_chart([], curves, "score", best, number),
        "items": [(curve.name, curve.name) for curve in curves],
        "p": None,
        "C": best,
    }


def convergence(findings: Any) -> Content | None:
    """The objective, the bound below it, and the gap."""
    model = getattr(findings, "model_", None)
    history = [line for line in getattr(model, "history_", []) if hasattr(line, "gap")]
    if not history:
        return None
    # Every so many epochs, counted from the last, which always counts.
    step = max(1, len(history) // MAX_EPOCH_MARKS)
    bound = certificate(model)
    chart = charts.convergence_chart(history[::-1][::step][::-1], bound["tol"])
    return {"chart": chart, "gap": 100 * bound["relative_gap"]}


# --- rows -----------------------------------------------------------------------------


def places(findings: Any) -> Content | None:
    """The first two principal components of the learned kernel."""
    overview = getattr(findings, "overview_", None)
    if overview is None:
        return None
    line_of = {int(findings.predictions_["row"][i]): i for i in _first_repeat(findings)}
    known = np.array([row in line_of for row in overview.rows.tolist()])
    rows = overview.rows[known].tolist()
    lines = [line_of[row] for row in rows]
    truths = [_truth(findings, i) for i in lines]
    names = [findings.row_names_[row] for row in rows]
    tips = [f"{name}: {true}" for name, true in zip(names, truths, strict=True)]
    label = "Rows in the plane of the learned kernel"
    items: list[tuple[str, str]] = []
    kinds, values = None, None
    if findings.classes_ is None:
        values = [np.ravel(findings.predictions_["true"][i])[0] for i in lines]
    else:
        kinds, items = _class_colors(findings, lines)
        label += f", {len(findings.classes_)} classes"
    chart = charts.row_chart(overview.places[known], kinds, values, tips, rows, label)
    shares = " and ".join(percent(share) for share in overview.explained)
    return {"chart": chart, "items": items, "shares": shares}


def _class_colors(
    findings: Any, lines: Sequence[int]
) -> tuple[np.ndarray, list[tuple[str, str]]]:
    """A color per class; the rarest of many classes share one."""
    labels = np.searchsorted(findings.classes_, findings.predictions_["true"][lines])
    names = [str(label) for label in findings.classes_]
    if len(names) <= N_COLORS + 2:
        return labels, [(str(k), name) for k, name in enumerate(names)]
    counts = np.bincount(labels, minlength=len(names))
    common = np.sort(_rank(counts, N_COLORS - 1))
    kinds = np.full(len(names), N_COLORS - 1)
    kinds[common] = np.arange(len(common))
    items = [(str(k), names[label]) for k, label in enumerate(common)]
    return kinds[labels], [*items, (str(N_COLORS - 1), "other classes")]


def _first_repeat(findings: Any) -> np.ndarray:
    """Lines of the predictions that have every row once."""
    return np.flatnonzero(findings.predictions_["repeat"] == 0)


def _truth(findings: Any, i: int) -> str:
    value = findings.predictions_["true"][i]
    if findings.kind_ == "survival":  # a time that is not over has a plus
        return number(float(value[0])) + "+" * (not value[1])
    return str(value) if findings.classes_ is not None else number(float(value))


def rows(findings: Any) -> Content | None:
    """Every row with the part of every view in its prediction."""
    if not hasattr(findings, "contributions_"):
        return None
    table, labeled = findings.predictions_, findings.classes_ is not None
    parts = np.column_stack(list(findings.contributions_.values()))
    lines = []
    for i in _first_repeat(findings)[:MAX_PAGE_ROWS]:
        row, predicted = int(table["row"][i]), table["predicted"][i]
        lines.append(
            {
                "at": row,
                "name": findings.row_names_[row],
                "true": _truth(findings, i),
                "predicted": str(predicted) if labeled else number(float(predicted)),
                "sure": tenths(table["probability"][i]) if labeled else "",
                "wrong": bool(labeled and predicted != table["true"][i]),
                "margin": round(abs(float(parts[i].sum())), 6),
                "parts": [float(f"{part:.3g}") for part in parts[i]],
            }
        )
    lines.sort(key=lambda line: line["at"])
    return {
        "views": list(findings.contributions_),
        "labeled": labeled,
        "toward": _positive_side(findings),
        "data": {"views": list(findings.contributions_), "rows": lines},
    }


def _positive_side(findings: Any) -> str:
    """What a positive part of a view raises."""
    if findings.classes_ is None:
        return "a larger value" if findings.kind_ == "regression" else "a later event"
    if len(findings.classes_) == 2:
        return str(findings.classes_[1])
    return "the predicted class over the next"


Section = tuple[str, str, Callable[[Any], Content | None]]
SECTIONS: tuple[Section, ...] = (
    ("methods", "Every method on the same rows", methods),
    ("importance", "Importance beside weights", importance),
    ("likeness", "Which kernels are alike", likeness),
    ("classes", "Confusion matrix", classes),
    ("values", "Predicted and true values", values),
    ("calibration", "Calibration of probabilities", calibration),
    ("missing", "Rows that lack a view", missing),
    ("places", "Rows in the learned kernel", places),
    ("rows", "Parts of the views in each prediction", rows),
    ("path", "Weights and scores along C", path),
    ("stability", "Stability on halves of the rows", stability),
    ("convergence", "Distance from the optimum", convergence),
)
