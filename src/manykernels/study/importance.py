"""Which kernels a model may be believed to need: shares of what holds on new rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch, get_tags

from manykernels.base.imports import require_library
from manykernels.inputs.parameters import Flag, OneOf, Whole, choose_generator
from manykernels.study.held_out import (
    HeldOut,
    ImportanceSettings,
    examine,
    known_variance,
    targets_class,
)
from manykernels.study.study_data import align_rows, require_rows, take_rows
from manykernels.targets import Labels, Times, Values
from manykernels.targets.times import read_times


class Importance(Bunch):
    """Shares of what a model gains on unseen rows, with standard errors.

    A dictionary whose entries are attributes as well; arrays have an entry per part,
    in the order of `names`: kernels, or views.

    Attributes
    ----------
    names : list of str
    share : array
        Sums to one. NaN, with a warning, where the model gains nothing.
    std_error : array
        Of the shares.
    weight : array
        Kernel weights, for comparison: means over folds, sums over a view's kernels.
    gain, gain_error : array
        What shares are shares of: the mean margin, the covariance with the target over
        its variance, or the mean difference of log times over pairs.
    total, total_error : float
        The sum of the gains, and its standard error.
    per_class : array of shape (n_classes, n_parts) or None
        Shares of the margins of the rows of each class, in the order of `classes`; the
        same for both of two classes, if centered.
    per_target : array of shape (n_targets, n_parts) or None
        Shares for each of several targets.
    share_present : array
        The share among the rows that have what the part reads: the same as `share`
        unless rows lack views.
    n_present : int array
        Number of such rows.
    score : float
        Accuracy, R^2 or concordance on the unseen rows; the mean over folds.
    drop : array
        What the score loses without the part, all else unchanged.
    permuted : array
        What it loses with the rows of the part shuffled; the mean over permutations.
    n_rows : int
        Unseen rows; each counts once for every time that it was held out.
    n_folds : int
        1 for one set of unseen rows.

    Examples
    --------
    >>> import manykernels as mk
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mk.MKLClassifier("rbf@0-1; rbf@2-3", random_state=0).fit(X[::2], y[::2])
    >>> found = mk.kernel_importance(model, X[1::2], y[1::2])
    >>> found.names, bool(found.share[1] > found.share[0])
    (['rbf@0-1', 'rbf@2-3'], True)
    """

    def interval(self, level: float = 0.95) -> np.ndarray:
        """Lower and upper ends of Student's intervals of the shares, shape (2, n)."""
        units = self.n_folds if self.n_folds > 1 else self.n_rows
        half = stats.t.ppf(0.5 + 0.5 * level, max(units - 1, 1)) * self.std_error
        return np.array([self.share - half, self.share + half])

    def to_frame(self) -> Any:
        """A pandas data frame with a line per part, largest share first."""
        pandas = require_library("pandas", "cli")
        columns = ("share", "std_error", "weight", "drop", "permuted")
        data = {name: self[name] for name in (*columns, "share_present", "n_present")}
        frame = pandas.DataFrame(data, pandas.Index(self.names, name=self.by))
        return frame.sort_values("share", ascending=False, kind="stable")

    def __repr__(self) -> str:
        """A line per part."""
        lines = [f"{'share':>8} {'error':>6} {'weight':>6}"]
        values = zip(self.share, self.std_error, self.weight, self.names, strict=True)
        lines += [f"{s:8.3f} {e:6.3f} {w:6.3f}  {name}" for s, e, w, name in values]
        return "\n".join(lines)


def kernel_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = None,
    by: str = "kernel",
    sample_weight: Any = None,
    groups: Any = None,
    center: bool = True,
    n_permutations: int = 20,
    random_state: Any = None,
) -> Importance:
    r"""share_f = sum_i c_i g_f(x_i, y_i) / sum_f sum_i c_i g_f(x_i, y_i), unseen rows.

    With :math:`a_f(x)` the part of kernel f in the scores, :math:`\sum_f a_f = s`, and
    :math:`c_i` the weights of the rows,

    - labels: :math:`g_f = a_{f, y_i}(x_i) - a_{f, k_i}(x_i)`, its part of the margin
      over the class :math:`k_i` that the model finds strongest among the others, with
      the mean of :math:`a_f` over the rows taken off first;
    - numbers: :math:`g_f = (a_f(x_i) - \bar a_f)(y_i - \bar y)`, its part of the
      covariance of prediction and target; several targets are divided by their
      variances and averaged;
    - times: :math:`g_f = \sum_j (a_f(x_j) - a_f(x_i))` over the rows j that are later
      than the event of row i: its part of the order of comparable pairs.

    Kernel weights are no importance: a kernel on many columns of noise is nearly the
    identity, fits any training labels, and gets a large weight. On new rows it says
    nothing, and its share is zero but for chance.

    Standard errors are those of a ratio of sums. On one set of rows they measure
    the choice of these rows, with the model given (of times by the jackknife over
    rows).
    With `cv` they come from the differences between folds, whose squares are multiplied
    by 1 / n_folds + n_test / n_train: folds share training rows, and repeats share all
    rows, so that more repeats do not make more data (Nadeau and Bengio, 2003).

    Parameters
    ----------
    estimator : MKLClassifier, MKLRegressor, MKLSurvival, or a relative of these
        Fitted on other rows, unless `cv` is given.
    X : table, views or kernel matrices
        Rows that the estimator has not seen; with `cv` all rows, and matrices of all
        rows against all rows.
    y : array
        Labels, numbers, or times and events, as in `fit`.
    cv : int, splitter or iterable, optional
        Cross-fit: clones of the estimator are fitted on the training rows of every
        split and judged on the others. Repeated splitters are fine.
    by : {"kernel", "view"}, default="kernel"
        "view" sums the kernels of each view of a model fitted on several tables, of
        each group of :func:`manykernels.group_kernels`, or else those on the same
        columns. A kernel that reads several views is a part of its own.
    sample_weight : array of shape (n,), optional
        Of the rows; clones are fitted with them as well. Rows of weight zero do
        not count; standard errors take rows, not weights, for what was drawn.
    groups : array of shape (n,), optional
        For splitters that keep groups of rows together.
    center : bool, default=True
        For labels: take the mean over the unseen rows off every kernel's scores. What
        is the same for all rows favors the commonest class whatever the row; any
        kernel can serve as such a constant, noise as well. False gives parts of the
        plain margin. Without effect on two classes that are equally frequent.
    n_permutations : int, default=20
        Shuffles behind `permuted`; 0 for none.
    random_state : int, Generator, RandomState or None
        Of the shuffles.

    Returns
    -------
    Importance
        `names`, `share`, `std_error`, `drop`, `permuted` and more, see
        :class:`manykernels.study.Importance`. Nothing is fitted again for `drop` and
        `permuted`: scores are sums of parts, so one part can be taken out, or its rows
        exchanged, exactly (but for `missing="complete"`, where completed rows stay).

    Examples
    --------
    >>> import manykernels as mk
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(400, 120)), np.arange(400) % 2
    >>> X[:, 0] += 2 * y  # one column says something
    >>> model = mk.MKLClassifier("rbf@0; rbf@1-119", random_state=0)
    >>> found = kernel_importance(model.fit(X[:200], y[:200]), X[200:], y[200:])
    >>> found
       share  error weight
       1.0    0.04   0.16   rbf@0
       0.0    0.04   0.84   rbf@1-119
    """
    kind = targets_class(estimator)
    OneOf("kernel", "view").check("by", by)
    Flag().check("center", center)
    Whole(low=0, example=20).check("n_permutations", n_permutations)
    X, y, weight, groups = align_rows(estimator, X, y, sample_weight, groups)
    generator = choose_generator(random_state)
    settings = ImportanceSettings(by, bool(center), int(n_permutations), generator)
    if cv is not None:
        folds = _cross_fitted(estimator, kind, cv, settings, X, y, weight, groups)
        return combine_folds(list(folds), by)
    if not hasattr(estimator, "kernel_weights_"):
        raise NotFittedError(
            f"estimator must be fitted on other rows, got an {type(estimator).__name__}"
            " that is not fitted; call fit first, or pass cv=5 to cross-fit."
        )
    return combine_folds([examine(estimator, X, y, weight, settings)], by)


# --- cross-fitting --------------------------------------------------------------------


def _cross_fitted(
    estimator: Any,
    kind: type,
    cv: Any,
    settings: ImportanceSettings,
    X: Any,
    y: Any,
    weight: Any,
    groups: Any,
) -> Iterator[HeldOut]:
    """Clones on the training rows of every split, examined on the others."""
    if kind is Times:
        y = np.column_stack(read_times(y))
    y = np.asarray(y)
    strata = y[:, 1] if kind is Times else y
    require_rows(X, len(y))
    if kind is Values:
        values = Values.of(y, weight, n_rows=len(y), center=False)
        settings = replace(settings, variance=known_variance(values))
    pairwise = get_tags(estimator).input_tags.pairwise
    weight = None if weight is None else np.asarray(weight)
    splitter = check_cv(cv, strata, classifier=kind is not Values)
    for train, test in splitter.split(np.zeros(len(y)), strata, groups):
        if len(test) < 2 and (kind is not Labels or settings.center):
            raise ValueError(
                "cv must hold out at least 2 rows at a time, whose mean is taken off, "
                "got 1; take fewer folds, or center=False for labels."
            )
        options = {} if weight is None else {"sample_weight": weight[train]}
        columns = train if pairwise else None
        model = clone(estimator).fit(take_rows(X, train, columns), y[train], **options)
        n_classes = len(np.unique(strata)) if kind is Labels else 0
        if n_classes and len(model.classes_) < n_classes:
            raise ValueError(
                f"every split must train on rows of all {n_classes} classes, got one "
                f"with {len(model.classes_)}; take fewer folds, or stratify them."
            )
        test_weight = None if weight is None else weight[test]
        test_rows = take_rows(X, test, columns)
        yield examine(model, test_rows, y[test], test_weight, settings, len(train))


# --- from sums to shares --------------------------------------------------------------


def combine_folds(folds: Sequence[HeldOut], by: str) -> Importance:
    """Return shares and errors of all folds together."""
    gains, counts, inflation = _units(folds)
    totals = gains.sum(axis=1)
    mean, mean_error = ratio(gains, counts, inflation)
    total, total_error = (
        float(v[0]) for v in ratio(totals[:, None], counts, inflation)
    )
    _warn_unless_positive(total, total_error)
    share, error = ratio(gains, totals, inflation)
    outputs = {
        name: _shares(np.sum([fold.by_output[name] for fold in folds], axis=0))
        for name in folds[0].by_output
    }
    return Importance(
        by=by,
        names=folds[0].names,
        share=share,
        std_error=error,
        gain=mean,
        gain_error=mean_error,
        total=total,
        total_error=total_error,
        **{"per_class": None, "per_target": None, **outputs},
        **_means(folds),
    )


def _units(folds: Sequence[HeldOut]) -> tuple[np.ndarray, np.ndarray, float]:
    """Gains and counts by row or fold, and the factor in place of 1 / n."""
    if len(folds) == 1:
        # Gains of pairs make a U-statistic: its variance is that of the means of the
        # rows' gains, times the square of its degree.
        only = folds[0]
        return only.gains, only.counts, only.overlap**2 / len(only.counts)
    gains = np.array([fold.gains.sum(axis=0) for fold in folds])
    counts = np.array([fold.counts.sum() for fold in folds])
    # Folds share training rows (Nadeau and Bengio, 2003).
    tested = np.mean([len(fold.counts) / fold.train_rows for fold in folds])
    return gains, counts, 1.0 / len(folds) + float(tested)


def _means(folds: Sequence[HeldOut]) -> dict[str, Any]:
    """What is a plain mean or sum over the folds."""
    present = np.sum([fold.where_present for fold in folds], axis=0)
    return {
        "weight": np.mean([fold.kernel_weight for fold in folds], axis=0),
        "share_present": _divided(present[0], present[1]),
        "n_present": np.sum([fold.n_present for fold in folds], axis=0),
        "score": float(np.mean([fold.score for fold in folds])),
        "drop": np.mean([fold.drop for fold in folds], axis=0),
        "permuted": np.mean([fold.permuted for fold in folds], axis=0),
        "n_rows": sum(len(fold.counts) for fold in folds),
        "n_folds": len(folds),
        "classes": folds[0].classes,
    }


def ratio(
    above: np.ndarray, below: np.ndarray, inflation: float
) -> tuple[np.ndarray, np.ndarray]:
    """sum(above) / sum(below) and its standard error over rows or folds.

    The error is that of the mean of the linearized deviations
    u = (above - ratio * below) / mean(below), with `inflation` in place of 1 / n. NaN
    where the sum below is not positive.

    Examples
    --------
    >>> ratio(np.array([[1.0], [3.0]]), np.ones(2), 1 / 2)
    (array([2.]), array([1.]))
    """
    n, whole = len(below), below.sum()
    if not whole > 0.0:
        nothing = np.full(above.shape[1], np.nan)
        return nothing, nothing.copy()
    quotient = above.sum(axis=0) / whole
    # To first order the quotient moves by the mean of these when rows change.
    deviation = (above - quotient * below[:, None]) * (n / whole)
    variance = np.sum(deviation**2, axis=0) / max(n - 1, 1)
    return quotient, np.sqrt(inflation * variance)


def _shares(sums: np.ndarray) -> np.ndarray:
    """Every row divided by its sum."""
    return _divided(sums, sums.sum(axis=1, keepdims=True))


def _divided(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    out = np.full(above.shape, np.nan)
    return np.divide(above, below, out=out, where=below > 0.0)


def _warn_unless_positive(total: float, error: float) -> None:
    if total > 2.0 * error:
        return
    what = "are shares of little" if total > 0.0 else "mean nothing and are NaN"
    warnings.warn(
        f"The model gains {total:.3g} +- {error:.2g} on the unseen rows, which is not "
        f"clearly above zero: shares {what}; look at `gain`, `drop` and `score`.",
        UserWarning,
        stacklevel=3,
    )
