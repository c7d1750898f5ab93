"""``inspect``, ``predict`` and ``evaluate``: any saved model, on files of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from manykernels import __version__
from manykernels.cli.errors import fail, show
from manykernels.cli.file_kinds import FileKind
from manykernels.cli.label import TokenFiles
from manykernels.cli.metrics import measure_rows, metric_lines, summary_lines
from manykernels.cli.options import Given, command
from manykernels.cli.outputs import (
    TABLE_DELIMITERS,
    check_files,
    check_picture,
    check_suffix,
    print_json,
    print_results,
    write_table,
)
from manykernels.cli.parse import SentenceFiles
from manykernels.cli.row_files import RowFiles, inputs
from manykernels.files import load
from manykernels.files.container import MODEL_FILE_VERSION
from manykernels.inputs.views import Views
from manykernels.mkl import MKLSurvival

ROW_OPTIONS = (
    *("proba", "scores", "target", "time", "event", "weight"),
    *("drop", "view", "index", "format", "header"),
)


@command("model as_json plot")
def inspect(given: Given) -> None:
    """Show what a model file holds: kernels with their weights, the certificate, ...

    manykernels inspect model.mk --plot weights.png
    """
    check_picture("--plot", given.plot)
    estimator = load(given.model)
    content = {
        "file": str(given.model),
        "bytes": given.model.stat().st_size,
        "file_version": MODEL_FILE_VERSION,  # `load` refuses others
        "manykernels": __version__,
    }
    summary = estimator.summary()
    if given.plot is not None:
        from manykernels.report import plot_model  # matplotlib takes a while

        plot_model(estimator).savefig(given.plot, dpi=110)
    if given.as_json:
        print_json(content | summary)
        return
    show(
        f"{content['file']}: {content['bytes']:,} bytes, file version "
        f"{MODEL_FILE_VERSION}, read by manykernels {__version__}"
    )
    for line in summary_lines(summary):
        show(line)


@command("model data out proba scores drop view index format header")
def predict(given: Given) -> None:
    """Write a prediction for every row, token or word of a file.

    manykernels predict model.mk new.csv --proba --out predictions.csv
    """
    check_files({"DATA": given.data, "MODEL": given.model}, {"--out": given.out})
    model = load(given.model)
    kind_of(model, given).predict(model, given)


@command("model data target time event weight drop view index format header as_json")
def evaluate(given: Given) -> None:
    """Compare a model's predictions with the truth in a file.

    manykernels evaluate model.mk test.csv --target kind
    """
    model = load(given.model)
    content = kind_of(model, given).evaluate(model, given)
    print_results(content, given.as_json, metric_lines)


def kind_of(model: Any, given: Given) -> FileKind:
    """The kind of files that a model reads; options of rows go with rows only."""
    kind = FILE_KINDS[model.input_kind]
    for name in ROW_OPTIONS if model.input_kind != "rows" else ():
        if getattr(given, name):
            fail(
                f"--{name} is for models of rows, got {type(model).__name__}, "
                f"which reads {model.input_kind}; leave it out"
            )
    return kind


class TableFiles(FileKind):
    """Files of rows, and models of these."""

    def predict(self, model: Any, given: Given) -> None:
        wanted = f"be - or end in one of {', '.join(TABLE_DELIMITERS)}"
        check_suffix("--out", given.out, TABLE_DELIMITERS, wanted)
        files = RowFiles.of(given, model, labeled=False)
        X = inputs(model, files.read())
        columns = predictions(model, X, given.proba, given.scores)
        if isinstance(X, Views) and X.index is not None:
            columns = {str(files.roles.index): X.index, **columns}
        # Python's numbers are written with all their digits, NumPy's need not be.
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        write_table(given.out, list(columns), rows)

    def evaluate(self, model: Any, given: Given) -> dict[str, Any]:
        return measure_rows(model, *RowFiles.of(given, model).read_known())


FILE_KINDS: Mapping[str, FileKind] = {
    "rows": TableFiles(),
    "sequences": TokenFiles(),
    "sentences": SentenceFiles(),
}


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
