"""
The certificate in pictures
===========================

Every fit ends with a proof of how good it is. You will see where the proof comes from:
one value that can only be too high, one that can only be too low, and the optimum
between them.
"""

# %%
# Two sides of one problem
# ------------------------
# The objective of any model is at or above the optimum. The dual value of any feasible
# coefficients is at or below it. The history of a fit has both: the objective and the
# relative gap to the best dual value after every round.

import matplotlib.pyplot as plt
import numpy as np

import manykernels as mk

data = mk.datasets.load_noisy_digits(n_train=400, n_noise=12)


def fit(solver, **settings):
    model = mk.MKLClassifier(
        data.kernels, p=1.25, C=10, solver=solver, random_state=0, **settings
    )
    return model.fit(data.data, data.target)


tight = fit("auto", tol=1e-5)
optimum = tight.objective_
print(f"optimum within {tight.duality_gap_ / optimum:.1e} of {optimum:.6f}")

# %%
# The same problem by three solvers. ``auto`` works on until the gap is small enough,
# OBSCURE and Pegasos make a number of passes over the rows. A round of ``auto`` is more
# work than a pass.

runs = {
    "auto": fit("auto", tol=1e-4),
    "obscure": fit("obscure", max_iter=60),
    "pegasos": fit("pegasos", max_iter=60),
}


def curves(model):
    """Rounds, the best objective so far, the bound below it, and the relative gap."""
    rounds, _, objective, gap, _ = map(np.array, zip(*model.history_, strict=True))
    best = np.minimum.accumulate(objective)
    return rounds, best, best * (1 - gap), gap


figure, axes = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
bands, below = axes.flat[:3], axes.flat[3]
for ax, (name, model) in zip(bands, runs.items(), strict=True):
    rounds, objective, bound, gap = curves(model)
    ax.plot(rounds, objective / optimum, "C0", label="objective (never below)")
    ax.plot(rounds, bound / optimum, "C1", label="bound (never above)")
    ax.fill_between(rounds, bound / optimum, objective / optimum, color="0.9")
    ax.axhline(1, color="black", lw=0.8, ls=":", label="the optimum")
    ax.set(xlabel="round", ylabel="value / optimum", title=name, ylim=(0, 6))
    below.semilogy(rounds, gap, label=name)
bands[0].legend()
bands[0].set_xticks(range(1, len(runs["auto"].history_) + 1))
below.set(xlabel="round", ylabel="relative gap", title="The width of the bands")
below.legend()
plt.show()

# %%
# What it shows
# -------------
# The shaded band is what is not known. ``auto`` closes it; OBSCURE and Pegasos leave it
# open, although their models are good. The band says how far *at most* a model is from
# the optimum; all of them are nearer than they can prove.

for name, model in runs.items():
    true = 1 - optimum / model.objective_
    proven = model.duality_gap_ / model.objective_
    accuracy = model.score(data.data_test, data.target_test)
    print(f"{name:8} gap {true:7.3%}, proven {proven:7.3%}, accuracy {accuracy:.3f}")

# %%
# The gap speaks of the training problem, and of nothing else: not of C, not of p, not
# of new rows. Models with very different gaps can be equally accurate. What the gap
# rules out is a bad surprise from a solver that stopped too soon. :doc:`/certificate`
# has the formulas, :doc:`/mathematics` where they come from.
#
# The dual point behind the bound is kept, so that anyone can check it. It is feasible:
# at most C at the true class, and rows that sum to zero.

point = runs["auto"].dual_point_
own = point[np.arange(len(data.target)), data.target]
print(f"true class between {own.min():.3f} and {own.max():.3f}, C = 10")
print(f"largest row sum {np.abs(point.sum(axis=1)).max():.1e}")
