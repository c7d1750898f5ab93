"""Chunks of CoNLL-2000 next to crfsuite: F1, training and tagging time, pruning.

Both read the same attributes of the same tokens. Settings are chosen on the last third
of the training sentences after learning from the others; the test sentences are looked
at once for every line. Needs the data files and python-crfsuite.
"""

from __future__ import annotations

import gzip
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import parse, ratios, save, show

import manykernels as mk
from manykernels.datasets.download import data_root
from manykernels.structured import chunk_report, token_accuracy

Tokens = list[list[dict[str, Any]]]
Tags = list[list[str]]

WORDS, TAGS = range(-2, 3), range(-2, 3)
PAIRS = [("w", -1), ("w", 0), *(("p", place) for place in range(-2, 2))]
TRIPLES = range(-2, 1)
# "edges": attributes that also score pairs of chunk labels.
EDGES = {"w[0]": "w[0]=", "p[0]": "p[0]="}
KINDS = (("hinge", None), ("hinge", EDGES), ("crf", None))
GRID = [
    {"C": C, "loss": loss, "edges": edges}
    for loss, edges in KINDS
    for C in (1.0, 3.0, 10.0)
]
PENALTIES = [
    {"c1": c1, "c2": c2} for c1, c2 in ((0.0, 1.0), (0.0, 0.1), (0.1, 0.1), (1.0, 0.01))
]
# How to learn, one change of the defaults at a time.
WAYS: list[dict[str, Any]] = [
    {"average": "tail", "step": "epoch", "eta0": 0.1},
    {"average": False, "step": "epoch", "eta0": 0.1},
    {"average": True, "step": "epoch", "eta0": 0.1},
    {"average": "tail", "step": "sqrt", "eta0": 1.0},
    {"average": "tail", "step": "sqrt", "eta0": 10.0},
    {"average": "tail", "step": "epoch", "eta0": 0.03},
    {"average": "tail", "step": "epoch", "eta0": 0.3},
]
SELECTION = (1.0, 0.1, 0.03, 0.01)  # C of the fit that drops templates


@dataclass(frozen=True)
class Corpus:
    """Sentences as attributes of tokens, and their labels."""

    X: Tokens
    y: Tags

    @classmethod
    def read(cls, name: str) -> Corpus:
        path = data_root() / "conll2000" / f"{name}.txt.gz"
        text = gzip.decompress(path.read_bytes()).decode()
        sentences = [
            [line.split() for line in part.splitlines()]
            for part in text.strip().split("\n\n")
        ]
        return cls(
            [attributes(sentence) for sentence in sentences],
            [[token[2] for token in sentence] for sentence in sentences],
        )

    def part(self, chosen: slice) -> Corpus:
        return Corpus(self.X[chosen], self.y[chosen])


def attributes(sentence: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Words and tags of five tokens, pairs of words, pairs and triples of tags."""
    columns = {"w": [t[0] for t in sentence], "p": [t[1] for t in sentence]}

    def at(column: str, place: int) -> str:
        inside = 0 <= place < len(sentence)
        return columns[column][place] if inside else "<>"

    found = []
    for t in range(len(sentence)):
        token: dict[str, Any] = {"bias": 1.0}
        names = [(c, (k,)) for k in WORDS for c in "wp"]
        names += [(c, (k, k + 1)) for c, k in PAIRS]
        names += [("p", (k, k + 1, k + 2)) for k in TRIPLES]
        for column, places in names:
            name = "|".join(f"{column}[{place}]" for place in places)
            token[name] = "|".join(at(column, t + place) for place in places)
        found.append(token)
    return found


class Labeler:
    """SequenceLabeler with some settings."""

    def __init__(self, **settings: Any) -> None:
        self.model = mk.SequenceLabeler(random_state=0, **settings)

    def fit(self, train: Corpus) -> Labeler:
        self.model.fit(train.X, train.y)
        return self

    def tag(self, X: Tokens) -> Tags:
        return [labels.tolist() for labels in self.model.predict(X)]


class Learner(Labeler):
    """SequenceLabeler with its defaults, learned in some way."""

    def __init__(self, **way: Any) -> None:
        super().__init__(solver=mk.structured.OnlineProximal(**way))


class CRFSuite:
    """python-crfsuite, L-BFGS, with some penalties."""

    def __init__(self, **settings: Any) -> None:
        self.settings = {**settings, "feature.possible_transitions": True}

    def fit(self, train: Corpus) -> CRFSuite:
        import pycrfsuite

        trainer = pycrfsuite.Trainer(verbose=False)
        trainer.set_params(self.settings)
        for tokens, labels in zip(train.X, train.y, strict=True):
            trainer.append(tokens, labels)
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model")
            trainer.train(path)
            self.content = Path(path).read_bytes()  # the tagger reads it all its life
        self.tagger = pycrfsuite.Tagger()
        self.tagger.open_inmemory(self.content)
        return self

    def tag(self, X: Tokens) -> Tags:
        return [self.tagger.tag(tokens) for tokens in X]


def main() -> None:
    options = parse(
        __doc__ or "",
        sentences=(0, "of the training set, 0 for all"),
        repeats=(5, "runs of tagging"),
    )
    train, test = Corpus.read("train"), Corpus.read("test")
    train = train.part(slice(options.sentences or None))
    Labeler(max_iter=1).fit(train.part(slice(50)))  # compiles
    found: dict[str, Any] = {"sentences": len(train.X)}
    found["results"], fitted = {}, {}

    def add(name: str, learner: Any) -> None:
        found["results"][name], fitted[name] = measured(learner, train, test)
        report(found["results"])

    found["validation"] = {}
    chosen = choose(train, Labeler, GRID, found["validation"])
    choose(train, Learner, WAYS, found["validation"])
    penalties = choose(train, CRFSuite, PENALTIES, found["validation"])
    found["chosen"] = {**chosen, "edges": list(chosen["edges"] or ())}
    found["penalties"] = penalties
    add("chosen", Labeler(**chosen))
    add("crfsuite, chosen", CRFSuite(**penalties))
    add("defaults", Labeler())
    add("crfsuite, defaults", CRFSuite())
    add("defaults with edges", Labeler(edges=EDGES))
    found["templates"] = len(fitted["defaults"].model.kernel_names_)
    found["tagging"] = tagging_seconds(fitted, test, options.repeats)
    save("chunking", seeds=[0], **found)
    add("one kernel", Labeler(kernels="linear"))
    add("defaults, CRF", Labeler(loss="crf"))
    save("chunking", seeds=[0], **found)
    found["pruning"] = [pruned(C, train, test) for C in SELECTION]
    save("chunking", seeds=[0], **found)


def choose(
    train: Corpus,
    make: Callable[..., Any],
    grid: list[dict[str, Any]],
    tried: dict[str, list[dict[str, Any]]],
) -> dict[str, Any]:
    """Settings of the best F1 on the last third of the sentences; tried has all F1."""
    two_thirds = 2 * len(train.X) // 3
    kept, held = train.part(slice(two_thirds)), train.part(slice(two_thirds, None))
    lines = tried[make.__name__] = []
    for settings in grid:
        scores, _ = measured(make(**settings), kept, held)
        named = {k: list(v or ()) if k == "edges" else v for k, v in settings.items()}
        lines.append({**named, "f1": scores["f1"], "seconds": scores["seconds"]})
        show(f"{make.__name__}: last third of the training set", *_table(lines))
    return grid[int(np.argmax([line["f1"] for line in lines]))]


def _table(lines: list[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    return list(lines[0]), [list(line.values()) for line in lines]


def measured(learner: Any, train: Corpus, test: Corpus) -> tuple[dict[str, Any], Any]:
    """F1 in percent, accuracy, and CPU seconds of training."""
    began = time.process_time()
    learner.fit(train)
    seconds = time.process_time() - began
    found = learner.tag(test.X)
    total = chunk_report(test.y, found).total
    return {
        "f1": 100.0 * total.f1,
        "precision": 100.0 * total.precision,
        "recall": 100.0 * total.recall,
        "accuracy": 100.0 * token_accuracy(test.y, found),
        "seconds": seconds,
    }, learner


def tagging_seconds(
    fitted: dict[str, Any], test: Corpus, repeats: int
) -> dict[str, dict[str, Any]]:
    """CPU seconds for the whole test set in turns, and their ratio to crfsuite's."""
    seconds: dict[str, list[float]] = {name: [] for name in fitted}
    for _ in range(repeats):
        for name, learner in fitted.items():
            began = time.process_time()
            learner.tag(test.X)
            seconds[name].append(time.process_time() - began)
    relative = ratios(seconds, "crfsuite, defaults")
    return {
        name: {"seconds": float(np.median(own)), "ratio": relative[name]}
        for name, own in seconds.items()
    }


def pruned(C: float, train: Corpus, test: Corpus) -> dict[str, Any]:
    """Templates left by dual averaging, F1 of that model, and of a second fit."""
    dual = mk.structured.OnlineProximal(update="dual_averaging")
    first, learner = measured(Labeler(C=C, solver=dual), train, test)
    again, second = measured(Labeler(C=C, refit_C=1.0), train, test)
    line = {
        "C": C,
        "left": int(np.count_nonzero(learner.model.kernel_norms_)),
        "itself": first["f1"],
        "refitted": again["f1"],
        "dropped": second.model.dropped_kernels_,
        "plain": int(np.count_nonzero(plain_norms(C, train))),
    }
    show(f"dual averaging, C = {C:g}", list(line), [list(map(str, line.values()))])
    return line


def plain_norms(C: float, train: Corpus) -> np.ndarray:
    """The same penalty by gradient steps, which prune nothing."""
    return Labeler(C=C).fit(train).model.kernel_norms_


def report(results: dict[str, dict[str, Any]]) -> None:
    head = ["F1", "precision", "recall", "accuracy", "CPU seconds"]
    show("test set", ["", *head], [[n, *one.values()] for n, one in results.items()])


if __name__ == "__main__":
    main()
