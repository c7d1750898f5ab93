"""Every option of the commands that read data and models, in one place."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

# One function per panel of the help page.
in_files, in_columns, in_learning, in_output = (
    partial(typer.Option, rich_help_panel=panel)
    for panel in ("Files", "Columns", "Learning", "Output")
)


def chosen(**given: Any) -> dict[str, Any]:
    """The parameters that were given; the estimator knows the others.

    Examples
    --------
    >>> chosen(C=2.0, loss=None)
    {'C': 2.0}
    """
    return {name: value for name, value in given.items() if value is not None}


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV, Parquet, LIBSVM or NPZ file; tokens or CoNLL-U for models of "
        "those; - for standard input.",
    ),
]
Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="File that a command or save wrote.")
]
Format = Annotated[
    str | None,
    in_files(
        "--format",
        help="csv, tsv, parquet, libsvm, libsvm0 (indices from 0) or npz; by default "
        "from the file's name, csv for -.",
    ),
]
Header = Annotated[
    bool | None,
    in_files(
        "--header/--no-header",
        help="Whether a CSV begins with names; by default, look at its first line.",
    ),
]
ModelOut = Annotated[Path, in_files("--model", "-m", help="Where to write the model.")]
Test = Annotated[str | None, in_files("--test", help="File to evaluate the model on.")]
Checkpoint = Annotated[
    Path | None,
    in_files(
        "--checkpoint",
        help="File that keeps the state of the fit; a killed fit goes on from it.",
    ),
]

Target = Annotated[
    str | None,
    in_columns(
        "--target",
        "-t",
        help="Column with the labels: a name, or a position (-1 is the last).",
    ),
]
Time = Annotated[
    str | None,
    in_columns("--time", help="Column with the times until an event, with --event."),
]
Event = Annotated[
    str | None,
    in_columns(
        "--event",
        help="Column that is 1 where the event was seen, 0 where it was not.",
    ),
]
Group = Annotated[
    str | None,
    in_columns(
        "--group",
        help="Column that says which rows belong together; a hold-out keeps them so.",
    ),
]
Weight = Annotated[str | None, in_columns("--weight", help="Column with row weights.")]
Drop = Annotated[
    list[str] | None,
    in_columns(
        "--drop", "--ignore", help="Column to leave out (also 'id*'); may be repeated."
    ),
]

Views = Annotated[
    list[str] | None,
    in_files(
        "--view",
        help="A table of its own about the rows of DATA, as NAME=FILE; may be "
        "repeated. Columns of DATA that are nothing else are the view 'data'.",
    ),
]
Index = Annotated[
    str | None,
    in_columns(
        "--index",
        help="Column that names the rows, in DATA and in every view; without it rows "
        "are matched by position.",
    ),
]
Scale = Annotated[
    list[str] | None,
    in_learning(
        "--scale",
        help="What is done to the numbers first: standard, robust, log1p+standard, "
        "...; for one view as NAME=SCALE; may be repeated.",
    ),
]
Missing = Annotated[
    str | None,
    in_learning(
        "--missing", help="Rows that lack a view: rescale, zero, complete or refuse."
    ),
]
Nugget = Annotated[
    str | None,
    in_learning(
        "--nugget",
        help="shared: what kernels have of the identity becomes one kernel of its own, "
        "so that noise gets no weight for it.",
    ),
]
Folds = Annotated[
    int | None,
    in_learning(
        "--cv", help="Choose p and C (those that are not given) by so many folds."
    ),
]
GeneSets = Annotated[
    Path | None,
    in_learning(
        "--gene-sets",
        help="GMT file: the kernels are taken once for every set of columns in it.",
    ),
]
SetView = Annotated[
    str | None, in_learning("--gene-set-view", help="The view that has these columns.")
]
SetSize = Annotated[
    int | None,
    in_learning("--min-set-size", help="Leave out sets with fewer columns."),
]

Regression = Annotated[
    bool,
    in_learning("--regression", help="The target is a number to predict, not a class."),
]
Survival = Annotated[
    bool,
    in_learning(
        "--survival", help="The target is the time until an event: --time and --event."
    ),
]
Kernels = Annotated[
    str | None,
    in_learning(
        "--kernels",
        "-k",
        help="Kernels such as 'rbf@pixel*; linear', or a file that ends in .toml.",
    ),
]
P = Annotated[
    float | None, in_learning("--p", help="1: few kernels, 2: all of them alike.")
]
C = Annotated[float | None, in_learning("--C", "-C", help="Weight of the losses.")]
Epsilon = Annotated[
    float | None,
    in_learning("--epsilon", help="Errors of numbers or times that cost nothing."),
]
TimeScale = Annotated[
    str | None,
    in_learning("--time-scale", help="What is learned of times: log or linear."),
]
Loss = Annotated[str | None, in_learning("--loss", help="Loss function.")]
Solver = Annotated[
    str | None, in_learning("--solver", help="Algorithm, by default auto.")
]
Tol = Annotated[float | None, in_learning("--tol", help="Relative gap to reach.")]
MaxIter = Annotated[int | None, in_learning("--max-iter", help="Epochs at most.")]
ClassWeight = Annotated[
    str | None,
    in_learning(
        "--class-weight", help="'balanced' gives all classes the same total weight."
    ),
]
Approximate = Annotated[
    str | None,
    in_learning(
        "--approximate", help="nystroem or random_features in place of exact kernels."
    ),
]
Storage = Annotated[
    str | None,
    in_learning(
        "--storage", help="How kernel values are held: gram, float64, memmap:float16..."
    ),
]
StorageDir = Annotated[
    Path | None,
    in_learning(
        "--storage-dir", help="Folder in which kernel values are kept and found again."
    ),
]
MemoryLimit = Annotated[
    str | None, in_learning("--memory-limit", help="Such as 4GB, for kernel values.")
]
Engine = Annotated[
    str | None,
    in_learning(
        "--engine",
        help="dask: learn from files in partitions, DATA being a pattern in quotes.",
    ),
]
Scheduler = Annotated[
    str | None,
    in_learning("--scheduler", help="Address of a running scheduler of Dask."),
]
Workers = Annotated[
    int | None,
    in_learning(
        "--workers",
        help="Processes to start for --engine dask, each with --memory-limit.",
    ),
]
Seed = Annotated[
    int | None, in_learning("--seed", help="Makes fit and hold-out repeatable.")
]
HoldOut = Annotated[
    float | None,
    in_learning(
        "--holdout",
        help="Share of the rows that are not learned but evaluated, such as 0.2.",
    ),
]

OuterFolds = Annotated[
    int | None,
    in_learning("--cv", help="Folds that are left out in turn; 5 if not given."),
]
Repeats = Annotated[
    int | None, in_learning("--repeats", help="How often rows are divided anew.")
]
InnerFolds = Annotated[
    int | None,
    in_learning("--inner-cv", help="Folds of the training rows, to choose settings."),
]
Baselines = Annotated[
    list[str] | None,
    in_learning(
        "--baseline",
        help="averaged, single, linear or forest; may be repeated; by default all.",
    ),
]
Halves = Annotated[
    int | None,
    in_learning("--pairs", help="Pairs of halves of the rows for the stability."),
]
Jobs = Annotated[
    int | None, in_learning("--jobs", "-j", help="Splits that are worked on at a time.")
]
Folder = Annotated[
    Path | None,
    in_files("--folder", help="Keeps finished splits; a killed study goes on from it."),
]
Report = Annotated[
    Path | None, in_output("--report", "-r", help="Page to look at (.html).")
]
ReportOut = Annotated[Path, in_output("--out", "-o", help="Page to look at (.html).")]
MaybeData = Annotated[
    str | None,
    typer.Argument(
        metavar="[DATA]",
        help="File of rows that the model has not seen; without it the page speaks of "
        "weights and convergence.",
    ),
]
Title = Annotated[str | None, in_output("--title", help="Of the page.")]
Metrics = Annotated[
    str | None, in_output("--metrics", help="Write the results as JSON.")
]
AsJson = Annotated[
    bool, in_output("--json", help="Print one JSON object, for machines.")
]
Verbose = Annotated[bool, in_output("--verbose", "-v", help="A line per epoch.")]
Quiet = Annotated[bool, in_output("--quiet", "-q", help="No progress, no summary.")]
Out = Annotated[
    str, in_output("--out", "-o", help="CSV or TSV file; - for standard output.")
]
Proba = Annotated[bool, in_output("--proba", help="Add probabilities.")]
Scores = Annotated[bool, in_output("--scores", help="Add scores.")]
Plot = Annotated[
    Path | None,
    in_output("--plot", help="Draw weights and convergence (.png, .pdf or .svg)."),
]
