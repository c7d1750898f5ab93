"""Relations: features against plain ones, learning, scores, files, what is kept."""

import json
from dataclasses import replace

import numpy as np
import pytest

import manykernels as mk
from manykernels.files import ModelFileError, read_container, write_container
from manykernels.structured import Sentence, parse_conllu
from manykernels.structured.arc_labeler import ArcLabeler, ArcRelatives
from manykernels.structured.feature_templates import LABEL_TEMPLATES
from manykernels.structured.parsing import ParsingScore
from manykernels.structured.tree_model import PackedWeights
from manykernels.structured.treebank import Vocabulary

FEW = ["h.upos m.upos distance", "h.form m.form direction", "h.upos m.lemma"]
WORDS = {
    "DET": ("the", "a"),
    "NOUN": ("dog", "cat", "man", "tree"),
    "VERB": ("sees", "likes", "eats"),
    "ADP": ("on", "with", "of"),
}


def toy_sentence(rng):
    """det noun verb (det noun)? (adp det noun)?; what "of" marks hangs on nouns."""
    cells = []  # tag, form, head, relation

    def word(tag, head, relation, form=None):
        cells.append((tag, form or str(rng.choice(WORDS[tag])), head, relation))

    word("DET", 2, "det")
    word("NOUN", 3, "nsubj")
    word("VERB", 0, "root")
    if rng.random() < 0.7:
        word("DET", len(cells) + 2, "det")
        word("NOUN", 3, "obj")
    if rng.random() < 0.7:
        form = str(rng.choice(WORDS["ADP"]))
        near = len(cells) if form == "of" else 3
        word("ADP", len(cells) + 3, "case", form)
        word("DET", len(cells) + 2, "det")
        relation = "nmod" if form == "of" and near != 3 else "obl"
        word("NOUN", near, relation)
    tags, forms, heads, relations = zip(*cells, strict=True)
    return Sentence.of(forms, tags, heads, lemmas=forms, deprels=relations)


@pytest.fixture(scope="module")
def toy():
    rng = np.random.default_rng(0)
    return [toy_sentence(rng) for _ in range(120)]


@pytest.fixture(scope="module")
def fitted(toy):
    parser = mk.DependencyParser(FEW, n_epochs=4, memory_limit="5MB", random_state=0)
    return parser.fit(toy[:80])


@pytest.fixture(scope="module")
def unlabeled(toy):
    parser = mk.DependencyParser(
        FEW, label_templates=None, n_epochs=1, memory_limit="1MB", random_state=0
    )
    return parser.fit(toy[:20])


def plain_value(sentence, nodes, node, offset, field):
    place = nodes[node]
    if place is None:
        return "nobody"
    place += offset
    if place < 0:
        return "before"
    if place == 0:
        return "root"
    if place > len(sentence):
        return "after"
    column = {"form": "forms", "lemma": "lemmas", "suffix": "suffixes"}.get(field)
    return getattr(sentence, column or field)[place - 1]


def plain_features(template, sentence, m):
    """What a template shows of the arc into word m, as readable tuples."""
    heads = (None, *sentence.heads)
    h = heads[m]
    children = [c for c in range(1, len(heads)) if heads[c] == m]
    inner = [
        c for c in range(1, len(heads)) if heads[c] == h and min(h, m) < c < max(h, m)
    ]
    nodes = {
        "m": m,
        "h": h,
        "g": heads[h],
        "s": min(inner, key=lambda c: abs(c - m), default=None),
        "l": min(children, default=None),
        "r": max(children, default=None),
    }
    parts = [plain_value(sentence, nodes, *atom) for atom in template.atoms]
    if template.pair == "direction":
        parts.append(m > h)
    if template.pair == "distance":
        edges = (1, 2, 3, 4, 5, 7, 10, 15, 25)
        parts += [m > h, int(np.searchsorted(edges, abs(m - h)))]
    if template.each_field is None:
        return [tuple(parts)]
    marked = {"c": 0}
    field = template.each_field
    return [
        (*parts, plain_value(sentence, marked | {"c": c}, "c", 0, field))
        for c in children
    ]


def test_features_agree_with_plain_ones(toy):
    """The same codes where readable features are the same, and others where not."""
    sentences = toy[:25]
    corpus = Vocabulary.of(sentences).encode(sentences)
    arcs = ArcRelatives.of(corpus, corpus.heads)
    for template in LABEL_TEMPLATES.read("standard"):
        starts, found = arcs.features([template])
        by_feature: dict = {}
        place = 0
        for sentence in sentences:
            for m in range(1, len(sentence) + 1):
                codes = found[starts[place] : starts[place + 1]]
                plain = plain_features(template, sentence, m)
                assert len(codes) == len(plain)
                for code, feature in zip(codes.tolist(), plain, strict=True):
                    assert by_feature.setdefault(feature, code) == code
                place += 1
        assert len(set(by_feature.values())) == len(by_feature)


def test_relations_are_learned(fitted, toy):
    result = fitted.evaluate(toy[80:])
    assert fitted.relations_ == sorted({x for s in toy[:80] for x in s.deprels})
    assert result.las > 0.85
    assert fitted.score(toy[80:], scoring="las") == result.las <= result.uas
    assert fitted.score(toy[80:], scoring="sentences") == result.sentences
    found = fitted.predict(toy[80:])
    right = [
        (a == b, x == y)
        for s, t in zip(toy[80:], found, strict=True)
        for a, b, x, y in zip(s.heads, t.heads, s.deprels, t.deprels, strict=True)
    ]
    assert result.las == pytest.approx(np.mean([a and b for a, b in right]))

    def first_words(true, guess):
        return np.mean(
            [a.heads[0] == b.heads[0] for a, b in zip(true, guess, strict=True)]
        )

    assert fitted.score(toy[80:], scoring=first_words) > 0.9
    with pytest.raises(ValueError, match="scoring must be 'uas', 'las', 'sentences'"):
        fitted.score(toy, scoring="f1")


def test_the_step_is_that_of_a_plain_learner(toy):
    """Passive-aggressive rounds and their mean, with features as dictionaries."""
    sentences = toy[:15]
    corpus = Vocabulary.of(sentences).encode(sentences)
    templates = LABEL_TEMPLATES.read(
        ["h.upos m.upos direction", "m.form", "l.form m.upos"]
    )
    empty = ArcLabeler.empty(templates, sentences, corpus, 10**7)
    learned = empty.learned(sentences, corpus, 3, np.random.default_rng(5))
    starts, codes = ArcRelatives.of(corpus, corpus.heads).features(templates)
    row = {key: f for f, key in enumerate(empty.keys.tolist())}
    relations = [x for s in sentences for x in s.deprels]
    weights, rounds = np.zeros_like(empty.weights), 0
    total = np.zeros(weights.shape)
    rng = np.random.default_rng(5)
    for epoch in range(1, 4):
        if epoch == 2:
            total, rounds = np.zeros(weights.shape), 0
        for i in rng.permutation(np.arange(len(relations))):
            span = codes[starts[i] : starts[i + 1]].tolist()
            own = [row[code] for code in span if code in row]
            # In single precision, one after the other: ties are ties in both.
            scores = sum((weights[f] for f in own), np.zeros(7, np.float32))
            true = empty.relations.index(relations[i])
            rivals = np.where(np.arange(7) == true, -np.inf, scores)
            loss = 1.0 - scores[true] + rivals.max()
            if loss > 0.0 and own:
                size = np.float32(min(0.1 / len(own), loss / (2 * len(own))))
                weights[own, true] += size
                weights[own, int(rivals.argmax())] -= size
            total += weights
            rounds += 1
    np.testing.assert_allclose(learned.weights, total / rounds, atol=1e-5)


def test_relations_fit_into_the_memory(toy):
    corpus = Vocabulary.of(toy).encode(toy)
    templates = LABEL_TEMPLATES.read("standard")
    whole = ArcLabeler.empty(templates, toy, corpus, 10**8)
    small = ArcLabeler.empty(templates, toy, corpus, 20_000)
    assert small.weights.nbytes * 2 <= 20_000 < whole.weights.nbytes * 2
    assert set(small.keys) < set(whole.keys)


def test_sentences_without_relations_teach_heads_only(toy):
    bare = [replace(s, deprels=("_",) * len(s)) for s in toy]
    parser = mk.DependencyParser(FEW, n_epochs=2, memory_limit="1MB", random_state=0)
    parser.fit(bare[:50])
    assert parser.relations_ == []
    assert np.isnan(parser.evaluate(bare[50:]).las)
    half = parser.fit([*toy[:30], *bare[30:60]])
    assert half.relations_ and half.score(toy[60:], scoring="las") > 0.7


def test_what_a_parser_does_not_know_is_kept(unlabeled, toy):
    bare = [replace(s, deprels=("_",) * len(s)) for s in toy]
    guesses = zip(toy, unlabeled.predict(bare), strict=True)
    found = [s for s, guess in guesses if guess.heads != s.heads]
    assert found  # else nothing would have to go
    with pytest.warns(UserWarning, match="relations were removed, of words that have"):
        tree = unlabeled.predict(found[:1])[0]
    for old, new, a, b in zip(
        found[0].heads, tree.heads, found[0].deprels, tree.deprels, strict=True
    ):
        assert b == (a if old == new else "_")


def test_other_columns_stay(fitted):
    text = (
        "# text = a dog sees\n"
        "1-2\tadog\t_\t_\t_\t_\t_\t_\t_\t_\n"
        "1\ta\ta\tDET\t_\tx=y\t3\tdep\t2:det\tz\n"
        "2\tdog\tdog\tNOUN\t_\t_\t3\tdep\t3:nsubj\t_\n"
        "2.1\tbig\tbig\tADJ\t_\t_\t_\t_\t2:amod\t_\n"
        "3\tsees\tsee\tVERB\t_\t_\t0\troot\t0:root\t_\n\n"
    )
    sentences = list(parse_conllu(text))
    found = fitted.predict_conllu(sentences)
    (tree,) = fitted.predict(sentences)
    assert tree.deprels != sentences[0].deprels
    for before, after in zip(text.split("\n"), found.split("\n"), strict=True):
        old, new = before.split("\t"), after.split("\t")
        assert old[:6] == new[:6] and old[8:] == new[8:]


def test_missing_tags_are_told_with_the_accuracy_to_expect(fitted, toy, tmp_path):
    bare = [replace(s, upos=("_",) * len(s)) for s in toy[:3]]
    share = f"{100 * fitted.untagged_score_:.0f} % of the heads to be right"
    told = f"3 of 4 sentences have no tags, of which .* expect about {share}"
    with pytest.warns(UserWarning, match=told):
        fitted.predict([*bare, toy[3]])
    fitted.save(tmp_path / "parser.mk")
    assert mk.load(tmp_path / "parser.mk").untagged_score_ == fitted.untagged_score_


@pytest.mark.filterwarnings("ignore:.*have no tags")
def test_the_accuracy_to_expect_is_that_of_words_alone(fitted, toy):
    words = [Sentence.of(s.forms, heads=s.heads) for s in toy[:80]]
    assert fitted.untagged_score_ == pytest.approx(fitted.score(words))
    assert fitted.untagged_score_ < fitted.score(toy[:80])


def test_without_a_fit_or_tags_no_accuracy_is_promised(toy):
    parser = mk.DependencyParser(FEW, memory_limit="5MB", random_state=0)
    parser.partial_fit(toy[:40])
    assert parser.untagged_score_ is None
    with pytest.warns(UserWarning, match="expect most heads to be wrong"):
        parser.predict([Sentence.of(["a", "dog"])])
    bare = [replace(s, upos=("_",) * len(s)) for s in toy[:40]]
    assert parser.fit(bare).untagged_score_ is None
    parser.predict(bare)  # no warning: it has learned without tags


def test_labeled_scores_need_relations_on_both_sides(unlabeled, fitted, toy):
    """Relations that a parser keeps from its input are no predictions."""
    scores = unlabeled.evaluate(toy[80:])
    assert np.isnan(scores.las) and np.isnan(scores.las_without_punctuation)
    assert scores.uas == unlabeled.score(toy[80:])
    with pytest.raises(ValueError, match="needs a parser that has learned relations"):
        unlabeled.score(toy[80:], scoring="las")
    bare = [replace(s, deprels=("_",) * len(s)) for s in toy[80:]]
    with pytest.raises(ValueError, match="needs sentences with relations, got none"):
        fitted.score(bare, scoring="las")


def test_partial_fit_goes_on_with_relations(toy):
    parser = mk.DependencyParser(FEW, memory_limit="5MB", random_state=0)
    for part in (toy[:40], toy[40:80], toy[:80]):
        parser.partial_fit(part)
    assert [line.epoch for line in parser.history_] == [1, 2, 3]
    assert parser.score(toy[80:], scoring="las") > 0.8


def test_save_and_load(fitted, toy, tmp_path):
    path = tmp_path / "parser.mk"
    fitted.save(path)
    loaded = mk.load(path)
    assert loaded.predict(toy) == fitted.predict(toy)
    assert loaded.relations_ == fitted.relations_
    assert loaded.get_params() == fitted.get_params()
    loaded.partial_fit(toy[:10])
    assert loaded.n_iter_ == fitted.n_iter_ + 1
    assert loaded.score(toy[80:], scoring="las") > 0.8


def test_mixed_up_relations_are_refused(fitted, tmp_path):
    path = tmp_path / "parser.mk"
    fitted.save(path)
    content, arrays = read_container(path)
    labeler = content["fitted"]["_labeler"]
    packed = labeler["packed"]
    changes = [
        {"templates": []},
        {"templates": ["h.word"]},
        {"templates": labeler["templates"][:1] * 2},
        {"relations": labeler["relations"][:-1]},
        {"relations": ["x"] * len(labeler["relations"])},
        {"relations": [1] * len(labeler["relations"])},
        {"keys": packed["values"]},
        {"packed": packed | {"size": packed["size"] + 8}},
        {"packed": packed | {"size": 2**60}},
        {"packed": labeler["keys"]},
    ]
    for change in changes:
        forged = {**content["fitted"], "_labeler": labeler | change}
        write_container(path, {**content, "fitted": forged}, arrays)
        with pytest.raises(ModelFileError):
            mk.load(path)
    falling = [a[::-1].copy() if a.dtype == np.int64 else a for a in arrays]
    write_container(path, content, falling)
    with pytest.raises(ModelFileError, match="keys"):
        mk.load(path)


def test_compressed_parsers_are_small_and_nearly_as_good(fitted, toy, tmp_path):
    small = fitted.compressed(keep=0.5)
    assert small.n_features_ <= 0.5 * fitted.n_features_ + 1
    largest = np.sort(np.abs(fitted._model.weights))[-small.n_features_ :]
    np.testing.assert_allclose(
        np.sort(np.abs(small._model.weights))[-small.n_features_ :], largest, rtol=1e-3
    )
    sizes = {}
    for name, parser in (("whole", fitted), ("small", small)):
        parser.save(tmp_path / name)
        sizes[name] = (tmp_path / name).stat().st_size
    assert sizes["small"] < 0.7 * sizes["whole"]
    loaded = mk.load(tmp_path / "small")
    assert loaded.predict(toy) == small.predict(toy)
    np.testing.assert_array_equal(loaded._model.weights, small._model.weights)
    before = fitted.score(toy[80:], scoring="las")
    assert small.score(toy[80:], scoring="las") > before - 0.05
    same = fitted.compressed(keep=1.0, half=False)
    assert same.predict(toy) == fitted.predict(toy)
    for bad in ({"keep": 0.0}, {"keep": 1.5}, {"half": 2}):
        with pytest.raises(ValueError, match=f"{next(iter(bad))} must be"):
            fitted.compressed(**bad)


def test_packed_weights_round_trip():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=1001).astype(np.float32) * (rng.random(1001) < 0.3)
    weights = weights.astype(np.float32)
    packed = PackedWeights.of(weights)
    assert packed.values.dtype == np.float32
    np.testing.assert_array_equal(packed.weights(), weights)
    half = weights.astype(np.float16).astype(np.float32)
    assert PackedWeights.of(half).values.dtype == np.float16
    np.testing.assert_array_equal(PackedWeights.of(half).weights(), half)


@pytest.mark.parametrize("text", ["", "x.form", "m.upos m.upos", "children.x"])
def test_bad_label_templates(text):
    with pytest.raises(ValueError, match="in a label template, got"):
        LABEL_TEMPLATES.parse(text)


def test_label_templates_round_trip():
    for template in LABEL_TEMPLATES.read("standard"):
        assert LABEL_TEMPLATES.parse(str(template)) == template


def test_scores_are_counted_with_and_without_punctuation():
    true = Sentence.of("abc", ["X", "Y", "PUNCT"], [2, 0, 2], deprels=["x", "y", "p"])
    guess = replace(true, heads=(2, 0, 1), deprels=("z", "y", "p"))
    found = ParsingScore.of([true], [guess])
    assert found == pytest.approx((2 / 3, 1 / 3, 1.0, 0.5, 0.0))
    assert json.dumps(found._asdict())
