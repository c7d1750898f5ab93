"""``manykernels parse``: heads for the words of a CoNLL-U file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from manykernels.cli import options as opt
from manykernels.cli.errors import INTERRUPTED, fail
from manykernels.cli.outputs import check_output, print_json
from manykernels.cli.progress import shown_warnings
from manykernels.datasets.conllu import (
    Sentence,
    format_conllu,
    parse_conllu,
    read_conllu,
    write_conllu,
)
from manykernels.estimators import DependencyParser, load
from manykernels.io.tables import STDIN
from manykernels.solvers.loop import InterruptedFitWarning

Text = Annotated[
    str | None,
    typer.Argument(
        metavar="[DATA]",
        help="CoNLL-U file to parse, plain or gzipped; - for standard input.",
    ),
]
ParserFile = Annotated[
    Path,
    typer.Option("--model", "-m", help="The parser's file.", rich_help_panel=opt.FILE),
]
Train = Annotated[
    str | None,
    typer.Option(
        "--train",
        help="CoNLL-U file with heads to learn from first; the parser is written to "
        "--model.",
        rich_help_panel=opt.FILE,
    ),
]
ParsedOut = Annotated[
    str,
    typer.Option(
        "--out",
        "-o",
        help="CoNLL-U file; - for standard output.",
        rich_help_panel=opt.REPORT,
    ),
]
Score = Annotated[
    bool,
    typer.Option(
        "--score",
        help="Compare with the heads in the file instead of writing sentences.",
        rich_help_panel=opt.REPORT,
    ),
]
TemplateSet = Annotated[
    str,
    typer.Option(
        "--templates",
        help="standard, full, or templates separated by semicolons.",
        rich_help_panel=opt.MODEL,
    ),
]
Regulariser = Annotated[
    str | None,
    typer.Option(
        "--regulariser",
        help="squared_l2, or group_lasso or sparse_mkl, which prune templates.",
        rich_help_panel=opt.MODEL,
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option(
        "--epochs", help="Passes over the sentences.", rich_help_panel=opt.MODEL
    ),
]


def parse(
    model: ParserFile,
    data: Text = None,
    train: Train = None,
    out: ParsedOut = "-",
    score: Score = False,
    templates: TemplateSet = "standard",
    loss: opt.Loss = None,
    regulariser: Regulariser = None,
    C: opt.C = None,
    epochs: Epochs = None,
    memory_limit: opt.MemoryLimit = None,
    seed: opt.Seed = None,
    as_json: opt.AsJson = False,
    verbose: opt.Verbose = False,
) -> None:
    """Learn a dependency parser, or find the heads of the words in a file.

    manykernels parse --train train.conllu --model parser.mk

    manykernels parse new.conllu --model parser.mk --out parsed.conllu
    """
    if data is None and train is None:
        fail("expected a file to parse, or --train, got neither; name one")
    if data == train == STDIN:
        fail("expected at most one file from standard input, got two; name the other")
    check_output("--out", out)
    sentences = None if data is None else _read(data)
    if train is None:
        parser = _load(model)
    else:
        check_output("--model", model)
        given: dict[str, Any] = {
            "loss": loss,
            "C": C,
            "n_epochs": epochs,
            "memory_limit": memory_limit,
            "random_state": seed,
        }
        chosen = {name: value for name, value in given.items() if value is not None}
        parser = DependencyParser(
            _templates(templates),
            regulariser=regulariser,
            verbose=int(verbose),
            **chosen,
        )
        _learn(parser, _read(train), model)
    if sentences is None:
        _tell(_described(parser), as_json)
    elif score:
        _tell(parser.evaluate(sentences)._asdict(), as_json)
    else:
        _write(out, parser.parse(sentences))


def _learn(parser: DependencyParser, sentences: list[Sentence], path: Path) -> None:
    with shown_warnings(Console(stderr=True)) as seen:
        parser.fit(sentences)
    parser.save(path)
    if InterruptedFitWarning in seen:
        raise typer.Exit(INTERRUPTED)


def _load(path: Path) -> DependencyParser:
    parser = load(path)
    if not isinstance(parser, DependencyParser):
        fail(
            f"expected the file of a parser, got one of {type(parser).__name__}; learn "
            "a parser with --train"
        )
    return parser


def _templates(text: str) -> Any:
    parts = [part.strip() for part in text.split(";") if part.strip()]
    return parts if len(parts) > 1 or "." in text else text


def _read(path: str) -> list[Sentence]:
    if path == STDIN:
        return list(parse_conllu(sys.stdin.buffer.read(), "standard input"))
    return read_conllu(path)


def _write(path: str, sentences: list[Sentence]) -> None:
    if path == STDIN:
        sys.stdout.write(format_conllu(sentences))
    else:
        write_conllu(path, sentences)


def _described(parser: DependencyParser) -> dict[str, Any]:
    return {
        "templates": len(parser.templates_),
        "selected": len(parser.selected_templates_),
        "features": parser.n_features_,
        "epochs": parser.n_iter_,
        "training_accuracy": parser.history_[-1].accuracy,
        "strongest": parser.selected_templates_[:10],
    }


def _tell(content: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(content)
        return
    for name, value in content.items():
        lines = value if isinstance(value, list) else [value]
        shown = [f"{v:.4f}" if isinstance(v, float) else str(v) for v in lines]
        typer.echo(f"{name.replace('_', ' ')}: {'; '.join(shown)}")
