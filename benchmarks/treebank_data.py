"""The two treebanks of the parsing benchmarks."""

from __future__ import annotations

import manykernels as mk
from manykernels.datasets.download import data_root
from manykernels.structured import Sentence, read_conllu

DUTCH = "ud_dutch_lassysmall/nl_lassysmall-ud-{}.conllu.gz"
PARTS = ("train", "dev", "test")
Treebank = dict[str, list[Sentence]]


def load(language: str, n_sentences: int = 0) -> Treebank:
    """Sentences by part; so many of them to learn from, 0 for all."""
    if language == "english":
        found = mk.datasets.load_ud_english_ewt()
        parts = {part: found[part] for part in PARTS}
    else:
        root = data_root(None)
        parts = {part: read_conllu(root / DUTCH.format(part)) for part in PARTS}
    return parts | {"train": parts["train"][: n_sentences or None]}
