"""Heads and relations on two treebanks: scores, small files, no tags, an ablation.

English (UD EWT 2.16) and Dutch (UD LassySmall 1.4): attachment scores of the defaults,
which were chosen on the dev sets, with gold tags; what files of compressed parsers
lose; `manykernels parse --tag`, with the tags of a tagger learned from the same
sentences; what sorts of templates bring, on dev; and the weights of the paper's 507
templates by epoch (Figure 3, bottom left).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from common import in_own_process, parse, save, show
from treebank_data import load

import manykernels as mk
from manykernels.cli.parse import evaluate_tagged, new_tagger, words_and_tags
from manykernels.cli.parse import words_as_tokens as tokens
from manykernels.structured import Sentence
from manykernels.structured.feature_templates import ARC_TEMPLATES, LABEL_TEMPLATES
from manykernels.structured.treebank import without_tags

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "parsing_weights.png"
KEEP = (1.0, 0.5, 0.25, 0.1)
# Sorts of templates, by the beginnings and ends of the words in their texts.
FEATS, SUFFIX, LEMMA, THIRD = (".feats",), (".suffix",), (".lemma",), ("g.", "s.")
LEFT_OUT = {
    "nothing": (),
    "FEATS": FEATS,
    "suffixes": SUFFIX,
    "lemmas": LEMMA,
    "third words": THIRD,
    "FEATS, suffixes and third words": FEATS + SUFFIX + THIRD,
}


def main() -> None:
    """Measure, print and store after every part."""
    options = parse(
        __doc__,
        languages=("english,dutch", "treebanks"),
        sentences=(0, "training sentences, 0 for all"),
        epochs=(12, "passes over the sentences"),
        ablation=("dutch", "treebanks of the ablation"),
        ablation_seeds=(3, "orders of the sentences in the ablation"),
        mkl_epochs=(6, "passes of multiple kernel learning on the 507 templates"),
        C=(30.0, "weight of the losses there"),
        without_weights=(False, "leave the weights by epoch out"),
    )
    languages = options.languages.split(",")
    n, epochs = options.sentences, options.epochs
    seeds = list(range(options.ablation_seeds))
    results: dict[str, Any] = {}

    def keep(name: str, work: Callable[..., Any], *arguments: Any) -> None:
        results[name] = in_own_process(work, *arguments)
        save("treebanks", seeds=seeds, results=results)  # all but one part has 0 alone

    for language in languages:
        keep(language, fit, language, n, epochs)
    for language in languages:
        keep(f"{language}_tagged", tagged, language, n, epochs)
    for language in filter(None, options.ablation.split(",")):
        keep(f"{language}_ablation", ablation, language, n, epochs, seeds)
    if not options.without_weights:
        keep("weights", weights, n, options.mkl_epochs, options.C)
        draw(results["weights"])
    report(results)


def fit(language: str, n_sentences: int, n_epochs: int) -> dict[str, Any]:
    """Scores, seconds, and what smaller files lose."""
    treebank = load(language, n_sentences)
    warm_up()
    parser = mk.DependencyParser(n_epochs=n_epochs, random_state=0)
    began = time.process_time()
    parser.fit(treebank["train"])
    seconds = time.process_time() - began
    began = time.process_time()
    test = parser.evaluate(treebank["test"])._asdict()
    tested = time.process_time() - began
    files = [{"keep": 1.0, "half": False, **smaller(parser, treebank["dev"])}]
    for keep in KEEP:
        small = parser.compressed(keep)
        files.append({"keep": keep, "half": True, **smaller(small, treebank["dev"])})
    words = sum(map(len, treebank["test"]))
    found = {
        "dev": parser.evaluate(treebank["dev"])._asdict(),
        "test": test,
        "no_tags": parser.evaluate(without_tags(treebank["dev"]))._asdict(),
        "no_tags_said": parser.untagged_score_,
        "cpu": seconds,
        "words": sum(map(len, treebank["train"])),
        "words_parsed_per_cpu_second": words / tested,
        "files": files,
    }
    print(language, found, flush=True)
    return found


def warm_up() -> None:
    """Compile before the clock starts."""
    word = Sentence.of(["a", "b"], ["X", "Y"], [2, 0], deprels=["x", "root"])
    mk.DependencyParser(n_epochs=1, memory_limit="10MB").fit([word] * 2).predict([word])
    new_tagger(max_iter=1).fit(tokens([word] * 2), [np.array(word.upos)] * 2)


def smaller(parser: Any, dev: list[Sentence]) -> dict[str, float]:
    """Size of the file, and scores."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "parser.mk"
        parser.save(path)
        size = path.stat().st_size / 1e6
    scores = parser.evaluate(dev)
    return {"mb": size, "uas": scores.uas, "las": scores.las}


def tagged(language: str, n_sentences: int, n_epochs: int) -> dict[str, Any]:
    """What `manykernels parse --tag` learns, and how right it is."""
    treebank = load(language, n_sentences)
    train = treebank["train"]
    warm_up()
    began = time.process_time()
    tagger = new_tagger(random_state=0)
    tagger.fit(tokens(train), [np.array(sentence.upos) for sentence in train])
    learned = time.process_time()
    parser = mk.DependencyParser(n_epochs=n_epochs, random_state=0)
    parser.fit(words_and_tags(train))
    found: dict[str, Any] = {
        "tagger_cpu": learned - began,
        "parser_cpu": time.process_time() - learned,
    }
    for part in ("dev", "test"):
        found[part] = evaluate_tagged(parser, treebank[part], tagger)
        right = parser.evaluate(words_and_tags(treebank[part]))
        found[f"{part}_gold_tags"] = right._asdict()
    print(language, "with --tag", found, flush=True)
    return found


def ablation(
    language: str, n_sentences: int, n_epochs: int, seeds: Iterable[int]
) -> list[dict[str, Any]]:
    """Scores on dev without some templates, of arcs and of relations."""
    treebank = load(language, n_sentences)
    lines = []
    for name, parts in LEFT_OUT.items():
        arcs = without(ARC_TEMPLATES.read("standard"), parts)
        relations = without(LABEL_TEMPLATES.read("standard"), parts)
        scores = []
        for seed in seeds:
            parser = mk.DependencyParser(
                arcs, label_templates=relations, n_epochs=n_epochs, random_state=seed
            )
            found = parser.fit(treebank["train"]).evaluate(treebank["dev"])
            scores.append({"uas": found.uas, "las": found.las})
        lines.append({"left_out": name, "templates": len(arcs), "scores": scores})
        print(language, lines[-1], flush=True)
    return lines


def without(templates: Iterable[Any], parts: tuple[str, ...]) -> list[str]:
    """Texts of the templates in which no word begins or ends with a part."""
    return [
        str(template)
        for template in templates
        if not any(
            word.startswith(part) or word.endswith(part)
            for word in str(template).split()
            for part in parts
        )
    ]


def weights(n_sentences: int, n_epochs: int, C: float) -> dict[str, Any]:
    """Norms of the 507 templates' weights after every epoch, under sparse MKL."""
    parser = mk.DependencyParser(
        "full",
        label_templates=None,
        regularizer="sparse_mkl",
        C=C,
        n_epochs=n_epochs,
        random_state=0,
    ).fit(load("dutch", n_sentences)["train"])
    history = parser.template_history_
    shares = history / np.maximum(history.sum(axis=1, keepdims=True), 1e-300)
    return {
        "in_use": (history > 0.0).sum(axis=1).tolist(),
        "largest_share": shares.max(axis=1).tolist(),
        "strongest": parser.selected_templates_[:5],
        "shares": np.sort(shares, axis=1)[:, ::-1][:, :40].round(5).tolist(),
        "by_template": shares[:, np.argsort(-shares[-1])[:25]].round(5).tolist(),
    }


def draw(found: dict[str, Any]) -> None:
    """Shares of the 25 templates that end strongest, by epoch."""
    picture, axis = plt.subplots(figsize=(6, 4))
    curves = np.array(found["by_template"])
    axis.plot(np.arange(1, len(curves) + 1), 100.0 * curves, marker=".")
    axis.set_xlabel("epoch")
    axis.set_ylabel("share of the kernel weights, %")
    axis.grid(alpha=0.3)
    picture.tight_layout()
    picture.savefig(PICTURE, dpi=120)


def report(results: dict[str, Any]) -> None:
    """Print the scores."""
    rows = [
        [name, *(100.0 * one[p][s] for p in ("dev", "test") for s in ("uas", "las"))]
        for name, one in results.items()
        if "dev" in one
    ]
    show("Attachment scores, %", ["", "dev UAS", "LAS", "test UAS", "LAS"], rows)


if __name__ == "__main__":
    main()
