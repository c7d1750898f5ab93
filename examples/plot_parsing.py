"""
Parsing: which templates does it need?
======================================

A parser finds the head of every word, with feature templates that are groups of weights
like kernels. You will see a small grammar learned, a tree drawn, and most of the
templates dropped without loss.
"""

# %%
# A small grammar
# ---------------
# Sentences are generated, so that nothing needs to be downloaded: subjects and objects
# with articles and adjectives, adverbs, and phrases with "of" or "with". The word
# decides where a phrase hangs: "of" on the noun before it, "with" on the verb.

import matplotlib.pyplot as plt
import numpy as np

import manykernels as mk
from manykernels.structured import Sentence

rng = np.random.default_rng(0)
WORDS = {
    "DET": "the a every some this".split(),
    "ADJ": "old green small happy tired distant".split(),
    "NOUN": "dog house friend letter garden window song river".split(),
    "VERB": "sees writes paints finds likes opens".split(),
    "ADV": "often quietly never today".split(),
}


def noun_phrase(words, depth=0):
    """Append a noun phrase; the position of its noun."""
    start = len(words)
    if rng.random() < 0.8:
        words.append(["DET", rng.choice(WORDS["DET"]), None])
    for _ in range(rng.integers(3)):
        words.append(["ADJ", rng.choice(WORDS["ADJ"]), None])
    words.append(["NOUN", rng.choice(WORDS["NOUN"]), None])
    noun = len(words)  # positions count from 1
    for word in words[start : noun - 1]:
        word[2] = noun
    if depth < 2 and rng.random() < 0.3:
        phrase(words, "of", noun, depth + 1)
    return noun


def phrase(words, preposition, head, depth):
    """Append a preposition, which hangs on the head, and a noun that hangs on it."""
    words.append(["ADP", preposition, head])
    place = len(words)
    noun = noun_phrase(words, depth)
    words[noun - 1][2] = place


def sentence():
    words = []
    subject = noun_phrase(words)
    adverb = len(words) + 1 if rng.random() < 0.4 else None
    if adverb:
        words.append(["ADV", rng.choice(WORDS["ADV"]), None])
    words.append(["VERB", rng.choice(WORDS["VERB"]), 0])
    verb = len(words)
    words[subject - 1][2] = verb
    if adverb:
        words[adverb - 1][2] = verb
    thing = noun_phrase(words)
    words[thing - 1][2] = verb
    if rng.random() < 0.6:
        phrase(words, "with", verb, 1)
    tags, forms, heads = zip(*words, strict=True)
    return Sentence.of([str(form) for form in forms], list(tags), heads=list(heads))


train = [sentence() for _ in range(300)]
test = [sentence() for _ in range(300)]
print(" ".join(test[0].forms))

# %%
# All templates, and those that are needed
# ----------------------------------------
# ``regularizer="sparse_mkl"`` sets whole templates to zero, the more the smaller C is,
# and ``refit=True`` learns once more with those that are left.

settings = {"memory_limit": "50MB", "random_state": 0}
full = mk.DependencyParser(n_epochs=3, **settings).fit(train)
rows = [("all", len(full.templates_), full.score(test))]
for C in (10.0, 1.0, 0.3, 0.1, 0.05):
    parser = mk.DependencyParser(
        regularizer="sparse_mkl", C=C, refit=True, n_epochs=3, **settings
    ).fit(train)
    rows.append((f"C = {C:g}", len(parser.templates_), parser.score(test)))
    if parser.score(test) >= rows[0][2] - 0.005:
        small = parser
for name, count, score in rows:
    print(f"{name:9} {count:3d} templates, {score:.1%} of the heads right")

# %%
# A tree of the smallest parser that is as good as all templates, within half a point,
# and how many templates are needed.

shown = max(test[:40], key=len)
heads = small.predict([shown])[0].heads
figure, (upper, lower) = plt.subplots(
    2, 1, figsize=(10, 5.6), layout="constrained", height_ratios=(1.3, 1)
)
for place, (head, word) in enumerate(zip(heads, shown.forms, strict=True), 1):
    upper.text(place, -0.2, word, ha="center", va="top", rotation=30)
    middle, width = (place + head) / 2, abs(place - head)
    if head == 0:
        upper.annotate("", (place, 0), (place, 6), arrowprops={"arrowstyle": "->"})
        upper.text(place - 0.1, 5.8, "root", va="top", ha="right")
        continue
    angle = np.linspace(0, np.pi, 40)
    color = "C0" if head == shown.heads[place - 1] else "C1"
    upper.plot(
        middle + width / 2 * np.cos(angle), width**0.7 * np.sin(angle), color=color
    )
upper.set(xlim=(0.3, len(heads) + 0.7), ylim=(-2, 7))
upper.set_title("A new sentence: blue arcs are right, orange ones wrong")
upper.axis("off")
_, counts, scores = zip(*rows, strict=True)
lower.plot(counts, [100 * score for score in scores], "o", color="C0")
lower.set(xlabel="templates", ylabel="heads right, %", title="How many are needed")
plt.show()

# %%
# What it shows
# -------------
# Few templates do the work of all of them. The strongest first:

print(len(small.templates_), "of", len(full.templates_), "templates:")
for template in small.selected_templates_[:6]:
    print(template)

# %%
# On real treebanks more are needed: :doc:`/parsing` has what was measured there.
