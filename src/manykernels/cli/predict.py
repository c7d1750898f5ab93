"""``manykernels predict``: labels for the rows of a file."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.cli import options as opt
from manykernels.cli.data import Loaded, Source
from manykernels.cli.outputs import check_table, write_table


def predict(
    model: opt.Model,
    data: opt.Data,
    out: opt.Out = "-",
    proba: opt.Proba = False,
    scores: opt.Scores = False,
    drop: opt.Drop = None,
    format: opt.Format = None,
    header: opt.Header = None,
) -> None:
    """Write a prediction for every row, as CSV with a header.

    manykernels predict model.mk new.csv --proba --out predictions.csv
    """
    check_table("--out", out)
    loaded = Loaded.of(model)
    sample = loaded.read(Source(data, format, header), drop)
    columns = predictions(loaded.estimator, sample.X, proba, scores)
    # Python's numbers are written with all their digits, NumPy's need not be.
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    write_table(out, list(columns), rows)


def predictions(
    model: Any, X: Any, proba: bool = False, scores: bool = False
) -> dict[str, np.ndarray]:
    """Columns by name; with two classes, the score is that of the second one."""
    columns = {"prediction": model.predict(X)}
    labels = [str(label) for label in model.classes_]
    if proba:
        names = [f"probability_{label}" for label in labels]
        columns |= dict(zip(names, model.predict_proba(X).T, strict=True))
    if scores:
        decision = model.decision_function(X)
        if decision.ndim == 1:
            decision, labels = decision[:, None], labels[1:]
        names = [f"score_{label}" for label in labels]
        columns |= dict(zip(names, decision.T, strict=True))
    return columns
