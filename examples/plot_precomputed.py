"""
Precomputed kernels in a grid search
====================================

Kernel matrices that were computed elsewhere, stacked along a last axis. You will see
how scikit-learn's ``GridSearchCV`` slices the stack by itself, and what the combined
kernel looks like.
"""

# %%
# A stack of matrices
# -------------------
# The shape is (rows, training rows, kernels): square for training, and one line per new
# row for predictions.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler

import manykernels as mk

X, y = load_wine(return_X_y=True)
train, test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
order = np.argsort(y_train, kind="stable")  # class by class, for the picture
train, y_train = train[order], y_train[order]
scaler = StandardScaler().fit(train)
train, test = scaler.transform(train), scaler.transform(test)


def noise_kernel(A, B):
    """Pseudo-random features that have nothing to do with the classes."""
    directions = np.random.default_rng(0).normal(size=(A.shape[1], 100))
    return np.sin(50 * A @ directions) @ np.sin(50 * B @ directions).T / 50


FUNCTIONS = {
    "Gaussian": rbf_kernel,
    "Laplacian": laplacian_kernel,
    "cubic": lambda A, B: polynomial_kernel(A, B, degree=3) / 27,
    "noise": noise_kernel,
}


def stack(rows):
    return np.stack([kernel(rows, train) for kernel in FUNCTIONS.values()], axis=-1)


print("training", stack(train).shape, "new rows", stack(test).shape)

# %%
# The search
# ----------
# ``"precomputed"`` marks the classifier as pairwise, so that a split takes rows and
# columns of the matrices. Any splitter, scorer or pipeline around it works as usual.

search = GridSearchCV(
    mk.MKLClassifier("precomputed", random_state=0),
    {"C": [0.1, 1.0, 10.0], "p": [1.0, 1.1, 1.5, 2.0]},
    cv=5,
).fit(stack(train), y_train)
model = search.best_estimator_
print("chosen:", search.best_params_)
print(f"accuracy on new rows {search.score(stack(test), y_test):.3f}")

# %%
# The matrices and what was made of them, rows sorted by class.

combined = mk.combined_kernel(model, stack(train))
images = [*np.moveaxis(stack(train), -1, 0), combined]
titles = [
    f"{name}\nweight {weight:.0%}"
    for name, weight in zip(FUNCTIONS, model.kernel_weights_, strict=True)
]
figure, axes = plt.subplots(1, 5, figsize=(11, 2.9), layout="constrained")
for ax, image, title in zip(
    axes, images, [*titles, "learned\ncombination"], strict=True
):
    ax.imshow(image, cmap="cividis", vmin=0, vmax=np.quantile(image, 0.98))
    ax.set(title=title, xticks=[], yticks=[])
axes[0].set_ylabel("training rows, by class")
plt.show()

# %%
# What it shows
# -------------
# Bright blocks on the diagonal are rows of one class that are alike. The kernel that is
# nothing but noise has no blocks; the combination has them all the same.
#
# Given matrices are divided by the mean of their training diagonal and not by the
# diagonal itself, since nobody knows k(x, x) of new rows: see :doc:`/kernels`.

results = search.cv_results_
for p in (1.0, 1.1, 1.5, 2.0):
    best = results["mean_test_score"][results["param_p"] == p].max()
    print(f"p = {p:<4g} best accuracy on left-out rows {best:.3f}")
