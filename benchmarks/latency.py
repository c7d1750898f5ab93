"""One row at a time: milliseconds of a prediction, next to scikit-learn's SVC.

All models learn from the same digits. Those with 60 kernels differ in the columns: all
kernels on all pixels, four kernels on each of 15 groups of pixels, or every kernel on
pixels of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from common import alternate, parse, ratios, save, show, summary
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

import manykernels as mk
from manykernels.kernels import RBF, Kernel

BASE = "SVC, one RBF kernel"
WIDTHS = np.geomspace(1e-3, 1e-1, 60)


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__, repeats=(300, "turns"), train=(1200, "training images, at most 1,797")
    )
    digits = mk.datasets.load_noisy_digits(options.train, 0, 0)
    actions = one_row_actions(digits.data, digits.target)
    for action in actions.values():
        action()
    seconds = alternate(actions, options.repeats)
    times = {name: summary(found) for name, found in seconds.items()}
    against = ratios(seconds, BASE)
    rows = [
        [name, *(1e3 * time[key] for key in ("median", "q25", "q75"))]
        + [against[name]["median"]]
        for name, time in times.items()
    ]
    columns = ["", "ms", "first quartile", "third quartile", "ratio to SVC"]
    show("one row", columns, rows)
    save("latency", seeds=[0], seconds=times, ratios=against, train=options.train)


def one_row_actions(X: np.ndarray, y: np.ndarray) -> dict[str, Callable[[], Any]]:
    """What is timed, by name."""
    row = X[:1]
    rival = SVC(C=10.0).fit(X, y)
    actions: dict[str, Callable[[], Any]] = {BASE: lambda: rival.predict(row)}
    for name, kernels in sixty_kernels().items():
        model = mk.MKLClassifier(kernels, p=1.5, C=10.0, random_state=0).fit(X, y)
        actions[f"predict, {name}"] = lambda model=model: model.predict(row)
    actions["predict_proba, the last"] = lambda: model.predict_proba(row)
    actions["kernel_contributions, the last"] = lambda: model.kernel_contributions(row)
    values = mk.MKLRegressor(kernels, p=1.5, C=10.0, random_state=0).fit(X, y)
    actions["MKLRegressor.predict, the last"] = lambda: values.predict(row)
    products = polynomial(X[:300], y[:300])
    part = row[:, 20:28]
    actions["PolynomialMKLRegressor.predict"] = lambda: products.predict(part)
    return actions


def sixty_kernels() -> dict[str, list[Kernel]]:
    """60 kernels on 64 pixels: sharing their columns, some of them, or nothing."""
    pixels = range(64)
    return {
        "60 kernels on the same columns": [RBF(gamma) for gamma in WIDTHS],
        "60 kernels on 15 groups of columns": [
            RBF(gamma, columns=pixels[4 * group : 4 * group + 4])
            for group in range(15)
            for gamma in WIDTHS[::15]
        ],
        "60 kernels on 60 groups of columns": [
            RBF(columns=pixels[first : first + 5]) for first in range(60)
        ],
    }


def polynomial(X: np.ndarray, y: np.ndarray) -> Any:
    """A model of products of kernels; how precise it is does not matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = mk.PolynomialMKLRegressor(degree=2, random_state=0)
        return model.fit(X[:, 20:28], y)


if __name__ == "__main__":
    main()
