"""``manykernels fit``: a model from a file."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    GroupShuffleSplit,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from manykernels.banks import Storage
from manykernels.cli import options as opt
from manykernels.cli.cluster import Cluster
from manykernels.cli.errors import fail, one_line, show
from manykernels.cli.metrics import measure_rows, metric_lines, summary_lines
from manykernels.cli.models import with_names
from manykernels.cli.outputs import (
    check_output,
    check_survival,
    print_json,
    require_one_stdin,
    require_own_files,
    write_json,
)
from manykernels.cli.progress import leave_if_interrupted, save_model, watched
from manykernels.cli.readers.columns import (
    Roles,
    Sample,
    as_labels,
    as_times,
    as_values,
    labels_like,
)
from manykernels.cli.readers.kernel_files import choose_kernels
from manykernels.cli.readers.tables import Source
from manykernels.cli.views import GeneSets, ViewFiles, read_scales
from manykernels.mkl import (
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
)

TIME_CS = [0.01, 0.1, 1.0, 10.0, 100.0]  # tried for times, which have no CV class
Known = tuple[Sample, np.ndarray]  # rows and their labels or values


def fit(
    data: opt.Data,
    model_path: opt.ModelOut,
    target: opt.Target = None,
    time_column: opt.Time = None,
    event: opt.Event = None,
    group: opt.Group = None,
    weight: opt.Weight = None,
    drop: opt.Drop = None,
    view: opt.Views = None,
    index: opt.Index = None,
    regression: opt.Regression = False,
    survival: opt.Survival = False,
    kernels: opt.Kernels = None,
    gene_sets: opt.GeneSets = None,
    gene_set_view: opt.SetView = None,
    min_set_size: opt.SetSize = None,
    scale: opt.Scale = None,
    missing: opt.Missing = None,
    nugget: opt.Nugget = None,
    cv: opt.Folds = None,
    p: opt.P = None,
    C: opt.C = None,
    loss: opt.Loss = None,
    epsilon: opt.Epsilon = None,
    time_scale: opt.TimeScale = None,
    solver: opt.Solver = None,
    tol: opt.Tol = None,
    max_iter: opt.MaxIter = None,
    class_weight: opt.ClassWeight = None,
    approximate: opt.Approximate = None,
    storage: opt.Storage = None,
    storage_dir: opt.StorageDir = None,
    memory_limit: opt.MemoryLimit = None,
    engine: opt.Engine = None,
    scheduler: opt.Scheduler = None,
    workers: opt.Workers = None,
    seed: opt.Seed = None,
    holdout: opt.HoldOut = None,
    test: opt.Test = None,
    checkpoint: opt.Checkpoint = None,
    format: opt.Format = None,
    header: opt.Header = None,
    metrics: opt.Metrics = None,
    as_json: opt.AsJson = False,
    verbose: opt.Verbose = False,
    quiet: opt.Quiet = False,
) -> None:
    """Learn a model and the weight of every kernel from a file.

    manykernels fit train.csv --target kind --kernels "rbf@pixel*; linear" -m model.mk

    manykernels fit patients.csv -t subtype --index id --view mrna=mrna.csv -m model.mk
    """
    check_output("--model", model_path)
    check_output("--metrics", metrics)
    check_output("--checkpoint", checkpoint)
    views = ViewFiles.of(view, index)
    others = {f"--view {name}": path for name, path in views.files.items()}
    require_own_files(
        {"DATA": data, "--test": test, "--gene-sets": gene_sets, **others},
        {"--model": model_path, "--metrics": metrics, "--checkpoint": checkpoint},
    )
    require_one_stdin(data, test)
    estimator = choose_estimator(regression, survival, cv is not None)
    column = check_survival(survival, target, time_column, event)
    model = build_model(
        estimator,
        **fixed_or_searched(estimator, p, C, cv),
        loss=loss,
        epsilon=epsilon,
        time_scale=time_scale,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        class_weight=class_weight,
        scale=read_scales(scale),
        missing=missing,
        nugget=nugget,
        approximate=approximate,
        storage=_storage(estimator, storage, storage_dir),
        memory_limit=None if engine else memory_limit,
        random_state=seed,
        checkpoint=checkpoint,
    )
    roles = Roles(column, weight, group, tuple(drop or ()), event=event)
    chosen = choose_kernels(kernels)
    source = Source(data, format, header)
    cluster = Cluster.of(
        engine,
        scheduler,
        workers,
        memory_limit,
        holdout=holdout,
        cv=cv,
        view=view,
        survival=survival,
        group=group,
        gene_sets=gene_sets,
    )
    if cluster is not None:
        model.set_params(kernels=chosen)
        began = time.perf_counter()
        content, seen = cluster.fit(model, source, roles, verbose, quiet)
        save_model(model, model_path, seen)
        content |= {"model": str(model_path), **model.summary()}
        content["seconds"] = time.perf_counter() - began
        if test is not None:
            content["test"] = _measured(model, replace(source, path=test), roles)
        _report(content, ["test"] * (test is not None), metrics, as_json, quiet)
        leave_if_interrupted(seen)
        return
    learn, checks = _read(source, roles, test, holdout, seed, estimator, views)
    sets = GeneSets(gene_sets, gene_set_view, min_set_size)
    model.set_params(kernels=sets.kernels(chosen, learn[0]))
    began = time.perf_counter()
    with watched(model, verbose, quiet) as seen:
        model = fit_model(model, *learn, cv)
    save_model(model, model_path, seen)
    content = {"model": str(model_path), "rows": len(learn[1]), **model.summary()}
    content["seconds"] = time.perf_counter() - began
    for name, (sample, y) in checks.items():
        X = with_names(sample.X, learn[0].names)
        content[name] = measure_rows(model, X, y, sample.weight)
    _report(content, list(checks), metrics, as_json, quiet)
    leave_if_interrupted(seen)


def choose_estimator(regression: bool, survival: bool, search: bool = False) -> Any:
    """What learns classes, numbers, or times, and searches p and C where it can."""
    if regression and survival:
        fail("expected --regression or --survival, got both; leave one of them out")
    if survival:
        return MKLSurvival
    if regression:
        return MKLRegressorCV if search else MKLRegressor
    return MKLClassifierCV if search else MKLClassifier


def fixed_or_searched(
    estimator: Any, p: float | None, C: float | None, cv: int | None
) -> dict[str, Any]:
    """The parameters for p and C: what is given is not searched."""
    if cv is not None and cv < 2:
        fail(f"--cv must be a number of folds from 2 on, got {cv}; try 5")
    if cv is None or estimator is MKLSurvival:
        return {"p": p, "C": C}
    fixed = {"ps": None if p is None else [p], "Cs": None if C is None else [C]}
    return {**fixed, "cv": cv}


def targets(
    estimator: Any, sample: Sample, raw: np.ndarray, known: np.ndarray | None = None
) -> np.ndarray:
    """Classes (those that are `known`), numbers, or times with their events."""
    if sample.event is not None:
        return as_times(raw, sample.event)
    if issubclass(estimator, MKLRegressor | MKLRegressorCV):
        return as_values(raw)
    return as_labels(raw) if known is None else labels_like(raw, np.unique(known))


def build_model(estimator: Any, **options: Any) -> Any:
    """An estimator with the options that were given; it knows the others."""
    given = opt.chosen(**options)
    unknown = sorted(set(given) - set(estimator().get_params()))
    if unknown:
        fail(
            f"expected options of {estimator.__name__}, got --"
            f"{unknown[0].replace('_', '-')}, which it does not have; leave it out"
        )
    return estimator(**given)


def fit_model(
    model: Any, sample: Sample, y: np.ndarray, folds: int | None = None
) -> Any:
    """Fit on rows of a file; the model remembers the names of its columns."""
    if model.kernels is None and sample.given:
        model.set_params(kernels="precomputed")
    X, weight = with_names(sample.X, sample.names), sample.weight
    if folds is not None and isinstance(model, MKLSurvival):
        return search_times(model, X, y, sample, folds)
    if folds is not None and sample.group is not None:
        model.set_params(cv=GroupKFold(folds))
        return model.fit(X, y, sample_weight=weight, groups=sample.group)
    return model.fit(X, y, sample_weight=weight)


def search_times(model: Any, X: Any, y: Any, sample: Sample, folds: int) -> Any:
    """The best C for times, unless it was given; folds have events in equal shares."""
    grid = {"C": TIME_CS if model.C == type(model)().C else [model.C]}
    seed = {"shuffle": True, "random_state": model.random_state}
    if sample.group is None:
        split = list(StratifiedKFold(folds, **seed).split(y, y["event"]))
    else:
        split = list(GroupKFold(folds).split(y, groups=sample.group))
    search = GridSearchCV(model, grid, cv=split, error_score="raise")
    return search.fit(X, y, sample_weight=sample.weight).best_estimator_


def hold_out(
    sample: Sample, y: np.ndarray, share: float, seed: int | None, by_class: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from and rows to evaluate; groups stay together."""
    if not 0.0 < share < 1.0:
        fail(f"--holdout must be a share between 0 and 1, got {share:g}; try 0.2")
    if sample.given:
        fail(
            "--holdout needs columns, got kernel values, whose training rows "
            "must be known when predicting; pass held-out rows with --test"
        )
    splitter: Any = StratifiedShuffleSplit if by_class else ShuffleSplit
    splitter = splitter if sample.group is None else GroupShuffleSplit
    split = splitter(n_splits=1, test_size=share, random_state=seed)
    try:
        learn, rest = next(split.split(np.empty(len(y)), y, sample.group))
    except ValueError as error:
        why = one_line(error).rstrip(".")
        fail(
            f"--holdout {share:g} must leave rows of every class (or group) on both "
            f"sides, which failed ({why}); choose another share"
        )
    return learn, rest


def _storage(estimator: Any, text: str | None, folder: Any) -> Any:
    """The parameter `storage`, or None for the default."""
    if folder is None:
        return text
    return replace(Storage.of(text or "memmap", estimator._precision), folder=folder)


def _read(
    source: Source,
    roles: Roles,
    test: str | None,
    holdout: float | None,
    seed: int | None,
    estimator: Any,
    views: ViewFiles,
) -> tuple[Known, dict[str, Known]]:
    """Rows to learn from, and rows to evaluate by name; all before the fit."""
    roles = views.roles(roles)
    sample, raw = source.read_labeled(roles)
    y = targets(estimator, sample, raw)
    checks: dict[str, Known] = {}
    if test is not None:
        if views.files and roles.index is None:
            fail("--test with --view needs names of the rows, got none; add --index")
        n_features = sample.X.shape[1]
        same = replace(roles, features=sample.names, n_features=n_features)
        # Columns found by name need no others to be there.
        same = same if sample.names is None else replace(same, group=None)
        rows, found = replace(source, path=test).read_labeled(same)
        known = targets(estimator, rows, found, y)
        checks["test"] = views.join(rows, source), known
    sample = views.join(sample, source)
    if holdout is not None:
        # Both sides have events, and ends that were not seen, in the same shares.
        classes = y if sample.event is None else y["event"]
        by_class = not issubclass(estimator, MKLRegressor | MKLRegressorCV)
        learn, rest = hold_out(sample, classes, holdout, seed, by_class)
        checks["holdout"] = sample.take(rest), y[rest]
        sample, y = sample.take(learn), y[learn]
    return (sample, y), checks


def _measured(model: Any, source: Source, roles: Roles) -> dict[str, Any]:
    """How well a model of named columns predicts the rows of a file."""
    names = model.feature_names_in_.tolist()
    sample, raw = source.read_labeled(replace(roles, features=names))
    y = targets(type(model), sample, raw, getattr(model, "classes_", None))
    return measure_rows(model, with_names(sample.X, names), y, sample.weight)


def _report(
    content: dict[str, Any],
    checks: list[str],
    metrics: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    if metrics is not None:
        write_json(metrics, content)
    if as_json:
        print_json(content)
    elif not quiet:
        for line in summary_lines({k: content[k] for k in content if k not in checks}):
            show(line)
        for name in checks:
            show("")
            show(f"{name} rows")
            for line in metric_lines(content[name]):
                show(line)
