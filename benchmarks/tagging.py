"""Tagging the test sentences of CoNLL-2000 next to crfsuite, in turns.

CPU seconds for all of them, with the settings that chunking.py has chosen and with the
defaults. Needs the data files, python-crfsuite and a result of chunking.py.
"""

from __future__ import annotations

from chunking import EDGES, Corpus, CRFSuite, Labeler, tagging_seconds
from common import console, parse, save, show
from evidence import load


def main() -> None:
    options = parse(__doc__ or "", repeats=(25, "runs of tagging"))
    train, test = Corpus.read("train"), Corpus.read("test")
    chosen = load("chunking")["chosen"]
    learners = {
        "chosen": Labeler(
            C=chosen["C"], loss=chosen["loss"], edges=EDGES if chosen["edges"] else None
        ),
        "defaults": Labeler(),
        "defaults with edges": Labeler(edges=EDGES),
        "crfsuite, defaults": CRFSuite(),
    }
    for learner in learners.values():
        learner.fit(train)
    console.print("Learned; tagging begins.")
    found = tagging_seconds(learners, test, options.repeats)
    rows = [
        [name, one["seconds"], *(one["ratio"][key] for key in ("q25", "median", "q75"))]
        for name, one in found.items()
    ]
    show("tagging", ["", "CPU seconds", "ratio, q25", "median", "q75"], rows)
    tokens = sum(map(len, test.y))
    save("tagging", seeds=[0], tokens=tokens, tagging=found)


if __name__ == "__main__":
    main()
