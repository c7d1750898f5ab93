"""Templates with a third word: scores, the search for a tree, what they can learn."""

import itertools

import numpy as np
import pytest

import manykernels as mk
from manykernels.hot import arcs
from manykernels.hot import tree_search as search
from manykernels.hot.trees import find_tree, tree_work
from manykernels.structured import Sentence
from manykernels.structured.feature_templates import ARC_TEMPLATES
from manykernels.structured.tree_model import TemplateLayout

TEXTS = [
    "h.upos m.upos direction",
    "g.upos h.upos m.upos direction",
    "s.upos m.form distance",
    "g.form g+1.upos m.upos",
    "h.form s.form",
]
NOBODY = None


def drawn_sentence(rng, n):
    forms = [str(rng.choice(list("abcde"))) for _ in range(n)]
    tags = [str(rng.choice(["N", "V", "D"])) for _ in range(n)]
    return Sentence.of(forms, tags, heads=[k for k in range(n)])


@pytest.fixture(scope="module")
def drawn():
    """A layout, and weights for all of its features, drawn at random."""
    rng = np.random.default_rng(0)
    sentences = [drawn_sentence(rng, int(rng.integers(2, 6))) for _ in range(60)]
    templates = ARC_TEMPLATES.read(TEXTS)
    layout = TemplateLayout.fit(templates, sentences, 1, False, 10**7)
    size = int(layout.compiled.start[-1])
    return layout, sentences, rng.normal(size=size).astype(np.float32)


def is_tree(heads):
    """Whether every word reaches the root; heads[0] is not looked at."""
    for m in range(1, len(heads)):
        seen = set()
        while m and m not in seen:
            seen.add(m)
            m = heads[m]
        if m:
            return False
    return True


def relatives(heads, m):
    """Grandparent and sibling of a word by their definition, None for nobody."""
    h = heads[m]
    between = [
        x
        for x in range(1, len(heads))
        if heads[x] == h and min(h, m) < x < max(h, m) and x != m
    ]
    nearest = min(between, key=lambda x: abs(x - m), default=None)
    return (None if h == 0 else heads[h]), nearest


class Opened:
    """A sentence inside the compiled loops."""

    def __init__(self, layout, weights, sentence):
        self.layout, self.n = layout, len(sentence)
        corpus = layout.vocabulary.encode([sentence])
        scales = np.ones(len(layout.templates))
        self.model = search.ScaledWeights(layout.compiled, weights, scales)
        self.work = arcs.arc_work(layout.compiled, self.n + 1)
        first = int(corpus.starts[0])
        count = arcs.encode(corpus.tokens, first, self.n, layout.compiled, self.work)
        arcs.score_arcs(layout.compiled, weights, scales, self.work, self.n, count)
        self.climb = search.climb_work(layout.compiled, self.n + 1)
        search._list_candidates(self.work.scores, self.n, self.climb)

    def score(self, heads):
        heads = np.array(heads)
        return float(
            search.tree_score(self.model, self.work, self.climb, self.n, heads)
        )

    def found(self, single_root):
        heads = np.zeros(self.n + 1, np.int64)
        room = tree_work(self.n + 1)
        find_tree(self.work.scores, self.n, single_root, room, heads)
        start = heads.copy()
        search.improve_tree(
            self.model, self.work, self.climb, self.n, single_root, heads
        )
        return start, heads


def plain_score(layout, weights, sentence, heads):
    """Codes and places as the loops make them, one feature at a time."""
    opened = Opened(layout, weights, sentence)
    compiled, work = layout.compiled, opened.work
    size, total = len(sentence) + 1, 0.0
    for m, (t, template) in itertools.product(
        range(1, size), enumerate(layout.templates)
    ):
        h = heads[m]
        code = int(work.head[compiled.head_side[t], h])
        code += int(work.modifier[compiled.modifier_side[t], m])
        code += int(work.pair[compiled.pair[t], m - h + size])
        if template.third_node is not None:
            third = relatives(heads, m)["gs".index(template.third_node)]
            x = size if third is NOBODY else third
            where = 0 if x < min(h, m) else 2 if x > max(h, m) else 1
            code += int(work.third[compiled.third_side[t], x]) + int(work.turn[where])
        place = arcs.place_of(np.uint32(code % 2**32), compiled.shift[t])
        total += float(weights[compiled.start[t] + int(place)])
    return total


@pytest.mark.parametrize("single_root", [True, False])
def test_search_ends_where_no_single_head_can_be_better(drawn, single_root):
    layout, sentences, weights = drawn
    best_of_all, improved = 0, 0
    for sentence in sentences[:30]:
        opened = Opened(layout, weights, sentence)
        n = opened.n
        start, heads = opened.found(single_root)
        value = plain_score(layout, weights, sentence, heads)
        assert opened.score(heads) == pytest.approx(value, rel=1e-4, abs=1e-4)
        everything = [
            (0, *choice)
            for choice in itertools.product(range(n + 1), repeat=n)
            if is_tree((0, *choice)) and (not single_root or choice.count(0) == 1)
        ]
        assert tuple(heads) in everything
        for other in everything:
            if sum(a != b for a, b in zip(other, heads, strict=True)) == 1:
                assert plain_score(layout, weights, sentence, other) <= value + 1e-3
        top = max(plain_score(layout, weights, sentence, one) for one in everything)
        best_of_all += value >= top - 1e-3
        improved += not np.array_equal(start, heads)
    assert improved > 10  # else the search would not be tried
    assert best_of_all >= 20


def test_a_third_word_can_decide():
    """The verb's second noun is a new sort of child; arcs alone cannot know that."""

    def sentence(kind, n_fill):
        forms = ["v", *["x"] * n_fill, kind, "n"]
        tags = ["V", *["X"] * n_fill, "N" if kind == "n" else "K", "N"]
        head_of_last = 1 if kind == "n" else len(forms) - 1
        heads = [0, *[1] * n_fill, 1, head_of_last]
        return Sentence.of(forms, tags, heads)

    treebank = [
        sentence(kind, k) for kind, k in itertools.product(("n", "k"), range(1, 4))
    ]
    arc, third = ["h.upos m.upos"], ["s.upos h.upos m.upos"]
    settings = {"n_epochs": 20, "memory_limit": "1MB", "random_state": 0}
    both = mk.DependencyParser(arc + third, **settings).fit(treebank * 3)
    assert both.score(treebank) == 1.0
    assert both.template_weights_[1] > 0.0


def test_crf_leaves_third_words_of_a_set_out():
    pair = [Sentence.of(["a", "b"], ["X", "Y"], heads=[2, 0])] * 2
    parser = mk.DependencyParser(loss="crf", n_epochs=1, memory_limit="10MB").fit(pair)
    kept = [ARC_TEMPLATES.parse(text) for text in parser.templates_]
    assert kept and all(template.third_node is None for template in kept)
    whole = ARC_TEMPLATES.read("standard")
    assert len(kept) == sum(t.third_node is None for t in whole) < len(whole)
