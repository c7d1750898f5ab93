"""
Interactions among 176,851 products
===================================

A target that depends on a few products of columns, and a model that looks at all
products of up to three of a hundred columns without listing them. You will see how to
find them, and how to ask rows that did not choose the terms whether to believe them.
"""

# %%
# A needle in a haystack
# ----------------------
# One hundred columns have 100 + 5,050 + 171,700 products of one to three factors. Five
# of them make up the target.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import comb

import manykernels as mk
from manykernels.products import term_intervals

rng = np.random.default_rng(0)
names = [f"g{j}" for j in range(100)]
X = pd.DataFrame(rng.uniform(-1, 1, size=(600, 100)), columns=names)
y = (
    2.0 * X["g3"] * X["g17"]
    - 1.0 * X["g8"]
    + 3.0 * X["g20"] * X["g41"] * X["g77"]
    + 1.5 * X["g8"] * X["g60"]
    - 1.0 * X["g90"] ** 2
    + 0.3 * rng.normal(size=len(X))
)
print(f"{comb(100 + 3, 3, exact=True):,} products, with the constant")

# %%
# The model
# ---------
# p = 1 (the default) gives all but a few products exactly zero weight, and proves how
# far the products that are not in the model could still improve it.

model = mk.PolynomialMKLRegressor(degree=3).fit(X[:400], y[:400])
print(model.explain())
print("chosen by left-out rows:", model.candidates_[0]["model"])
print(f"R^2 on new rows {model.score(X[400:], y[400:]):.3f}")

# %%
# ``term_intervals`` fits the same terms to rows that did not choose them, which makes
# honest intervals. Coefficients here are in units of the table.

found = pd.DataFrame(term_intervals(model, X[400:], y[400:]))
terms = found[found["term"] != "1"].reset_index(drop=True)
truth = {
    "g3 * g17": 2.0,
    "g8": -1.0,
    "g20 * g41 * g77": 3.0,
    "g8 * g60": 1.5,
    "g90^2": -1.0,
}

figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
place = np.arange(len(terms))
middle = (terms["low"] + terms["high"]) / 2
half = (terms["high"] - terms["low"]) / 2
ax.errorbar(
    middle,
    place,
    xerr=half,
    fmt="o",
    color="C0",
    capsize=4,
    label="estimate, 95 % interval",
)
known = [truth.get(term, 0.0) for term in terms["term"]]
ax.scatter(known, place, marker="x", color="black", zorder=3, label="truth")
ax.axvline(0, color="gray", lw=0.8)
ax.set_yticks(place, terms["term"])
ax.invert_yaxis()
ax.set(xlabel="coefficient, with an interval from new rows", title="Terms found")
ax.legend()
plt.show()

# %%
# What it shows
# -------------
# The list is the list of the truth, out of all those products. That is no promise: with
# few rows or much noise left-out rows prefer a shrunken model with many terms, or none.
# :doc:`/interactions` has the limits that were measured.

print("all terms true:", set(terms["term"]) == set(truth))
inside = (terms["low"] <= known) & (known <= terms["high"])
print(f"intervals that hold the truth: {inside.sum()} of {len(terms)}")
