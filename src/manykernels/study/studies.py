"""One call: does learning the weights pay on these tables, and which views matter?"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from manykernels.base.imports import room
from manykernels.base.machine import one_blas_thread, parse_bytes
from manykernels.files.saved import Documented
from manykernels.inputs.parameters import (
    ReadBy,
    Rules,
    Whole,
    Workers,
    check_parameters,
)
from manykernels.inputs.reporting import counted_steps
from manykernels.inputs.wrappers import rollback_on_error
from manykernels.mkl import MKLClassifier, MKLRegressor, MKLSurvival
from manykernels.mkl.search import Grid
from manykernels.solvers.loop import InterruptedFitWarning
from manykernels.study.methods import (
    BASELINES,
    LEARNED,
    TABLE_BASELINES,
    TASK_DEFAULTS,
    UNIFORM,
    StudySettings,
    TrainingFold,
    learned,
    uniform,
)
from manykernels.study.model_on_test_rows import weight_table
from manykernels.study.overview import Overview
from manykernels.study.refits import require_plain
from manykernels.study.result_table import ResultTable
from manykernels.study.split_records import (
    SplitFolder,
    SplitRecord,
    record_split,
    study_identity,
)
from manykernels.study.stability import weight_stability
from manykernels.study.study_data import Split, StudyData, row_names
from manykernels.study.study_results import (
    FinishedSplits,
    SplitFindings,
    score_table,
    summary_table,
    verdict,
)
from manykernels.targets.base import find_scorer

STUDY_RULES: Rules = {
    "n_repeats": Whole(example=5),
    "inner_cv": Whole(low=2, example=3),
    "n_pairs": Whole(low=0, example=10),
    "scoring": ReadBy(find_scorer, optional=True),
    "n_jobs": Workers(optional=True),
    "verbose": Whole(low=0, example=1),
    "random_state": Whole(low=0, example=0),
}


class Study(Documented, SplitFindings, BaseEstimator):
    """Learned weights against uniform ones and other methods, on unseen rows.

    Every split of the rows in training and test rows is given to every method. All of
    them choose their settings on folds of the training rows, the same for all; kernels
    are computed once per split, on the training rows. Importance is measured on the
    test rows.

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
        and "forest" (random forest). "all" takes those that are possible: kernel
        matrices have no columns, times only "single".
    scoring : str or scorer, optional
        None for accuracy, R^2 or concordance.
    n_pairs : int, default=5
        Pairs of halves of the rows for `stability_`; 0 for none.
    folder : path, optional
        Keeps finished splits; the same study, killed and started again, takes these
        and ends with the same result.
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
    summary_ : ResultTable
        A line per method: mean score and its standard error, lowest and highest; its
        gain over uniform weights with standard error and 95 % interval; seconds.
    scores_ : ResultTable
        A line per split and method: score, what it chose, seconds.
    importance_, view_importance_ : Importance
        Of kernels and of views on unseen rows, see `kernel_importance`.
    weights_ : ResultTable
        A line per kernel: weight on all rows; mean, lowest and highest over splits.
    predictions_ : ResultTable
        A line per test row and split: truth and prediction of learned weights.
    contributions_ : ResultTable
        A column per view, lines as in `predictions_`: its part of the decision.
    class_results_, calibration_ : ResultTable or None
        Of every class, and of probabilities; for labels.
    confusion_ : array of shape (n_classes, n_classes) or None
        True classes down, predicted ones across, learned weights, all splits.
    missing_ : ResultTable or None
        Scores of rows by the views they lack, where any do.
    path_ : ResultTable
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
    After Ctrl-C, tables are those of the finished splits, and what needs all rows is
    missing (`model_`, `path_`, `stability_`, `overview_`).

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
        check_parameters(self, STUDY_RULES)
        Grid.of(1.5 if self.ps is None else self.ps, self.Cs)  # complain early
        run = self._prepare(X, y, sample_weight, groups)
        records, whole = self._run(run)
        kept = [k for k, record in enumerate(records) if record is not None]
        done = FinishedSplits(
            run.data.targets,
            [run.splits[k] for k in kept],
            [records[k] for k in kept],  # type: ignore[misc]
            run.data.weight,
            self.scoring,
        )
        self._set_findings(done, row_names(run.data.X, run.data.n_rows))
        self.titles_ = {method: done.title(method) for method in done.methods}
        self.verdict_ = verdict(done)
        self.scores_, self.summary_ = score_table(done), summary_table(done)
        self.n_splits_, self.n_finished_ = len(run.splits), len(kept)
        if whole:
            weights = [record.by_kernel.kernel_weight for record in done.records]
            self._learn_whole(run, np.array(weights))
        return self

    def report(self, path: Any, *, title: str | None = None) -> None:
        """Write the study as one HTML file to look at, which needs nothing else.

        Parameters
        ----------
        path : str or path
        title : str, optional
        """
        room("report").write_report(self, path, title=title)

    def _prepare(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> StudyRun:
        """Check everything, and divide the rows."""
        estimator = self._estimator(y)
        data = StudyData.of(estimator, X, y, sample_weight, groups)
        ps = TASK_DEFAULTS[data.targets.task].ps if self.ps is None else self.ps
        baselines = self._baselines(data)
        splits = data.splits(self.cv, self.n_repeats, self.random_state)
        grid, seed = Grid.of(ps, self.Cs), self.random_state
        settings = StudySettings(data.targets, grid, self.scoring, seed)
        return StudyRun(estimator, data, splits, settings, baselines)

    def _estimator(self, y: Any) -> Any:
        """A clone whose fits are the same every time."""
        # A study of the same data gives the same result: no state of earlier fits.
        estimator = default_estimator(y) if self.estimator is None else self.estimator
        require_plain(estimator)
        estimator = clone(estimator).set_params(
            verbose=0, callback=None, checkpoint=None, warm_start=False
        )
        if estimator.random_state is None:
            estimator.set_params(random_state=self.random_state)
        if "per_target_weights" in estimator.get_params():  # it has one target
            estimator.set_params(per_target_weights=False)
        if estimator.memory_limit is not None and (self.n_jobs or 1) > 1:
            # Splits at a time share the memory.
            limit = parse_bytes(estimator.memory_limit) // int(self.n_jobs or 1)
            estimator.set_params(memory_limit=limit)
        return estimator

    def _baselines(self, data: StudyData) -> list[str]:
        """Names of the other methods, of those that are possible."""
        task = data.targets.task
        possible = [
            name
            for name in TASK_DEFAULTS[task].baselines
            if not (data.pairwise and name in TABLE_BASELINES)
        ]
        if isinstance(self.baselines, str) and self.baselines == "all":
            return possible
        wanted = list(self.baselines)
        odd = [name for name in wanted if name not in possible]
        if isinstance(self.baselines, str) or odd:
            got = self.baselines if isinstance(self.baselines, str) else odd[0]
            raise ValueError(
                f"baselines must be 'all' or some of {possible} for {task}"
                f"{' of kernel matrices' * data.pairwise}, got {got!r}; choose these."
            )
        return [name for name in BASELINES if name in wanted]

    def _run(self, run: StudyRun) -> tuple[list[SplitRecord | None], bool]:
        """Records of the splits, and whether all of them are finished."""
        folder = None
        if self.folder is not None:
            folder = SplitFolder(self.folder, run.identity(self.inner_cv))
        records: list[SplitRecord | None] = [None] * len(run.splits)
        n_methods = 2 + len(run.baselines)

        def run_split(k: int, step: Callable[[], None]) -> None:
            record = None if folder is None else folder.load(k)
            if record is not None:
                for _ in range(n_methods):
                    step()
            else:
                record = run.compare(run.splits[k], self.inner_cv, step)
                if folder is not None:
                    folder.save(k, record)
            records[k] = record

        total = len(run.splits) * n_methods
        progress = counted_steps(self.verbose, "fits of methods", total)
        try:
            with one_blas_thread(), progress as step:
                jobs = (delayed(run_split)(k, step) for k in range(len(run.splits)))
                # Threads share the rows and the progress.
                Parallel(self.n_jobs, require="sharedmem")(jobs)
        except KeyboardInterrupt:
            _warn_of_interrupt(records)
            return list(records), False
        return records, True

    def _learn_whole(self, run: StudyRun, weights: np.ndarray) -> None:
        """A model of all rows, and what describes it."""
        data, grid = run.data, run.settings.grid
        every = np.arange(data.n_rows)
        inner = data.folds(self.inner_cv, every, self.random_state)
        estimator, rows = clone(run.estimator), data.rows(every, every)
        fold = TrainingFold(estimator, rows, inner, run.settings)
        scores = fold.inner_scores(fold.data.bank, grid.ps)
        self.p_, self.C_ = grid.pairs[grid.best(scores)[0]]
        self.model_ = fold.fit(self.p_, self.C_)
        self.model_.importance_ = self.importance_  # a notebook shows it
        steps = list(fold.path(self.p_))
        self.path_ = ResultTable(
            C=np.array([C for C, _ in steps]),
            score=scores[[p == self.p_ for p, _ in grid.pairs]],
            weights=np.array([step_weights for _, step_weights in steps]),
        )
        self.weights_ = weight_table(self.model_)
        self.weights_["mean"] = weights.mean(axis=0)
        self.weights_["lowest"] = weights.min(axis=0)
        self.weights_["highest"] = weights.max(axis=0)
        self.overview_ = Overview.of(self.model_, data.X, data.n_rows)
        self.stability_ = None
        if self.n_pairs:
            self.stability_ = weight_stability(
                clone(run.estimator).set_params(p=self.p_, C=self.C_),
                data.X,
                data.targets.y,
                n_pairs=self.n_pairs,
                sample_weight=data.weight,
                n_jobs=self.n_jobs,
                random_state=self.random_state,
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "verdict_")

    def __str__(self) -> str:
        if not self.__sklearn_is_fitted__():
            return repr(self)
        columns = ("title", "score", "std_error", "gain", "gain_error", "seconds")
        table = ResultTable({name: self.summary_[name] for name in columns})
        return f"{self.verdict_}\n\n{table!r}"

    def _require_fitted(self) -> None:
        check_is_fitted(self, msg="This Study was not run yet; call fit first.")


@dataclass(frozen=True)
class StudyRun:
    """Everything that the splits of a study share."""

    estimator: Any
    data: StudyData
    splits: Sequence[Split]
    settings: StudySettings
    baselines: Sequence[str]

    def compare(
        self, split: Split, inner_cv: int, step: Callable[[], None]
    ) -> SplitRecord:
        """Run all methods on one split; `step` is called after each."""
        settings = replace(self.settings, seed=self.settings.seed + 1 + split.repeat)
        train = self.data.rows(split.train, split.train)
        test = self.data.rows(split.test, split.train)
        inner = self.data.folds(inner_cv, split.train, settings.seed)
        fold = TrainingFold(clone(self.estimator), train, inner, settings)
        result, model = learned(fold, test.X)
        results = {LEARNED: result}
        step()
        results[UNIFORM], _ = uniform(fold, test.X)
        step()
        for name in self.baselines:
            results[name] = BASELINES[name](fold, test.X)
            step()
        targets, seed = settings.targets, settings.seed
        return record_split(model, test, targets, seed, len(train.y), results)

    def identity(self, inner_cv: int) -> str:
        """A text that changes with everything that the records depend on."""
        parameters = self.estimator.get_params(deep=False)
        parameters.pop("memory_limit")  # does not change results
        settings, data = self.settings, self.data
        name = type(self.estimator).__name__
        rows = [[split.train, split.test] for split in self.splits]
        words = (name, parameters, settings.grid, settings.scoring, self.baselines)
        seeds = (settings.seed, inner_cv)
        return study_identity(
            data.X, data.targets.y, data.weight, data.groups, words, rows, seeds
        )


def default_estimator(y: Any) -> Any:
    """Return an estimator that suits y: labels, numbers, or times with events."""
    if getattr(getattr(y, "dtype", None), "names", None) or isinstance(y, tuple):
        return MKLSurvival()
    labels = type_of_target(y) in ("binary", "multiclass")
    return MKLClassifier() if labels else MKLRegressor()


def _warn_of_interrupt(records: Sequence[SplitRecord | None]) -> None:
    n = sum(record is not None for record in records)
    if n == 0:
        raise KeyboardInterrupt
    warnings.warn(
        f"The study was interrupted after {n} of {len(records)} splits; its tables "
        "are those of these splits.",
        InterruptedFitWarning,
        stacklevel=4,
    )
