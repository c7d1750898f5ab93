"""UDPipe 1's parser on the same treebanks, with the same gold tags, as a baseline.

Training takes long and prints UDPipe's own progress; dev decides when to stop. Models
stay in a folder, each beside a note of what made it; those that are there already are
not trained again, and treebanks that are not asked for stay as they were in the last
result. Scores are counted as our own are.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import evidence
from common import in_own_process, parse, save, show
from treebank_data import load

from manykernels.structured import Sentence, format_conllu
from manykernels.structured.conllu import without_trees
from manykernels.structured.parsing import ParsingScore

SETTINGS = (
    "iterations={};use_gold_tags=1;transition_system=swap;"
    "transition_oracle=static_lazy;embedding_xpostag=0;embedding_lemma=50"
)
PARTS = ("dev", "test")


def main() -> None:
    """Train, or measure, print and store."""
    options = parse(
        __doc__,
        folder=("", "where models are kept; by default they are thrown away"),
        languages=("english,dutch", "treebanks"),
        iterations=(10, "passes of the training over the sentences"),
    )
    folder = options.folder or tempfile.mkdtemp()
    results = {}
    for language in options.languages.split(","):
        if not all(path.is_file() for path in _files(folder, language)):
            in_own_process(train, folder, language, options.iterations)
        results[language] = in_own_process(measure, folder, language)
    results = last_results() | results
    # The folder is the user's own affair; UDPipe's training takes no seed.
    kept = {"languages": options.languages}
    save("treebank_udpipe", options=kept, seeds=[], results=results)
    rows = [
        [name, one["cpu"], *(100.0 * one[p][s] for p in PARTS for s in ("uas", "las"))]
        for name, one in results.items()
    ]
    head = ["", "CPU, s", "dev UAS", "LAS", "test UAS", "LAS"]
    show("UDPipe 1: attachment scores, %", head, rows)


def last_results() -> dict[str, Any]:
    """Of all treebanks that have been measured."""
    path = evidence.RESULTS / "treebank_udpipe.json"
    return json.loads(path.read_text("utf-8"))["results"] if path.exists() else {}


def train(folder: str, language: str, iterations: int) -> None:
    """UDPipe's transition parser with gold tags."""
    import ufal.udpipe as ufal

    treebank = load(language)
    error, settings = ufal.ProcessingError(), SETTINGS.format(iterations)
    data = [_as_udpipe(treebank[part]) for part in ("train", "dev")]
    nothing = ufal.Trainer.NONE
    began = time.process_time()
    content = ufal.Trainer.train(
        "morphodita_parsito", *data, nothing, nothing, settings, error
    )
    seconds = time.process_time() - began
    if error.occurred():
        raise RuntimeError(f"UDPipe was not trained: {error.message}.")
    model, note = _files(folder, language)
    model.parent.mkdir(parents=True, exist_ok=True)
    model.write_bytes(content)
    made = {
        "settings": settings,
        "cpu": seconds,
        "train_sentences": len(treebank["train"]),
        "dev_sentences": len(treebank["dev"]),
        "version": version("ufal.udpipe"),
        "commit": evidence.commit(),
    }
    note.write_text(json.dumps(made, indent=2) + "\n", "utf-8")


def measure(folder: str, language: str) -> dict[str, Any]:
    """What the note says, the file's size, and attachment scores."""
    import ufal.udpipe as ufal

    treebank = load(language)
    file, note = _files(folder, language)
    model, made = ufal.Model.load(str(file)), json.loads(note.read_text("utf-8"))
    sizes = [len(treebank[part]) for part in ("train", "dev")]
    if sizes != [made["train_sentences"], made["dev_sentences"]]:
        raise ValueError(
            f"expected a model from the same sentences, got another in {note.name}; "
            "choose an empty folder."
        )
    made["mb"] = file.stat().st_size / 1e6
    for part in PARTS:
        began = time.process_time()
        made[part] = _score(model, treebank[part])._asdict()
        made["words_parsed_per_cpu_second"] = sum(map(len, treebank[part])) / (
            time.process_time() - began
        )
    return made


def _files(folder: str, language: str) -> tuple[Path, Path]:
    return tuple(Path(folder) / f"udpipe_{language}.{end}" for end in ("bin", "json"))


def _as_udpipe(sentences: list[Sentence]) -> Any:
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


def _score(model: Any, sentences: list[Sentence]) -> ParsingScore:
    """Attachment scores of UDPipe's trees, counted as ours are."""
    trees = []
    others = _as_udpipe(without_trees(sentences))
    for sentence, other in zip(sentences, others, strict=True):
        model.parse(other, model.DEFAULT)
        words = list(other.words)[1:]
        heads, relations = (
            tuple(getattr(word, name) for word in words) for name in ("head", "deprel")
        )
        trees.append(replace(sentence, heads=heads, deprels=relations))
    return ParsingScore.of(sentences, trees)


if __name__ == "__main__":
    main()
