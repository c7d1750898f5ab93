"""
Gene sets: which groups, and are they chosen again?
===================================================

Columns that belong to groups, such as the genes of pathways, with one kernel per group.
You will see how groups become kernels, and whether the same groups are chosen on other
halves of the rows.
"""

# %%
# Genes and sets
# --------------
# Three hundred genes in forty overlapping sets; two of the sets make the labels. A real
# file of sets is read by ``mk.read_gmt``.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import manykernels as mk

rng = np.random.default_rng(0)
genes = [f"gene{j}" for j in range(300)]
X = pd.DataFrame(rng.normal(size=(200, 300)), columns=genes)
sets = {
    f"set {s:02d}": rng.choice(genes, size=rng.integers(8, 25), replace=False).tolist()
    for s in range(40)
}
true = ["set 07", "set 23"]
signal = sum(X[sets[name]].sum(axis=1) / np.sqrt(len(sets[name])) for name in true)
y = np.where(signal + 0.5 * rng.normal(size=len(X)) > 0, "case", "control")

kernels = mk.group_kernels(sets, X)
print(len(kernels), "kernels, the first is", kernels[0].label)

# %%
# Weights on all rows, and on halves
# ----------------------------------
# ``weight_stability`` fits the model on both halves of the rows, again and again, and
# counts how often each kernel gets a weight. A small C selects few kernels; the bound
# says how many of the stable ones chance explains at most.

model = mk.MKLClassifier(kernels, p=1, C=0.3, random_state=0).fit(X, y)
halves = mk.weight_stability(
    model, X, y, Cs=[0.1, 0.2, 0.3], n_pairs=15, random_state=0
)
print("chosen in 80 % of the halves:", halves.stable(0.8))
print(f"of these by chance, at most {halves.false_selections(0.8):.2f}")

# %%
# The weight of every set on all rows, and the share of the halves that chose it.

order = np.argsort(-model.kernel_weights_)[:12]
names = [model.kernel_names_[f].removeprefix("rbf@") for f in order]
colors = ["C0" if name in true else "0.7" for name in names]
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9.5, 4.2), sharey=True, layout="constrained"
)
left.barh(names, model.kernel_weights_[order], color=colors)
left.invert_yaxis()
left.set(xlabel="kernel weight on all rows, p = 1", title="Twelve largest weights")
right.barh(names, 100 * halves.most_frequent[order], color=colors)
right.set(xlabel="chosen on halves of the rows, %", title="Are they chosen again?")
plt.show()

# %%
# What it shows
# -------------
# Blue are the two sets behind the labels. Sets that share genes with them get some
# weight as well, and others by chance; on other halves of the rows chance chooses
# others. :doc:`/stability` says what may be concluded.

for name in true:
    f = model.kernel_names_.index(f"rbf@{name}")
    print(
        f"{name}: weight {model.kernel_weights_[f]:.0%}, "
        f"chosen in {halves.most_frequent[f]:.0%} of the halves"
    )
