"""Text without tags: a tagger and a parser learned in one call."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import manykernels as mk
from manykernels.cli import app
from manykernels.cli.tagging import words_as_tokens
from manykernels.trees import Sentence, read_conllu, write_conllu

WORDS = {
    "DET": ("the", "a", "this"),
    "NOUN": ("dogs", "cats", "trees", "men"),
    "VERB": ("seeing", "liking", "eating"),
}


@pytest.fixture(scope="module")
def treebank():
    rng = np.random.default_rng(0)
    sentences = []
    for _ in range(60):
        tags = ["DET", "NOUN", "VERB", "DET", "NOUN"][: int(rng.choice([3, 5]))]
        forms = [str(rng.choice(WORDS[tag])) for tag in tags]
        heads, relations = [2, 3, 0, 5, 3], ["det", "nsubj", "root", "det", "obj"]
        n = len(tags)
        sentences.append(
            Sentence.of(
                forms, tags, heads[:n], lemmas=forms, xpos=tags, deprels=relations[:n]
            )
        )
    return sentences


def call(*arguments, code=0):
    result = CliRunner().invoke(app, ["parse", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_tagger_and_parser_in_one_call(treebank, tmp_path):
    train, test, new = (
        tmp_path / f"{name}.conllu" for name in ("train", "test", "new")
    )
    model, tagger, out = (tmp_path / name for name in ("p.mk", "t.mk", "out.conllu"))
    write_conllu(train, treebank[:40])
    write_conllu(test, treebank[40:])
    bare = [Sentence.of(s.forms) for s in treebank[40:]]
    write_conllu(new, [replace(s, misc=("kept",) * len(s)) for s in bare])
    small = ["--templates", "h.upos m.upos distance; h.upos m.form", "--seed", "0"]
    call("--train", train, "-m", model, "--tag", tagger, "--epochs", 3, *small)
    assert mk.load(tagger).predict(words_as_tokens(bare[:1]))[0].tolist()[0] == "DET"
    # The parser has learned from what a tagger gives, and from nothing else.
    assert mk.load(model)._model.layout.vocabulary.values[1] == ("_",)
    scores = json.loads(
        call(test, "-m", model, "--tag", tagger, "--score", "--json").stdout
    )
    assert scores["las"] > 0.9
    call(new, "-m", model, "--tag", tagger, "-o", out)
    found = read_conllu(out)
    right = [
        (a, x, t) == (b, y, u)
        for s, g in zip(treebank[40:], found, strict=True)
        for a, b, x, y, t, u in zip(
            s.heads, g.heads, s.deprels, g.deprels, s.upos, g.upos, strict=True
        )
    ]
    assert np.mean(right) > 0.9
    assert all(set(s.misc) == {"kept"} for s in found)


def test_taggers_need_tags_and_a_file_of_their_own(treebank, tmp_path):
    train, model = tmp_path / "train.conllu", tmp_path / "p.mk"
    write_conllu(train, [replace(s, upos=("_",) * len(s)) for s in treebank[:5]])
    told = call("--train", train, "-m", model, "--tag", tmp_path / "t.mk", code=2)
    assert "expected tags in the fourth column of --train, got none" in " ".join(
        told.stderr.split()
    )
    told = call("--train", train, "-m", model, "--tag", model, code=2)
    assert "--tag must be a file of its own" in " ".join(told.stderr.split())
