"""Every option of the commands that read data and models, in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

FILE, ROLES, MODEL, REPORT = "Files", "Columns", "Learning", "Output"


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
    typer.Option(
        "--format",
        help="csv, tsv, parquet, libsvm, libsvm0 (indices from 0) or npz; by default "
        "from the file's name, csv for -.",
        rich_help_panel=FILE,
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether a CSV begins with names; by default, look at its first line.",
        rich_help_panel=FILE,
    ),
]
ModelOut = Annotated[
    Path,
    typer.Option(
        "--model", "-m", help="Where to write the model.", rich_help_panel=FILE
    ),
]
Test = Annotated[
    str | None,
    typer.Option("--test", help="File to evaluate the model on.", rich_help_panel=FILE),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        help="File that keeps the state of the fit; a killed fit goes on from it.",
        rich_help_panel=FILE,
    ),
]

Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        help="Column with the labels: a name, or a position (-1 is the last).",
        rich_help_panel=ROLES,
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        help="Column that says which rows belong together; a hold-out keeps them so.",
        rich_help_panel=ROLES,
    ),
]
Weight = Annotated[
    str | None,
    typer.Option("--weight", help="Column with row weights.", rich_help_panel=ROLES),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        "--drop",
        "--ignore",
        help="Column to leave out (also 'id*'); may be repeated.",
        rich_help_panel=ROLES,
    ),
]

Regression = Annotated[
    bool,
    typer.Option(
        "--regression",
        help="The target is a number to predict, not a class.",
        rich_help_panel=MODEL,
    ),
]
Kernels = Annotated[
    str | None,
    typer.Option(
        "--kernels",
        "-k",
        help="Kernels such as 'rbf@pixel*; linear', or a file that ends in .toml.",
        rich_help_panel=MODEL,
    ),
]
P = Annotated[
    float | None,
    typer.Option(
        "--p", help="1: few kernels, 2: all of them alike.", rich_help_panel=MODEL
    ),
]
C = Annotated[
    float | None,
    typer.Option("--C", "-C", help="Weight of the losses.", rich_help_panel=MODEL),
]
Loss = Annotated[
    str | None, typer.Option("--loss", help="Loss function.", rich_help_panel=MODEL)
]
Solver = Annotated[
    str | None,
    typer.Option("--solver", help="Algorithm, by default auto.", rich_help_panel=MODEL),
]
Tol = Annotated[
    float | None,
    typer.Option("--tol", help="Relative gap to reach.", rich_help_panel=MODEL),
]
MaxIter = Annotated[
    int | None,
    typer.Option("--max-iter", help="Epochs at most.", rich_help_panel=MODEL),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        "--class-weight",
        help="'balanced' gives all classes the same total weight.",
        rich_help_panel=MODEL,
    ),
]
Approximate = Annotated[
    str | None,
    typer.Option(
        "--approximate",
        help="nystroem or random_features in place of exact kernels.",
        rich_help_panel=MODEL,
    ),
]
Storage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        help="How kernel values are held: gram, float64, memmap:float16...",
        rich_help_panel=MODEL,
    ),
]
StorageDir = Annotated[
    Path | None,
    typer.Option(
        "--storage-dir",
        help="Folder in which kernel values are kept and found again.",
        rich_help_panel=MODEL,
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit", help="Such as 4GB, for kernel values.", rich_help_panel=MODEL
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", help="Makes fit and hold-out repeatable.", rich_help_panel=MODEL
    ),
]
HoldOut = Annotated[
    float | None,
    typer.Option(
        "--holdout",
        help="Share of the rows that are not learnt but evaluated, such as 0.2.",
        rich_help_panel=MODEL,
    ),
]

Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics", help="Write the results as JSON.", rich_help_panel=REPORT
    ),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON object, for machines.", rich_help_panel=REPORT
    ),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="A line per epoch.", rich_help_panel=REPORT),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="No progress, no summary.", rich_help_panel=REPORT
    ),
]
Out = Annotated[
    str,
    typer.Option(
        "--out",
        "-o",
        help="CSV or TSV file; - for standard output.",
        rich_help_panel=REPORT,
    ),
]
Proba = Annotated[
    bool,
    typer.Option("--proba", help="Add probabilities.", rich_help_panel=REPORT),
]
Scores = Annotated[
    bool, typer.Option("--scores", help="Add scores.", rich_help_panel=REPORT)
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        help="Draw weights and convergence (.png, .pdf or .svg).",
        rich_help_panel=REPORT,
    ),
]
