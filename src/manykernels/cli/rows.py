"""Models of tables: rows of a file in, predictions and figures out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import is_classifier

from manykernels.cli.errors import fail
from manykernels.cli.metrics import measure_rows
from manykernels.cli.outputs import check_table, write_table
from manykernels.cli.readers.columns import Roles, Sample, as_values, labels_like
from manykernels.cli.readers.tables import Source


def predict_rows(
    model: Any,
    source: Source,
    out: str,
    drop: Sequence[str] | None = None,
    proba: bool = False,
    scores: bool = False,
) -> None:
    """Write a prediction for every row."""
    check_table("--out", out)
    X = inputs(model, source.read(roles_of(model, drop=tuple(drop or ()))))
    columns = predictions(model, X, proba, scores)
    # Python's numbers are written with all their digits, NumPy's need not be.
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    write_table(out, list(columns), rows)


def evaluate_rows(
    model: Any,
    source: Source,
    target: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Figures of the model's predictions for the rows of a file."""
    roles = roles_of(model, target=target, weight=weight, drop=tuple(drop or ()))
    sample, raw = source.read_labeled(roles)
    y = labels_like(raw, model.classes_) if is_classifier(model) else as_values(raw)
    return measure_rows(model, inputs(model, sample), y, sample.weight)


def predictions(
    model: Any, X: Any, proba: bool = False, scores: bool = False
) -> dict[str, np.ndarray]:
    """Columns by name; with two classes, the score is that of the second one."""
    columns = _by_name("prediction", model.predict(X))
    for wanted, option, method, name in (
        (proba, "--proba", "predict_proba", "probability"),
        (scores, "--scores", "decision_function", "score"),
    ):
        if wanted and not hasattr(model, method):
            fail(
                f"{option} needs a classifier that has them, got "
                f"{type(model).__name__}; leave it out"
            )
        if wanted:
            columns |= _by_name(name, getattr(model, method)(X), model.classes_)
    return columns


def _by_name(
    name: str, values: np.ndarray, outputs: Any = None
) -> dict[str, np.ndarray]:
    """One column, or one per output; a single score is that of the second class."""
    if values.ndim == 1:
        title = name if outputs is None else f"{name}_{outputs[1]}"
        return {title: values}
    titles = range(values.shape[1]) if outputs is None else outputs
    return {f"{name}_{t}": v for t, v in zip(titles, values.T, strict=True)}


def roles_of(model: Any, **roles: Any) -> Roles:
    """The model's columns, by name where there are names."""
    names = getattr(model, "feature_names_in_", None)
    features = None if names is None else [str(name) for name in names]
    return Roles(features=features, n_features=int(model.n_features_in_), **roles)


def inputs(model: Any, sample: Sample) -> Any:
    """Rows as the model has seen them in training: with names if it has names."""
    given = model.__sklearn_tags__().input_tags.pairwise
    if given != sample.given:
        wanted, got = ("kernel values", "columns")[:: 1 if given else -1]
        fail(f"expected {wanted} as in training, got {got}; pass data of the same sort")
    return with_names(sample.X, getattr(model, "feature_names_in_", None))


def with_names(X: Any, names: Sequence[str] | None) -> Any:
    """A data frame where columns have names, else the rows as they are."""
    if names is None:
        return X
    return pd.DataFrame(X.toarray() if sp.issparse(X) else X, columns=list(names))
