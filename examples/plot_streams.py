"""
Streams: learning from rows as they come
========================================

Rows that arrive in chunks and are never seen again, in a world that changes. You will
see ``partial_fit`` with a budget of support rows, and progressive validation: every
chunk is predicted before it is learned.
"""

# %%
# A world that turns
# ------------------
# Three classes are sectors around the origin, which turn slowly from the middle of the
# stream on. Two of the four columns are noise.

import matplotlib.pyplot as plt
import numpy as np

import manykernels as mk

rng = np.random.default_rng(0)
n_chunks, n_rows = 80, 250


def chunk(step):
    X = rng.normal(size=(n_rows, 4))
    turned = 2 * np.pi * max(0.0, step - n_chunks / 2) / n_chunks
    angle = np.arctan2(X[:, 1], X[:, 0]) + turned
    return X, np.floor(3 * (angle / (2 * np.pi)) % 3).astype(int)


# %%
# Three learners
# --------------
# One may keep every support row, two keep at most 150: one of them projects the others
# on the rest, one drops the oldest.

learners = {
    "no budget": None,
    "150, project": mk.Budget(150, "project"),
    "150, oldest": mk.Budget(150, "oldest"),
}
models = {
    name: mk.MKLClassifier("rbf@0-1; rbf@2-3", C=10, budget=budget, random_state=0)
    for name, budget in learners.items()
}
for step in range(n_chunks):
    X, y = chunk(step)
    for model in models.values():
        model.partial_fit(X, y, classes=[0, 1, 2])

# %%
# The history has a line per chunk, with the accuracy before the chunk was learned.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for name, model in models.items():
    lines = model.history_[1:]  # nothing is predicted before the first chunk
    accuracy = np.array([line.accuracy for line in lines])
    smooth = np.convolve(accuracy, np.ones(5) / 5, mode="valid")
    left.plot(np.arange(len(smooth)) + 3, 100 * smooth, label=name)
    style = "--" if "oldest" in name else "-"
    right.plot([line.support for line in model.history_], style, label=name)
for ax in (left, right):
    ax.axvline(n_chunks / 2, color="gray", ls=":", lw=1)
    ax.set_xlabel(f"chunk of {n_rows} rows")
left.set(ylabel="accuracy before learning, %", title="Progressive validation")
left.annotate(
    "the world\nbegins to turn",
    (n_chunks / 2, left.get_ylim()[0]),
    (6, 6),
    textcoords="offset points",
    color="gray",
)
right.set(ylabel="support rows", title="What is remembered")
right.set_yscale("log")
right.legend()
plt.show()

# %%
# What it shows
# -------------
# With projection a small budget does as well as all support rows, whose number grows
# and grows. Dropping the oldest rows costs accuracy: what they knew is lost. When the
# world turns, everybody loses some points and then follows. All of them find out which
# two columns matter.

for name, model in models.items():
    first = [line.accuracy for line in model.history_[10 : n_chunks // 2]]
    last = [line.accuracy for line in model.history_[n_chunks // 2 + 10 :]]
    print(
        f"{name:13} {np.mean(first):.1%} before, {np.mean(last):.1%} while it turns, "
        f"{len(model.dual_coef_)} rows, weight of the useful view "
        f"{model.kernel_weights_[0]:.0%}"
    )
