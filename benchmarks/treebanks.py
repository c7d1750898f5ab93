"""Heads and relations on two treebanks, gold tags: the default parser and UDPipe 1.

English (UD EWT 2.16) and Dutch (UD LassySmall 1.4): attachment scores of the defaults,
which were chosen on the dev sets, what files of compressed parsers lose, UDPipe's
parser with the same tags, lemmas and features on Dutch, and the weights of the paper's
507 templates by epoch (Figure 3, bottom left).
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from common import in_own_process, parse, save, show

import manykernels as mk
from manykernels.datasets._files import data_root
from manykernels.trees import Sentence, format_conllu, read_conllu
from manykernels.trees.scores import ParsingScore

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "parsing_weights.png"
DUTCH = "ud_dutch_lassysmall/nl_lassysmall-ud-{}.conllu.gz"
KEEP = (1.0, 0.5, 0.25, 0.1)
UDPIPE = (
    "iterations=10;use_gold_tags=1;transition_system=swap;"
    "transition_oracle=static_lazy;embedding_xpostag=0;embedding_lemma=50"
)
Treebank = dict[str, list[Sentence]]


def main() -> None:
    """Measure, print and store after every part."""
    options = parse(
        __doc__,
        languages=("english,dutch", "treebanks"),
        sentences=(0, "training sentences, 0 for all"),
        epochs=(12, "passes over the sentences"),
        mkl_epochs=(6, "passes of multiple kernel learning on the 507 templates"),
        C=(30.0, "weight of the losses there"),
        udpipe=("", "UDPipe's model trained before with the same settings"),
        without_udpipe=(False, "leave UDPipe out"),
        without_weights=(False, "leave the weights by epoch out"),
    )
    results: dict[str, Any] = {}
    for language in options.languages.split(","):
        results[language] = in_own_process(
            fit, language, options.sentences, options.epochs
        )
        store(results, options)
    if not options.without_udpipe:
        results["udpipe"] = in_own_process(udpipe, options.sentences, options.udpipe)
        store(results, options)
    if not options.without_weights:
        results["weights"] = in_own_process(
            weights, options.sentences, options.mkl_epochs, options.C
        )
        draw(results["weights"])
        store(results, options)
    report(results)


def store(results: dict[str, Any], options: Any) -> None:
    """Keep what is there so far."""
    save(
        "treebanks",
        options=vars(options) | {"udpipe": bool(options.udpipe)},
        udpipe_settings=UDPIPE,
        results=results,
    )


def load(language: str, n_sentences: int) -> Treebank:
    """Sentences by part."""
    if language == "english":
        found = mk.datasets.load_ud_english_ewt()
        parts = {part: found[part] for part in ("train", "dev", "test")}
    else:
        root = data_root(None)
        parts = {
            part: read_conllu(root / DUTCH.format(part))
            for part in ("train", "dev", "test")
        }
    return parts | {"train": parts["train"][: n_sentences or None]}


def fit(language: str, n_sentences: int, n_epochs: int) -> dict[str, Any]:
    """Scores, seconds, and what smaller files lose."""
    treebank = load(language, n_sentences)
    word = Sentence.of(["a", "b"], ["X", "Y"], [2, 0], deprels=["x", "root"])
    mk.DependencyParser(n_epochs=1, memory_limit="10MB").fit([word] * 2).predict([word])
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
        "cpu": seconds,
        "words": sum(map(len, treebank["train"])),
        "words_parsed_per_cpu_second": words / tested,
        "files": files,
    }
    print(language, found, flush=True)
    return found


def without_tags(sentences: list[Sentence]) -> list[Sentence]:
    """Words alone, beside their trees."""
    blank = [("_",) * len(s) for s in sentences]
    return [
        replace(s, lemmas=b, upos=b, xpos=b, feats=b)
        for s, b in zip(sentences, blank, strict=True)
    ]


def smaller(parser: Any, dev: list[Sentence]) -> dict[str, float]:
    """Size of the file, and scores."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "parser.mk"
        parser.save(path)
        size = path.stat().st_size / 1e6
    scores = parser.evaluate(dev)
    return {"mb": size, "uas": scores.uas, "las": scores.las}


def udpipe(n_sentences: int, trained: str) -> dict[str, Any]:
    """UDPipe's transition parser on Dutch; dev decides when to stop."""
    import ufal.udpipe as ufal

    treebank = load("dutch", n_sentences)
    seconds, model_file = None, trained
    if not trained:
        error = ufal.ProcessingError()
        data = [udpipe_sentences(treebank[part]) for part in ("train", "dev")]
        nothing = ufal.Trainer.NONE
        began = time.process_time()
        content = ufal.Trainer.train(
            "morphodita_parsito", *data, nothing, nothing, UDPIPE, error
        )
        seconds = time.process_time() - began
        model_file = str(Path(tempfile.mkdtemp()) / "udpipe.bin")
        Path(model_file).write_bytes(content)
    model = ufal.Model.load(model_file)
    found: dict[str, Any] = {
        part: udpipe_score(model, treebank[part])._asdict() for part in ("dev", "test")
    }
    return found | {"cpu": seconds, "mb": Path(model_file).stat().st_size / 1e6}


def udpipe_sentences(sentences: list[Sentence]) -> Any:
    """The same sentences as UDPipe's."""
    import ufal.udpipe as ufal

    reader, error = ufal.InputFormat.newConlluInputFormat(), ufal.ProcessingError()
    reader.setText(format_conllu(sentences))
    found = ufal.Sentences()
    while True:
        sentence = ufal.Sentence()
        if not reader.nextSentence(sentence, error):
            return found
        found.append(sentence)


def udpipe_score(model: Any, sentences: list[Sentence]) -> ParsingScore:
    """Attachment scores of UDPipe's trees, counted as ours are."""
    bare = [replace(s, heads=None, deprels=("_",) * len(s)) for s in sentences]
    trees = []
    for sentence, other in zip(sentences, udpipe_sentences(bare), strict=True):
        model.parse(other, model.DEFAULT)
        words = list(other.words)[1:]
        heads, relations = (
            tuple(getattr(word, name) for word in words) for name in ("head", "deprel")
        )
        trees.append(replace(sentence, heads=heads, deprels=relations))
    return ParsingScore.of(sentences, trees)


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
