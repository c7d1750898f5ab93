"""One fitted model on rows it has not seen: what a study tells, of one model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import get_tags

from manykernels.inputs.row_matching import match_rows
from manykernels.study.contest.entrants import Outcome, Rows
from manykernels.study.contest.kinds import kind_for
from manykernels.study.contest.record import LEARNED, record_of
from manykernels.study.contest.splits import Split
from manykernels.study.contest.tables import Finished
from manykernels.study.findings import Findings, row_names
from manykernels.study.overview import Overview
from manykernels.study.owners import Owners
from manykernels.study.rows import as_table, require_rows
from manykernels.study.table import Table


class Unseen(Findings):
    """What a fitted model does on rows that it has not seen.

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
    >>> found = Unseen(model.fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> found.view_importance_.names
    ['0-1', '2-3']
    """

    def __init__(self, model: Any, X: Any, y: Any, sample_weight: Any = None) -> None:
        if not get_tags(model).input_tags.pairwise:
            X, y, sample_weight = match_rows(as_table(X), y, sample_weight)
        kind = kind_for(model, y)
        n_rows = len(kind.y)
        require_rows(X, n_rows)
        weight = None if sample_weight is None else np.asarray(sample_weight)
        split = Split(0, 0, np.arange(max(len(model.support_), 1)), np.arange(n_rows))
        outcome = Outcome(kind.scores(model, X), {}, None, 0.0)
        rows = Rows(X, kind.given, weight)
        record = record_of(model, rows, kind, 0, 0, {LEARNED: outcome})
        done = Finished(kind, [split], [record], weight, None)
        self._tell(done, row_names(X, n_rows))
        self.model_ = model
        self.score_ = float(done.score(LEARNED)[0])
        share = self.score_ * (1.0 - self.score_) / n_rows if kind.is_share else np.nan
        self.score_error_ = float(np.sqrt(share))
        self.overview_ = Overview.of(model, X, n_rows)
        self.weights_ = plain_weights(model)
        self.verdict_ = self._verdict(n_rows)

    def _verdict(self, n_rows: int) -> str:
        more = "" if np.isnan(self.score_error_) else f" ± {self.score_error_:.1%}"
        shown = f"{self.score_:.1%}" if more else f"{self.score_:.3f}"
        views = self.view_importance_
        told = ""
        if np.isfinite(views.share).all() and len(views.names) > 1:
            best = int(np.argmax(views.share))
            told = (
                f"; {views.names[best]} matters most, with {views.share[best]:.0%} ± "
                f"{views.std_error[best]:.0%} of what holds there"
            )
        return f"On {n_rows} unseen rows the {self.metric_} is {shown}{more}{told}."


def plain_weights(model: Any) -> Table:
    """Every kernel's view and weight."""
    owners = Owners.of(model, "view")
    return Table(
        kernel=list(model.kernel_names_),
        view=[owners.names[v] for v in owners.position],
        weight=np.atleast_2d(model.kernel_weights_).mean(axis=0),
    )
