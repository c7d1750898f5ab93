"""What labels, values and times share: rows, weights, the problem, the score."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer, get_scorer_names

from manykernels.banks import Bank
from manykernels.base.quoted import described, quoted
from manykernels.losses import Loss
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Problem


@dataclass(frozen=True)
class Gains:
    """What every part of a model gains in every row.

    The mean gain of a part is sum(weight gain) / sum(weight count).
    """

    gain: np.ndarray  # (rows, parts)
    count: np.ndarray  # (rows,)


@dataclass(frozen=True, kw_only=True)
class Targets(ABC):
    """Targets of the rows of positive weight; other rows do not count at all.

    Attributes
    ----------
    kept : int array of shape (rows,)
        Positions of the rows in y.
    weight : array of shape (rows,)
        Positive.
    target : array of shape (rows,) or (rows, columns)
        What the loss compares with scores.
    loss : Loss or None
        What a fit minimizes; None where nothing is learned.
    per_target : bool
        Whether every target has kernel weights, and a score, to itself.
    """

    kept: np.ndarray
    weight: np.ndarray
    target: np.ndarray
    loss: Loss | None = None
    per_target: bool = False

    task: ClassVar[str]
    metric: ClassVar[str]  # that `score_of` measures
    rows_per_gain: ClassVar[int] = 1  # a gain depends on so many rows
    strata: ClassVar[Any] = None  # classes of rows, of which folds have equal shares

    @property
    @abstractmethod
    def y(self) -> np.ndarray:
        """Targets in the form that estimators take."""

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Columns of scores."""

    @abstractmethod
    def take(self, rows: Any) -> Targets:
        """Some of the rows, by position or mask."""

    @abstractmethod
    def score(
        self,
        held_out: Any,
        scores: np.ndarray,
        scoring: Any = None,
        weighted: bool = False,
    ) -> np.ndarray:
        """Score of other rows by a model of these: one number, or one per target.

        Parameters
        ----------
        held_out : Targets of the same class
        scores : array of shape (rows of held_out, n_outputs)
            Of the model, without intercept.
        scoring : str or scorer, optional
            None for accuracy, R^2 or concordance.
        weighted : bool
            Whether the weights of the rows count.
        """

    @abstractmethod
    def score_of(self, scores: np.ndarray) -> float:
        """Weighted accuracy, R^2 or concordance of scores of these rows."""

    @abstractmethod
    def scores_by(self, estimator: Any, X: Any) -> np.ndarray:
        """Scores (rows, n_outputs) of rows by any fitted estimator of this task."""

    @abstractmethod
    def predictions(self, scores: np.ndarray) -> Predictions:
        """An estimator that predicts what `scores_by` gave."""

    @abstractmethod
    def gains(
        self,
        parts: np.ndarray,
        center: bool = True,
        variance: np.ndarray | None = None,
    ) -> Gains:
        """What parts of scores, (rows, parts) or (rows, parts, outputs), gain.

        Parameters
        ----------
        center : bool
            Of labels: take the means of the parts off first.
        variance : array of shape (targets,), optional
            Of values: by default their own.
        """

    def gains_by_output(self, parts: np.ndarray, **options: Any) -> dict[str, Any]:
        """Sums of gains by class, or by target where there are several."""
        return {}

    def problem(self, bank: Bank, norm: LpGroupNorm, C: float) -> Problem:
        """The problem on these rows, which are those of the bank."""
        assert self.loss is not None
        return Problem(
            bank, self.target, self.n_outputs, self.loss, norm, C, self.weight
        )


@dataclass(frozen=True)
class PartitionSummary:
    """Sums over the targets of one partition, from which `merge` knows them all.

    Attributes
    ----------
    n_rows : int
    largest : float
        Weight of a row.
    total : float
        Of the weights.
    groups : array
        Labels that occur; or the weighted sum of every target.
    group_weights : array
        Of these labels; empty for values.
    """

    n_rows: int
    largest: float = 0.0
    total: float = 0.0
    groups: np.ndarray = field(default_factory=lambda: np.empty(0))
    group_weights: np.ndarray = field(default_factory=lambda: np.empty(0))


# --- checks of y and sample_weight ----------------------------------------------------


def missing_target(owner: str, advice: str) -> ValueError:
    """The error for y=None; scikit-learn's checks look for how it begins."""
    return ValueError(
        f"This {owner} estimator requires y to be passed, but the target y is None; "
        f"{advice}."
    )


def weighted_rows(
    y: np.ndarray, sample_weight: Any, n_rows: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the rows of positive weight, and their weights.

    Raises unless X has as many rows as y, where their number is given.
    """
    if n_rows is not None and len(y) != n_rows:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"{[n_rows, len(y)]}; pass one entry of y, and of sample_weight, for every "
            "row of X."
        )
    if sample_weight is None:
        return np.arange(len(y)), np.ones(len(y))
    weight = read_weights(sample_weight, len(y))
    kept = np.flatnonzero(weight > 0.0)
    return kept, weight[kept]


def read_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """One number per row, none negative and not all zero; ones for None.

    Examples
    --------
    >>> read_weights(None, 2)
    array([1., 1.])
    >>> read_weights([1.0], 2)
    Traceback (most recent call last):
    ValueError: sample_weight must have the shape (2,), got (1,); pass one number per
    row.
    """
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        weight = np.asarray(sample_weight)
        if np.iscomplexobj(weight):
            raise TypeError("complex numbers have no order")
        weight = weight.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "sample_weight must hold one number per row, got "
            f"{described(sample_weight)}; turn it into numbers."
        ) from error
    weight = np.full(n_rows, weight) if weight.ndim == 0 else weight
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have the shape ({n_rows},), got {weight.shape}; pass "
            "one number per row."
        )
    # NaN fails every comparison, and so counts as bad.
    bad = ~(weight >= 0.0) | np.isinf(weight)
    if bad.any():
        row = int(np.argmax(bad))
        wanted = "not be negative" if weight[row] < 0.0 else "hold finite numbers"
        raise ValueError(
            f"sample_weight must {wanted}, got {weight[row]:g} for row {row}; give "
            "rows that should not count the weight 0."
        )
    if not np.any(weight):
        raise no_positive_weight("sample_weight", "zeros only")
    return weight


def read_partition_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """As `read_weights`, but a partition may have no rows, or none that count."""
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
    if weight is not None and weight.shape == (n_rows,) and not weight.any():
        return weight
    return read_weights(weight, n_rows)


def no_positive_weight(name: str, got: Any) -> ValueError:
    """The error where weights leave no row."""
    return ValueError(
        f"{name} must be positive for some of the rows, got {got}; leave it out to "
        "count all rows alike."
    )


# --- scores of predictions ------------------------------------------------------------


class Predictions(BaseEstimator):
    """A fitted estimator that predicts what it was made with, for scorers."""

    def __sklearn_is_fitted__(self) -> bool:
        return True


def score_predictions(
    scoring: Any, predictions: Any, y: Any, weight: np.ndarray | None
) -> float:
    """Score of predictions by `scoring`; None for accuracy, R^2 or concordance."""
    rows = np.arange(len(y))[:, None]
    weights = {} if weight is None else {"sample_weight": weight}
    if scoring is None:
        return float(predictions.score(rows, y, **weights))
    return float(find_scorer(scoring)(predictions, rows, y, **weights))


def find_scorer(scoring: Any) -> Any:
    """A scorer of scikit-learn by name; scorers as they are.

    Examples
    --------
    >>> find_scorer("best")
    Traceback (most recent call last):
    ValueError: scoring must be the name of a metric of scikit-learn or a scorer, got
    'best'; choose for instance 'r2' or 'accuracy'.
    """
    names = get_scorer_names() if isinstance(scoring, str) else []
    scorer = get_scorer(scoring) if scoring in names else scoring
    if not callable(scorer):
        raise ValueError(
            "scoring must be the name of a metric of scikit-learn or a scorer, got "
            f"{quoted(scoring)}; choose for instance 'r2' or 'accuracy'."
        )
    return scorer
