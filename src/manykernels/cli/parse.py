"""``manykernels parse``: heads for the words of a CoNLL-U file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from manykernels.cli import options as opt
from manykernels.cli.metrics import metric_lines, summary_lines
from manykernels.cli.outputs import STDOUT, check_learning, load_as, opened, tell
from manykernels.cli.progress import learn_and_save
from manykernels.trees import DependencyParser
from manykernels.trees.conllu import (
    Sentence,
    format_conllu,
    parse_conllu,
    read_conllu,
    write_conllu,
)

Text = Annotated[
    str | None,
    typer.Argument(
        metavar="[DATA]",
        help="CoNLL-U file to parse, plain or gzipped; - for standard input.",
    ),
]
ParserFile = Annotated[Path, opt.in_files("--model", "-m", help="The parser's file.")]
Train = Annotated[
    str | None,
    opt.in_files(
        "--train",
        help="CoNLL-U file with heads to learn from first; the parser is written to "
        "--model.",
    ),
]
ParsedOut = Annotated[
    str, opt.in_output("--out", "-o", help="CoNLL-U file; - for standard output.")
]
Score = Annotated[
    bool,
    opt.in_output(
        "--score",
        help="Compare with the heads in the file instead of writing sentences.",
    ),
]
TemplateSet = Annotated[
    str,
    opt.in_learning(
        "--templates", help="standard, full, or templates separated by semicolons."
    ),
]
Regularizer = Annotated[
    str | None,
    opt.in_learning(
        "--regularizer",
        help="squared_l2, or group_lasso or sparse_mkl, which prune templates.",
    ),
]
Refit = Annotated[
    bool,
    opt.in_learning(
        "--refit",
        help="Learn the templates that were kept once more, without the regularizer.",
    ),
]
NTemplates = Annotated[
    int | None,
    opt.in_learning("--n-templates", help="Templates to keep at most, with --refit."),
]
Epochs = Annotated[
    int | None, opt.in_learning("--epochs", help="Passes over the sentences.")
]


def parse(
    model: ParserFile,
    data: Text = None,
    train: Train = None,
    out: ParsedOut = "-",
    score: Score = False,
    templates: TemplateSet = "standard",
    loss: opt.Loss = None,
    regularizer: Regularizer = None,
    refit: Refit = False,
    n_templates: NTemplates = None,
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
    check_learning(data, train, model, out, "parse")
    if train is None:
        parser = load_as("sentences", "parser", model)
    else:
        parser = DependencyParser(
            _templates(templates),
            regularizer=regularizer,
            refit=refit,
            n_templates=n_templates,
            **opt.chosen(
                loss=loss,
                C=C,
                n_epochs=epochs,
                memory_limit=memory_limit,
                random_state=seed,
            ),
        )
        learn_and_save(parser, model, verbose, _read(train))
    if data is None:
        tell(parser.summary(), as_json, summary_lines)
    elif score:
        tell(evaluate_sentences(parser, data), as_json, metric_lines)
    else:
        parse_sentences(parser, data, out)


def parse_sentences(parser: Any, data: str, out: str) -> None:
    """Write the sentences of a file with the trees that the parser finds."""
    _write(out, parser.predict(_read(data)))


def evaluate_sentences(parser: Any, data: str) -> dict[str, Any]:
    """The shares of words and sentences whose trees are right.

    Labeled scores are left out where the file has no relations.
    """
    scores = parser.evaluate(_read(data))._asdict()
    return {name: value for name, value in scores.items() if value == value}


def _templates(text: str) -> Any:
    parts = [part.strip() for part in text.split(";") if part.strip()]
    return parts if len(parts) > 1 or "." in text else text


def _read(path: str) -> list[Sentence]:
    if path == STDOUT:
        return list(parse_conllu(sys.stdin.buffer.read(), "standard input"))
    return read_conllu(path)


def _write(path: str, sentences: list[Sentence]) -> None:
    if path != STDOUT:
        write_conllu(path, sentences)
        return
    with opened(path) as stream:
        stream.write(format_conllu(sentences))
