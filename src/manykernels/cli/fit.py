"""``manykernels fit``: a model from a file."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console

from manykernels.cli import options as opt
from manykernels.cli.data import Source, require_one_stdin
from manykernels.cli.errors import INTERRUPTED
from manykernels.cli.learning import build_model, choose_kernels, fit_model, hold_out
from manykernels.cli.metrics import measure
from manykernels.cli.outputs import check_output, print_json, write_json
from manykernels.cli.progress import shown_epochs, shown_warnings
from manykernels.cli.readers.columns import Roles, Sample
from manykernels.cli.readers.labels import as_labels, labels_like
from manykernels.cli.summary import describe, metric_lines, model_lines
from manykernels.solvers.loop import InterruptedFitWarning

Labeled = tuple[Sample, np.ndarray]


def fit(
    data: opt.Data,
    model_path: opt.ModelOut,
    target: opt.Target = None,
    group: opt.Group = None,
    weight: opt.Weight = None,
    drop: opt.Drop = None,
    kernels: opt.Kernels = None,
    p: opt.P = None,
    C: opt.C = None,
    loss: opt.Loss = None,
    solver: opt.Solver = None,
    tol: opt.Tol = None,
    max_iter: opt.MaxIter = None,
    class_weight: opt.ClassWeight = None,
    approximate: opt.Approximate = None,
    rank: opt.Rank = None,
    storage: opt.Storage = None,
    storage_dir: opt.StorageDir = None,
    dtype: opt.Dtype = None,
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
    """Learn a classifier and the weight of every kernel from a file.

    manykernels fit train.csv --target kind --kernels "rbf@pixel*; linear" -m model.mk
    """
    check_output("--model", model_path)
    check_output("--metrics", metrics)
    check_output("--checkpoint", checkpoint)
    require_one_stdin(data, test)
    model = build_model(
        choose_kernels(kernels),
        p=p,
        C=C,
        loss=loss,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        class_weight=class_weight,
        approximate=approximate,
        rank=rank,
        storage=storage,
        storage_dir=storage_dir,
        dtype=dtype,
        memory_limit=memory_limit,
        random_state=seed,
        checkpoint=checkpoint,
    )
    roles = Roles(target, weight, group, tuple(drop or ()))
    source = Source(data, format, header)
    learn, checks = _read(source, roles, test, holdout, seed)
    console = Console(stderr=True)
    began = time.perf_counter()
    with shown_warnings(console) as seen, shown_epochs(model, console, verbose, quiet):
        fit_model(model, *learn)
    model.save(model_path)
    content = _content(model, learn, checks, time.perf_counter() - began, model_path)
    _report(content, list(checks), metrics, as_json, quiet)
    if InterruptedFitWarning in seen:
        raise typer.Exit(INTERRUPTED)


def _read(
    source: Source,
    roles: Roles,
    test: str | None,
    holdout: float | None,
    seed: int | None,
) -> tuple[Labeled, dict[str, Labeled]]:
    """Rows to learn from, and rows to evaluate by name; all before the fit."""
    sample, raw = source.read_labeled(roles)
    y = as_labels(raw)
    checks: dict[str, Labeled] = {}
    if test is not None:
        n_features = sample.X.shape[1]
        same = replace(roles, features=sample.names, n_features=n_features)
        # Columns found by name need no others to be there.
        same = same if sample.names is None else replace(same, group=None)
        rows, labels = replace(source, path=test).read_labeled(same)
        checks["test"] = rows, labels_like(labels, np.unique(y))
    if holdout is not None:
        learn, rest = hold_out(sample, y, holdout, seed)
        checks["holdout"] = sample.take(rest), y[rest]
        sample, y = sample.take(learn), y[learn]
    return (sample, y), checks


def _content(
    model: Any,
    learn: Labeled,
    checks: dict[str, Labeled],
    seconds: float,
    path: Path,
) -> dict[str, Any]:
    names = vars(model).pop("feature_names_in_", None)  # as in Loaded.of
    content = {"model": str(path), "rows": len(learn[1])}
    content |= describe(model, None if names is None else list(names))
    content["seconds"] = seconds
    return content | {name: measure(model, *rows) for name, rows in checks.items()}


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
        for line in model_lines(content):
            typer.echo(line)
        for name in checks:
            typer.echo(f"\n{name} rows")
            for line in metric_lines(content[name]):
                typer.echo(line)
