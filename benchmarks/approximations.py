"""Exact and approximate kernels on digits and MNIST: seconds, file size and accuracy.

Digits: a linear, a quadratic and three RBF kernels on all pixels, the estimator's
defaults. MNIST: RBF kernels with gamma 0.1 on four blocks of 14 x 14 pixels; needs its
files (downloaded, or in MANYKERNELS_DATA). One fit of each, in a row.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import medians, parse, save, show, timed
from mnist_speed import blocks
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

import manykernels as mk
from manykernels.kernels import RBF

C = 10.0
KINDS = ("nystroem", "random_features")
RANKS = (50, 100, 300, 1000)
COLUMNS = ["", "rank", "fit s", "predict s", "file MB", "accuracy", "gap"]


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        train=(6000, "MNIST's training images; 0 leaves MNIST out"),
        test=(5000, "MNIST's test images"),
        seeds=(3, "seeds of landmarks and random features"),
    )
    # Compiled loops are loaded before anything is timed.
    measure(digits(), None, None, 50, 0)
    title, n = "digits, 1,200 rows, default kernels", options.seeds
    tables = {"digits": table(title, digits(), None, n)}
    if options.train:
        images = mk.datasets.load_mnist(options.train, options.test)
        title = f"MNIST, {options.train:,} rows, 4 RBF kernels on blocks"
        kernels = [RBF(0.1, columns=columns) for columns in blocks()]
        tables["mnist"] = table(title, images, kernels, n)
    save("approximations", options=vars(options), C=C, tables=tables)


def digits() -> Bunch:
    """1,200 images to learn from, the others to test."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order] / 16.0, y[order]
    return Bunch(
        data=X[:1200], target=y[:1200], data_test=X[1200:], target_test=y[1200:]
    )


def table(title: str, data: Bunch, kernels: Any, n_seeds: int) -> list[dict[str, Any]]:
    """The exact fit and every approximation: medians, and the range of accuracies."""
    choices = [(None, 300)] + [(kind, rank) for kind in KINDS for rank in RANKS]
    turns = [
        [measure(data, kernels, *choice, seed) for choice in choices]
        for seed in range(n_seeds)
    ]
    rows = []
    for runs in zip(*turns, strict=True):
        found = [run["accuracy"] for run in runs]
        rows.append(medians(runs) | {"lowest": min(found), "highest": max(found)})
    keys = ("kernels", "rank", "fit", "predict", "megabytes", "accuracy", "gap")
    show(title, COLUMNS, [[row[key] for key in keys] for row in rows])
    return rows


def measure(
    data: Bunch, kernels: Any, approximate: str | None, rank: int, seed: int
) -> dict[str, Any]:
    """One fit, the prediction of the test rows, and the size of the saved model."""
    model = mk.MKLClassifier(
        kernels,
        C=C,
        approximate=approximate and f"{approximate}:{rank}",
        random_state=seed,
    )
    _, fit = timed(lambda: model.fit(data.data, data.target))
    predicted, predict = timed(lambda: model.predict(data.data_test))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        megabytes = path.stat().st_size / 1e6
    return {
        "kernels": approximate or "exact",
        "rank": rank if approximate else None,
        "fit": fit,
        "predict": predict,
        "megabytes": megabytes,
        "accuracy": float(np.mean(predicted == data.target_test)),
        "gap": model.duality_gap_ / model.objective_,
    }


if __name__ == "__main__":
    main()
