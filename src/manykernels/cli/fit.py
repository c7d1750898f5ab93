"""``manykernels fit``: a model from a file."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.model_selection import (
    GroupShuffleSplit,
    ShuffleSplit,
    StratifiedShuffleSplit,
)

from manykernels.banks import Storage
from manykernels.cli import options as opt
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
from manykernels.mkl import MKLClassifier, MKLRegressor, MKLSurvival

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
    regression: opt.Regression = False,
    survival: opt.Survival = False,
    kernels: opt.Kernels = None,
    p: opt.P = None,
    C: opt.C = None,
    loss: opt.Loss = None,
    solver: opt.Solver = None,
    tol: opt.Tol = None,
    max_iter: opt.MaxIter = None,
    class_weight: opt.ClassWeight = None,
    approximate: opt.Approximate = None,
    storage: opt.Storage = None,
    storage_dir: opt.StorageDir = None,
    memory_limit: opt.MemoryLimit = None,
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
    """
    check_output("--model", model_path)
    check_output("--metrics", metrics)
    check_output("--checkpoint", checkpoint)
    require_own_files(
        {"DATA": data, "--test": test},
        {"--model": model_path, "--metrics": metrics, "--checkpoint": checkpoint},
    )
    require_one_stdin(data, test)
    estimator = choose_estimator(regression, survival)
    column = check_survival(survival, target, time_column, event)
    model = build_model(
        estimator,
        kernels=choose_kernels(kernels),
        p=p,
        C=C,
        loss=loss,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        class_weight=class_weight,
        approximate=approximate,
        storage=_storage(estimator, storage, storage_dir),
        memory_limit=memory_limit,
        random_state=seed,
        checkpoint=checkpoint,
    )
    roles = Roles(column, weight, group, tuple(drop or ()), event=event)
    source = Source(data, format, header)
    learn, checks = _read(source, roles, test, holdout, seed, estimator)
    began = time.perf_counter()
    with watched(model, verbose, quiet) as seen:
        fit_model(model, *learn)
    save_model(model, model_path, seen)
    content = {"model": str(model_path), "rows": len(learn[1]), **model.summary()}
    content["seconds"] = time.perf_counter() - began
    for name, (sample, y) in checks.items():
        X = with_names(sample.X, learn[0].names)
        content[name] = measure_rows(model, X, y, sample.weight)
    _report(content, list(checks), metrics, as_json, quiet)
    leave_if_interrupted(seen)


def choose_estimator(regression: bool, survival: bool) -> Any:
    """What learns classes, numbers, or times."""
    if regression and survival:
        fail("expected --regression or --survival, got both; leave one of them out")
    return MKLSurvival if survival else MKLRegressor if regression else MKLClassifier


def targets(
    estimator: Any, sample: Sample, raw: np.ndarray, known: np.ndarray | None = None
) -> np.ndarray:
    """Classes (those that are `known`), numbers, or times with their events."""
    if sample.event is not None:
        return as_times(raw, sample.event)
    if issubclass(estimator, MKLRegressor):
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


def fit_model(model: Any, sample: Sample, y: np.ndarray) -> Any:
    """Fit on rows of a file; the model remembers the names of its columns."""
    if model.kernels is None and sample.given:
        model.set_params(kernels="precomputed")
    X = with_names(sample.X, sample.names)
    return model.fit(X, y, sample_weight=sample.weight)


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
) -> tuple[Known, dict[str, Known]]:
    """Rows to learn from, and rows to evaluate by name; all before the fit."""
    sample, raw = source.read_labeled(roles)
    y = targets(estimator, sample, raw)
    checks: dict[str, Known] = {}
    if test is not None:
        n_features = sample.X.shape[1]
        same = replace(roles, features=sample.names, n_features=n_features)
        # Columns found by name need no others to be there.
        same = same if sample.names is None else replace(same, group=None)
        rows, found = replace(source, path=test).read_labeled(same)
        checks["test"] = rows, targets(estimator, rows, found, y)
    if holdout is not None:
        # Both sides have events, and ends that were not seen, in the same shares.
        classes = y if sample.event is None else y["event"]
        by_class = not issubclass(estimator, MKLRegressor)
        learn, rest = hold_out(sample, classes, holdout, seed, by_class)
        checks["holdout"] = sample.take(rest), y[rest]
        sample, y = sample.take(learn), y[learn]
    return (sample, y), checks


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
