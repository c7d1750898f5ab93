"""
Sequences: digits that count
============================

Blurred images of digits in a row, where the next digit is often the last one plus one.
You will see a labeler that learns from several kernels and from which labels follow
each other, and what the second is worth.
"""

# %%
# Rows of images
# --------------
# Every sequence counts upwards and now and then jumps. The images are scikit-learn's
# digits with so much noise that single ones are hard to read.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import manykernels as mk

rng = np.random.default_rng(0)
images, labels = load_digits(return_X_y=True)
images = images / 16


def draw(n_sequences, pool):
    """Sequences of images from the pool, and their labels."""
    X, y = [], []
    for _ in range(n_sequences):
        digits = [rng.integers(10)]
        while len(digits) < 10:
            jump = rng.random() < 0.2
            digits.append(rng.integers(10) if jump else (digits[-1] + 1) % 10)
        rows = [rng.choice(pool[labels[pool] == digit]) for digit in digits]
        X.append(images[rows] + 0.45 * rng.normal(size=(10, 64)))
        y.append(np.array(digits))
    return X, y


pool = rng.permutation(len(labels))
X, y = draw(100, pool[:900])
X_new, y_new = draw(100, pool[900:])

# %%
# With and without neighbors
# --------------------------
# ``transitions="none"`` labels every image by itself; the default also learns a score
# for every label after every other. Both learn the weights of three kernels.

kernels = ["linear", "polynomial:degree=2", "rbf:gamma=0.02"]
single = mk.SequenceLabeler(kernels, transitions="none", C=10, random_state=0).fit(X, y)
chain = mk.SequenceLabeler(kernels, C=10, random_state=0).fit(X, y)
for name, model in (("images alone", single), ("with transitions", chain)):
    print(f"{name:17} {model.score(X_new, y_new):.1%} of the images right")
for name, weight in zip(chain.kernel_names_, chain.kernel_weights_, strict=True):
    print(f"{weight:5.0%}  {name}")

# %%
# A sequence that the transitions mend, and the transitions that were learned.

mended = [
    np.sum(b == t) - np.sum(a == t)
    for a, b, t in zip(single.predict(X_new), chain.predict(X_new), y_new, strict=True)
]
pick = int(np.argmax(mended))
truth, alone, joint = (
    y_new[pick],
    single.predict(X_new)[pick],
    chain.predict(X_new)[pick],
)

figure = plt.figure(figsize=(10, 4.2), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(1.7, 1))
left.suptitle("One sequence: truth, images alone, with transitions")
for place, ax in enumerate(left.subplots(2, 5).flat):
    ax.imshow(X_new[pick][place].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    ax.set(xticks=[], yticks=[])
    ax.set_title(f"{truth[place]}", fontsize=11)
    for x, label, color in ((0.25, alone, "C1"), (0.75, joint, "C0")):
        right_label = label[place] == truth[place]
        ax.text(
            x,
            -0.16,
            f"{label[place]}" + ("" if right_label else " ✗"),
            color=color,
            transform=ax.transAxes,
            ha="center",
            fontweight="bold",
        )
ax = right.subplots()
shown = ax.imshow(chain.transitions_, cmap="cividis")
ax.set(xlabel="label", ylabel="label before", title="Score of a label after another")
ax.set(xticks=range(10), yticks=range(10))
right.colorbar(shown, ax=ax, shrink=0.8)
plt.show()

# %%
# What it shows
# -------------
# Orange are the labels of images alone, blue those with transitions, and a cross marks
# a mistake. The bright line in the matrix is "plus one", which nobody told the model.

share = np.mean([chain.transitions_[k].argmax() == (k + 1) % 10 for k in range(10)])
print(f"labels after which plus one scores highest: {share:.0%}")
