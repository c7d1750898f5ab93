"""``manykernels parse``: heads and relations for the words of a CoNLL-U file."""

from __future__ import annotations

import sys
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from manykernels.cli import options as opt
from manykernels.cli.errors import fail
from manykernels.cli.metrics import metric_lines, summary_lines
from manykernels.cli.outputs import (
    STDOUT,
    check_learning,
    check_output,
    load_as,
    opened,
    require_own_files,
    tell,
)
from manykernels.cli.progress import learn_and_save, shown_warnings
from manykernels.cli.tagging import (
    evaluate_tagged,
    new_tagger,
    tag_words,
    words_and_tags,
    words_as_tokens,
)
from manykernels.inputs.parameters import Number
from manykernels.structured import DependencyParser
from manykernels.structured.conllu import (
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
Tagger = Annotated[
    Path | None,
    opt.in_files(
        "--tag",
        help="The file of a tagger, for text without tags: with --train it is learned "
        "from the same sentences and written; then it tags the words before they are "
        "parsed, in place of any tags they have.",
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
        help="sparse_mkl, group_lasso or elastic_net, which prune templates, or "
        "squared_l2, squared_p or power.",
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
Keep = Annotated[
    float | None,
    opt.in_learning(
        "--keep",
        help="Share of the weights that the file keeps, the largest ones, in half "
        "precision: a small file, nearly as good with 0.25.",
    ),
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
    tag: Tagger = None,
    templates: TemplateSet = "standard",
    loss: opt.Loss = None,
    regularizer: Regularizer = None,
    refit: Refit = False,
    n_templates: NTemplates = None,
    C: opt.C = None,
    epochs: Epochs = None,
    keep: Keep = None,
    memory_limit: opt.MemoryLimit = None,
    seed: opt.Seed = None,
    as_json: opt.AsJson = False,
    verbose: opt.Verbose = False,
) -> None:
    """Learn a dependency parser, or find the heads of the words in a file.

    manykernels parse --train train.conllu --model parser.mk

    manykernels parse new.conllu --model parser.mk --out parsed.conllu

    manykernels parse --train train.conllu --model parser.mk --tag tagger.mk
    """
    check_learning(data, train, model, out, "parse")
    check_tagger(tag, train, {"DATA": data, "--model": model, "--out": out})
    if keep is not None:
        Number(high=1.0).check("--keep", keep)
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
        sentences = _read(train)
        if tag is not None:
            learn_tagger(tag, sentences, verbose, seed)
            sentences = words_and_tags(sentences)
        smaller = None if keep is None else methodcaller("compressed", keep)
        parser = learn_and_save(parser, model, verbose, sentences, smaller=smaller)
    tagger = None if tag is None else load_as("sequences", "tagger", tag)
    if data is None:
        tell(parser.summary(), as_json, summary_lines)
    elif score:
        tell(evaluate_sentences(parser, data, tagger), as_json, metric_lines)
    else:
        parse_sentences(parser, data, out, tagger)


def learn_tagger(
    path: Path, sentences: list[Sentence], verbose: bool, seed: int | None
) -> None:
    """Learn the coarse tags of sentences from their words, and write the tagger."""
    if not any(tag != "_" for sentence in sentences for tag in sentence.upos):
        fail("expected tags in the fourth column of --train, got none; add them")
    tags = [np.array(sentence.upos) for sentence in sentences]
    tagger = new_tagger(random_state=seed)
    learn_and_save(tagger, path, verbose, words_as_tokens(sentences), tags)


def parse_sentences(parser: Any, data: str, out: str, tagger: Any = None) -> None:
    """Write the sentences of a file with the trees that the parser finds."""
    sentences = _read(data)
    with shown_warnings(Console(stderr=True)):
        if tagger is None:
            trees = parser.predict(sentences)
        else:
            tagged = tag_words(tagger, sentences)
            found = parser.predict(words_and_tags(tagged))
            pairs = zip(tagged, found, strict=True)
            trees = [replace(s, heads=t.heads, deprels=t.deprels) for s, t in pairs]
    _write(out, trees)


def evaluate_sentences(parser: Any, data: str, tagger: Any = None) -> dict[str, Any]:
    """The shares of words and sentences whose trees, and tags, are right.

    Labeled scores are left out where the file has no relations, and tags where it has
    none. Punctuation is what the file calls so, if it has tags.
    """
    sentences = _read(data)
    with shown_warnings(Console(stderr=True)):
        if tagger is None:
            scores = parser.evaluate(sentences)._asdict()
        else:
            scores = evaluate_tagged(parser, sentences, tagger)
    return {name: value for name, value in scores.items() if value == value}


def check_tagger(tag: Path | None, train: str | None, others: dict[str, Any]) -> None:
    """Refuse a tagger's file that cannot be written, or that is another's."""
    if tag is not None and train is not None:
        check_output("--tag", tag)
        require_own_files({**others, "--train": train}, {"--tag": tag})


def _templates(text: str) -> Any:
    parts = [part.strip() for part in text.split(";") if part.strip()]
    return parts if len(parts) > 1 or "." in text else text


def _read(path: str) -> list[Sentence]:
    if path == STDOUT:
        name = "standard input"
        sentences = list(parse_conllu(sys.stdin.buffer.read(), name))
    else:
        name, sentences = f"'{path}'", read_conllu(path)
    if not sentences:
        fail(f"expected sentences in {name}, got none; check the file")
    return sentences


def _write(path: str, sentences: list[Sentence]) -> None:
    if path != STDOUT:
        write_conllu(path, sentences)
        return
    with opened(path) as stream:
        stream.write(format_conllu(sentences))
