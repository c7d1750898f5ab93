"""One call: does learning the weights pay on these tables, and which views matter?"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from manykernels.base.documented import Documented
from manykernels.base.machine import one_blas_thread, parse_bytes
from manykernels.base.rooms import room
from manykernels.inputs.parameters import (
    ReadBy,
    Rules,
    Whole,
    Workers,
    check_parameters,
)
from manykernels.inputs.reporting import counted_steps
from manykernels.inputs.row_matching import match_rows
from manykernels.inputs.wrappers import rollback_on_error
from manykernels.mkl.search import Grid
from manykernels.solvers.loop import InterruptedFitWarning
from manykernels.study.contest.entrants import BASELINES, ON_TABLES, Lesson, Plan, Rows
from manykernels.study.contest.folder import Folder, identity
from manykernels.study.contest.kinds import Kind, choose_estimator, read_kind
from manykernels.study.contest.record import Record, compare
from manykernels.study.contest.splits import Split, folds, outer_splits
from manykernels.study.contest.tables import (
    Finished,
    score_table,
    summary_table,
    verdict,
)
from manykernels.study.findings import Findings, row_names
from manykernels.study.overview import Overview
from manykernels.study.refits import require_plain
from manykernels.study.rows import as_table, require_rows, take_rows
from manykernels.study.stability import weight_stability
from manykernels.study.table import Table
from manykernels.study.unseen import plain_weights
from manykernels.targets.base import find_scorer

RULES: Rules = {
    "n_repeats": Whole(example=5),
    "inner_cv": Whole(low=2, example=3),
    "n_pairs": Whole(low=0, example=10),
    "scoring": ReadBy(find_scorer, optional=True),
    "n_jobs": Workers(optional=True),
    "verbose": Whole(low=0, example=1),
    "random_state": Whole(low=0, example=0),
}


class Study(Documented, Findings, BaseEstimator):
    """Learned weights against uniform ones and others, on rows that none has seen.

    Every split of the rows in training and test rows is given to every method. All of
    them choose their settings on folds of the training rows, the same for all; kernels
    are computed once per split, on the training rows. What is told of kernels and views
    is measured on the test rows.

    Parameters
    ----------
    estimator : MKLClassifier, MKLRegressor or MKLSurvival, optional
        What is studied: kernels, loss, scaling and so on; its p and C are searched. By
        default one that suits y, with the default kernels.
    ps : list of float, optional
        Exponents that learning the weights may choose from; uniform weights are p = 2.
        By default 1, 1.1 and 1.5; without 1 for times, where it converges slowly.
    Cs : list of float or int, default=(0.01, 0.1, 1.0, 10.0, 100.0)
        Weights of the losses to try; a number of them from 1e-3 to 1e3.
    cv : int, splitter or iterable, default=5
        Splits in training and test rows. Folds have the same share of every class (or
        of events), and keep groups together.
    n_repeats : int, default=1
        How often the rows are divided into folds anew.
    inner_cv : int, default=3
        Folds of the training rows, on which settings are chosen.
    baselines : "all" or list of str, default="all"
        Beside learned and uniform weights: "averaged" (scikit-learn's SVM, or kernel
        ridge, on the mean of the kernels), "single" (the mean of the kernels of one
        view, which is chosen), "linear" (logistic or ridge regression on all columns)
        and "forest" (random forest). "all" takes those that there are: kernel matrices
        have no columns, times only "single".
    scoring : str or scorer, optional
        None for accuracy, R^2 or concordance.
    n_pairs : int, default=5
        Pairs of halves of the rows for `stability_`; 0 for none.
    folder : path, optional
        Where finished splits are kept; the same study, killed and started again, goes
        on from there and ends with the same result.
    n_jobs : int, optional
        Splits at a time; each holds its kernels, and has its share of a memory limit.
    verbose : int, default=0
        1 says on standard error how far it is.
    random_state : int, default=0
        Of all splits and fits: the same number, the same study.

    Attributes
    ----------
    verdict_ : str
        Whether learning the weights pays, in one sentence.
    summary_ : Table
        A line per method: mean score and its standard error, lowest and highest; its
        gain over uniform weights with standard error and 95 % interval; seconds.
    scores_ : Table
        A line per split and method: score, what it chose, seconds.
    importance_, view_importance_ : Importance
        Of kernels and of views on unseen rows, see `kernel_importance`.
    weights_ : Table
        A line per kernel: weight on all rows; mean, lowest and highest over splits.
    predictions_ : Table
        A line per test row and split: truth and prediction of learned weights.
    contributions_ : Table
        A column per view, lines as in `predictions_`: its part of the decision.
    class_results_, calibration_ : Table or None
        Of every class, and of probabilities; for labels.
    confusion_ : array of shape (n_classes, n_classes) or None
        True classes down, predicted ones across, learned weights, all splits.
    missing_ : Table or None
        Scores of rows by the views they lack, where any do.
    path_ : Table
        Score on inner folds, all rows, and the kernels' weights for every C at the
        chosen p.
    stability_ : WeightStability or None
    model_ : estimator
        Fitted on all rows with the p and C that their folds choose.
    overview_ : Overview or None
        Alignments of kernels, and principal components of rows, of `model_`.
    kind_ : str
        "classification", "regression" or "survival".
    classes_ : array or None

    Notes
    -----
    After Ctrl-C, tables speak of the splits that were finished, and what needs all rows
    (`model_`, `path_`, `stability_`, `overview_`) is not there.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> import manykernels as mk
    >>> X, y = load_wine(return_X_y=True)
    >>> model = mk.MKLClassifier("rbf@0-5; rbf@6-12", scale="standard")
    >>> study = Study(model, Cs=[1, 10], n_pairs=0, baselines=["single"]).fit(X, y)
    >>> study.summary_["method"].tolist()
    ['mkl', 'uniform', 'single']
    >>> study.verdict_[:44]
    'Learning the weights does not pay here: the '
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        ps: Any = None,
        Cs: Any = (0.01, 0.1, 1.0, 10.0, 100.0),
        cv: Any = 5,
        n_repeats: int = 1,
        inner_cv: int = 3,
        baselines: Any = "all",
        scoring: Any = None,
        n_pairs: int = 5,
        folder: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.ps = ps
        self.Cs = Cs
        self.cv = cv
        self.n_repeats = n_repeats
        self.inner_cv = inner_cv
        self.baselines = baselines
        self.scoring = scoring
        self.n_pairs = n_pairs
        self.folder = folder
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @rollback_on_error
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> Study:
        """Run the study.

        Parameters
        ----------
        X : table, views or kernel matrices
            As in the estimator's fit; matrices between all rows.
        y : array
            Labels, numbers, or times and events.
        sample_weight : array of shape (n,), optional
        groups : array of shape (n,), optional
            Rows of a group are never on both sides of a split.
        """
        check_parameters(self, RULES)
        Grid.of(1.5 if self.ps is None else self.ps, self.Cs)  # complain early
        estimator = self._estimator(y)
        data = _Data.of(estimator, X, y, sample_weight, groups)
        grid = Grid.of(data.kind.ps if self.ps is None else self.ps, self.Cs)
        baselines = self._baselines(data)
        splits = self._splits(data)
        plan = Plan(data.kind, grid, self.scoring, self.random_state)
        records, whole = self._run(estimator, data, splits, plan, baselines)
        kept = [k for k, record in enumerate(records) if record is not None]
        done = Finished(
            data.kind,
            [splits[k] for k in kept],
            [records[k] for k in kept],  # type: ignore[misc]
            data.weight,
            self.scoring,
        )
        self._tell(done, data.names)
        self.titles_ = {method: done.title(method) for method in done.methods}
        self.verdict_ = verdict(done)
        self.scores_, self.summary_ = score_table(done), summary_table(done)
        self.n_splits_, self.n_finished_ = len(splits), len(kept)
        if whole:
            self._learn_whole(estimator, data, plan, _split_weights(done))
        return self

    def report(self, path: Any, *, title: str | None = None) -> None:
        """Write the study as one HTML file to look at, which needs nothing else.

        Parameters
        ----------
        path : str or path
        title : str, optional
        """
        room("report").write_report(self, path, title=title)

    def _estimator(self, y: Any) -> Any:
        """A clone whose fits are the same every time."""
        found = choose_estimator(self.estimator, y)
        require_plain(found)
        found = clone(found).set_params(verbose=0, callback=None, checkpoint=None)
        found.set_params(warm_start=False)
        if found.random_state is None:
            found.set_params(random_state=self.random_state)
        if "per_target_weights" in found.get_params():  # there is one target
            found.set_params(per_target_weights=False)
        if found.memory_limit is not None and (self.n_jobs or 1) > 1:
            limit = parse_bytes(found.memory_limit) // int(self.n_jobs or 1)
            found.set_params(memory_limit=limit)
        return found

    def _baselines(self, data: _Data) -> list[str]:
        """The other methods, of those that there are."""
        known = [
            name
            for name in data.kind.baselines
            if not (data.pairwise and name in ON_TABLES)
        ]
        if isinstance(self.baselines, str) and self.baselines == "all":
            return known
        wanted = list(self.baselines)
        odd = [name for name in wanted if name not in known]
        if isinstance(self.baselines, str) or odd:
            got = self.baselines if isinstance(self.baselines, str) else odd[0]
            raise ValueError(
                f"baselines must be 'all' or some of {known} for {data.kind.name}"
                f"{' of kernel matrices' * data.pairwise}, got {got!r}; choose these."
            )
        return [name for name in BASELINES if name in wanted]

    def _splits(self, data: _Data) -> list[Split]:
        strata = data.kind.strata
        found = outer_splits(
            self.cv, self.n_repeats, strata, data.groups, data.n_rows, self.random_state
        )
        if not found:
            raise ValueError("cv must make at least one split, got none; take cv=5.")
        for split in found:
            data.kind.require_whole(split.train)
        return found

    def _run(
        self,
        estimator: Any,
        data: _Data,
        splits: Sequence[Split],
        plan: Plan,
        baselines: list[str],
    ) -> tuple[list[Record | None], bool]:
        """Records of all splits, and whether they are all there."""
        folder = self._open_folder(estimator, data, splits, plan, baselines)
        records: list[Record | None] = [None] * len(splits)

        def one(k: int, step: Callable[[], None]) -> None:
            records[k] = None if folder is None else folder.load(k)
            if records[k] is not None:
                for _ in range(2 + len(baselines)):
                    step()
                return
            found = self._compare(estimator, data, splits[k], plan, baselines, step)
            if folder is not None:
                folder.save(k, found)
            records[k] = found

        total = len(splits) * (2 + len(baselines))
        said = counted_steps(self.verbose, "fits of methods", total)
        try:
            with one_blas_thread(), said as step:
                jobs = (delayed(one)(k, step) for k in range(len(splits)))
                Parallel(self.n_jobs, require="sharedmem")(jobs)
        except KeyboardInterrupt:
            _warn_of_interrupt(records)
            return list(records), False
        return records, True

    def _open_folder(
        self,
        estimator: Any,
        data: _Data,
        splits: Sequence[Split],
        plan: Plan,
        baselines: list[str],
    ) -> Folder | None:
        if self.folder is None:
            return None
        settings = estimator.get_params(deep=False)
        settings.pop("memory_limit")
        words = (type(estimator).__name__, settings, plan.grid, plan.scoring, baselines)
        rows = [[split.train, split.test] for split in splits]
        seeds = (plan.seed, self.inner_cv)
        key = identity(
            data.X, data.kind.y, data.weight, data.groups, words, rows, seeds
        )
        return Folder(self.folder, key)

    def _compare(
        self,
        estimator: Any,
        data: _Data,
        split: Split,
        plan: Plan,
        baselines: list[str],
        step: Callable[[], None],
    ) -> Record:
        seed = self.random_state + 1 + split.repeat
        train = data.rows(split.train, split.train)
        test = data.rows(split.test, split.train)
        inner = data.folds(self.inner_cv, split.train, seed)
        plan = replace(plan, seed=seed)
        return compare(estimator, train, test, inner, plan, baselines, step)

    def _learn_whole(
        self, estimator: Any, data: _Data, plan: Plan, weights: np.ndarray
    ) -> None:
        """A model of all rows, and what it looks like."""
        every = np.arange(data.n_rows)
        inner = data.folds(self.inner_cv, every, self.random_state)
        lesson = Lesson(clone(estimator), data.rows(every, every), inner, plan)
        scores = lesson.inner_scores(lesson.data.bank, plan.grid.ps)
        place, _ = plan.grid.best(scores)
        p, C = plan.grid.pairs[place]
        self.model_ = lesson.fit(p, C)
        self.model_.importance_ = self.importance_  # a notebook shows it
        self.p_, self.C_ = p, C
        steps = list(lesson.path(p))
        self.path_ = Table(
            C=np.array([C for C, _ in steps]),
            score=scores[[q == p for q, _ in plan.grid.pairs]],
            weights=np.array([weights for _, weights in steps]),
        )
        self.weights_ = plain_weights(self.model_)
        for name, function in (
            ("mean", np.mean),
            ("lowest", np.min),
            ("highest", np.max),
        ):
            self.weights_[name] = function(weights, axis=0)
        self.overview_ = Overview.of(self.model_, data.X, data.n_rows)
        self.stability_ = None
        if self.n_pairs:
            self.stability_ = weight_stability(
                clone(estimator).set_params(p=p, C=C),
                data.X,
                data.kind.given,
                n_pairs=self.n_pairs,
                sample_weight=data.weight,
                n_jobs=self.n_jobs,
                random_state=self.random_state,
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "verdict_")

    def __str__(self) -> str:
        """The verdict and the table of methods, once there are such."""
        if not self.__sklearn_is_fitted__():
            return repr(self)
        columns = ("title", "score", "std_error", "gain", "gain_error", "seconds")
        table = Table({name: self.summary_[name] for name in columns})
        return f"{self.verdict_}\n\n{table!r}"

    def _require_fitted(self) -> None:
        check_is_fitted(self, msg="This Study was not run yet; call fit first.")


class _Data:
    """All rows in one order, and what is to be predicted of them."""

    def __init__(self, X: Any, kind: Kind, weight: Any, groups: Any, pairwise: bool):
        self.X, self.kind, self.weight, self.groups = X, kind, weight, groups
        self.pairwise, self.n_rows = pairwise, len(kind.y)
        self.names = row_names(X, self.n_rows)

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any, weight: Any, groups: Any) -> _Data:
        """Checked; rows of weight zero are not there."""
        if y is None:
            raise ValueError("y must be given, got None; pass what X shall predict.")
        pairwise = get_tags(estimator).input_tags.pairwise
        if not pairwise:
            X, y, weight, groups = match_rows(as_table(X), y, weight, groups)
        kind = read_kind(estimator, y)
        require_rows(X, len(kind.y))
        weight = _vector("sample_weight", weight, len(kind.y))
        groups = _vector("groups", groups, len(kind.y))
        if weight is not None and not np.all(weight > 0.0):
            raise ValueError(
                "sample_weight must be positive in a study, got a weight of "
                f"{weight.min():g}; leave such rows out."
            )
        return cls(X, kind, weight, groups, pairwise)

    def rows(self, rows: np.ndarray, train: np.ndarray) -> Rows:
        """Some rows; kernel matrices have the training rows across."""
        X = take_rows(self.X, rows, train if self.pairwise else None)
        weight = None if self.weight is None else self.weight[rows]
        return Rows(X, self.kind.given[rows], weight)

    def folds(self, n_folds: int, rows: np.ndarray, seed: int) -> list[Any]:
        """Folds of some rows, as positions among them."""
        strata = None if self.kind.strata is None else self.kind.strata[rows]
        groups = None if self.groups is None else self.groups[rows]
        return folds(n_folds, strata, groups, len(rows), seed)


def _vector(name: str, values: Any, n_rows: int) -> np.ndarray | None:
    if values is None:
        return None
    found = np.asarray(values)
    if found.shape != (n_rows,):
        raise ValueError(
            f"{name} must have one entry per row, which are {n_rows}, got the shape "
            f"{found.shape}; pass as many."
        )
    return found


def _split_weights(done: Finished) -> np.ndarray:
    """Kernel weights of every split, shape (splits, kernels)."""
    return np.array([record.by_kernel.kernel_weight for record in done.records])


def _warn_of_interrupt(records: Sequence[Record | None]) -> None:
    n = sum(record is not None for record in records)
    if n == 0:
        raise KeyboardInterrupt
    warnings.warn(
        f"The study was interrupted after {n} of {len(records)} splits; its tables "
        "speak of these.",
        InterruptedFitWarning,
        stacklevel=4,
    )
