"""
Choosing p and C
================

p says how sparse the weights are, C how much the training errors count. You will see a
search over both that computes the kernels once, and how the weights change with p.
"""

# %%
# A search
# --------
# Digits with as many useless kernels as good ones. ``MKLClassifierCV`` tries all pairs
# on folds of the training rows; a fit with one C is the start of the next.

import matplotlib.pyplot as plt
import numpy as np

import manykernels as mk

data = mk.datasets.load_noisy_digits(n_train=200, n_noise=12)
ps = [1.0, 1.05, 1.1, 1.25, 1.5, 2.0]
Cs = [0.1, 1.0, 10.0, 100.0]
search = mk.MKLClassifierCV(data.kernels, ps=ps, Cs=Cs, cv=3, random_state=0)
search.fit(data.data, data.target)
print(f"chosen p = {search.best_p_:g}, C = {search.best_C_:g}")
print(f"accuracy on new rows {search.score(data.data_test, data.target_test):.3f}")

# %%
# ``cv_results_`` has the form of scikit-learn's searches. The weights of every p are
# those of a fit to all training rows at the chosen C.

results = search.cv_results_
scores = np.empty((len(ps), len(Cs)))
for p, C, score in zip(
    results["param_p"], results["param_C"], results["mean_test_score"], strict=True
):
    scores[ps.index(p), Cs.index(C)] = 100 * score

useful = []
kept = []
for p in ps:
    model = mk.MKLClassifier(data.kernels, p=p, C=search.best_C_, random_state=0)
    weights = model.fit(data.data, data.target).kernel_weights_
    useful.append(100 * weights[:12].sum())
    kept.append(np.count_nonzero(weights))

# %%
# Left: accuracy on the rows left out. Right: what the weights do.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
image = left.imshow(scores, aspect="auto", cmap="cividis")
for i in range(len(ps)):
    for j in range(len(Cs)):
        dark = scores[i, j] < scores.mean()
        color = "white" if dark else "black"
        left.text(j, i, f"{scores[i, j]:.0f}", ha="center", va="center", color=color)
left.set_xticks(range(len(Cs)), [f"{C:g}" for C in Cs])
left.set_yticks(range(len(ps)), [f"{p:g}" for p in ps])
left.set(xlabel="C", ylabel="p", title="Accuracy on left-out rows, %")
figure.colorbar(image, ax=left)
place = np.arange(len(ps))
right.bar(place, useful, color="C0", label="12 useful kernels")
right.bar(place, 100 - np.array(useful), bottom=useful, color="0.8", label="12 useless")
for i, n in enumerate(kept):
    right.text(i, 2, f"{n}", ha="center", color="white", fontweight="bold")
right.set_xticks(place, [f"{p:g}" for p in ps])
right.set(xlabel="p", ylabel="weight, %", title="Weights (in white: kernels not zero)")
right.set_ylim(0, 118)
right.legend(loc="upper center", ncols=2)
plt.show()

# %%
# What it shows
# -------------
# p = 1 leaves most kernels out, p = 2 weighs all alike, and values between interpolate.
# C matters less here once it is large enough. :doc:`/choosing_p` has the evidence on
# eight data sets behind the default, p = 1.1.

for p, n, weight in zip(ps, kept, useful, strict=True):
    print(f"p = {p:<4g} {n:2d} of 24 kernels, {weight:.0f} % on the useful ones")
