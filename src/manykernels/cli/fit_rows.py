"""``manykernels fit``: a model from files of rows."""

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
from manykernels.base.imports import room
from manykernels.cli.data_files import choose_format
from manykernels.cli.errors import fail, one_line, show
from manykernels.cli.kernel_files import choose_kernels
from manykernels.cli.metrics import measure_rows, metric_lines, summary_lines
from manykernels.cli.options import Given, chosen, command, estimator_parameters
from manykernels.cli.outputs import check_files, print_json, write_json
from manykernels.cli.progress import leave_if_interrupted, save_model, watched
from manykernels.cli.roles import DataRows
from manykernels.cli.row_files import (
    RowFiles,
    kernels_of_sets,
    read_scales,
    true_targets,
    with_names,
)
from manykernels.mkl import (
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
)

TIME_CS = [0.01, 0.1, 1.0, 10.0, 100.0]  # tried for times, which have no CV class
NOT_ON_PARTITIONS = ("holdout", "cv", "view", "survival", "group", "gene_sets")


@command(
    "data model target time event group weight drop view index regression survival "
    "kernels gene_sets gene_set_view min_set_size scale missing nugget cv p C loss "
    "epsilon time_scale solver tol max_iter class_weight approximate storage "
    "storage_dir memory_limit engine scheduler workers seed holdout test checkpoint "
    "format header metrics as_json verbose quiet"
)
def fit(given: Given) -> None:
    """Learn a model and the weight of every kernel from a file.

    manykernels fit train.csv --target kind --kernels "rbf@pixel*; linear" -m model.mk

    manykernels fit patients.csv -t subtype --index id --view mrna=mrna.csv -m model.mk
    """
    # 1) Check options and files before anything is read.
    estimator = choose_estimator(given, search=given.cv is not None)
    files = RowFiles.of(given)
    read = {"DATA": given.data, "--test": given.test, "--gene-sets": given.gene_sets}
    outputs = ("model", "metrics", "checkpoint")
    written = {f"--{name}": getattr(given, name) for name in outputs}
    check_files({**read, **files.named()}, written)
    check_engine(given)
    searched = searched_parameters(estimator, given)
    model = build_model(estimator, given, random_state=given.seed, **searched)
    kernels = choose_kernels(given.kernels)
    # 2) Read all rows first: a mistake in the test file must not cost a fit.
    if given.engine is None:
        rows, checks = read_rows(files, given, model)
        model.set_params(kernels=kernels_of_sets(given, kernels, rows))
    # 3) Learn, and save before the evaluation: its errors must not lose the model.
    began = time.perf_counter()
    if given.engine is None:
        with watched(model, given.verbose, given.quiet) as warned:
            model = fit_model(model, rows, given.cv)
        size = {"rows": len(rows)}
    else:
        model.set_params(kernels=kernels)
        size, warned = fit_partitions(model, files, given)
    save_model(model, given.model, warned)
    content = {"model": str(given.model), **size, **model.summary()}
    content["seconds"] = time.perf_counter() - began
    # 4) Evaluate and report.
    if given.engine is None:
        for name, known in checks.items():
            X = with_names(known.X, rows.names)
            content[name] = measure_rows(model, X, known.y, known.weight)
    elif given.test is not None:
        test = RowFiles.of(Given(**{**vars(given), "data": given.test}), model)
        content["test"] = measure_rows(model, *test.read_known())
    _report(content, given)
    leave_if_interrupted(warned)


def choose_estimator(given: Given, search: bool = False) -> Any:
    """The class for labels, numbers or times; one that searches p and C if it can."""
    if given.regression and given.survival:
        fail("expected --regression or --survival, got both; leave one of them out")
    if given.survival:
        return MKLSurvival
    if given.regression:
        return MKLRegressorCV if search else MKLRegressor
    return MKLClassifierCV if search else MKLClassifier


def build_model(estimator: Any, given: Given, **others: Any) -> Any:
    """An estimator with the given options that are its parameters, and others."""
    values = {**estimator_parameters(given), **others}
    values["scale"] = read_scales(given.scale)
    if given.storage_dir is not None:
        storage = Storage.of(given.storage or "memmap", estimator._precision)
        values["storage"] = replace(storage, folder=given.storage_dir)
    if given.engine is not None:
        del values["memory_limit"]  # that of each worker
    values = chosen(**values)
    # The table of options serves all estimators; each has some of them.
    unknown = sorted(set(values) - set(estimator().get_params()))
    if unknown:
        fail(
            f"expected options of {estimator.__name__}, got --"
            f"{unknown[0].replace('_', '-')}, which it does not have; leave it out"
        )
    return estimator(**values)


def searched_parameters(estimator: Any, given: Given) -> dict[str, Any]:
    """The parameters for p and C where folds choose them: what is given is fixed."""
    if given.cv is not None and given.cv < 2:
        fail(f"--cv must be a number of folds from 2 on, got {given.cv}; try 5")
    if given.cv is None or estimator is MKLSurvival:
        return {}
    lists = {f"{name}s": getattr(given, name) for name in ("p", "C")}
    fixed = {name: None if value is None else [value] for name, value in lists.items()}
    return {"p": None, "C": None, "cv": given.cv, **fixed}


def read_rows(
    files: RowFiles, given: Given, model: Any
) -> tuple[DataRows, dict[str, DataRows]]:
    """Rows to learn from, and rows to evaluate by name; all before the fit."""
    numbers = isinstance(model, MKLRegressor | MKLRegressorCV)
    rows = files.source.read_labeled(files.roles)
    rows = replace(rows, y=true_targets(rows, numbers))
    checks: dict[str, DataRows] = {}
    if given.test is not None:
        checks["test"] = _read_test(files, given.test, rows, numbers)
    rows = files.join(rows)
    if given.holdout is not None:
        learn, rest = hold_out(rows, given.holdout, given.seed, by_class=not numbers)
        rows, checks["holdout"] = rows.take(learn), rows.take(rest)
    return rows, checks


def _read_test(files: RowFiles, path: str, rows: DataRows, numbers: bool) -> DataRows:
    """Rows with the columns and the labels of the rows to learn from."""
    if files.views and files.roles.index is None:
        fail("--test with --view needs names of the rows, got none; add --index")
    roles = replace(files.roles, features=rows.names, n_features=rows.X.shape[1])
    # Features are found by name, so the file may lack the group. Without names the
    # group has to be left out by its position.
    if rows.names is not None:
        roles = replace(roles, group=None)
    test = replace(files.source, path=path).read_labeled(roles)
    classes = None if numbers or rows.event is not None else np.unique(rows.y)
    return files.join(replace(test, y=true_targets(test, numbers, classes)))


def hold_out(
    rows: DataRows, share: float, seed: int | None, by_class: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from and rows to evaluate; groups stay together."""
    if not 0.0 < share < 1.0:
        fail(f"--holdout must be a share between 0 and 1, got {share:g}; try 0.2")
    if rows.holds_kernels:
        fail(
            "--holdout needs columns, got kernel values, whose training rows "
            "must be known when predicting; pass held-out rows with --test"
        )
    # Of times, both sides have events and censored rows in the same shares.
    classes = rows.y if rows.event is None else rows.y["event"]
    splitter: Any = StratifiedShuffleSplit if by_class else ShuffleSplit
    splitter = splitter if rows.group is None else GroupShuffleSplit
    split = splitter(n_splits=1, test_size=share, random_state=seed)
    try:
        learn, rest = next(split.split(np.empty(len(rows)), classes, rows.group))
    except ValueError as error:
        why = one_line(error).rstrip(".")
        fail(
            f"--holdout {share:g} must leave rows of every class (or group) on both "
            f"sides, which failed ({why}); choose another share"
        )
    return learn, rest


def fit_model(model: Any, rows: DataRows, folds: int | None = None) -> Any:
    """Fit on rows of a file, with the names of its columns."""
    if model.kernels is None and rows.holds_kernels:
        model.set_params(kernels="precomputed")
    X = with_names(rows.X, rows.names)
    if folds is not None and isinstance(model, MKLSurvival):
        return _search_times(model, X, rows, folds)
    groups = {}
    if folds is not None and rows.group is not None:
        model.set_params(cv=GroupKFold(folds))
        groups = {"groups": rows.group}
    return model.fit(X, rows.y, sample_weight=rows.weight, **groups)


def _search_times(model: Any, X: Any, rows: DataRows, folds: int) -> Any:
    """The best C for times, unless it was given; folds have events in equal shares."""
    # A C that equals the default counts as not given: both reach this as parameters.
    grid = {"C": TIME_CS if model.C == type(model)().C else [model.C]}
    if rows.group is None:
        folder = StratifiedKFold(folds, shuffle=True, random_state=model.random_state)
        split = list(folder.split(rows.y, rows.y["event"]))
    else:
        split = list(GroupKFold(folds).split(rows.y, groups=rows.group))
    search = GridSearchCV(model, grid, cv=split, error_score="raise")
    return search.fit(X, rows.y, sample_weight=rows.weight).best_estimator_


def check_engine(given: Given) -> None:
    """Refuse options that do not go with a fit on partitions, or without one."""
    if given.engine is None:
        if given.scheduler is not None or given.workers is not None:
            fail("--scheduler and --workers need an engine; add --engine dask")
        return
    if given.engine != "dask":
        fail(f"expected --engine dask, got {given.engine!r}; choose it or leave it out")
    for name in NOT_ON_PARTITIONS:
        if getattr(given, name):
            option = name.replace("_", "-")
            fail(f"--engine dask has no --{option}; leave one of them out")
    if given.scheduler is not None and given.workers is not None:
        fail("expected --scheduler or --workers, got both; leave one of them out")


def fit_partitions(
    model: Any, files: RowFiles, given: Given
) -> tuple[dict[str, Any], list[type[Warning]]]:
    """Fit on all files of a pattern; return their number, and warnings of the fit."""
    dask_rooms = room("distributed")
    source, roles = files.source, files.roles
    format = choose_format(source.path, source.format)
    if roles.target is None:
        fail("expected --target with the column of the labels, got none; name it")
    with dask_rooms.connected(
        given.scheduler, given.workers, given.memory_limit
    ) as client:
        if not given.quiet:
            show(f"dashboard: {client.dashboard_link}", err=True)
        frame = dask_rooms.read_files(source.path, format)
        names = [str(name) for name in frame.columns]
        plan = roles.plan(names, len(names))
        target, weight = (
            None if place is None else frame[names[place]]
            for place in (plan.places["target"], plan.places["weight"])
        )
        X = frame[plan.feature_names]
        with watched(model, given.verbose, given.quiet) as warned:
            model.fit(X, target, sample_weight=weight)
        return {"partitions": frame.npartitions}, warned


def _report(content: dict[str, Any], given: Given) -> None:
    checks = [name for name in ("test", "holdout") if name in content]
    if given.metrics is not None:
        write_json(given.metrics, content)
    if given.as_json:
        print_json(content)
    elif not given.quiet:
        for line in summary_lines({k: content[k] for k in content if k not in checks}):
            show(line)
        for name in checks:
            show("")
            show(f"{name} rows")
            for line in metric_lines(content[name]):
                show(line)
