"""``inspect``, ``predict`` and ``evaluate``: any saved model, on files of its kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import is_classifier

from manykernels.cli import options as opt
from manykernels.cli.errors import fail, show
from manykernels.cli.label import evaluate_sequences, label_sequences
from manykernels.cli.metrics import measure_rows, metric_lines, summary_lines
from manykernels.cli.outputs import (
    check_output,
    check_picture,
    check_survival,
    check_table,
    print_json,
    require_own_files,
    tell,
    write_table,
)
from manykernels.cli.parse import evaluate_sentences, parse_sentences
from manykernels.cli.readers.columns import (
    Roles,
    Sample,
    as_times,
    as_values,
    labels_like,
)
from manykernels.cli.readers.tables import Source
from manykernels.cli.views import ViewFiles, names_of
from manykernels.files import load
from manykernels.files.container import VERSION
from manykernels.inputs.views import Views
from manykernels.mkl import MKLSurvival

NO_VIEWS = ViewFiles({}, None)


@dataclass(frozen=True)
class InputKind:
    """What the commands do with files of one kind; both functions take the model,
    then the file, and `predict` where to write.
    """

    predict: Callable[..., None]
    evaluate: Callable[..., dict[str, Any]]


# By what an estimator says of itself; options for columns are for rows only.
OTHERS = {
    "sequences": InputKind(label_sequences, evaluate_sequences),
    "sentences": InputKind(parse_sentences, evaluate_sentences),
}


def inspect(
    model: opt.Model, as_json: opt.AsJson = False, plot: opt.Plot = None
) -> None:
    """Show what a model file holds: kernels with their weights, the certificate, ...

    manykernels inspect model.mk --plot weights.png
    """
    from manykernels import __version__

    check_picture("--plot", plot)
    estimator = load(model)
    content = {
        "file": str(model),
        "bytes": model.stat().st_size,
        "file_version": VERSION,  # others are refused by load
        "manykernels": __version__,
    }
    summary = estimator.summary()
    if plot is not None:
        from manykernels.report import plot_model  # matplotlib takes a while

        plot_model(estimator).savefig(plot, dpi=110)
    if as_json:
        print_json(content | summary)
        return
    show(
        f"{content['file']}: {content['bytes']:,} bytes, file version {VERSION}, read "
        f"by manykernels {__version__}"
    )
    for line in summary_lines(summary):
        show(line)


def predict(
    model: opt.Model,
    data: opt.Data,
    out: opt.Out = "-",
    proba: opt.Proba = False,
    scores: opt.Scores = False,
    drop: opt.Drop = None,
    view: opt.Views = None,
    index: opt.Index = None,
    format: opt.Format = None,
    header: opt.Header = None,
) -> None:
    """Write a prediction for every row, token or word of a file.

    manykernels predict model.mk new.csv --proba --out predictions.csv
    """
    require_own_files({"DATA": data, "MODEL": model}, {"--out": out})
    estimator, kind = _load(model)
    if kind is None:
        source = Source(data, format, header)
        views = ViewFiles.of(view, index).known_by(estimator)
        predict_rows(estimator, source, out, drop, proba, scores, views)
        return
    reading = {"drop": drop, "view": view, "index": index, "format": format}
    _refuse(estimator, proba=proba, scores=scores, **reading, header=header)
    check_output("--out", out)
    kind.predict(estimator, data, out)


def evaluate(
    model: opt.Model,
    data: opt.Data,
    target: opt.Target = None,
    time: opt.Time = None,
    event: opt.Event = None,
    weight: opt.Weight = None,
    drop: opt.Drop = None,
    view: opt.Views = None,
    index: opt.Index = None,
    format: opt.Format = None,
    header: opt.Header = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compare a model's predictions with the truth in a file.

    manykernels evaluate model.mk test.csv --target kind
    """
    estimator, kind = _load(model)
    if kind is None:
        source = Source(data, format, header)
        survival = isinstance(estimator, MKLSurvival)
        column = check_survival(survival, target, time, event)
        views = ViewFiles.of(view, index).known_by(estimator)
        content = evaluate_rows(estimator, source, column, weight, drop, event, views)
    else:
        columns = {"target": target, "time": time, "event": event, "weight": weight}
        reading = {"drop": drop, "view": view, "index": index, "format": format}
        _refuse(estimator, **columns, **reading, header=header)
        content = kind.evaluate(estimator, data)
    tell(content, as_json, metric_lines)


def _load(path: Path) -> tuple[Any, InputKind | None]:
    """A model, and what it reads unless that is rows."""
    estimator = load(path)
    return estimator, OTHERS.get(estimator.input_kind)


def _refuse(estimator: Any, **options: Any) -> None:
    """Options for columns say nothing to a model of anything but rows."""
    for name, value in options.items():
        if value:
            fail(
                f"--{name} is for models of rows, got {type(estimator).__name__}, "
                f"which reads {estimator.input_kind}; leave it out"
            )


def predict_rows(
    model: Any,
    source: Source,
    out: str,
    drop: Sequence[str] | None = None,
    proba: bool = False,
    scores: bool = False,
    views: ViewFiles = NO_VIEWS,
) -> None:
    """Write a prediction for every row."""
    check_table("--out", out)
    roles = views.roles_of(model, roles_of(model, drop=tuple(drop or ())))
    X = inputs(model, views.join(source.read(roles), source))
    columns = predictions(model, X, proba, scores)
    if isinstance(X, Views) and X.index is not None:
        columns = {str(views.index): X.index, **columns}
    # Python's numbers are written with all their digits, NumPy's need not be.
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    write_table(out, list(columns), rows)


def evaluate_rows(
    model: Any,
    source: Source,
    target: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] | None = None,
    event: str | None = None,
    views: ViewFiles = NO_VIEWS,
) -> dict[str, Any]:
    """Figures of the model's predictions for the rows of a file."""
    known = labeled_rows(model, source, target, weight, drop, event, views)
    return measure_rows(model, *known)


def labeled_rows(
    model: Any,
    source: Source,
    target: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] | None = None,
    event: str | None = None,
    views: ViewFiles = NO_VIEWS,
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Rows of a file as a model reads them, their truth and their weights."""
    columns = {"target": target, "event": event, "weight": weight}
    roles = roles_of(model, **columns, drop=tuple(drop or ()))
    sample, raw = source.read_labeled(views.roles_of(model, roles))
    sample = views.join(sample, source)
    if sample.event is not None:
        y = as_times(raw, sample.event)
    else:
        y = labels_like(raw, model.classes_) if is_classifier(model) else as_values(raw)
    X = inputs(model, sample)
    if sample.index is not None and isinstance(X, pd.DataFrame):
        X.index = names_of(sample.index)
    return X, y, sample.weight


def predictions(
    model: Any, X: Any, proba: bool = False, scores: bool = False
) -> dict[str, np.ndarray]:
    """Columns by name; with two classes, the score is that of the second one.

    The score of a time is a risk.
    """
    columns = _by_name("prediction", model.predict(X))
    if scores and isinstance(model, MKLSurvival):
        columns, scores = columns | {"risk": model.predict_risk(X)}, False
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
    if isinstance(sample.X, Views):
        return sample.X
    return with_names(sample.X, getattr(model, "feature_names_in_", None))


def with_names(X: Any, names: Sequence[str] | None) -> Any:
    """A data frame where columns have names, else the rows as they are."""
    if names is None:
        return X
    return pd.DataFrame(X.toarray() if sp.issparse(X) else X, columns=list(names))
