"""
Memory limits: where kernel values live
=======================================

N rows and F kernels make F N² kernel values. You will see one model learned with all of
them in memory, in a file, and computed when needed, what a limit on memory changes, and
that the answer stays the same.
"""

# %%
# Digits, small or large
# ----------------------
# Where the environment variable MANYKERNELS_DATA names a folder with the files of
# MNIST, these are used, and otherwise scikit-learn's digits. Nothing is downloaded.

import os
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import manykernels as mk


def load():
    """Images with values from 0 to 1, and the names of four blocks of each."""
    try:
        if "MANYKERNELS_DATA" not in os.environ:
            raise FileNotFoundError
        mnist = mk.datasets.load_mnist(n_train=2500, n_test=1000)
        return mnist.data, mnist.data_test, mnist.target, mnist.target_test, 28
    except FileNotFoundError:
        X, y = load_digits(return_X_y=True)
        return *train_test_split(X / 16, y, train_size=1200, random_state=0), 8


X, X_new, y, y_new, side = load()
pixels = np.arange(side * side).reshape(side, side)
half = side // 2
blocks = [pixels[r : r + half, c : c + half] for r in (0, half) for c in (0, half)]
kernels = [
    kernel(columns=block.ravel().tolist())
    for block in blocks
    for kernel in (mk.kernels.Linear, mk.kernels.RBF)
]
values = len(kernels) * len(X) ** 2
print(f"{len(X)} images, {len(kernels)} kernels: {4 * values / 1e6:.0f} MB of values")

# %%
# Three storages
# --------------
# ``storage`` says where the values live; ``"auto"``, the default, chooses by
# ``memory_limit``. A block of rows is always computed at once.

mk.warm_up()  # compile first, so that seconds are those of fits
models, seconds = {}, {}
for storage in ("gram", "memmap", "on_demand"):
    start = perf_counter()
    models[storage] = mk.MKLClassifier(
        kernels, C=10, storage=storage, random_state=0
    ).fit(X, y)
    seconds[storage] = perf_counter() - start
    model = models[storage]
    print(
        f"{storage:10} objective {model.objective_:.6f}, "
        f"accuracy {model.score(X_new, y_new):.3f}"
    )

# %%
# A limit that is too small even for a block of rows is refused before the fit begins,
# with the number of bytes that are needed.

try:
    mk.MKLClassifier(kernels, memory_limit="1MB", random_state=0).fit(X, y)
except (MemoryError, ValueError) as error:
    print(error)

# %%
# Left: the memory of the values alone as rows grow, with F kernels, next to a machine
# of 16 GB. Right: the seconds of the three fits above, on the machine that drew this
# page.

rows = np.logspace(3, 5, 50)
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for n_kernels, style in ((1, ":"), (12, "-"), (100, "--")):
    gigabytes = 4 * n_kernels * rows**2 / 1e9
    left.loglog(rows, gigabytes, f"C0{style}", label=f"F = {n_kernels}, float32")
left.axhline(16, color="C1", lw=1)
left.text(1.1e3, 20, "16 GB", color="C1")
left.set(xlabel="training rows", ylabel="GB of kernel values", title="Values grow fast")
left.legend(loc="lower right")
right.bar(list(seconds), list(seconds.values()), color="C0", width=0.5)
right.set(ylabel="seconds of a fit", title="The same model three times")
plt.show()

# %%
# What it shows
# -------------
# Twelve kernels of sixty thousand rows would take hundreds of gigabytes, and are
# learned within four by computing values when they are needed: :doc:`/memory` has the
# figures, and how a storage is chosen. Cheap kernels (inner products and what follows
# from them) are computed as fast as they could be read.

objectives = [model.objective_ for model in models.values()]
print(f"largest difference of objectives: {np.ptp(objectives) / min(objectives):.1e}")
same = np.mean(models["gram"].predict(X_new) == models["on_demand"].predict(X_new))
print(f"equal predictions: {same:.1%}")
