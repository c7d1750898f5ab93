"""
The learned kernel elsewhere
============================

A fitted model has learned one kernel, the weighted sum of those that it was given. You
will see how to use it for a picture of the rows and for clusters, next to what the
plain average of the kernels gives.
"""

# %%
# Learn it
# --------
# Four useful kernels on blocks of digits, and twelve on noise. The kernel is learned on
# half of the rows and used on the others, which the model has not seen.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.decomposition import KernelPCA
from sklearn.metrics import adjusted_rand_score

import manykernels as mk

data = mk.datasets.load_noisy_digits(n_train=400, n_noise=12)
kernels = [k for k in data.kernels if k.startswith("rbf")]
few = np.isin(data.target, range(5))  # five digits make a clearer picture
few_new = np.flatnonzero(np.isin(data.target_test, range(5)))[:400]
X, y = data.data[few], data.target[few]
X_new, y_new = data.data_test[few_new], data.target_test[few_new]

learned = mk.MKLClassifier(kernels, p=1, C=10, random_state=0).fit(X, y)
average = mk.MKLClassifier(kernels, p=2, C=10, random_state=0).fit(X, y)

# %%
# ``combined_kernel`` returns it between any rows. Everything that takes a precomputed
# kernel can go on from there: no label of these rows is used.


def look(model):
    """Places of the new rows in a plane, and how well clusters find the digits."""
    K = mk.combined_kernel(model, X_new)
    places = KernelPCA(2, kernel="precomputed").fit_transform(K)
    clusters = SpectralClustering(5, affinity="precomputed", random_state=0)
    return places, adjusted_rand_score(y_new, clusters.fit_predict(K))


figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.4), layout="constrained")
scores = {}
for ax, (name, model) in zip(
    axes, {"learned, p = 1": learned, "averaged": average}.items(), strict=True
):
    places, scores[name] = look(model)
    for digit in range(5):
        rows = y_new == digit
        ax.scatter(*places[rows].T, s=24, marker=f"${digit}$", color=f"C{digit}")
    ax.set(title=f"{name} (clusters: {scores[name]:.2f})", xticks=[], yticks=[])
    ax.set(xlabel="first component", ylabel="second component")
plt.show()

# %%
# What it shows
# -------------
# Digits that the learned kernel pulls apart lie on top of each other in the average,
# where noise has most of the weight. The number is the adjusted Rand index of spectral
# clusters: 1 is perfect, 0 is chance.

for name, score in scores.items():
    print(f"{name:15} adjusted Rand index {score:.2f}")
noise = [name.startswith("noise") for name in learned.kernel_names_]
for name, model in (("learned", learned), ("averaged", average)):
    print(f"{name:9} weight on noise {model.kernel_weights_[noise].sum():.0%}")
