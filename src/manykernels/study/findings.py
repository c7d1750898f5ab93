"""What finished splits say, as attributes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from manykernels.inputs.views import Views, has_index
from manykernels.study.contest.record import LEARNED
from manykernels.study.contest.tables import (
    Finished,
    calibration_table,
    class_table,
    confusion,
    missing_table,
)
from manykernels.study.importance import Importance, summarize
from manykernels.study.table import Table


class Findings:
    """What is known of a model on unseen rows, the same of one split or of many."""

    def _tell(self, done: Finished, names: Sequence[str]) -> None:
        """Tables of the finished splits."""
        self.kind_, self.classes_ = done.kind.name, done.kind.classes
        self.metric_, self.unit_ = done.metric, done.unit
        self.n_rows_, self.row_names_ = len(names), list(names)
        self.class_results_, self.confusion_ = class_table(done), confusion(done)
        self.calibration_, self.missing_ = calibration_table(done), missing_table(done)
        self.importance_ = _importance(done, "kernel")
        self.view_importance_ = _importance(done, "view")
        self.predictions_ = _predictions(done)
        parts = np.concatenate([record.parts for record in done.records])
        views = done.records[0].by_view.names
        self.contributions_ = Table(zip(views, parts.T, strict=True))


def row_names(X: Any, n_rows: int) -> list[str]:
    """Names of the rows where they have such, or their positions."""
    ids: Any = X.index if isinstance(X, Views) else getattr(X, "index", None)
    return [str(one) for one in (ids if has_index(ids) else range(n_rows))]


def _importance(done: Finished, by: str) -> Importance:
    """Shares on the rows left out; what little they are of is told beside."""
    held = [
        replace(getattr(record, f"by_{by}"), classes=done.kind.classes)
        for record in done.records
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return summarize(held, by)


def _predictions(done: Finished) -> Table:
    rows, scores = done.pooled(LEARNED)
    sizes = [len(split.test) for split in done.splits]
    found, true = done.kind.predicted(scores), done.kind.y[rows]
    table = Table(
        row=rows,
        repeat=np.repeat([split.repeat for split in done.splits], sizes),
        fold=np.repeat([split.fold for split in done.splits], sizes),
        true=true,
        predicted=found,
    )
    if done.kind.classes is not None:
        table["true"], table["predicted"] = (
            done.kind.classes[places] for places in (true, found)
        )
        table["probability"] = np.exp(scores.max(axis=1))
    return table
