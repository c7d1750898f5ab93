"""What a notebook shows of a fitted model, above scikit-learn's diagram."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from manykernels.files.saved import certificate
from manykernels.inputs.reporting import shortened
from manykernels.report.number_formats import percent

MAX_CARD_ROWS = 8
CARD_STYLE = (
    ".mk-card{font:13px/1.5 system-ui,sans-serif;margin:.3em 0 .8em;max-width:46em}"
    ".mk-card p{margin:.2em 0}.mk-card table{border-collapse:collapse;margin:.3em 0}"
    ".mk-card td,.mk-card th{padding:.1em .8em .1em 0;text-align:left;border:0;"
    "background:none}.mk-card .bar{fill:#0072b2}.mk-card .share{fill:#d55e00}"
)


def model_card(model: Any) -> str:
    """Return weights, importance where known, certified gap and sizes as HTML.

    A notebook shows it without the libraries that a report needs.

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
    # Several targets may have weights of their own: their means are shown.
    order = np.argsort(-weight, kind="stable")
    importance = getattr(model, "importance_", None)
    columns = [("weight", weight, "bar", [percent(value) for value in weight])]
    if importance is not None:
        share = importance.share
        texts = [
            f"{percent(value)} ± {percent(error)}"
            for value, error in zip(share, importance.std_error, strict=True)
        ]
        columns.append(("share on unseen rows", share, "share", texts))
    heads = "".join(f'<th scope="col">{title}</th>' for title, *_ in columns)
    rows = [f'<tr><th scope="col">kernel</th>{heads}</tr>']
    for f in order[:MAX_CARD_ROWS]:
        cells = "".join(
            _bar(values[f] / max(np.nanmax([*values, 0.0]), 1e-300), texts[f], kind)
            for _, values, kind, texts in columns
        )
        name = escape(shortened(model.kernel_names_[f], 44))
        rows.append(f"<tr><td>{name}</td>{cells}</tr>")
    more = len(order) - MAX_CARD_ROWS
    note = f"<p>and {more} lighter kernels</p>" if more > 0 else ""
    return (
        f'<div class="mk-card"><style>{CARD_STYLE}</style><p>{_sizes(model)}</p>'
        f"<table>{''.join(rows)}</table>{note}</div>"
    )


def _bar(length: float, text: str, kind: str) -> str:
    width = 100.0 * float(np.clip(np.nan_to_num(length), 0.0, 1.0))
    return (
        '<td><svg width="100" height="10" viewBox="0 0 100 10" aria-hidden="true">'
        f'<rect width="{width:.1f}" height="10" class="{kind}"></rect></svg> '
        f"{text}</td>"
    )


def _sizes(model: Any) -> str:
    gap = certificate(model)["relative_gap"]
    used = int(np.sum(np.atleast_2d(model.kernel_weights_).max(axis=0) > 0.0))
    return (
        f"<b>{escape(type(model).__name__)}</b>: {used} of "
        f"{len(model.kernel_names_)} kernels have weight, {len(model.support_):,} "
        f"support rows, at most {100 * gap:.2g} % above the optimum. Weights are no "
        "importance."
    )
