"""Handwriting with nothing chosen: the defaults of SequenceLabeler on three kernels.

C = 10, eta0 = 0.1 and the mean of the models in the second half of the epochs, next to
the last model and to the mean of all. Train on one fold, test on the other nine.
"""

from __future__ import annotations

import numpy as np
from common import parse, save, show
from ocr_data import MODELS, Fold, words_of_all

from manykernels.base.machine import one_blas_thread
from manykernels.structured import OnlineProximal

MODEL = MODELS["MKL L, Q, G"]
AVERAGES = {"second half": "tail", "the last model": False, "all": True}


def main() -> None:
    options = parse(__doc__ or "", folds=(10, "training folds"))
    data = words_of_all()
    found: dict[str, list[float]] = {name: [] for name in AVERAGES}
    with one_blas_thread():
        for number in range(options.folds):
            for name, accuracy in run_fold(Fold(data, number)).items():
                found[name].append(100.0 * accuracy)
    rows = [[name, np.mean(own), np.std(own)] for name, own in found.items()]
    show(f"{options.folds} folds", ["average of", "accuracy", "deviation"], rows)
    save("ocr_defaults", seeds=[0], accuracy=found)


def run_fold(fold: Fold) -> dict[str, float]:
    """Share of the letters of the other folds that get their label."""
    problem = fold.problem(MODEL, 10.0)
    fitted = {
        name: (MODEL, OnlineProximal(average=average, random_state=0).solve(problem))
        for name, average in AVERAGES.items()
    }
    return fold.test_accuracies({n: (m, r.weights) for n, (m, r) in fitted.items()})


if __name__ == "__main__":
    main()
