"""``inspect``, ``predict`` and ``evaluate``: any saved model, on files of its kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from manykernels.cli import options as opt
from manykernels.cli.errors import fail
from manykernels.cli.label import evaluate_sequences, label_sequences
from manykernels.cli.metrics import metric_lines, summary_lines
from manykernels.cli.outputs import check_output, check_picture, print_json, tell
from manykernels.cli.parse import evaluate_sentences, parse_sentences
from manykernels.cli.readers.tables import Source
from manykernels.cli.rows import evaluate_rows, predict_rows
from manykernels.files import load
from manykernels.files.container import VERSION


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
    typer.echo(
        f"{content['file']}: {content['bytes']:,} bytes, file version {VERSION}, read "
        f"by manykernels {__version__}"
    )
    for line in summary_lines(summary):
        typer.echo(line)


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
    """Write a prediction for every row, token or word of a file.

    manykernels predict model.mk new.csv --proba --out predictions.csv
    """
    estimator, kind = _load(model)
    if kind is None:
        source = Source(data, format, header)
        predict_rows(estimator, source, out, drop, proba, scores)
        return
    _refuse(
        estimator, proba=proba, scores=scores, drop=drop, format=format, header=header
    )
    check_output("--out", out)
    kind.predict(estimator, data, out)


def evaluate(
    model: opt.Model,
    data: opt.Data,
    target: opt.Target = None,
    weight: opt.Weight = None,
    drop: opt.Drop = None,
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
        content = evaluate_rows(estimator, source, target, weight, drop)
    else:
        columns = {"target": target, "weight": weight, "drop": drop}
        _refuse(estimator, **columns, format=format, header=header)
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
