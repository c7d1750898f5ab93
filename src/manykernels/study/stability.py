"""Which kernels are chosen again and again: selection on halves of the rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from manykernels.base.imports import require_library
from manykernels.inputs.parameters import (
    Number,
    Rules,
    Whole,
    check_values,
    draw_seed,
    require_number,
)
from manykernels.mkl.search import Grid
from manykernels.study.refits import (
    REFIT_RULES,
    ParallelRuns,
    Refits,
    kernel_shares,
    require_plain,
)

STABILITY_RULES: Rules = {
    **REFIT_RULES,
    "n_pairs": Whole(example=50),
    "threshold": Number(0.0, 1.0, low_ok=True),
}


@dataclass(frozen=True)
class WeightStability:
    """Weights of all kernels on many halves of the rows.

    Attributes
    ----------
    names : list of str
        Of the kernels, K of them.
    ps, Cs : list of float
    weights : array of shape (subsamples, ps, Cs, K)
        With a sum of one over the kernels.
    threshold : float
        A kernel is selected where its weight is above it.
    importances : array of shape (subsamples, ps, Cs, K) or None
        Shares of what a fit gains on the other half, see `kernel_importance`; NaN where
        it gains nothing.

    Examples
    --------
    >>> weights = np.array([[0.9, 0.1, 0.0], [0.8, 0.0, 0.2]])[:, None, None]
    >>> found = WeightStability(["a", "b", "c"], [1.0], [1.0], weights, 1e-3)
    >>> found.frequency.tolist()
    [[[1.0, 0.5, 0.5]]]
    >>> found.stable(), round(found.false_selections(), 3)
    (['a'], 1.667)
    """

    names: list[str]
    ps: list[float]
    Cs: list[float]
    weights: np.ndarray
    threshold: float
    importances: np.ndarray | None = None

    @property
    def selected(self) -> np.ndarray:
        """Whether a kernel was selected, shape (subsamples, ps, Cs, K)."""
        return self.weights > self.threshold

    @property
    def frequency(self) -> np.ndarray:
        """Share of the subsamples that select a kernel, shape (ps, Cs, K)."""
        return np.asarray(self.selected.mean(axis=0))

    @property
    def most_frequent(self) -> np.ndarray:
        """The highest frequency of every kernel on the whole path, shape (K,)."""
        return np.asarray(self.frequency.max(axis=(0, 1)))

    def stable(self, often: float = 0.9) -> list[str]:
        """Kernels that some p and C selects in at least this share of subsamples."""
        _require_often(often)
        return [self.names[f] for f in np.flatnonzero(self.most_frequent >= often)]

    def false_selections(self, often: float = 0.9) -> float:
        r"""Bound on the expected number of kernels that are stable by chance.

        :math:`q^2 / ((2\,often - 1) K)`, where q is the mean number of kernels that a
        subsample selects with any of the p and C. Of noise kernels it holds if all are
        equally likely to be selected, and the others at least as likely (Meinshausen
        and Bühlmann). Without that assumption, for complementary halves, it bounds how
        many of the stable kernels are ones that half the rows select less often than
        the average kernel (Shah and Samworth). Kernels on shared or correlated columns
        break the first condition, not the second.
        """
        _require_often(often)
        q = float(self.selected.any(axis=(1, 2)).sum(axis=1).mean())
        return q**2 / ((2.0 * often - 1.0) * len(self.names))

    def to_frame(self) -> Any:
        """A data frame with a row for every p, C and kernel."""
        pandas = require_library("pandas", "cli")
        low, middle, high = _range(self.weights)
        shape = self.weights.shape[1:]
        p, C, kernel = np.meshgrid(self.ps, self.Cs, self.names, indexing="ij")
        columns = {
            "kernel": kernel,
            "p": p.astype(float),
            "C": C.astype(float),
            "frequency": self.frequency,
            "mean_weight": self.weights.mean(axis=0),
            "low_weight": low,
            "median_weight": middle,
            "high_weight": high,
        }
        if self.importances is not None:
            ranges = _range(self.importances)
            names = ("low_importance", "median_importance", "high_importance")
            columns |= dict(zip(names, ranges, strict=True))
        return pandas.DataFrame(
            {name: values.reshape(np.prod(shape)) for name, values in columns.items()}
        )


def weight_stability(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    Cs: Any = None,
    ps: Any = None,
    n_pairs: int = 50,
    threshold: float = 1e-3,
    tol: float = 1e-4,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    random_state: Any = None,
) -> WeightStability:
    """How often every kernel is selected, on halves of the rows in complementary pairs.

    All rows are divided in two halves at random, `n_pairs` times, each with the same
    share of every class, and the estimator is fitted on both halves. Kernels are
    computed once, on all rows, so that widths and scaling are the same in every fit; a
    fit with one C is the start of the fit with the next. What every kernel is worth is
    measured on the half that a fit has not seen.

    Parameters
    ----------
    estimator : MKLClassifier, MKLRegressor or MKLSurvival
        Its p and C are used where none are given; it is not changed.
    X, y : as in its fit
    Cs : float, list of float or int, optional
        Values of C; a number of them from 1e-3 to 1e3.
    ps : float or list of float, optional
        With p = 1 kernels can have a weight of exactly zero; above it every kernel has
        some weight, and what is selected depends on the threshold.
    n_pairs : int, default=50
        Pairs of halves: twice as many subsamples.
    threshold : float, default=1e-3
        Share of the weight above which a kernel is selected.
    tol : float, default=1e-4
        Relative gap of the fits, and at p = 1 a smaller one where the norm is a small
        part of the objective. A looser one selects kernels that the optimum does not.
    sample_weight : array of shape (n,), optional
    n_jobs : int, optional
        Subsamples at a time.
    verbose : int, default=0
        1 says on standard error how far it is.
    random_state : int, RandomState or None

    Returns
    -------
    WeightStability

    References
    ----------
    Meinshausen and Bühlmann (2010), Stability selection. Shah and Samworth (2013),
    Variable selection with error control: another look at stability selection.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from manykernels import MKLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifier("rbf@0; rbf@1; rbf@2; rbf@3", p=1.0)
    >>> found = weight_stability(model, X, y, n_pairs=5, random_state=0)
    >>> sorted(found.stable())
    ['rbf@2', 'rbf@3']
    """
    given = {"n_pairs": n_pairs, "threshold": threshold, "tol": tol}
    check_values({**given, "n_jobs": n_jobs, "verbose": verbose}, STABILITY_RULES)
    require_plain(estimator)
    C = float(require_number("C", estimator.C, 0.0))
    grid = Grid.of(estimator.p if ps is None else ps, C if Cs is None else Cs)
    seed = draw_seed(random_state)
    refits = Refits.of(estimator, X, y, sample_weight, tol, seed, max(grid.Cs))
    rng = np.random.default_rng(seed)
    halves = [half for _ in range(n_pairs) for half in _halves(refits, rng)]
    runs = ParallelRuns(n_jobs, verbose, refits.data.bank.nbytes)
    paths = runs.of(partial(_path, refits, grid), halves, "halves of the rows")
    weights, importances = np.stack(paths, axis=1)
    return WeightStability(
        refits.names, grid.ps, grid.Cs, weights, float(threshold), importances
    )


def _halves(refits: Refits, rng: np.random.Generator) -> list[np.ndarray]:
    """Two halves of the rows; every class is divided as evenly as it can be."""
    n_rows, labels = refits.n_rows, refits.labels
    if n_rows < 4:
        raise ValueError(
            f"halves need at least 4 rows of positive weight, got {n_rows}; pass more."
        )
    order = rng.permutation(n_rows)
    if labels is not None:  # one class after the other, at random within a class
        order = order[np.argsort(labels[order], kind="stable")]
    # Which of two neighbors goes where is drawn as well: neither is always first.
    first = rng.integers(2, size=(n_rows + 1) // 2)
    side = np.stack([first, 1 - first], axis=1).ravel()[:n_rows]
    halves = [np.sort(order[side == k]) for k in (0, 1)]
    if labels is not None and min(len(np.unique(labels[half])) for half in halves) < 2:
        raise ValueError(
            "halves need rows of at least 2 classes each, got a class that one half "
            "lacks; pass more rows of the rare classes."
        )
    return halves


def _path(refits: Refits, grid: Grid, half: np.ndarray) -> np.ndarray:
    """Weights and importances for every p and C on one half, shape (2, ps, Cs, K)."""
    part = refits.take(half)
    results = []
    for p in grid.ps:
        start = None
        for C in grid.Cs:
            # With p = 1 a kernel is selected if its weight is not zero at the optimum.
            start = part.solve(p, C, start, sharp=p == 1.0)
            results.append([kernel_shares(start), refits.shares_unseen(start, half)])
    return np.swapaxes(results, 0, 1).reshape(2, len(grid.ps), len(grid.Cs), -1)


def _range(values: np.ndarray) -> np.ndarray:
    """Low end, median and high end over the subsamples that have a value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where none of them has one
        return np.nanpercentile(values, [5.0, 50.0, 95.0], axis=0)


def _require_often(often: float) -> None:
    if not 0.5 < often <= 1.0:
        raise ValueError(
            f"often must be a number in (0.5, 1], got {often!r}; the bound holds for "
            "kernels that more than half of the subsamples select."
        )
