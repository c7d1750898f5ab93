"""
All methods on your data
========================

Does learning the weights pay here? You will see two ways to ask: ``mk.Study``, which
compares the main methods by nested cross-validation in one call and gives a verdict,
and the classifiers of ``mk.compare``, which are the rivals of the literature.
"""

# %%
# Three views of wine
# -------------------
# Replace this by your own tables: a dict of data frames, matched by index.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import (
    GridSearchCV,
    RepeatedStratifiedKFold,
    cross_val_score,
)

import manykernels as mk

X, y = load_wine(return_X_y=True, as_frame=True)
noise = np.random.default_rng(0).normal(size=(len(y), 10))
views = mk.Views(
    {
        "acids": X[["alcohol", "malic_acid", "ash", "alcalinity_of_ash"]],
        "phenols": X[["total_phenols", "flavanoids", "proanthocyanins"]],
        "noise": noise,
    }
)

# %%
# A study in one call
# -------------------
# Every split is given to every method, and every method chooses its settings on the
# same folds of the training rows. The verdict compares learned with uniform weights,
# and says so where they do not pay.

study = mk.Study(mk.MKLClassifier("rbf"), Cs=[1, 10], cv=5, n_pairs=0, random_state=0)
study.fit(views, y)
print(study.verdict_)

# %%
# The rivals
# ----------
# Six ways to combine kernels, each with C chosen on folds of its training rows. This is
# scikit-learn's own machinery: every one of them is a classifier.

rivals = {
    "learned weights": mk.MKLClassifier("rbf", random_state=0),
    "averaged": mk.compare.AveragedKernelClassifier("rbf", random_state=0),
    "product": mk.compare.ProductKernelClassifier("rbf", random_state=0),
    "centered alignment": mk.compare.AlignmentClassifier("rbf", random_state=0),
    "EasyMKL": mk.compare.EasyMKLClassifier("rbf", random_state=0),
    "LP-beta": mk.compare.LPBetaClassifier("rbf", random_state=0),
    "leave-one-out": mk.compare.LeaveOneOutKernelClassifier("rbf", random_state=0),
}
splits = RepeatedStratifiedKFold(n_splits=5, n_repeats=1, random_state=0)
accuracy = {
    name: 100
    * cross_val_score(GridSearchCV(rival, {"C": [1, 10]}, cv=3), views, y, cv=splits)
    for name, rival in rivals.items()
}

# %%
# Points are splits, bars their means.

lines = [line for line in study.summary_.lines() if np.isfinite(line["score"])]
by_method = {
    line["title"]: 100
    * np.array(
        [
            row["score"]
            for row in study.scores_.lines()
            if row["method"] == line["method"]
        ]
    )
    for line in lines
}
figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharex=True, layout="constrained")
for ax, results, title in zip(
    axes, (by_method, accuracy), ("mk.Study", "mk.compare"), strict=True
):
    means = [np.mean(values) for values in results.values()]
    ax.barh(range(len(results)), means, color="0.85")
    for place, values in enumerate(results.values()):
        ax.plot(values, np.full(len(values), place), "o", color="C0", alpha=0.6, ms=5)
    ax.set_yticks(range(len(results)), list(results))
    ax.invert_yaxis()
    ax.set(xlabel="accuracy on unseen rows, %", title=title)
axes[0].set_xlim(50, 101)
plt.show()

# %%
# What it shows
# -------------
# Differences between ways of combining are small next to the spread over splits, as in
# most of the literature. Ask for the standard error before you believe one.

for name, values in accuracy.items():
    error = values.std(ddof=1) / np.sqrt(len(values))
    print(f"{name:19} {values.mean():.1f} ± {error:.1f} %")
print(study.view_importance_)
