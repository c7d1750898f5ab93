"""Sections about predictions: methods, classes, probabilities, missing views."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.report.html import charts
from manykernels.report.html.charts import Series
from manykernels.report.html.drawing import number, percent, tenths
from manykernels.report.html.markup import Markup, joined
from manykernels.report.html.parts import (
    Column,
    Section,
    facts,
    figure,
    folded,
    legend,
    table,
)

MOST_CLASSES = 40  # in a picture
MOST_POINTS = 2000
SHOWN_CURVES = 2  # of a calibration, until others are asked for


def methods(found: Any) -> Section | None:
    """Every method on the same splits."""
    summary = getattr(found, "summary_", None)
    if summary is None:
        return None
    form = tenths if found.unit_[0] != 1.0 else number
    names = list(summary["title"])
    scores = [
        found.scores_["score"][found.scores_["method"] == method]
        for method in summary["method"]
    ]
    picture = charts.scores_chart(
        names, scores, summary["score"], summary["std_error"], found.metric_, form
    )
    n = found.n_finished_
    caption = (
        f"{found.metric_.capitalize()} on the rows left out, mean and standard error "
        f"over {n} split{'s' * (n != 1)}; a dot is one split. Splits share training "
        "rows, which the standard errors allow for (Nadeau and Bengio, 2003)."
    )
    return Section(
        "methods",
        "Every method on the same rows",
        joined(
            figure(picture, caption),
            _method_table(found, form),
        ),
    )


def _method_table(found: Any, form: Any) -> Markup:
    summary, factor = found.summary_, found.unit_[0]
    digits = 1 if factor != 1.0 else 3

    def gain(k: int) -> str:
        size = round(factor * summary["gain"][k], digits) + 0.0  # no minus before zero
        error = factor * summary["gain_error"][k]
        if summary["method"][k] == "uniform":
            return "reference"
        shown = f"{size:+.{digits}f}"
        return shown if np.isnan(error) else f"{shown} ± {error:.{digits}f}"

    every = range(summary.n_rows)
    columns = [
        Column("method", list(summary["title"])),
        Column(found.metric_, [form(v) for v in summary["score"]], summary["score"]),
        Column("gain over uniform weights", [gain(k) for k in every], summary["gain"]),
        Column(
            "lowest to highest",
            [
                f"{form(summary['lowest'][k])} to {form(summary['highest'][k])}"
                for k in every
            ],
            summary["lowest"],
        ),
        Column(
            "seconds a split",
            [f"{v:.2f}" for v in summary["seconds"]],
            summary["seconds"],
        ),
    ]
    caption = f"Gains are in {found.unit_[1]}, with standard errors over splits"
    return table(columns, caption, ours=0)


def confusion(found: Any) -> Section | None:
    """What was taken for what, and figures per class."""
    matrix = getattr(found, "confusion_", None)
    if matrix is None or len(matrix) > MOST_CLASSES:
        return None if matrix is None else _class_section(found, None)
    names = [str(label) for label in found.classes_]
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    few = len(names) <= charts.MOST_NUMBERED
    numbers = [[str(int(v)) for v in row] for row in matrix] if few else None
    right = np.trace(matrix) / max(matrix.sum(), 1)
    label = f"Confusion matrix of {len(names)} classes: {percent(right)} are right"
    picture = charts.heat_map(names, names, shares, numbers, label, "true", "predicted")
    caption = (
        "Rows of the data by true class (down) and predicted class (across); the shade "
        "is the share of the true class."
    )
    return _class_section(found, figure(picture, caption))


def _class_section(found: Any, picture: Markup | None) -> Section:
    results = found.class_results_
    own = [line for line in results.lines() if line["method"] == "mkl"]
    columns = [Column("class", [str(line["class"]) for line in own])]
    columns.append(
        Column("rows", [str(x["rows"]) for x in own], [x["rows"] for x in own])
    )
    for name in ("precision", "recall", "f1"):
        values = [line[name] for line in own]
        columns.append(Column(name, [tenths(v) for v in values], values))
    body = joined(picture, table(columns, "Learned weights, by class, on unseen rows"))
    return Section("classes", "What is taken for what", body)


def values(found: Any) -> Section | None:
    """Predicted against true numbers."""
    if found is None or getattr(found, "kind_", None) != "regression":
        return None
    table_ = found.predictions_
    few = np.random.default_rng(0).permutation(len(table_["row"]))[:MOST_POINTS]
    tips = [
        f"{found.row_names_[table_['row'][i]]}: true {number(table_['true'][i])}, "
        f"predicted {number(table_['predicted'][i])}"
        for i in few
    ]
    picture = charts.predicted_chart(
        table_["true"][few], table_["predicted"][few], tips
    )
    caption = "Each point is a row that was not seen in training; right is on the line."
    return Section("values", "Predicted and true", figure(picture, caption))


def calibration(found: Any) -> Section | None:
    """What probabilities claim, and how often it comes true."""
    bins = getattr(found, "calibration_", None)
    if bins is None:
        return None
    titles = getattr(found, "titles_", {"mkl": "this model"})
    series = []
    for method in dict.fromkeys(bins["method"].tolist()):
        here = bins["method"] == method
        columns = (bins[name][here] for name in ("probability", "frequency", "error"))
        series.append(Series(titles[method], *columns))
    two = len(found.classes_) == 2
    claim = f"probability of {found.classes_[1]}" if two else "claimed probability"
    items = [(one.name, one.name) for one in series]
    boxes = legend("Methods", "series", items, SHOWN_CURVES)
    caption = (
        "Unseen rows in groups of equal size by "
        f"{'this probability' if two else 'the probability of the predicted class'}. "
        "On the dashed line, what is claimed with 80 % comes true in 80 % of the "
        "cases; bars are standard errors."
    )
    picture = charts.calibration_chart(series, claim, SHOWN_CURVES)
    figures = [(one.name, tenths(_off(one))) for one in series]
    told = folded("Mean distance from the line", facts(figures))
    return Section(
        "calibration",
        "Do probabilities mean what they say?",
        joined(figure(picture, caption, boxes), told),
    )


def _off(one: Series) -> float:
    return float(np.mean(np.abs(np.asarray(one.x) - np.asarray(one.y))))


def missing(found: Any) -> Section | None:
    """Rows that lack views."""
    lines = getattr(found, "missing_", None)
    if lines is None:
        return None
    titles = getattr(found, "titles_", {"mkl": found.metric_})
    form = tenths if found.unit_[0] != 1.0 else number
    columns = [
        Column("views that are missing", list(lines["lacking"])),
        Column("rows", [str(n) for n in lines["rows"]], lines["rows"]),
    ]
    for method, title in titles.items():
        shown = ["–" if np.isnan(v) else form(v) for v in lines[method]]
        columns.append(Column(title, shown, lines[method]))
    caption = f"{found.metric_.capitalize()} of unseen rows by the views that they lack"
    return Section("missing", "Rows that lack a view", table(columns, caption))
