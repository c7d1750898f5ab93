"""From the records of all splits to tables, and to one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import softmax
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from manykernels.study.contest.kinds import Kind, Labels
from manykernels.study.contest.record import LEARNED, UNIFORM, Record
from manykernels.study.contest.splits import Split
from manykernels.study.table import Table
from manykernels.targets.base import score_predictions

TITLES = {
    LEARNED: "MKL, learned weights",
    UNIFORM: "uniform weights",
    "averaged": "averaged kernel",
    "single": "best single view",
    "linear": "linear model",
    "forest": "random forest",
}
NO_PROBABILITIES = ("averaged",)  # scores that are no logarithms of probabilities
LEVEL = 0.95  # of intervals
BINS = 10  # of a calibration curve


@dataclass(frozen=True)
class Finished:
    """All that finished splits say, with what they are about."""

    kind: Kind
    splits: Sequence[Split]
    records: Sequence[Record]
    weight: np.ndarray | None  # of all rows
    scoring: Any

    @property
    def methods(self) -> list[str]:
        """By name, in the order of the tables."""
        return list(self.records[0].outcomes)

    def title(self, method: str) -> str:
        """What the method is called where this is predicted."""
        return self.kind.titles.get(method, TITLES[method])

    @property
    def metric(self) -> str:
        """What scores are called."""
        return self.kind.metric if self.scoring is None else str(self.scoring)

    @property
    def unit(self) -> tuple[float, str]:
        """What differences of scores are multiplied with to be told, and called."""
        factor = self.kind.factor if self.scoring is None else 1.0
        return factor, f"{'points ' * (factor != 1.0)}of {self.metric}"

    def told(
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
        """Stands for 1 / n in the variance of a mean over splits, which share rows."""
        shares = [len(one.test) / len(one.train) for one in self.splits]
        return 1.0 / len(self.splits) + float(np.mean(shares))

    def score(self, method: str) -> np.ndarray:
        """One per split."""
        pairs = zip(self.splits, self.records, strict=True)
        return np.array([self._judged(one, r.outcomes[method]) for one, r in pairs])

    def _judged(self, split: Split, outcome: Any) -> float:
        weight = None if self.weight is None else self.weight[split.test]
        known = self.kind.known(outcome.scores)
        return score_predictions(
            self.scoring, known, self.kind.given[split.test], weight
        )

    def pooled(self, method: str) -> tuple[np.ndarray, np.ndarray]:
        """(rows, scores) of all splits one after the other."""
        rows = np.concatenate([one.test for one in self.splits])
        scores = [record.outcomes[method].scores for record in self.records]
        return rows, np.concatenate(scores)


def score_table(done: Finished) -> Table:
    """A line per split and method."""
    scores = {method: done.score(method) for method in done.methods}
    lines = []
    for k, (split, record) in enumerate(zip(done.splits, done.records, strict=True)):
        for method, outcome in record.outcomes.items():
            lines.append(
                {
                    "method": method,
                    "repeat": split.repeat,
                    "fold": split.fold,
                    "score": float(scores[method][k]),
                    "p": float(outcome.choice.get("p", np.nan)),
                    "C": float(outcome.choice.get("C", np.nan)),
                    "view": outcome.choice.get("view", ""),
                    "n_train": len(split.train),
                    "n_test": len(split.test),
                    "seconds": outcome.seconds,
                }
            )
    return Table.of(lines)


def summary_table(done: Finished) -> Table:
    """A line per method: its mean score, and what it gains over uniform weights.

    Standard errors are over splits, with 1 / n + n_test / n_train in place of 1 / n,
    as splits share training rows (Nadeau and Bengio, 2003).
    """
    reference = done.score(UNIFORM)
    lines = []
    for method in done.methods:
        score = done.score(method)
        gain = Difference.of(score - reference, done.inflation)
        seconds = [record.outcomes[method].seconds for record in done.records]
        lines.append(
            {
                "method": method,
                "title": done.title(method),
                "score": float(score.mean()),
                "std_error": Difference.of(score, done.inflation).error,
                "lowest": float(score.min()),
                "highest": float(score.max()),
                "gain": gain.mean,
                "gain_error": gain.error,
                "gain_low": gain.low,
                "gain_high": gain.high,
                "seconds": float(np.mean(seconds)),
            }
        )
    return Table.of(lines)


@dataclass(frozen=True)
class Difference:
    """A mean over splits, its standard error, and Student's interval.

    Examples
    --------
    >>> found = Difference.of(np.array([0.02, 0.04]), 1 / 2)
    >>> round(found.mean, 3), round(found.error, 3), found.sign
    (0.03, 0.01, 0)
    """

    mean: float
    error: float
    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray, inflation: float) -> Difference:
        """From one number per split."""
        n, mean = len(values), float(values.mean())
        if n < 2:
            return cls(mean, np.nan, np.nan, np.nan)
        error = float(np.sqrt(inflation * values.var(ddof=1)))
        half = float(stats.t.ppf(0.5 + 0.5 * LEVEL, n - 1)) * error
        return cls(mean, error, mean - half, mean + half)

    @property
    def sign(self) -> int:
        """1 or -1 where the interval excludes zero."""
        return int(self.low > 0.0) - int(self.high < 0.0)


def verdict(done: Finished) -> str:
    """Whether learning the weights pays, in one sentence."""
    gain = Difference.of(done.score(LEARNED) - done.score(UNIFORM), done.inflation)
    splits, by = f"over {len(done.splits)} splits", "over uniform weights"
    if not np.isfinite(gain.error):
        told = done.told(gain.mean, signed=True)
        return (
            f"One split says nothing of chance: learning the weights changes {told} "
            f"{by} here."
        )
    if gain.sign > 0:
        told = done.told(gain.mean, gain.error)
        return f"Learning the weights gains {told} {by} ({splits})."
    if gain.sign < 0:
        told = done.told(-gain.mean, gain.error)
        return (
            f"Learning the weights loses {told} to uniform weights ({splits}): take "
            "p = 2, or fewer kernels."
        )
    told = done.told(gain.mean, gain.error, signed=True)
    return (
        "Learning the weights does not pay here: the difference from uniform weights, "
        f"{told}, is within chance ({splits})."
    )


def class_table(done: Finished) -> Table | None:
    """Precision, recall and F1 of every class, a line per method and class."""
    if not isinstance(done.kind, Labels):
        return None
    lines = []
    for method in done.methods:
        rows, scores = done.pooled(method)
        true, found = done.kind.y[rows], done.kind.predicted(scores)
        labels = np.arange(len(done.kind.classes))
        figures = precision_recall_fscore_support(
            true, found, labels=labels, zero_division=0.0
        )
        for k, (precision, recall, f1, n) in enumerate(zip(*figures, strict=True)):
            lines.append(
                {
                    "method": method,
                    "class": done.kind.classes[k],
                    "rows": int(n),
                    "precision": float(precision),
                    "recall": float(recall),
                    "f1": float(f1),
                }
            )
    return Table.of(lines)


def confusion(done: Finished, method: str = LEARNED) -> np.ndarray | None:
    """Rows by true class (down) and predicted class (across), of all splits."""
    if not isinstance(done.kind, Labels):
        return None
    rows, scores = done.pooled(method)
    labels = np.arange(len(done.kind.classes))
    found = done.kind.predicted(scores)
    return np.asarray(confusion_matrix(done.kind.y[rows], found, labels=labels))


def calibration_table(done: Finished) -> Table | None:
    """Predicted probability and how often it came true, in bins of equal counts.

    The probability of the second of two classes, or else of the predicted class.
    """
    if not isinstance(done.kind, Labels):
        return None
    lines: list[dict[str, Any]] = []
    for method in done.methods:
        if method not in NO_PROBABILITIES:
            rows, scores = done.pooled(method)
            for one in reliability(softmax(scores, axis=1), done.kind.y[rows]):
                lines.append({"method": method, **one})
    return Table.of(lines)


def reliability(probability: np.ndarray, true: np.ndarray) -> Iterator[dict[str, Any]]:
    """Bins of equal counts: mean probability, frequency, its standard error, rows.

    Examples
    --------
    >>> two = np.array([[0.8, 0.2], [0.2, 0.8]])
    >>> [line["frequency"] for line in reliability(two, np.array([0, 1]))]
    [0.0, 1.0]
    """
    if probability.shape[1] == 2:
        claimed, came = probability[:, 1], true == 1
    else:
        claimed, came = probability.max(axis=1), probability.argmax(axis=1) == true
    order = np.argsort(claimed, kind="stable")
    for part in np.array_split(order, min(BINS, len(order))):
        share, n = float(came[part].mean()), len(part)
        yield {
            "probability": float(claimed[part].mean()),
            "frequency": share,
            "error": float(np.sqrt(share * (1.0 - share) / n)),
            "rows": n,
        }


def missing_table(done: Finished) -> Table | None:
    """Scores of rows that have all views, and of those that lack some; a line each."""
    lacks = np.concatenate([record.lacks for record in done.records])
    if not lacks.any():
        return None
    names = done.records[0].by_view.names
    patterns = np.unique(lacks, axis=0)
    lines = []
    for pattern in patterns:
        here = (lacks == pattern).all(axis=1)
        line: dict[str, Any] = {
            "lacking": " + ".join(np.array(names)[pattern]) or "none",
            "rows": int(here.sum()),
        }
        for method in done.methods:
            line[method] = _score_where(done, method, here)
        lines.append(line)
    return Table.of(sorted(lines, key=lambda line: -line["rows"]))


def _score_where(done: Finished, method: str, here: np.ndarray) -> float:
    rows, scores = done.pooled(method)
    weight = None if done.weight is None else done.weight[rows[here]]
    known = done.kind.known(scores[here])
    try:
        return score_predictions(
            done.scoring, known, done.kind.given[rows[here]], weight
        )
    except ValueError:  # too few rows for this measure
        return float("nan")
