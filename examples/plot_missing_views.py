"""
Samples that lack a view
========================

Some samples have all tables, others only some. You will see what four ways to deal with
that are worth as more and more is missing, in training and in predictions.
"""

# %%
# Digits seen by three sensors
# ----------------------------
# The upper, the middle and the lower part of an image are three views. Each sample
# loses each of them with a certain probability; a row of NaN means that it is missing.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.impute import SimpleImputer

import manykernels as mk

images, y = load_digits(return_X_y=True)
parts = {"upper": images[:, :24], "middle": images[:, 24:40], "lower": images[:, 40:]}


def split(missing, seed, n_train=300, n_test=500):
    """Training and test views, where each view is missing with a probability."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))[: n_train + n_test]
    gone = rng.random((len(order), len(parts))) < missing
    gone[gone.all(axis=1), 0] = False  # everybody keeps something
    views = {
        name: np.where(gone[:, [v]], np.nan, part[order])
        for v, (name, part) in enumerate(parts.items())
    }
    train, test = np.arange(n_train), np.arange(n_train, len(order))
    return mk.Views(views), y[order], train, test, gone


# %%
# Four ways
# ---------
# ``"rescale"``, the default, lets kernels not see what is not there and scales the
# others up; ``"complete"`` fills a view from the nearest rows that have it. The usual
# remedies are column means, and dropping incomplete rows.


def accuracies(missing, seed):
    views, labels, train, test, gone = split(missing, seed)
    model = mk.MKLClassifier("rbf", C=10, random_state=0)
    found = {}
    for way in ("rescale", "complete"):
        fitted = model.set_params(missing=way).fit(views[train], labels[train])
        found[way] = fitted.score(views[test], labels[test])
    filled = {}
    for name in parts:
        table = np.asarray(views.table(name))
        filled[name] = SimpleImputer().fit(table[train]).transform(table)
    filled = mk.Views(filled)
    model.set_params(missing="rescale").fit(filled[train], labels[train])
    found["column means"] = model.score(filled[test], labels[test])
    whole = train[~gone[train].any(axis=1)]
    model.fit(views[whole], labels[whole])
    found["drop incomplete"] = model.score(views[test], labels[test])
    return found


shares = [0.0, 0.15, 0.3, 0.45, 0.6]
results = {
    missing: [accuracies(missing, seed) for seed in range(3)] for missing in shares
}

# %%
# Means of three draws, with their range.

figure, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
for way, marker in zip(results[0.0][0], "osD^", strict=True):
    values = 100 * np.array([[run[way] for run in results[m]] for m in shares])
    place = 100 * np.array(shares)
    (line,) = ax.plot(place, values.mean(axis=1), marker=marker, label=way)
    ax.fill_between(
        place,
        values.min(axis=1),
        values.max(axis=1),
        color=line.get_color(),
        alpha=0.15,
    )
ax.set(xlabel="views missing, %", ylabel="test accuracy, %")
ax.set_title("300 digits to learn from, three views")
ax.legend()
plt.show()

# %%
# What it shows
# -------------
# Dropping incomplete rows wastes most of them. What the model does by itself needs
# nothing to be filled in, and no view at prediction time has to be there. Here is a
# model asked with a single view:

views, labels, train, test, _ = split(0.3, 0)
model = mk.MKLClassifier("rbf", C=10, random_state=0).fit(views[train], labels[train])
print("training rows that have each view:", model.view_counts_)
for name, part in parts.items():
    order = np.random.default_rng(0).permutation(len(y))[300:800]
    score = model.score({name: part[order]}, y[order])
    print(f"{name:7} alone: {score:.1%}")
