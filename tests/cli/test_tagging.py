"""Text without tags: a tagger and a parser learned in one call."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import manykernels as mk
from manykernels.cli import app
from manykernels.cli.parse import (
    evaluate_tagged,
    new_tagger,
    words_and_tags,
    words_as_tokens,
)
from manykernels.structured import Sentence, read_conllu, write_conllu

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
    assert scores["las"] > 0.9 and scores["tags"] > 0.9
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


def test_scores_with_a_tagger_count_the_punctuation_of_the_file(treebank, tmp_path):
    stop = Sentence.of(["."], ["PUNCT"], [3], deprels=["punct"])
    ended = [joined(s, stop) for s in treebank]
    tagger = new_tagger(random_state=0)
    tagger.fit(words_as_tokens(ended), [np.array(s.upos) for s in ended])
    parser = mk.DependencyParser(
        ["h.upos m.upos"], memory_limit="1MB", n_epochs=2, random_state=0
    ).fit(words_and_tags(ended))
    wrong = [replace(s, upos=("X",) * len(s)) for s in ended]
    scores = evaluate_tagged(parser, wrong, tagger)
    assert scores["tags"] == 0.0
    assert scores["uas"] == scores["uas_without_punctuation"]
    bare = [replace(s, upos=("_",) * len(s)) for s in ended]
    scores = evaluate_tagged(parser, bare, tagger)
    assert np.isnan(scores["tags"])
    found = parser.evaluate(words_and_tags(ended)).uas_without_punctuation
    assert scores["uas_without_punctuation"] == pytest.approx(found)


def joined(first, second):
    names = ("forms", "lemmas", "upos", "xpos", "feats", "heads", "deprels", "misc")
    return Sentence(*(getattr(first, n) + getattr(second, n) for n in names))


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_files_without_sentences_are_told_in_one_sentence(treebank, tmp_path, content):
    train, model, tagger = (tmp_path / n for n in ("train.conllu", "p.mk", "t.mk"))
    empty = tmp_path / "empty.conllu"
    write_conllu(train, treebank[:10])
    empty.write_text(content)
    few = ["--templates", "h.upos m.upos; h.form m.form", "--epochs", 2]
    call("--train", train, "-m", model, "--tag", tagger, *few)
    for words in (
        [empty, "-m", model],
        [empty, "-m", model, "--tag", tagger],
        [empty, "-m", model, "--score"],
        ["--train", empty, "-m", tmp_path / "new.mk"],
        ["--train", empty, "-m", tmp_path / "new.mk", "--tag", tmp_path / "other.mk"],
    ):
        told = " ".join(call(*words, code=2).stderr.split())
        assert "expected sentences in '" in told and "got none; check the file" in told
    result = CliRunner().invoke(app, ["parse", "-", "-m", str(model)], input=content)
    assert "expected sentences in standard input, got none" in result.stderr


def test_files_can_be_small(treebank, tmp_path):
    train, whole, small = (tmp_path / n for n in ("train.conllu", "p.mk", "s.mk"))
    write_conllu(train, treebank)
    settings = ["--epochs", 2, "--seed", 0, "--memory-limit", "10MB"]
    call("--train", train, "-m", whole, *settings)
    call("--train", train, "-m", small, "--keep", 0.25, *settings)
    expected = mk.load(whole).compressed(0.25)
    assert mk.load(small).n_features_ == expected.n_features_
    assert mk.load(small).predict(treebank) == expected.predict(treebank)
    assert small.stat().st_size < whole.stat().st_size
    told = call("--train", train, "-m", small, "--keep", 2, code=2)
    assert "--keep must be a number in (0, 1], got 2" in told.stderr


def test_one_word_is_a_tree(treebank, tmp_path):
    train, one, model, tagger = (
        tmp_path / n for n in ("train.conllu", "one.conllu", "p.mk", "t.mk")
    )
    write_conllu(train, treebank[:10])
    write_conllu(one, [Sentence.of(["seeing"])])
    few = ["--templates", "h.upos m.upos; h.form m.form", "--epochs", 2]
    call("--train", train, "-m", model, "--tag", tagger, *few)
    told = call(one, "-m", model)
    assert told.stderr.startswith("Warning: 1 of 1 sentences have no tags")
    assert told.stderr.count("\n") == 1  # and no line of source code
    assert told.stdout.split("\t")[6:8] == ["0", "root"]
    told = call(one, "-m", model, "--tag", tagger)
    assert not told.stderr
    assert told.stdout.split("\t")[3:8] == ["VERB", "_", "_", "0", "root"]


def test_taggers_need_tags_and_a_file_of_their_own(treebank, tmp_path):
    train, model = tmp_path / "train.conllu", tmp_path / "p.mk"
    write_conllu(train, [replace(s, upos=("_",) * len(s)) for s in treebank[:5]])
    told = call("--train", train, "-m", model, "--tag", tmp_path / "t.mk", code=2)
    assert "expected tags in the fourth column of --train, got none" in " ".join(
        told.stderr.split()
    )
    told = call("--train", train, "-m", model, "--tag", model, code=2)
    assert "--tag must be a file of its own" in " ".join(told.stderr.split())
