"""
Survival: times until an event
==============================

Patients are followed until an event or until they leave, and some never have it. You
will see a model that learns from both, groups of patients by predicted risk, and which
group of columns the model needs.
"""

# %%
# Patients
# --------
# Ten groups of four columns, think of pathways. Times depend on two of them, on one in
# a curved way; whoever leaves before the event is censored.

import matplotlib.pyplot as plt
import numpy as np

import manykernels as mk

rng = np.random.default_rng(0)
n_groups, width = 10, 4


def draw(n_rows):
    X = rng.normal(size=(n_rows, n_groups * width))
    effect = (
        X[:, :width].sum(axis=1) / 2 - (X[:, width : 2 * width] ** 2).sum(axis=1) / 3
    )
    time = np.exp(3 + effect + 0.5 * rng.normal(size=n_rows))
    left = rng.exponential(40.0, size=n_rows)
    return X, (np.minimum(time, left), time <= left)


X, y = draw(300)
X_new, y_new = draw(600)
print(f"{y[1].mean():.0%} of the events were seen")

# %%
# A model
# -------
# A linear and a Gaussian kernel for every group. ``score`` is the concordance: how
# often, of two patients, the one with the earlier event has the higher risk.

groups = {
    f"group {g}": list(range(width * g, width * (g + 1))) for g in range(n_groups)
}
kernels = mk.group_kernels(groups, kernels="linear; rbf")
model = mk.MKLSurvival(kernels, p=1.05, random_state=0).fit(X, y)
print(f"concordance on new patients {model.score(X_new, y_new):.3f}")
print(f"at most {model.duality_gap_ / model.objective_:.2%} above the optimum")

# %%
# Left: the share of patients without an event, in thirds by predicted risk (Kaplan and
# Meier). Right: what each group of columns contributes on new patients.


def kaplan_meier(time, event):
    """Times of events, and the share without an event after each."""
    order = np.argsort(time, kind="stable")
    at_risk = np.arange(len(time), 0, -1)
    return time[order], np.cumprod(1 - event[order] / at_risk)


time, event = y_new
risk = model.predict_risk(X_new)
thirds = np.digitize(risk, np.quantile(risk, [1 / 3, 2 / 3]))
found = mk.kernel_importance(model, X_new, y_new, by="view")
low, high = found.interval(0.95)

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
for third, label in enumerate(("low risk", "middle", "high risk")):
    rows = thirds == third
    left.step(*kaplan_meier(time[rows], event[rows]), where="post", label=label)
left.set(xlabel="time", ylabel="share without an event", title="New patients, by risk")
left.set(xlim=(0, np.quantile(time, 0.95)), ylim=(0, 1.02))
left.legend()
place = np.arange(n_groups)
right.bar(place - 0.2, found.weight, 0.4, color="0.75", label="kernel weight")
right.bar(place + 0.2, found.share, 0.4, color="C0", label="share on new rows")
right.errorbar(
    place + 0.2,
    found.share,
    yerr=[found.share - low, high - found.share],
    fmt="none",
    ecolor="black",
    capsize=3,
)
right.axhline(0, color="gray", lw=0.8)
right.set_xticks(place)
right.set(xlabel="group of columns", ylabel="part of the whole", title="Which groups")
right.legend()
plt.show()

# %%
# What it shows
# -------------
# Risks that were learned from one set of patients part the others. The two groups that
# make the times hold on new patients; the weights of the others are what learning spent
# on chance.

for name, share, error in zip(found.names, found.share, found.std_error, strict=True):
    print(f"{name}: share {share:+.2f} ± {error:.2f}")
