"""
Probabilities and calibration
=============================

When a model says 80 %, is it right in 80 % of the cases? You will see what
``predict_proba`` of the hinge loss and of the log loss is worth, next to scikit-learn's
SVM, on rows that no model has seen.
"""

# %%
# Labels with a known probability
# -------------------------------
# Two groups of columns make the labels, with chance in it; a third, the largest, is
# noise. Since the data are drawn, even the best possible probabilities are known.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import manykernels as mk

rng = np.random.default_rng(0)


def draw(n_rows):
    X = rng.normal(size=(n_rows, 38))
    chance = expit(2 * X[:, 0] + 2.5 * np.sin(2 * X[:, 4]) * X[:, 5])
    return X, (rng.random(n_rows) < chance).astype(int), chance


X, y, _ = draw(500)
X_new, y_new, chance = draw(4000)

# %%
# Three models
# ------------
# ``loss="hinge"`` gets its probabilities from a temperature, fitted on estimates of
# leave-one-out scores without a second model; ``loss="log"`` learns them. C is chosen
# by cross-validation of the log loss on the training rows.

kernels = "rbf@0-3; rbf@4-7; rbf@8-37"


def chosen(model, **grid):
    return GridSearchCV(model, grid, scoring="neg_log_loss", cv=5).fit(X, y)


hinge = mk.MKLClassifier(kernels, random_state=0)
sigmoid = CalibratedClassifierCV(SVC(), method="sigmoid", cv=5, ensemble=False)
models = {
    "MKL, hinge loss": chosen(hinge, C=[0.1, 0.3, 1, 3, 10]),
    "MKL, log loss": chosen(hinge.set_params(loss="log"), C=[0.1, 0.3, 1, 3, 10]),
    "SVC, sigmoid": chosen(sigmoid, estimator__C=[0.1, 0.3, 1, 3, 10]),
}
claims = {name: model.predict_proba(X_new)[:, 1] for name, model in models.items()}
claims["the truth"] = chance
for name, claim in claims.items():
    print(f"{name:16} log loss {log_loss(y_new, claim):.3f}")

# %%
# On the diagonal claims come true. The bars below say how often what was claimed.

figure, (upper, lower) = plt.subplots(
    2, 1, figsize=(6.5, 6.5), sharex=True, layout="constrained", height_ratios=(2.2, 1)
)
upper.plot([0, 1], [0, 1], color="gray", lw=0.8)
bins = np.linspace(0, 1, 11)
for (name, claim), marker in zip(claims.items(), "osD^", strict=True):
    color = "black" if name == "the truth" else None
    true, said = calibration_curve(y_new, claim, n_bins=10)
    (line,) = upper.plot(said, true, marker=marker, color=color, label=name)
    lower.hist(claim, bins, histtype="step", color=line.get_color(), lw=1.5)
upper.set(ylabel="share that came true", title="Reliability on 4,000 new rows")
upper.legend()
lower.set(xlabel="probability claimed of class 1", ylabel="rows")
plt.show()

# %%
# What it shows
# -------------
# The log loss learns probabilities, and its claims lie on the diagonal; the hinge loss,
# whose temperature comes afterwards, claims a little too much here. Calibration is only
# half of it: who knows little claims little, and stays near the middle. The log loss
# above counts both, and the truth has the lowest there can be. How far claims are from
# what came true, on average over the rows:

for name, claim in claims.items():
    place = np.clip(np.digitize(claim, bins) - 1, 0, 9)
    errors = [
        abs(claim[place == b].mean() - y_new[place == b].mean()) * np.mean(place == b)
        for b in range(10)
        if np.any(place == b)
    ]
    print(f"{name:16} calibration error {sum(errors):.3f}")
