"""``manykernels study`` and ``manykernels report``: pages to look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from manykernels.cli import options as opt
from manykernels.cli.errors import fail, show
from manykernels.cli.fit import build_model, choose_estimator, targets
from manykernels.cli.models import labeled_rows, with_names
from manykernels.cli.outputs import (
    check_output,
    check_survival,
    require_own_files,
    tell,
    write_json,
)
from manykernels.cli.progress import leave_if_interrupted, shown_warnings
from manykernels.cli.readers.columns import Roles, Sample
from manykernels.cli.readers.kernel_files import choose_kernels
from manykernels.cli.readers.tables import Source
from manykernels.cli.views import GeneSets, ViewFiles, names_of, read_scales
from manykernels.files import load
from manykernels.mkl import MKLSurvival
from manykernels.study import Study

PAGES = (".html", ".htm")


def report(
    model: opt.Model,
    data: opt.MaybeData = None,
    out: opt.ReportOut = Path("report.html"),
    target: opt.Target = None,
    time: opt.Time = None,
    event: opt.Event = None,
    weight: opt.Weight = None,
    drop: opt.Drop = None,
    view: opt.Views = None,
    index: opt.Index = None,
    title: opt.Title = None,
    format: opt.Format = None,
    header: opt.Header = None,
) -> None:
    """Write what a model does on unseen rows as a page to look at.

    manykernels report model.mk test.csv --target kind --out report.html
    """
    check_page("--out", out)
    require_own_files({"DATA": data, "MODEL": model}, {"--out": out})
    estimator = load(model)
    if not hasattr(estimator, "report"):
        fail(
            "expected a model of kernels on rows, got "
            f"{type(estimator).__name__}; see 'manykernels inspect' for it"
        )
    rows: dict[str, Any] = {}
    if data is not None:
        survival = isinstance(estimator, MKLSurvival)
        column = check_survival(survival, target, time, event)
        views = ViewFiles.of(view, index).known_by(estimator)
        source = Source(data, format, header)
        X, y, weights = labeled_rows(
            estimator, source, column, weight, drop, event, views
        )
        rows = {"X": X, "y": y, "sample_weight": weights}
    estimator.report(out, title=title, **rows)
    show(f"wrote {out}", err=True)


def study(
    data: opt.Data,
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
    loss: opt.Loss = None,
    tol: opt.Tol = None,
    class_weight: opt.ClassWeight = None,
    memory_limit: opt.MemoryLimit = None,
    cv: opt.OuterFolds = None,
    repeats: opt.Repeats = None,
    inner_cv: opt.InnerFolds = None,
    baseline: opt.Baselines = None,
    pairs: opt.Halves = None,
    seed: opt.Seed = None,
    jobs: opt.Jobs = None,
    folder: opt.Folder = None,
    format: opt.Format = None,
    header: opt.Header = None,
    report: opt.Report = None,
    title: opt.Title = None,
    metrics: opt.Metrics = None,
    as_json: opt.AsJson = False,
    quiet: opt.Quiet = False,
) -> None:
    """Find out whether learning the weights pays, and which views matter.

    manykernels study rows.csv -t subtype --index id --view mrna=mrna.csv -r out.html
    """
    check_page("--report", report)
    check_output("--metrics", metrics)
    views = ViewFiles.of(view, index)
    others = {f"--view {name}": path for name, path in views.files.items()}
    require_own_files(
        {"DATA": data, "--gene-sets": gene_sets, **others},
        {"--report": report, "--metrics": metrics},
    )
    column = check_survival(survival, target, time_column, event)
    estimator = build_model(
        choose_estimator(regression, survival),
        scale=read_scales(scale),
        missing=missing,
        nugget=nugget,
        loss=loss,
        tol=tol,
        class_weight=class_weight,
        memory_limit=memory_limit,
    )
    chosen = choose_kernels(kernels)
    roles = Roles(column, weight, group, tuple(drop or ()), event=event)
    sample, y = _read(Source(data, format, header), roles, type(estimator), views)
    sets = GeneSets(gene_sets, gene_set_view, min_set_size)
    wanted = sets.kernels(chosen, sample)
    given = "precomputed" if wanted is None and sample.given else wanted
    found = Study(
        estimator.set_params(kernels=given),
        verbose=int(not quiet),
        **opt.chosen(
            cv=cv,
            n_repeats=repeats,
            inner_cv=inner_cv,
            baselines=baseline,
            n_pairs=pairs,
            random_state=seed,
            n_jobs=jobs,
            folder=folder,
        ),
    )
    with shown_warnings(Console(stderr=True)) as seen:
        found.fit(_named(sample), y, sample_weight=sample.weight, groups=sample.group)
    if report is not None:
        found.report(report, title=title)
    content = study_content(found)
    if metrics is not None:
        write_json(metrics, content)
    if as_json or not quiet:
        tell(content, as_json, study_lines)
    leave_if_interrupted(seen)


def check_page(option: str, path: Path | None) -> None:
    """Refuse a page that cannot be written, before anything is computed."""
    if path is not None and path.suffix.lower() not in PAGES:
        fail(f"{option} must end in .html, got '{path.name}'; rename it")
    check_output(option, path)


def _read(
    source: Source, roles: Roles, estimator: Any, views: ViewFiles
) -> tuple[Sample, np.ndarray]:
    """All rows, and what is to be predicted of them."""
    sample, raw = source.read_labeled(views.roles(roles))
    return views.join(sample, source), targets(estimator, sample, raw)


def _named(sample: Sample) -> Any:
    """Rows with the names of rows and columns, where there are such."""
    X = with_names(sample.X, sample.names)
    if sample.index is not None and sample.names is not None:
        X.index = names_of(sample.index)
    return X


def study_content(found: Study) -> dict[str, Any]:
    """What a study found, as plain data."""
    views = found.view_importance_
    columns = ("share", "std_error", "weight", "drop", "permuted")
    content: dict[str, Any] = {
        "verdict": found.verdict_,
        "rows": found.n_rows_,
        "splits": found.n_finished_,
        "metric": found.metric_,
        "methods": found.summary_.lines(),
        "views": [
            {"name": name, **{key: float(views[key][v]) for key in columns}}
            for v, name in enumerate(views.names)
        ],
        "scores": found.scores_.lines(),
    }
    if hasattr(found, "model_"):
        content["chosen"] = {"p": found.p_, "C": found.C_}
        content["kernels"] = found.weights_.lines()
    if found.missing_ is not None:
        content["missing"] = found.missing_.lines()
    return content


def study_lines(content: dict[str, Any]) -> Iterator[str]:
    """The same for people: the verdict, methods and views."""
    yield content["verdict"]
    yield ""
    yield f"{content['metric']:>12}  {'error':>7}  {'gain':>7}  seconds  method"
    for line in content["methods"]:
        yield (
            f"{line['score']:12.4f}  {line['std_error']:7.4f}  {line['gain']:+7.4f}  "
            f"{line['seconds']:7.2f}  {line['title']}"
        )
    yield ""
    yield f"{'share':>12}  {'error':>7}  {'weight':>7}  view"
    for line in content["views"]:
        yield (
            f"{line['share']:12.3f}  {line['std_error']:7.3f}  {line['weight']:7.3f}  "
            f"{line['name']}"
        )
