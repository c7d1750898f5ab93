"""What a notebook shows of a fitted model, above scikit-learn's diagram."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.files.saved import certificate
from manykernels.inputs.reporting import shortened
from manykernels.report.html.drawing import percent
from manykernels.report.html.markup import Markup, joined, tag

MOST_BARS = 8
STYLE = Markup(
    ".mk-card{font:13px/1.5 system-ui,sans-serif;margin:.3em 0 .8em;max-width:46em}"
    ".mk-card p{margin:.2em 0}.mk-card table{border-collapse:collapse;margin:.3em 0}"
    ".mk-card td,.mk-card th{padding:.1em .8em .1em 0;text-align:left;border:0;"
    "background:none}.mk-card .bar{fill:#0072b2}.mk-card .share{fill:#d55e00}"
)


def model_card(model: Any) -> str:
    """Weights, importance where it is known, the certified gap and sizes, as HTML.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import manykernels as mk
    >>> X, y = load_iris(return_X_y=True)
    >>> text = model_card(mk.MKLClassifier("rbf@0-1; rbf@2-3").fit(X, y))
    >>> "above the optimum" in text, text.count("<rect")
    (True, 2)
    """
    weight = np.atleast_2d(model.kernel_weights_).mean(axis=0)
    order = np.argsort(-weight, kind="stable")
    found = getattr(model, "importance_", None)
    heads = ["kernel", "weight"] + ["share on unseen rows"] * (found is not None)
    rows = [tag("tr", [tag("th", head, scope="col") for head in heads])]
    for f in order[:MOST_BARS]:
        cells = [tag("td", shortened(model.kernel_names_[f], 44))]
        cells.append(_bar(weight[f], weight.max(), percent(weight[f]), "bar"))
        if found is not None:
            told = f"{percent(found.share[f])} ± {percent(found.std_error[f])}"
            largest = float(np.nanmax([*found.share, 1e-12]))
            cells.append(_bar(found.share[f], largest, told, "share"))
        rows.append(tag("tr", cells))
    more = len(order) - MOST_BARS
    note = tag("p", f"and {more} lighter kernels") if more > 0 else None
    return tag(
        "div",
        tag("style", STYLE),
        tag("p", _sizes(model)),
        tag("table", rows),
        note,
        class_="mk-card",
    )


def _bar(value: float, largest: float, told: str, kind: str) -> Markup:
    share = float(np.clip(value / max(largest, 1e-300), 0.0, 1.0))
    share = share if np.isfinite(share) else 0.0
    box = tag("rect", width=round(100.0 * share, 1), height=10, class_=kind)
    picture = tag(
        "svg", box, width=100, height=10, viewBox="0 0 100 10", aria_hidden="true"
    )
    return tag("td", joined(picture, f" {told}"))


def _sizes(model: Any) -> Markup:
    gap = certificate(model)["relative_gap"]
    used = int(np.sum(np.atleast_2d(model.kernel_weights_).max(axis=0) > 0.0))
    return joined(
        tag("b", type(model).__name__),
        f": {used} of {len(model.kernel_names_)} kernels have weight, "
        f"{len(model.support_):,} support rows, at most {100 * gap:.2g} % above the "
        "optimum. Weights are no importance.",
    )
