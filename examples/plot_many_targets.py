"""
Regression with many targets
============================

Forty targets, each driven by some of six groups of columns. You will see kernel weights
for every target, learned in one fit, and when they are worth it.
"""

# %%
# Who depends on what
# -------------------
# Every target is a curved function of two groups of columns, with noise. Think of
# voxels and features of a film, or of drugs and kinds of measurements.

import matplotlib.pyplot as plt
import numpy as np

import manykernels as mk

rng = np.random.default_rng(0)
n_groups, width, n_targets = 6, 5, 40
X = rng.normal(size=(800, n_groups * width))
groups = X.reshape(len(X), n_groups, width)
signal = np.sin(groups @ rng.normal(size=width) / 1.5)  # one curved signal per group
truth = np.zeros((n_targets, n_groups))
for target in range(n_targets):
    first = target * n_groups // n_targets
    truth[target, [first, (first + 1) % n_groups]] = 0.7, 0.3
Y = signal @ truth.T + 0.2 * rng.normal(size=(len(X), n_targets))
train, test = np.arange(600), np.arange(600, 800)

# %%
# Weights of all, weights of each
# -------------------------------
# By default targets share their kernel weights. ``per_target_weights=True`` gives every
# target its own, with kernels and their products computed once for all.

kernels = [f"rbf@{width * g}-{width * g + width - 1}" for g in range(n_groups)]
shared = mk.MKLRegressor(kernels, C=10).fit(X[train], Y[train])
own = mk.MKLRegressor(kernels, C=10, per_target_weights=True).fit(X[train], Y[train])


def scores(model):
    """R^2 of every target on new rows."""
    residual = Y[test] - model.predict(X[test])
    return 1 - residual.var(axis=0) / Y[test].var(axis=0)


print(f"mean R^2, shared weights {scores(shared).mean():.3f}")
print(f"mean R^2, own weights    {scores(own).mean():.3f}")
print(f"largest relative gap {np.max(own.duality_gap_ / own.objective_):.1e}")

# %%
# Left: the truth, and the weights that every target learned. Right: what they are
# worth.

figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(10, 4), layout="constrained", width_ratios=(1, 1, 1.4)
)
image = left.imshow(truth, aspect="auto", cmap="cividis", vmin=0, vmax=1)
middle.imshow(own.kernel_weights_, aspect="auto", cmap="cividis", vmin=0, vmax=1)
for ax, title in ((left, "truth"), (middle, "learned weights")):
    ax.set(xlabel="group of columns", title=title, xticks=range(n_groups))
left.set_ylabel("target")
figure.colorbar(image, ax=(left, middle), shrink=0.8)
right.scatter(scores(shared), scores(own), color="C0", alpha=0.7)
ends = [scores(shared).min() - 0.02, scores(own).max() + 0.02]
right.plot(ends, ends, color="gray", lw=0.8)
right.set(
    xlabel="R², weights shared", ylabel="R², weights of its own", title="Every target"
)
plt.show()

# %%
# What it shows
# -------------
# Each point on the right is a target; above the line its own weights predict better.
# Where all targets depend on the same groups, sharing is as good and says the same with
# fewer numbers. The shared weights here are nearly uniform, as every group counts for
# some target:

print("shared weights", shared.kernel_weights_.round(2))
better = np.mean(scores(own) > scores(shared))
print(f"better with weights of its own: {better:.0%} of the targets")
