"""Templates, the compiled learner against a plain one, and the parser as a whole."""

import json
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

import manykernels as mk
from manykernels.cli import app
from manykernels.files import ModelFileError, read_container, write_container
from manykernels.hot import arcs
from manykernels.hot import tree_pass as hot
from manykernels.norms.proximity import (
    prox_group_lasso,
    prox_sparse_mkl,
    prox_squared_l2,
)
from manykernels.norms.regularizers import REGULARIZERS, named_regularizer
from manykernels.structured import (
    OnlineProximal,
    Sentence,
    TreeDecoder,
    parse_conllu,
    read_conllu,
    write_conllu,
)
from manykernels.structured.feature_templates import ARC_TEMPLATES
from manykernels.structured.structured_problem import CRF, StructuredHinge
from manykernels.structured.tree_learning import TreeDescent, TreeProblem, TreeState
from manykernels.structured.tree_model import ArcReach, compile_templates, table_bits
from manykernels.structured.treebank import Vocabulary

FEW = [
    "h.upos m.upos distance",
    "h.form m.form direction",
    "h-1.upos h.upos m.lemma",
    "h.upos m.upos between.upos direction",
    "m.upos m+2.xpos distance",
]
PROX = {
    "squared_l2": prox_squared_l2,
    "group_lasso": prox_group_lasso,
    "sparse_mkl": prox_sparse_mkl,
}


def toy_sentence(rng) -> Sentence:
    """det? adj* noun verb (det noun)? punct?, with the usual heads."""
    words: list[tuple[str, str, int]] = []

    def phrase(verb_place):
        n_adj = int(rng.integers(0, 3))
        noun = len(words) + n_adj + 2
        words.append((str(rng.choice(["the", "a"])), "DET", noun))
        words.extend((f"adj{rng.integers(5)}", "ADJ", noun) for _ in range(n_adj))
        words.append((f"noun{rng.integers(8)}", "NOUN", verb_place))

    phrase(-1)
    verb = len(words) + 1
    words[-1] = (*words[-1][:2], verb)
    words.append((f"verb{rng.integers(6)}", "VERB", 0))
    if rng.random() < 0.7:
        phrase(verb)
    if rng.random() < 0.8:
        words.append((".", "PUNCT", verb))
    forms, tags, heads = zip(*words, strict=True)
    return Sentence.of(forms, tags, heads, lemmas=forms, xpos=[t[:2] for t in tags])


@pytest.fixture(scope="module")
def toy():
    rng = np.random.default_rng(0)
    return [toy_sentence(rng) for _ in range(80)]


@pytest.fixture(scope="module")
def fitted(toy):
    parser = mk.DependencyParser(FEW, n_epochs=3, memory_limit="1MB", random_state=0)
    return parser.fit(toy[:50])


# --- templates -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["standard", "full"])
def test_templates_round_trip_and_differ(name):
    templates = ARC_TEMPLATES.read(name)
    assert len({str(t) for t in templates}) == len(templates)
    assert [ARC_TEMPLATES.parse(str(t)) for t in templates] == list(templates)


def test_the_papers_templates_look_at_words_lemmas_and_tags_alone():
    full = ARC_TEMPLATES.read("full")
    assert len(full) == 507 and all(t.third_node is None for t in full)
    assert not any("feats" in str(t) or "suffix" in str(t) for t in full)


@pytest.mark.parametrize(
    "text",
    [
        *("", "h.word", "h+3.upos", "distance distance", "h.upos h.upos", "x.form"),
        *("g.upos s.upos m.upos", "s.upos m.upos between.upos"),
    ],
)
def test_bad_templates(text):
    with pytest.raises(ValueError, match="expected words such as h.form"):
        ARC_TEMPLATES.read([text])


@pytest.mark.parametrize("choice", ["most", [], ["h.upos", "h.upos"]])
def test_bad_template_sets(choice):
    with pytest.raises(ValueError, match="templates must be"):
        ARC_TEMPLATES.read(choice)


def test_tables_fit_into_the_limit(toy):
    vocabulary = Vocabulary.of(toy)
    reach = ArcReach.of(vocabulary.encode(toy), vocabulary.sizes, False)
    sizes, full = [], ARC_TEMPLATES.read("full")
    for limit in (2 * 10**6, 10**7, 10**9):
        bits = table_bits(full, [20_000, 15_000, 21, 54], limit)
        compiled = compile_templates(full, bits, reach)
        assert compiled.start[-1] * 8 <= limit
        assert (2 ** (32 - compiled.shift.astype(int)) == np.diff(compiled.start)).all()
        sizes.append(compiled.start[-1])
    assert sizes[0] < sizes[1] < sizes[2]
    with pytest.raises(ValueError, match="memory_limit must allow at least"):
        table_bits(full, vocabulary.sizes, 1000)


# --- the compiled learner --------------------------------------------------------


class TreeRule(NamedTuple):
    """What is minimized, and how."""

    loss: str = "hinge"
    penalty: str | None = None
    passive_aggressive: bool = True
    step: float = 1.0
    reg: float = 0.0
    single_root: bool = True
    dual_averaging: bool = False

    def begin(self, corpus, compiled, state=None):
        terms = named_regularizer(self.penalty).terms() if self.penalty else ()
        loss = CRF() if self.loss == "crf" else StructuredHinge()
        n = len(corpus.starts) - 1
        C = 1.0 / (self.reg * n) if self.reg else np.inf
        problem = TreeProblem(corpus, compiled, loss, terms, C, self.single_root)
        update = "dual_averaging" if self.dual_averaging else "gradient"
        update = "passive_aggressive" if self.passive_aggressive else update
        method = OnlineProximal(update=update, eta0=self.step)
        return TreeDescent(problem, method, state)


def some_rounds(descent, order):
    """The passes' steps go on where the last rounds ended."""
    state = descent.state
    state.n_epochs += 1
    steps = descent.method.steps(descent.problem, state.n_epochs, state.n_steps)
    steps = np.resize(steps, len(order))
    return descent.run_pass(order, steps)


class Exact:
    """Features as readable tuples, one dictionary of weights per template."""

    def __init__(self, templates, vocabulary):
        self.templates = [ARC_TEMPLATES.parse(text) for text in templates]
        self.vocabulary = vocabulary
        self.weights = [{} for _ in templates]
        self.sums = [{} for _ in templates]  # of gradients, for dual averaging
        self.passes = 0.0

    def value(self, sentence, place, field):
        column = {"form": "forms", "lemma": "lemmas"}.get(field, field)
        if place < 0:
            return "before"
        if place == 0:
            return "root"
        if place > len(sentence):
            return "after"
        return getattr(sentence, column)[place - 1]

    def features(self, template, sentence, h, m):
        parts = [
            self.value(sentence, place + offset, field)
            for place, node in ((h, "h"), (m, "m"))
            for offset, field in template.side(node)
        ]
        if template.pair is not None:
            parts.append(m > h)
        if template.pair == "distance":
            parts.append(int(np.searchsorted(arcs.BIN_EDGES, abs(m - h))))
        if template.each_field is None:
            return [tuple(parts)]
        tags = {
            self.value(sentence, k, template.each_field)
            for k in range(min(h, m) + 1, max(h, m))
        }
        return [(*parts, tag) for tag in sorted(tags)]

    def scores(self, sentence):
        n = len(sentence)
        scores = np.zeros((n + 1, n + 1))
        for h, m in np.ndindex(n + 1, n + 1):
            if m == 0 or h == m:
                continue
            for template, weights in zip(self.templates, self.weights, strict=True):
                found = self.features(template, sentence, h, m)
                scores[h, m] += sum(weights.get(f, 0.0) for f in found)
        return scores

    def norms(self, groups=None):
        groups = self.weights if groups is None else groups
        return np.array([np.sqrt(sum(v * v for v in w.values())) for w in groups])

    def changes(self, sentence, rule):
        """Loss, and {(h, m): change}."""
        scores = self.scores(sentence)
        gold = np.array(sentence.heads)
        change: dict[tuple[int, int], float] = {}
        if rule.loss == "hinge":
            best, _ = TreeDecoder(scores, rule.single_root).best(gold)
            loss = 0.0
            for m, (g, b) in enumerate(zip(gold, best, strict=True), 1):
                if g != b:
                    loss += scores[b, m] + 1.0 - scores[g, m]
                    change[g, m], change[b, m] = 1.0, -1.0
            return loss, change
        found = TreeDecoder(scores, rule.single_root).marginals()
        loss = found.log_partition
        for m, g in enumerate(gold, 1):
            loss -= scores[g, m]
            for h in range(len(scores)):
                value = float(h == g) - found.arcs[h, m]
                if abs(value) > hot.NEGLIGIBLE_MARGINAL:
                    change[h, m] = value
        return loss, change

    def round(self, sentence, rule, step):
        """One step along the loss, one proximal step; returns the loss."""
        loss, change = self.changes(sentence, rule)
        deltas = []
        for template in self.templates:
            delta: dict[tuple, float] = {}
            for (h, m), value in change.items():
                for f in self.features(template, sentence, h, m):
                    delta[f] = delta.get(f, 0.0) + value
            deltas.append(delta)
        if rule.dual_averaging:
            self.average_gradients(deltas, rule, step)
            return loss
        n_templates = len(self.templates)
        size = step / n_templates
        if rule.passive_aggressive:
            square = sum(v * v for delta in deltas for v in delta.values())
            size = min(size, loss / square) if square else 0.0
        for weights, delta in zip(self.weights, deltas, strict=True):
            for f, v in delta.items():
                weights[f] = weights.get(f, 0.0) + size * v
        if rule.penalty is not None:
            norms = self.norms() * np.sqrt(n_templates)
            kept = PROX[rule.penalty](norms, step * rule.reg)
            for weights, old, new in zip(self.weights, norms, kept, strict=True):
                for f in weights:
                    weights[f] *= new / old if old > 0.0 else 0.0
        return loss

    def average_gradients(self, deltas, rule, step):
        """w = prox(a * sum of gradients), a = step / sqrt(passes)."""
        n_templates = len(self.templates)
        for sums, delta in zip(self.sums, deltas, strict=True):
            for f, v in delta.items():
                sums[f] = sums.get(f, 0.0) + v / n_templates
        self.passes += 1.0 / N_LEARNT
        a = step / np.sqrt(self.passes)
        norms = a * self.norms(self.sums) * np.sqrt(n_templates)
        due = a * rule.reg * self.passes * N_LEARNT
        kept = PROX[rule.penalty](norms, due)
        factors = np.divide(kept, norms, out=np.zeros_like(norms), where=norms > 0.0)
        self.weights = [
            {f: a * factor * v for f, v in sums.items()}
            for factor, sums in zip(factors, self.sums, strict=True)
        ]


N_LEARNT = 12  # sentences that the plain learner sees
RULES = [
    TreeRule(),
    TreeRule(step=0.05, single_root=False),
    TreeRule(passive_aggressive=False, step=0.5),
    TreeRule("crf", None, False, 0.5),
    TreeRule("hinge", "squared_l2", False, 0.5, 0.3),
    TreeRule("hinge", "group_lasso", False, 0.5, 0.05),
    TreeRule("hinge", "sparse_mkl", False, 0.5, 0.3),
    # Strong penalties, which take templates out and let them come back; the hinge loss
    # would have many trees of equal scores here.
    TreeRule("crf", "group_lasso", False, 0.5, 1.2),
    TreeRule("crf", "sparse_mkl", False, 0.5, 4.0),
    TreeRule("crf", "group_lasso", False, 0.5, 1.2, dual_averaging=True),
    TreeRule("crf", "sparse_mkl", False, 0.5, 4.0, dual_averaging=True),
    TreeRule("crf", "squared_l2", False, 0.5, 0.3, dual_averaging=True),
]


def parts(rule, order):
    """Rounds of the same step: many, unless steps of the same length lead to ties."""
    ties = rule.loss == "hinge" and rule.penalty is None
    return np.split(order, len(order)) * 2 if ties else [order, order[::-1].copy()]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_learner_follows_the_plain_one(toy, rule):
    """Scores, losses, group norms, last and averaged model, round by round."""
    sentences = toy[:N_LEARNT]
    vocabulary = Vocabulary.of(sentences)
    corpus = vocabulary.encode(sentences)
    reach = ArcReach.of(corpus, vocabulary.sizes, False)
    # Tables so large that no two features share a place.
    templates = tuple(ARC_TEMPLATES.parse(text) for text in FEW)
    bits = table_bits(templates, [2**10] * 4, 2**28)
    compiled = compile_templates(templates, bits, reach)
    state, plain = TreeState(compiled), Exact(FEW, vocabulary)
    total: list[dict] = [{} for _ in FEW]
    ever_pruned = np.zeros(len(FEW), bool)
    rng = np.random.default_rng(1)
    for part in parts(rule, rng.permutation(len(sentences))):
        # Steps of odd lengths: equal scores would be decided by rounding.
        uneven = rule._replace(step=rule.step * rng.uniform(0.5, 1.0))
        expected, step = 0.0, uneven.step
        if not (rule.passive_aggressive or rule.dual_averaging):
            step /= np.sqrt(state.n_epochs + 1)
        for i in part:
            expected += plain.round(sentences[i], uneven, step)
            ever_pruned |= plain.norms() == 0.0
            for sums, weights in zip(total, plain.weights, strict=True):
                for f, v in weights.items():
                    sums[f] = sums.get(f, 0.0) + v
        descent = uneven.begin(corpus, compiled, state)
        loss, _ = some_rounds(descent, part)
        assert loss == pytest.approx(expected, rel=1e-4)
        np.testing.assert_allclose(state.block_norms(), plain.norms(), rtol=1e-4)
    if rule.reg > 1.0:
        assert ever_pruned.any()  # else the test would not try what is delicate
    both = ((descent.weights(), plain.weights), (descent.average(), total))
    for weights, model in both:
        check = Exact(FEW, vocabulary)
        rounds = state.n_averaged if model is total else 1
        check.weights = [
            {f: v / rounds for f, v in w.items()} if norm > 0.0 else {}
            for w, norm in zip(model, plain.norms(), strict=True)
        ]
        for i in range(3):
            found = arcs.arc_scores(corpus, compiled, weights, np.ones(len(FEW)), i)
            exact = check.scores(sentences[i])
            off_diagonal = ~np.eye(len(exact), dtype=bool)
            off_diagonal[:, 0] = False
            np.testing.assert_allclose(
                found[off_diagonal], exact[off_diagonal], rtol=1e-3, atol=1e-5
            )


PENALTIES = [
    *(name for name in REGULARIZERS if name != "sparse_group_lasso"),
    mk.norms.SquaredPNorm(1.3),
    mk.norms.OverlappingGroups([(0, 1, 2), (2,), (3, 4)], [1.0, 0.5, 2.0]),
    mk.norms.SumOf([mk.norms.GroupLasso(), mk.norms.SquaredL2()], [0.3, 1.0]),
]


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_parsers_take_every_regularizer_of_norms(toy, penalty, tmp_path):
    parser = mk.DependencyParser(
        FEW, regularizer=penalty, n_epochs=2, memory_limit="1MB", random_state=0
    ).fit(toy[:30])
    assert parser.score(toy[50:]) > 0.8
    parser.save(tmp_path / "parser.mk")
    assert mk.load(tmp_path / "parser.mk").get_params() == parser.get_params()


def test_template_norms_by_epoch(toy):
    settings = {"memory_limit": "1MB", "random_state": 0, "n_epochs": 4}
    parser = mk.DependencyParser(FEW, **settings).fit(toy[:30])
    assert parser.template_history_.shape == (4, len(FEW))
    assert (parser.template_history_ > 0.0).all()
    last = mk.DependencyParser(FEW, solver=OnlineProximal(average=False), **settings)
    last.fit(toy[:30])
    np.testing.assert_allclose(
        last.template_history_[-1], last.template_weights_, rtol=1e-5
    )
    parser.partial_fit(toy[:30])
    assert parser.template_history_.shape == (5, len(FEW))


@pytest.mark.parametrize("dual_averaging", [False, True])
def test_long_runs_keep_the_average_exact(toy, dual_averaging):
    """Hundreds of rescalings and resets must not wear the average out."""
    rule = TreeRule(
        "hinge", "sparse_mkl", False, 1.0, 0.3, dual_averaging=dual_averaging
    )
    sentences = toy[:10]
    vocabulary = Vocabulary.of(sentences)
    corpus = vocabulary.encode(sentences)
    reach = ArcReach.of(corpus, vocabulary.sizes, False)
    templates = tuple(ARC_TEMPLATES.parse(text) for text in FEW)
    bits = table_bits(templates, vocabulary.sizes, 10**6)
    compiled = compile_templates(templates, bits, reach)
    descent = rule.begin(corpus, compiled)
    state = descent.state
    total = np.zeros(compiled.start[-1])
    rng = np.random.default_rng(0)
    for _ in range(300):
        some_rounds(descent, rng.integers(10, size=1))
        total += descent.weights()
    mean = total / state.n_steps
    gone = np.repeat(state.block_norms() == 0.0, np.diff(compiled.start))
    mean[gone] = 0.0
    np.testing.assert_allclose(descent.average(), mean, rtol=1e-3, atol=1e-6)


def test_gradient_steps_may_follow_dual_averaging_but_not_the_reverse(toy):
    dual = TreeRule("hinge", "sparse_mkl", False, 1.0, 0.3, dual_averaging=True)
    single = dual._replace(penalty=None, dual_averaging=False)
    vocabulary = Vocabulary.of(toy[:10])
    corpus = vocabulary.encode(toy[:10])
    reach = ArcReach.of(corpus, vocabulary.sizes, False)
    templates = tuple(ARC_TEMPLATES.parse(text) for text in FEW)
    bits = table_bits(templates, vocabulary.sizes, 10**6)
    compiled = compile_templates(templates, bits, reach)
    descent = dual.begin(corpus, compiled)
    some_rounds(descent, np.arange(10))
    state, before = descent.state, descent.weights()
    gone = state.block_norms() == 0.0
    assert gone.any() and not gone.all()
    after = single.begin(corpus, compiled, state)  # no round, only another meaning
    np.testing.assert_allclose(after.weights(), before, rtol=1e-6)
    for start in (state, TreeState(compiled, before)):
        with pytest.raises(ValueError, match="dual averaging must start from zero"):
            dual.begin(corpus, compiled, start)


# --- the parser ------------------------------------------------------------------


def test_learns_the_grammar(fitted, toy):
    result = fitted.evaluate(toy[50:])
    assert result.uas > 0.9
    assert fitted.score(toy[50:]) == result.uas
    assert fitted.score(toy[50:], punctuation=False) == result.uas_without_punctuation


def test_score_counts_words(fitted, toy):
    trees = fitted.predict(toy[50:])
    pairs = [
        (g == p, tag)
        for s, found in zip(toy[50:], trees, strict=True)
        for g, p, tag in zip(s.heads, found.heads, s.upos, strict=True)
    ]
    inner = [right for right, tag in pairs if tag != "PUNCT"]
    assert len(inner) < len(pairs)
    result = fitted.evaluate(toy[50:])
    assert result.uas == pytest.approx(np.mean([right for right, _ in pairs]))
    assert result.uas_without_punctuation == pytest.approx(np.mean(inner))


def test_predictions_are_the_best_trees(fitted, toy):
    for sentence, found in zip(toy[50:], fitted.predict(toy[50:]), strict=True):
        scores = fitted.arc_scores(sentence)
        np.fill_diagonal(scores, 0.0)
        np.testing.assert_array_equal(TreeDecoder(scores).best()[0], found.heads)


def test_gold_heads_are_not_looked_at(fitted, toy):
    bare = [replace(s, heads=None) for s in toy[50:]]
    assert fitted.predict(bare) == fitted.predict(toy[50:])


def test_pruning_arcs_keeps_those_that_were_seen(toy):
    settings = {"n_epochs": 1, "memory_limit": "1MB", "random_state": 0}
    pruned = mk.DependencyParser(FEW, **settings).fit(toy[:50])
    whole = mk.DependencyParser(FEW, prune_arcs=False, **settings).fit(toy[:50])
    left_out = 0
    for sentence in toy[:50]:
        few, all_arcs = pruned.arc_scores(sentence), whole.arc_scores(sentence)
        gold = few[list(sentence.heads), np.arange(1, len(sentence) + 1)]
        assert np.isfinite(gold).all()
        left_out += np.isinf(few[:, 1:]).sum() - np.isinf(all_arcs[:, 1:]).sum()
    assert left_out > 0


USELESS = [f"h{k:+d}.form m{k:+d}.form" for k in (-2, -1, 1, 2)]


@pytest.mark.parametrize("regularizer", ["group_lasso", "sparse_mkl"])
def test_regularizers_prune_useless_templates(toy, regularizer):
    settings = {"regularizer": regularizer, "C": 0.3, "n_epochs": 4}
    common = {"memory_limit": "1MB", "random_state": 0}
    parser = mk.DependencyParser(FEW + USELESS, **settings, **common).fit(toy[:50])
    assert parser.selected_templates_
    assert not set(parser.selected_templates_) & set(USELESS)
    weights = dict(zip(parser.templates_, parser.template_weights_, strict=True))
    chosen = [weights[t] for t in parser.selected_templates_]
    assert chosen == sorted(chosen, reverse=True) and min(chosen) > 0.0
    assert sum(w > 0 for w in parser.template_weights_) == len(chosen)
    assert parser.history_[-1].n_templates == len(chosen)
    assert parser.score(toy[50:]) > 0.9
    single = mk.DependencyParser(
        FEW + USELESS, solver=OnlineProximal(update="gradient"), **settings, **common
    ).fit(toy[:50])
    # The noise of single steps keeps alive what the sum of all gradients does not.
    assert set(USELESS) & set(single.selected_templates_)


@pytest.mark.parametrize(
    "settings",
    [
        {"regularizer": "sparse_mkl", "C": 0.3},
        {"regularizer": "group_lasso", "C": 0.3, "n_templates": 1},
        {"n_templates": 3},
        {"regularizer": "sparse_mkl", "C": 1.0, "loss": "crf", "n_templates": 2},
    ],
    ids=str,
)
def test_refit_learns_the_kept_templates_alone(toy, settings):
    """Both fits can be had one by one, to the bit."""
    common = {"memory_limit": "1MB", "random_state": 0}
    loss = settings.get("loss", "hinge")
    parser = mk.DependencyParser(
        FEW + USELESS, refit=True, n_epochs=3, **settings, **common
    ).fit(toy[:50])
    alone = {k: v for k, v in settings.items() if k != "n_templates"}
    first = mk.DependencyParser(
        FEW + USELESS, n_epochs=parser.selection_epochs, **alone, **common
    ).fit(toy[:50])
    kept = first.selected_templates_[: settings.get("n_templates")]
    assert 0 < len(kept) < len(FEW + USELESS)
    assert parser.templates_ == [t for t in FEW + USELESS if t in kept]
    second = mk.DependencyParser(parser.templates_, loss=loss, n_epochs=3, **common)
    second.fit(toy[:50])
    np.testing.assert_array_equal(parser._model.weights, second._model.weights)
    assert parser.n_iter_ == len(parser.history_) == 3
    assert len(parser.selection_history_) == parser.selection_epochs
    assert parser.score(toy[50:]) == second.score(toy[50:]) > 0.9


def test_refitted_parsers_are_saved_and_go_on_without_the_regularizer(toy, tmp_path):
    parser = mk.DependencyParser(
        FEW + USELESS,
        regularizer="sparse_mkl",
        C=0.3,
        refit=True,
        n_epochs=2,
        memory_limit="1MB",
        random_state=0,
    ).fit(toy[:50])
    path = tmp_path / "parser.mk"
    parser.save(path)
    loaded = mk.load(path)
    assert loaded.get_params() == parser.get_params()
    assert loaded.templates_ == parser.templates_
    assert loaded.selection_history_ == parser.selection_history_ != []
    plain = mk.DependencyParser(
        parser.templates_, n_epochs=2, memory_limit="1MB", random_state=0
    ).fit(toy[:50])
    for one in (loaded, parser, plain):
        one.partial_fit(toy[50:60])
    np.testing.assert_array_equal(loaded._model.weights, plain._model.weights)
    np.testing.assert_array_equal(parser._model.weights, plain._model.weights)


@pytest.mark.parametrize("selection_epochs", [1, 2])
def test_a_selection_that_is_ended_is_the_model(toy, selection_epochs):
    parser = mk.DependencyParser(
        FEW,
        regularizer="sparse_mkl",
        refit=True,
        selection_epochs=selection_epochs,
        memory_limit="1MB",
        random_state=0,
        callback=lambda line: True,
    ).fit(toy[:50])
    assert parser.n_iter_ == 1 and parser.selection_history_ == []
    assert parser.templates_ == FEW
    assert parser.score(toy[50:]) > 0.8


def test_partial_fit_with_a_regularizer_that_prunes(toy):
    parser = mk.DependencyParser(
        FEW + USELESS,
        regularizer="sparse_mkl",
        C=0.3,
        memory_limit="1MB",
        random_state=0,
    )
    for _ in range(3):
        parser.partial_fit(toy[:50])
    assert not set(parser.selected_templates_) & set(USELESS)
    assert parser.score(toy[50:]) > 0.9


def test_refit_refuses_what_it_cannot_do(toy):
    settings = {"regularizer": "group_lasso", "refit": True, "memory_limit": "1MB"}
    with pytest.raises(ValueError, match="got none with C=1e-09; raise C"):
        mk.DependencyParser(FEW, C=1e-9, **settings).fit(toy[:10])
    with pytest.raises(ValueError, match="got refit=True; call fit before it"):
        mk.DependencyParser(FEW, **settings).partial_fit(toy[:10])


def test_crf_learns_too(toy):
    parser = mk.DependencyParser(
        FEW, loss="crf", n_epochs=4, memory_limit="1MB", random_state=0
    ).fit(toy[:50])
    losses = [line.loss for line in parser.history_]
    assert losses[-1] < losses[0]
    assert parser.score(toy[50:]) > 0.9


def test_partial_fit_after_fit_starts_from_the_model(toy):
    parser = mk.DependencyParser(FEW, n_epochs=2, memory_limit="1MB", random_state=0)
    parser.fit(toy[:50])
    before = parser.score(toy[50:])
    parser.partial_fit(toy[50:60])
    assert parser.n_iter_ == 3
    assert parser.score(toy[50:]) > before - 0.1


def test_mixed_up_files_are_refused(fitted, tmp_path):
    path = tmp_path / "parser.mk"
    fitted.save(path)
    content, arrays = read_container(path)
    layout = content["fitted"]["_layout"]
    changes = [
        {"bits": layout["bits"][:-1]},
        {"bits": [99] * len(layout["bits"])},
        {"bits": [1] * len(layout["bits"])},
        {"templates": layout["templates"][:-1]},
        {"templates": layout["templates"][:1] * len(layout["bits"])},
        {"vocabulary": layout["vocabulary"][:2]},
        {"reach_field": 7},
        {"reach": content["fitted"]["template_history_"]},
    ]
    for change in changes:
        forged = {**content["fitted"], "_layout": layout | change}
        write_container(path, {**content, "fitted": forged}, arrays)
        with pytest.raises(ModelFileError):
            mk.load(path)
    packed = content["fitted"]["_packed"]
    for change in (
        {"size": packed["size"] - 1},
        {"mask": packed["values"]},
        {"values": packed["mask"]},
        {"values": content["fitted"]["template_history_"]},
    ):
        forged = {**content["fitted"], "_packed": packed | change}
        write_container(path, {**content, "fitted": forged}, arrays)
        with pytest.raises(ModelFileError):
            mk.load(path)
    forged = {**content["fitted"], "template_history_": packed["values"]}
    write_container(path, {**content, "fitted": forged}, arrays)
    with pytest.raises(ModelFileError):
        mk.load(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"regularizer": "sparse_group_lasso"},
            "norms of templates, got one of single",
        ),
        (
            {"regularizer": mk.norms.OverlappingGroups([(0, 999)])},
            "positions from 0 to 168, got 0 to 999",
        ),
        (
            {"loss": "crf", "templates": ["h.upos m.upos g.upos"]},
            "a third word in 'g.upos h.upos m.upos'",
        ),
        ({"label_templates": "many"}, "label_templates must be 'standard', None or"),
        ({"label_templates": ["h.word"]}, "in a label template, got 'h.word'"),
        ({"n_templates": 3}, "n_templates needs a second fit .* got refit=False"),
        (
            {"refit": True, "regularizer": "squared_l2"},
            "refit needs a regularizer that prunes .* got regularizer='squared_l2'",
        ),
        ({"templates": "some"}, "templates must be one of standard, full"),
        (
            {"loss": "crf", "solver": OnlineProximal(update="passive_aggressive")},
            "needs the hinge loss and no regularizer",
        ),
        ({"solver": OnlineProximal(eta0="auto")}, "must be a number or None"),
        ({"memory_limit": "much"}, "memory_limit must be a positive number"),
    ],
)
def test_bad_parameters(toy, settings, message):
    with pytest.raises(ValueError, match=message):
        mk.DependencyParser(**settings).fit(toy[:3])


@pytest.mark.parametrize(
    ("sentences", "error", "message"),
    [
        ([], ValueError, "at least one sentence, got an empty one"),
        ("text", ValueError, "at least one sentence, got str"),
        ([["a"]], TypeError, "got list at position 0"),
        ([Sentence.of([])], ValueError, "words in every sentence, got none"),
        ([Sentence.of(["a"])], ValueError, "a head for every word, got none"),
        (
            [Sentence.of(["a", "b", "c"], heads=[0, 3, 2])],
            ValueError,
            "heads that form a tree, got 0, 3, 2",
        ),
        (
            [Sentence.of(["a", "b"], heads=[0, 0])],
            ValueError,
            "pass single_root=False",
        ),
    ],
)
def test_bad_sentences(sentences, error, message):
    with pytest.raises(error, match=message):
        mk.DependencyParser(FEW).fit(sentences)


def test_several_roots_if_allowed():
    pair = [Sentence.of(["a", "b"], ["X", "Y"], heads=[0, 0])] * 4
    parser = mk.DependencyParser(
        FEW, single_root=False, n_epochs=2, memory_limit="1MB", random_state=0
    ).fit(pair)
    assert parser.predict(pair[:1])[0].heads == (0, 0)


def test_unfitted_and_unknown_words(fitted):
    sentence = Sentence.of(["zzz", "qqq"], ["NEW", "TAG"])
    assert len(fitted.predict([sentence])[0].heads) == 2


def test_verbose_and_callback(toy, capsys):
    lines = []
    parser = mk.DependencyParser(
        FEW,
        n_epochs=5,
        memory_limit="1MB",
        verbose=1,
        callback=lambda line: lines.append(line) or len(lines) == 2,
    ).fit(toy[:10])
    assert parser.n_iter_ == 2 == len(lines)
    assert capsys.readouterr().err.count("accuracy") == 2


# --- the command -----------------------------------------------------------------


def test_command_line(toy, tmp_path):
    train, test, model = (str(tmp_path / n) for n in ("a.conllu", "b.conllu", "p.mk"))
    write_conllu(train, toy[:50])
    write_conllu(test, toy[50:])

    def call(*arguments, code=0, stdin=None):
        result = CliRunner().invoke(app, ["parse", *arguments], input=stdin)
        assert result.exit_code == code, result.output
        return result

    learn = ["--train", train, "-m", model, "--templates", "; ".join(FEW)]
    told = call(*learn, "--seed", "0", "--epochs", "2", "--json")
    assert len(json.loads(told.stdout)["templates"]) == len(FEW)
    parser = mk.load(model)
    scores = json.loads(call(test, "-m", model, "--score", "--json").stdout)
    expected = parser.evaluate(toy[50:])._asdict()
    assert scores == {k: v for k, v in expected.items() if not k.startswith("las")}
    out = str(tmp_path / "out.conllu")
    call(test, "-m", model, "-o", out)
    assert read_conllu(out) == parser.predict(toy[50:])
    with open(test) as stream:
        piped = call("-", "-m", model, stdin=stream.read()).stdout
    assert list(parse_conllu(piped)) == parser.predict(toy[50:])
    assert "neither" in call("-m", model, code=2).stderr
    prune = ["--regularizer", "sparse_mkl", "--C", "1", "--refit", "--n-templates", "2"]
    told = call(*learn, *prune, "--seed", "0", "--epochs", "2", "--json")
    assert (
        len(json.loads(told.stdout)["templates"]) == 2 == len(mk.load(model).templates_)
    )
    (tmp_path / "bad.conllu").write_text("1\tx\n")
    bad = call(str(tmp_path / "bad.conllu"), "-m", model, code=2)
    assert "line 1" in bad.stderr and "Traceback" not in bad.stderr


def test_an_interrupted_command_keeps_its_model_and_exits_130(
    toy, tmp_path, monkeypatch
):
    train, model = str(tmp_path / "a.conllu"), str(tmp_path / "p.mk")
    write_conllu(train, toy[:10])

    def interrupt(line):
        raise KeyboardInterrupt

    fit = mk.DependencyParser.fit
    monkeypatch.setattr(
        *(mk.DependencyParser, "fit"),
        lambda parser, *data: fit(parser.set_params(callback=interrupt), *data),
    )
    arguments = ["parse", "--train", train, "-m", model, "--templates", "; ".join(FEW)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 130, result.output
    assert "Warning: The fit was interrupted after 1 epochs" in result.stderr
    assert mk.load(model).n_iter_ == 1
