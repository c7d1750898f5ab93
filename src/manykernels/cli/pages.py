"""``manykernels study`` and ``manykernels report``: HTML pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from manykernels.cli.errors import fail, show
from manykernels.cli.fit_rows import build_model, choose_estimator
from manykernels.cli.kernel_files import choose_kernels
from manykernels.cli.options import Given, chosen, command
from manykernels.cli.outputs import (
    check_files,
    check_suffix,
    print_results,
    write_json,
)
from manykernels.cli.progress import leave_if_interrupted, shown_warnings
from manykernels.cli.row_files import (
    RowFiles,
    kernels_of_sets,
    row_names,
    true_targets,
    with_names,
)
from manykernels.files import load
from manykernels.report.page import require_page_libraries
from manykernels.study import Study

HTML_SUFFIXES = (".html", ".htm")


@command("model data out target time event weight drop view index title format header")
def report(given: Given) -> None:
    """Write a model's results on unseen rows as an HTML page.

    manykernels report model.mk test.csv --target kind --out report.html
    """
    check_page("--out", given.out)
    check_files({"DATA": given.data, "MODEL": given.model}, {"--out": given.out})
    model = load(given.model)
    if not hasattr(model, "report"):
        fail(
            f"expected a model of kernels on rows, got {type(model).__name__}; see "
            "'manykernels inspect' for it"
        )
    rows: dict[str, Any] = {}
    if given.data is not None:
        X, y, weight = RowFiles.of(given, model).read_known()
        rows = {"X": X, "y": y, "sample_weight": weight}
    model.report(given.out, title=given.title, **rows)
    show(f"wrote {given.out}", err=True)


@command(
    "data target time event group weight drop view index regression survival kernels "
    "gene_sets gene_set_view min_set_size scale missing nugget loss tol class_weight "
    "memory_limit cv repeats inner_cv baseline pairs seed jobs folder format header "
    "report title metrics as_json quiet"
)
def study(given: Given) -> None:
    """Find out whether learning the weights pays, and which views matter.

    manykernels study rows.csv -t subtype --index id --view mrna=mrna.csv -r out.html
    """
    check_page("--report", given.report)
    files = RowFiles.of(given)
    check_files(
        {"DATA": given.data, "--gene-sets": given.gene_sets, **files.named()},
        {"--report": given.report, "--metrics": given.metrics},
    )
    model = build_model(choose_estimator(given), given)
    kernels: Any = choose_kernels(given.kernels)
    rows = files.read_labeled()
    y = true_targets(rows, given.regression)
    kernels = kernels_of_sets(given, kernels, rows)
    if kernels is None and rows.holds_kernels:
        kernels = "precomputed"
    settings = chosen(
        cv=given.cv,
        n_repeats=given.repeats,
        inner_cv=given.inner_cv,
        baselines=given.baseline,
        n_pairs=given.pairs,
        random_state=given.seed,
        n_jobs=given.jobs,
        folder=given.folder,
    )
    model.set_params(kernels=kernels)
    done = Study(model, verbose=int(not given.quiet), **settings)
    X = with_names(rows.X, rows.names)
    if rows.index is not None and rows.names is not None:
        X.index = row_names(rows.index)
    with shown_warnings(Console(stderr=True)) as warned:
        done.fit(X, y, sample_weight=rows.weight, groups=rows.group)
    if given.report is not None:
        done.report(given.report, title=given.title)
    content = study_content(done)
    if given.metrics is not None:
        write_json(given.metrics, content)
    if given.as_json or not given.quiet:
        print_results(content, given.as_json, study_lines)
    leave_if_interrupted(warned)


def check_page(words: str, path: Path | None) -> None:
    """Refuse a page that cannot be written, before anything is computed."""
    check_suffix(words, path, HTML_SUFFIXES, "end in .html")
    if path is not None:
        require_page_libraries()


def study_content(study: Study) -> dict[str, Any]:
    """Results of a study as plain data."""
    views = study.view_importance_
    columns = ("share", "std_error", "weight", "drop", "permuted")
    content: dict[str, Any] = {
        "verdict": study.verdict_,
        "rows": study.n_rows_,
        "splits": study.n_finished_,
        "metric": study.metric_,
        "methods": study.summary_.lines(),
        "views": [
            {"name": name, **{key: float(views[key][v]) for key in columns}}
            for v, name in enumerate(views.names)
        ],
        "scores": study.scores_.lines(),
    }
    if hasattr(study, "model_"):
        content["chosen"] = {"p": study.p_, "C": study.C_}
        content["kernels"] = study.weights_.lines()
    if study.missing_ is not None:
        content["missing"] = study.missing_.lines()
    return content


def study_lines(content: dict[str, Any]) -> Iterator[str]:
    """Text of the results: the verdict, methods and views."""
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
