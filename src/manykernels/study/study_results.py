"""From the records of all splits to tables, and to one sentence."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import softmax
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from manykernels.study.importance import Importance, combine_folds
from manykernels.study.methods import LEARNED, TASK_DEFAULTS, UNIFORM
from manykernels.study.result_table import ResultTable
from manykernels.study.split_records import SplitRecord
from manykernels.study.study_data import Split
from manykernels.targets import Labels, Targets
from manykernels.targets.base import score_predictions

METHOD_TITLES = {
    LEARNED: "MKL, learned weights",
    UNIFORM: "uniform weights",
    "single": "best single view",
    "forest": "random forest",
}
NO_PROBABILITIES = ("averaged",)  # scores that are no logarithms of probabilities
MAX_CALIBRATION_BINS = 10


@dataclass(frozen=True)
class FinishedSplits:
    """Splits with their records, and what all of these are about."""

    targets: Targets  # of all rows
    splits: Sequence[Split]
    records: Sequence[SplitRecord]
    weight: np.ndarray | None  # of all rows
    scoring: Any

    @property
    def methods(self) -> list[str]:
        """By name, in the order of the tables."""
        return list(self.records[0].results)

    def title(self, method: str) -> str:
        """Name of a method for this task."""
        titles = METHOD_TITLES | TASK_DEFAULTS[self.targets.task].titles
        return titles[method]

    @property
    def metric(self) -> str:
        """Name of the scores."""
        return self.targets.metric if self.scoring is None else str(self.scoring)

    @property
    def unit(self) -> tuple[float, str]:
        """Display factor and unit of score differences."""
        factor = 1.0
        if self.scoring is None:
            factor = TASK_DEFAULTS[self.targets.task].score_factor
        return factor, f"{'points ' * (factor != 1.0)}of {self.metric}"

    def format_difference(
        self, size: float, error: float | None = None, signed: bool = False
    ) -> str:
        """A difference of scores in words."""
        factor, unit = self.unit
        digits = 1 if factor != 1.0 else 3
        size = round(factor * size, digits) + 0.0  # no minus before zero
        text = f"{size:{'+' * signed}.{digits}f}"
        more = "" if error is None else f" ± {factor * error:.{digits}f}"
        return f"{text}{more} {unit}"

    @property
    def inflation(self) -> float:
        """In place of 1 / n in the variance of a mean over splits that share rows."""
        shares = [len(split.test) / len(split.train) for split in self.splits]
        return 1.0 / len(self.splits) + float(np.mean(shares))

    def score(self, method: str) -> np.ndarray:
        """One score per split."""
        return np.array(
            [
                self.score_rows(split.test, record.results[method].scores)
                for split, record in zip(self.splits, self.records, strict=True)
            ]
        )

    def score_rows(self, rows: np.ndarray, scores: np.ndarray) -> float:
        """Score of a method on some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        predictions = self.targets.predictions(scores)
        return score_predictions(
            self.scoring, predictions, self.targets.y[rows], weight
        )

    def pooled(self, method: str) -> tuple[np.ndarray, np.ndarray]:
        """(rows, scores) of all splits one after the other."""
        rows = np.concatenate([split.test for split in self.splits])
        scores = [record.results[method].scores for record in self.records]
        return rows, np.concatenate(scores)


class SplitFindings:
    """Attributes of a model on unseen rows, the same for one split or many."""

    def _set_findings(self, done: FinishedSplits, names: Sequence[str]) -> None:
        self.kind_ = done.targets.task
        self.classes_ = getattr(done.targets, "classes", None)
        self.metric_, self.unit_ = done.metric, done.unit
        self.n_rows_, self.row_names_ = len(names), list(names)
        self.class_results_, self.confusion_ = class_table(done), confusion(done)
        self.calibration_, self.missing_ = calibration_table(done), missing_table(done)
        self.importance_ = _importance(done, "kernel")
        self.view_importance_ = _importance(done, "view")
        self.predictions_ = prediction_table(done)
        parts = np.concatenate([record.parts for record in done.records])
        views = done.records[0].by_view.names
        self.contributions_ = ResultTable(zip(views, parts.T, strict=True))


def _importance(done: FinishedSplits, by: str) -> Importance:
    classes = getattr(done.targets, "classes", None)
    held_out = [
        replace(getattr(record, f"by_{by}"), classes=classes) for record in done.records
    ]
    # Shares of little are no reason for a warning: the report shows their errors.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return combine_folds(held_out, by)


def prediction_table(done: FinishedSplits) -> ResultTable:
    """A line per test row and split: truth and prediction of learned weights."""
    rows, scores = done.pooled(LEARNED)
    sizes = [len(split.test) for split in done.splits]
    predicted: Any = done.targets.predictions(scores)
    table = ResultTable(
        row=rows,
        repeat=np.repeat([split.repeat for split in done.splits], sizes),
        fold=np.repeat([split.fold for split in done.splits], sizes),
        true=done.targets.y[rows],
        predicted=predicted.predict(None),
    )
    if isinstance(done.targets, Labels):
        # Scores are logarithms of probabilities, and the largest is that of the label.
        table["probability"] = np.exp(scores.max(axis=1))
    return table


def score_table(done: FinishedSplits) -> ResultTable:
    """A line per split and method."""
    scores = {method: done.score(method) for method in done.methods}
    lines = []
    for k, (split, record) in enumerate(zip(done.splits, done.records, strict=True)):
        for method, result in record.results.items():
            lines.append(
                {
                    "method": method,
                    "repeat": split.repeat,
                    "fold": split.fold,
                    "score": float(scores[method][k]),
                    "p": float(result.choice.get("p", np.nan)),
                    "C": float(result.choice.get("C", np.nan)),
                    "view": result.choice.get("view", ""),
                    "n_train": len(split.train),
                    "n_test": len(split.test),
                    "seconds": result.seconds,
                }
            )
    return ResultTable.of(lines)


def summary_table(done: FinishedSplits) -> ResultTable:
    """A line per method: its mean score, and what it gains over uniform weights.

    Standard errors are over splits, with 1 / n + n_test / n_train in place of 1 / n,
    as splits share training rows (Nadeau and Bengio, 2003).
    """
    reference = done.score(UNIFORM)
    lines = []
    for method in done.methods:
        score = done.score(method)
        gain = MeanDifference.of(score - reference, done.inflation)
        seconds = [record.results[method].seconds for record in done.records]
        lines.append(
            {
                "method": method,
                "title": done.title(method),
                "score": float(score.mean()),
                "std_error": MeanDifference.of(score, done.inflation).error,
                "lowest": float(score.min()),
                "highest": float(score.max()),
                "gain": gain.mean,
                "gain_error": gain.error,
                "gain_low": gain.low,
                "gain_high": gain.high,
                "seconds": float(np.mean(seconds)),
            }
        )
    return ResultTable.of(lines)


@dataclass(frozen=True)
class MeanDifference:
    """A mean over splits, its standard error, and Student's interval.

    Examples
    --------
    >>> found = MeanDifference.of(np.array([0.02, 0.04]), 1 / 2)
    >>> round(found.mean, 3), round(found.error, 3), found.sign
    (0.03, 0.01, 0)
    """

    mean: float
    error: float
    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray, inflation: float) -> MeanDifference:
        """From one number per split."""
        n, mean = len(values), float(values.mean())
        if n < 2:
            return cls(mean, np.nan, np.nan, np.nan)
        # Splits share training rows: their variance stands for more than 1 / n.
        error = float(np.sqrt(inflation * values.var(ddof=1)))
        half = float(stats.t.ppf(0.975, n - 1)) * error
        return cls(mean, error, mean - half, mean + half)

    @property
    def sign(self) -> int:
        """1 or -1 where the interval excludes zero."""
        return int(self.low > 0.0) - int(self.high < 0.0)


def verdict(done: FinishedSplits) -> str:
    """Whether learning the weights pays, in one sentence."""
    gain = MeanDifference.of(done.score(LEARNED) - done.score(UNIFORM), done.inflation)
    splits, by = f"over {len(done.splits)} splits", "over uniform weights"
    if not np.isfinite(gain.error):
        text = done.format_difference(gain.mean, signed=True)
        return (
            f"One split says nothing of chance: learning the weights changes {text} "
            f"{by} here."
        )
    if gain.sign > 0:
        text = done.format_difference(gain.mean, gain.error)
        return f"Learning the weights gains {text} {by} ({splits})."
    if gain.sign < 0:
        text = done.format_difference(-gain.mean, gain.error)
        return (
            f"Learning the weights loses {text} to uniform weights ({splits}): take "
            "p = 2, or fewer kernels."
        )
    text = done.format_difference(gain.mean, gain.error, signed=True)
    return (
        "Learning the weights does not pay here: the difference from uniform weights, "
        f"{text}, is within chance ({splits})."
    )


def class_table(done: FinishedSplits) -> ResultTable | None:
    """Precision, recall and F1 of every class, a line per method and class."""
    if not isinstance(done.targets, Labels):
        return None
    lines = []
    for method in done.methods:
        rows, scores = done.pooled(method)
        true, predicted = done.targets.target[rows], scores.argmax(axis=1)
        labels = np.arange(len(done.targets.classes))
        figures = precision_recall_fscore_support(
            true, predicted, labels=labels, zero_division=0.0
        )
        for k, (precision, recall, f1, n) in enumerate(zip(*figures, strict=True)):
            lines.append(
                {
                    "method": method,
                    "class": done.targets.classes[k],
                    "rows": int(n),
                    "precision": float(precision),
                    "recall": float(recall),
                    "f1": float(f1),
                }
            )
    return ResultTable.of(lines)


def confusion(done: FinishedSplits, method: str = LEARNED) -> np.ndarray | None:
    """Rows by true class (down) and predicted class (across), of all splits."""
    if not isinstance(done.targets, Labels):
        return None
    rows, scores = done.pooled(method)
    labels = np.arange(len(done.targets.classes))
    true, predicted = done.targets.target[rows], scores.argmax(axis=1)
    return np.asarray(confusion_matrix(true, predicted, labels=labels))


def calibration_table(done: FinishedSplits) -> ResultTable | None:
    """Predicted probability and observed frequency, in bins of equal counts.

    The probability of the second of two classes, or else of the predicted class.
    """
    if not isinstance(done.targets, Labels):
        return None
    lines: list[dict[str, Any]] = []
    for method in done.methods:
        if method not in NO_PROBABILITIES:
            rows, scores = done.pooled(method)
            true = done.targets.target[rows]
            for line in reliability(softmax(scores, axis=1), true):
                lines.append({"method": method, **line})
    return ResultTable.of(lines)


def reliability(probability: np.ndarray, true: np.ndarray) -> Iterator[dict[str, Any]]:
    """Bins of equal counts: mean probability, frequency, its standard error, rows.

    Examples
    --------
    >>> two = np.array([[0.8, 0.2], [0.2, 0.8]])
    >>> [line["frequency"] for line in reliability(two, np.array([0, 1]))]
    [0.0, 1.0]
    """
    if probability.shape[1] == 2:
        predicted, correct = probability[:, 1], true == 1
    else:
        predicted = probability.max(axis=1)
        correct = probability.argmax(axis=1) == true
    # Bins of equal counts have standard errors of about the same size.
    order = np.argsort(predicted, kind="stable")
    for part in np.array_split(order, min(MAX_CALIBRATION_BINS, len(order))):
        share, n = float(correct[part].mean()), len(part)
        yield {
            "probability": float(predicted[part].mean()),
            "frequency": share,
            "error": float(np.sqrt(share * (1.0 - share) / n)),
            "rows": n,
        }


def missing_table(done: FinishedSplits) -> ResultTable | None:
    """Scores of rows that have all views, and of those that lack some; a line each."""
    lacks = np.concatenate([record.lacks for record in done.records])
    if not lacks.any():
        return None
    names = done.records[0].by_view.names
    patterns = np.unique(lacks, axis=0)
    lines = []
    for pattern in patterns:
        chosen = (lacks == pattern).all(axis=1)
        line: dict[str, Any] = {
            "lacking": " + ".join(np.array(names)[pattern]) or "none",
            "rows": int(chosen.sum()),
        }
        for method in done.methods:
            rows, scores = done.pooled(method)
            try:
                line[method] = done.score_rows(rows[chosen], scores[chosen])
            except ValueError:  # too few rows for this measure
                line[method] = float("nan")
        lines.append(line)
    return ResultTable.of(sorted(lines, key=lambda line: -line["rows"]))
