"""
Which view matters?
===================

Several tables about the same samples, and the question which of them the model needs.
You will see why kernel weights do not answer it, and what does: the share of every view
in what the model gets right on rows that it has not seen.
"""

# %%
# Three views, one of them useless
# --------------------------------
# Wine is described by its acids and by its phenols; the third table is noise, with many
# columns.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

import manykernels as mk

wine, y = load_wine(return_X_y=True, as_frame=True)
rng = np.random.default_rng(0)
views = mk.Views(
    {
        "acids": wine[["alcohol", "malic_acid", "ash", "alcalinity_of_ash"]],
        "phenols": wine[["total_phenols", "flavanoids", "proanthocyanins"]],
        "noise": rng.normal(size=(len(y), 200)),
    }
)
print(views)

# %%
# Weights and shares
# ------------------
# ``kernel_importance`` with ``cv`` fits the model on every training part and looks at
# the rows left out. With ``by="view"`` the kernels of a view are added up.

model = mk.MKLClassifier("rbf", random_state=0)
found = mk.kernel_importance(model, views, y, cv=5, by="view", random_state=0)
print(found)
low, high = found.interval(0.95)

# %%
# The picture shows the weights beside the shares, with 95 % intervals.

place = np.arange(len(found.names))
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.bar(place - 0.2, found.weight, 0.4, color="0.75", label="kernel weight")
ax.bar(place + 0.2, found.share, 0.4, color="C0", label="share on unseen rows")
ax.errorbar(
    place + 0.2,
    found.share,
    yerr=[found.share - low, high - found.share],
    fmt="none",
    ecolor="black",
    capsize=4,
)
ax.axhline(0, color="gray", lw=0.8)
ax.set_xticks(place, found.names)
ax.set(ylabel="part of the whole", title="Weights are not importance")
ax.legend()
plt.show()

# %%
# What it shows
# -------------
# A kernel on many columns of noise is nearly the identity matrix: every row is like
# itself and like nobody else. Such a kernel fits any training labels, so that learning
# gives it a weight. On a new row it says nothing, and its share is zero but for chance.

for name, weight, share in zip(found.names, found.weight, found.share, strict=True):
    print(f"{name:8} weight {weight:.2f}, share {share:+.2f}")

# %%
# ``nugget="shared"`` takes what kernels have of the identity into one more kernel, and
# noise loses its weight to it. See :doc:`/importance` for both.

honest = mk.MKLClassifier("rbf", p=1, nugget="shared", random_state=0).fit(views, y)
for name, weight in zip(honest.kernel_names_, honest.kernel_weights_, strict=True):
    print(f"{weight:6.1%}  {name}")
