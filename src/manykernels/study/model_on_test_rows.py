"""One fitted model on unseen rows: the findings of a study, of one model."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.study.held_out import read_unseen
from manykernels.study.kernel_parts import KernelParts
from manykernels.study.methods import LEARNED, MethodResult
from manykernels.study.overview import Overview
from manykernels.study.result_table import ResultTable
from manykernels.study.split_records import record_split
from manykernels.study.study_data import (
    Split,
    StudyRows,
    align_rows,
    one_target,
    require_rows,
    row_names,
)
from manykernels.study.study_results import FinishedSplits, SplitFindings
from manykernels.targets import Labels


class ModelOnTestRows(SplitFindings):
    """What a fitted model does on unseen rows.

    Parameters
    ----------
    model : fitted MKLClassifier, MKLRegressor, MKLSurvival or a relative
    X, y : as in its fit
        Other rows than those of the fit; kernel matrices between these and the
        training rows.
    sample_weight : array of shape (n,), optional

    Attributes
    ----------
    score_, score_error_ : float
        Accuracy, R^2 or concordance; the error is that of a share, NaN for others.
    verdict_, importance_, view_importance_, class_results_, confusion_, calibration_, \
missing_, predictions_, contributions_, overview_ : see Study

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import manykernels as mk
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mk.MKLClassifier("rbf@0-1; rbf@2-3", random_state=0)
    >>> found = ModelOnTestRows(model.fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> found.view_importance_.names
    ['0-1', '2-3']
    """

    def __init__(self, model: Any, X: Any, y: Any, sample_weight: Any = None) -> None:
        X, y, sample_weight = align_rows(model, X, y, sample_weight)
        weight = None if sample_weight is None else np.asarray(sample_weight)
        targets = one_target(read_unseen(model, y, None))
        n_rows = len(targets.y)
        require_rows(X, n_rows)
        # The number of training rows is not known; support rows are some of them.
        split = Split(0, 0, np.arange(max(len(model.support_), 1)), np.arange(n_rows))
        result = MethodResult(targets.scores_by(model, X), {}, 0.0)
        rows = StudyRows(X, targets.y, weight)
        record = record_split(model, rows, targets, 0, 0, {LEARNED: result})
        done = FinishedSplits(targets, [split], [record], weight, None)
        self._set_findings(done, row_names(X, n_rows))
        self.model_ = model
        self.score_ = float(done.score(LEARNED)[0])
        share = np.nan
        if isinstance(targets, Labels):  # a share of rows, whose number gives its error
            share = self.score_ * (1.0 - self.score_) / n_rows
        self.score_error_ = float(np.sqrt(share))
        self.overview_ = Overview.of(model, X, n_rows)
        self.weights_ = weight_table(model)
        self.verdict_ = self._verdict(n_rows)

    def _verdict(self, n_rows: int) -> str:
        more = "" if np.isnan(self.score_error_) else f" ± {self.score_error_:.1%}"
        shown = f"{self.score_:.1%}" if more else f"{self.score_:.3f}"
        views = self.view_importance_
        text = ""
        if np.isfinite(views.share).all() and len(views.names) > 1:
            best = int(np.argmax(views.share))
            text = (
                f"; {views.names[best]} matters most, with {views.share[best]:.0%} ± "
                f"{views.std_error[best]:.0%} of what holds on them"
            )
        return f"On {n_rows} unseen rows the {self.metric_} is {shown}{more}{text}."


def weight_table(model: Any) -> ResultTable:
    """Every kernel's view and weight."""
    views = KernelParts.of(model, "view")
    return ResultTable(
        kernel=list(model.kernel_names_),
        view=[views.names[v] for v in views.position],
        weight=np.atleast_2d(model.kernel_weights_).mean(axis=0),
    )
