"""Epochs of SVRG to a relative gap of 1e-2, 1e-4 and 1e-6, for 4, 16 and 64 kernels.

The theory promises a number of epochs linear in log(1 / eps), and steps that grow with
F^(1/q) where r = p / (2 - p) and 1/r + 1/q = 1. Log loss, half of the kernels are
noise. The fit is epochs = a + b log10(1 / eps) over all the epochs of a run; its R2
says how linear they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import console, exponent, parse, save, show
from smooth_wrapper import make_data

from manykernels.banks import GramBank
from manykernels.losses import Softmax
from manykernels.norms import LpGroupNorm
from manykernels.solvers import Problem
from manykernels.solvers.svrg.solver import SVRG

TOLS = (1e-2, 1e-4, 1e-6)
KERNELS = (4, 16, 64)


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        rows=(500, "rows"),
        classes=(5, "classes"),
        C=(1.0, "weight of the losses"),
        p=(4 / 3, "norm"),
        seeds=(3, "runs for each number of kernels"),
    )
    found = {n: measure(n, options) for n in KERNELS}
    report(found, vars(options))


def measure(n_kernels: int, options: Any) -> dict[str, Any]:
    """Mean epochs and steps over the seeds, and the fit."""
    stack, labels, _ = make_data(options.rows, n_kernels, options.classes)
    problem = Problem(
        GramBank(stack),
        labels,
        options.classes,
        Softmax(),
        LpGroupNorm(options.p),
        options.C,
        np.ones(options.rows),
    )
    epochs = np.zeros((options.seeds, len(TOLS)))
    passes = np.zeros((options.seeds, len(TOLS)))
    digits: list[float] = []
    numbers: list[int] = []
    for seed in range(options.seeds):
        history = SVRG(min(TOLS), random_state=seed).solve(problem).history
        gaps = np.array([line.gap for line in history])
        work = np.cumsum([line.updates for line in history]) / options.rows
        at = [int(np.argmax(gaps <= tol)) for tol in TOLS]
        epochs[seed], passes[seed] = np.array(at) + 1, work[at]
        digits += (-np.log10(gaps)).tolist()
        numbers += [line.epoch for line in history]
    slope, first = np.polyfit(digits, numbers, 1)
    return {
        "epochs": epochs.mean(axis=0),
        "passes": passes.mean(axis=0),
        "epochs_per_digit": slope,
        "first_epochs": first,
        "r2": np.corrcoef(digits, numbers)[0, 1] ** 2,
    }


def report(found: dict[int, dict[str, Any]], options: dict[str, Any]) -> None:
    """Print and store."""
    columns = ["kernels", *(f"epochs to {tol:g}" for tol in TOLS)]
    columns += ["epochs a digit", "R2", f"passes to {TOLS[-1]:g}"]
    rows = [
        [n, *f["epochs"], f["epochs_per_digit"], f["r2"], f["passes"][-1]]
        for n, f in found.items()
    ]
    show(f"SVRG, {options['rows']} rows, p = {options['p']:.3g}", columns, rows)
    growth = {
        what: exponent(KERNELS, [f[what][-1] for f in found.values()])
        for what in ("epochs", "passes")
    }
    r = options["p"] / (2.0 - options["p"])
    console.print(
        f"Growth with the number of kernels F: epochs F^{growth['epochs']:.2f}, passes "
        f"F^{growth['passes']:.2f}; the theory's bound on steps is F^{1 - 1 / r:.2f}."
    )
    save(
        "svrg_epochs",
        options=options,
        tols=TOLS,
        kernels=found,
        growth=growth,
        theory_growth=1 - 1 / r,
    )


if __name__ == "__main__":
    main()
