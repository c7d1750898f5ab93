"""Every option of the commands that read data and models: one table.

An option that is a parameter of an estimator has the parameter's name, and the type of
its values follows from the rule by which the estimator checks it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple

import typer

from manykernels.inputs.parameters import FileName, Number, Whole
from manykernels.mkl import MKLClassifier, MKLRegressor, MKLSurvival


class Option(NamedTuple):
    """An option: its panel on the help page, its help text, how it is written.

    Without a panel it is an argument, without flags it is ``--name``. The type of its
    values is that of the estimator's parameter of this name, else text.
    """

    panel: str
    help: str
    flags: str = ""
    type: Any = None
    default: Any = None


Given = SimpleNamespace  # the options of one call by name, None where not given
ARGUMENT = ""  # the panel of arguments
argument, files, columns, learning, output = (
    partial(Option, panel)
    for panel in (ARGUMENT, "Files", "Columns", "Learning", "Output")
)

# Under "command.name", what one command has in place of the option `name`.
OPTIONS = {
    "data": argument(
        "CSV, TSV, Parquet, LIBSVM or NPZ file; tokens or CoNLL-U for models of those; "
        "- for standard input.",
        "DATA",
        default=...,
    ),
    "report.data": argument(
        "File of rows that the model has not seen; without it the page shows weights "
        "and convergence.",
        "[DATA]",
    ),
    "label.data": argument(
        "Tokens to label: one per line, columns separated by tabs or blanks, an empty "
        "line between sequences; - for standard input.",
        "[DATA]",
    ),
    "parse.data": argument(
        "CoNLL-U file to parse, plain or gzipped; - for standard input.", "[DATA]"
    ),
    "model": argument("File that a command or save wrote.", "MODEL", Path, default=...),
    # --- files
    "fit.model": files("Where to write the model.", "--model -m", Path, default=...),
    "label.model": files("The model's file.", "--model -m", Path, default=...),
    "parse.model": files("The parser's file.", "--model -m", Path, default=...),
    "view": files(
        "A table of its own about the rows of DATA, as NAME=FILE; may be repeated. "
        "Columns of DATA that have no other role are the view 'data'.",
        type=list[str],
    ),
    "test": files("File to evaluate the model on."),
    "checkpoint": files(
        "File that keeps the state of the fit; a killed fit resumes from it."
    ),
    "format": files(
        "csv, tsv, parquet, libsvm, libsvm0 (indices from 0) or npz; by default from "
        "the file's name, csv for -."
    ),
    "header": files(
        "Whether a CSV begins with names; by default, look at its first line.",
        "--header/--no-header",
        bool,
    ),
    "folder": files(
        "Keeps finished splits; a killed study resumes from it.", type=Path
    ),
    "label.train": files(
        "File with labels in its last column to learn from first; the model is written "
        "to --model."
    ),
    "parse.train": files(
        "CoNLL-U file with heads to learn from first; the parser is written to --model."
    ),
    "tag": files(
        "The file of a tagger, for text without tags: with --train it is learned from "
        "the same sentences and written; then it tags the words before they are "
        "parsed, in place of any tags they have.",
        type=Path,
    ),
    # --- columns
    "target": columns(
        "Column with the labels: a name, or a position (-1 is the last).", "--target -t"
    ),
    "time": columns("Column with the times until an event, with --event."),
    "event": columns(
        "Column that is 1 where the event was observed, 0 where it was not."
    ),
    "group": columns("Column with groups of rows; a hold-out keeps each together."),
    "weight": columns("Column with row weights."),
    "drop": columns(
        "Column to leave out (also 'id*'); may be repeated.",
        "--drop --ignore",
        list[str],
    ),
    "index": columns(
        "Column that names the rows, in DATA and in every view; without it rows are "
        "matched by position."
    ),
    # --- learning
    "regression": learning(
        "The target is a number to predict, not a class.", type=bool
    ),
    "survival": learning(
        "The target is the time until an event: --time and --event.", type=bool
    ),
    "kernels": learning(
        "Kernels such as 'rbf@pixel*; linear', or a file that ends in .toml.",
        "--kernels -k",
    ),
    "gene_sets": learning(
        "GMT file: every kernel is used once for each set of columns in it.", type=Path
    ),
    "gene_set_view": learning("The view that has these columns."),
    "min_set_size": learning("Leave out sets with fewer columns.", type=int),
    "scale": learning(
        "How numbers are scaled first: standard, robust, log1p+standard, ...; for one "
        "view as NAME=SCALE; may be repeated.",
        type=list[str],
    ),
    "missing": learning("Rows that lack a view: rescale, zero, complete or refuse."),
    "nugget": learning(
        "shared: split the identity (noise) part off every kernel and learn one weight "
        "for it."
    ),
    "fit.cv": learning(
        "Choose p and C, unless given, by cross-validation with this many folds.",
        type=int,
    ),
    "study.cv": learning(
        "Outer folds of the cross-validation; 5 if not given.", type=int
    ),
    "repeats": learning("How often rows are divided anew.", type=int),
    "inner_cv": learning("Folds of the training rows, to choose settings.", type=int),
    "baseline": learning(
        "averaged, single, linear or forest; may be repeated; by default all.",
        type=list[str],
    ),
    "pairs": learning("Pairs of halves of the rows for the stability.", type=int),
    "p": learning("1: few kernels, 2: all of them alike."),
    "C": learning("Weight of the losses.", "--C -C"),
    "loss": learning("Loss function."),
    "label.loss": learning("hinge or crf."),
    "epsilon": learning("Errors of numbers or times that cost nothing."),
    "time_scale": learning("Scale on which times are learned: log or linear."),
    "solver": learning("Algorithm, by default auto."),
    "tol": learning("Relative duality gap to reach."),
    "max_iter": learning("Maximum number of epochs."),
    "class_weight": learning("'balanced' gives all classes the same total weight."),
    "approximate": learning("nystroem or random_features in place of exact kernels."),
    "storage": learning(
        "How kernel values are stored: gram, float64, memmap:float16..."
    ),
    "storage_dir": learning(
        "Folder in which kernel values are kept and reused.", type=Path
    ),
    "memory_limit": learning("Such as 4GB, for kernel values."),
    "engine": learning(
        "dask: learn from files in partitions, DATA being a pattern in quotes."
    ),
    "scheduler": learning("Address of a running scheduler of Dask."),
    "workers": learning(
        "Processes to start for --engine dask, each with --memory-limit.", type=int
    ),
    "seed": learning("Makes fit and hold-out repeatable.", type=int),
    "jobs": learning("Splits that are computed at a time.", "--jobs -j", int),
    "holdout": learning(
        "Share of the rows that are not learned but evaluated, such as 0.2.", type=float
    ),
    "window": learning(
        "Neighbors on each side whose columns a token sees, where columns are text; "
        "the model remembers it.",
        type=int,
        default=1,
    ),
    "templates": learning(
        "standard, full, or templates separated by semicolons.", default="standard"
    ),
    "label.regularizer": learning(
        "sparse_mkl, group_lasso, squared_l2, elastic_net, ..."
    ),
    "parse.regularizer": learning(
        "sparse_mkl, group_lasso or elastic_net, which prune templates, or squared_l2, "
        "squared_p or power."
    ),
    "refit": learning(
        "Learn the kept templates once more, without the regularizer.", type=bool
    ),
    "n_templates": learning("Templates to keep at most, with --refit.", type=int),
    "keep": learning(
        "Share of the weights that the file keeps, the largest ones, in half "
        "precision: a small file, nearly as good with 0.25.",
        type=float,
    ),
    "label.epochs": learning("Passes over the sequences.", type=int),
    "parse.epochs": learning("Passes over the sentences.", type=int),
    # --- output
    "out": output("CSV or TSV file; - for standard output.", "--out -o", default="-"),
    "label.out": output(
        "Where to write the tokens with their labels; - for standard output.",
        "--out -o",
        default="-",
    ),
    "parse.out": output(
        "CoNLL-U file; - for standard output.", "--out -o", default="-"
    ),
    "report.out": output(
        "Page to write (.html).", "--out -o", Path, Path("report.html")
    ),
    "report": output("Page to write (.html).", "--report -r", Path),
    "label.score": output(
        "Compare with the labels in the file's last column instead of writing.",
        type=bool,
    ),
    "parse.score": output(
        "Compare with the heads in the file instead of writing sentences.", type=bool
    ),
    "proba": output("Add probabilities.", type=bool),
    "scores": output("Add scores.", type=bool),
    "plot": output("Draw weights and convergence (.png, .pdf or .svg).", type=Path),
    "title": output("Title of the page."),
    "metrics": output("Write the results as JSON."),
    "as_json": output("Print one JSON object.", "--json", bool),
    "verbose": output("A line per epoch.", "--verbose -v", bool),
    "quiet": output("No progress, no summary.", "--quiet -q", bool),
}
PARAMETER_RULES = {**MKLSurvival._rules, **MKLRegressor._rules, **MKLClassifier._rules}


def command(names: str) -> Callable[[Callable[[Given], None]], Callable[..., None]]:
    """Make a command of a function: it gets the options of these names as one object.

    Options of other commands are None in it.
    """
    # A function sees every option, so that code for several commands need not ask
    # which of them it serves.
    absent = dict.fromkeys(name.rpartition(".")[2] for name in OPTIONS)

    def declare(run: Callable[[Given], None]) -> Callable[..., None]:
        @wraps(run)
        def called(**values: Any) -> None:
            run(Given(**{**absent, **values}))

        # typer reads options from the signature, which is that of the table.
        parameters = [_declared(run.__name__, name) for name in names.split()]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return called

    return declare


def _declared(command: str, name: str) -> inspect.Parameter:
    """The option as typer reads it from the signature of a function."""
    option = OPTIONS.get(f"{command}.{name}") or OPTIONS[name]
    kind = option.type or _type_of_parameter(name)
    default = False if kind is bool and "/" not in option.flags else option.default
    if option.panel == ARGUMENT:
        info: Any = typer.Argument(metavar=option.flags, help=option.help)
    else:
        flags = (option.flags or "--" + name.replace("_", "-")).split()
        info = typer.Option(*flags, help=option.help, rich_help_panel=option.panel)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is ... else default,
        annotation=Annotated[kind if default is ... else kind | None, info],
    )


def _type_of_parameter(name: str) -> type:
    rule = PARAMETER_RULES.get(name)
    types = ((Number, float), (Whole, int), (FileName, Path))
    return next((kind for cls, kind in types if isinstance(rule, cls)), str)


def estimator_parameters(given: Given) -> dict[str, Any]:
    """The given options that are parameters of an estimator of rows."""
    return {name: v for name, v in vars(given).items() if name in PARAMETER_RULES}


def chosen(**values: Any) -> dict[str, Any]:
    """The values that were given; the estimator has defaults for the others.

    Examples
    --------
    >>> chosen(C=2.0, loss=None)
    {'C': 2.0}
    """
    return {name: value for name, value in values.items() if value is not None}
