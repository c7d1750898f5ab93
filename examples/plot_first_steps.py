"""
First steps
===========

A table whose columns come in groups, one kernel for each group, and a classifier that
learns how much to trust each of them. You will see how to write kernels as text, what a
fitted model knows, and what its certificate says.
"""

# %%
# Three groups of columns
# -----------------------
# Every cell nucleus of a biopsy was measured ten ways, and every measure is there as a
# mean, as a standard error and as the mean of the three worst nuclei.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import manykernels as mk

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# A kernel is written as its sort, its parameters after ``:`` and its columns after
# ``@``, with ``*`` for any characters. ``scale="standard"`` standardizes the columns
# inside the model, so that the scaling is saved together with it.

kernels = [
    "linear@mean*",
    "rbf@mean*",
    "linear@*error",
    "rbf@*error",
    "linear@worst*",
    "rbf@worst*",
]
model = mk.MKLClassifier(kernels, scale="standard", random_state=0)
model.fit(X_train, y_train)
print(f"accuracy on new rows: {model.score(X_test, y_test):.3f}")

# %%
# What the model knows
# --------------------
# Kernel weights are not negative and sum to one. The certificate is a bound: no other
# model could make the training objective smaller by more than the gap.

for name, weight in zip(model.kernel_names_, model.kernel_weights_, strict=True):
    print(f"{weight:6.1%}  {name}")
gap = model.duality_gap_ / model.objective_
print(f"at most {gap:.2%} above the optimum after {model.n_iter_} rounds")

# %%
# A picture of the weights. Every decision is also a sum of one part per kernel, so that
# a single prediction can be explained: bars to the right speak for "benign".

patients = X_test.iloc[[3, 0]]
parts = model.kernel_contributions(patients)
names = model.kernel_names_

place = np.arange(len(names))
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.8), sharey=True, layout="constrained"
)
left.barh(place, model.kernel_weights_, color="0.6")
left.set_yticks(place, names)
left.invert_yaxis()
left.set(xlabel="kernel weight", title="What the model listens to")
right.barh(place - 0.2, parts[0], 0.4, color="C0", label="one patient")
right.barh(place + 0.2, parts[1], 0.4, color="C1", label="another")
right.axvline(0, color="gray", lw=0.8)
right.set(xlabel="part of the decision", title="Two decisions, explained")
right.legend()
plt.show()

# %%
# The parts of a patient sum to the decision. Do not read the weights as importance,
# though: :doc:`/importance` says why, and the example "Which view matters?" shows it.

for part, decision, label in zip(
    parts, model.decision_function(patients), model.predict(patients), strict=True
):
    word = ["malignant", "benign"][label]
    print(f"parts {part.sum():+.3f}, decision {decision:+.3f}: {word}")
