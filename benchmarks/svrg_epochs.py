"""What SVRG's epochs and steps cost, and how both grow with the number of kernels F.

Practical steps: epochs to a relative gap of 1e-2, 1e-4 and 1e-6 for 4, 16 and 64
kernels, on kernels and on explicit features. The theory promises epochs linear in
log(1 / eps); the fit is epochs = a + b log10(1 / eps) over all the epochs of a run, and
its R2 says how linear they are.

The paper's steps: it bounds the steps of an epoch, over all kernels, by
F^(1/q) L / reg, where r = p / (2 - p) and 1/r + 1/q = 1, and counts L, the smoothness
of one row's loss, as a constant. With kernels of unit diagonal it is not: L is
max_i sum_f K_f(i, i) times that of the loss, F times that of one kernel. Here are L and
the steps of the first epoch by F, their exponents, and the same for the combined kernel
of the practical steps, whose L is max_i sum_f d_f K_f(i, i). Log loss, half of the
kernels are noise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from common import console, exponent, parse, save, show
from contest.objective import quartiles
from smooth_wrapper import make_data

from manykernels.banks import Bank, BlockBank, FeatureBlock, GramBank
from manykernels.losses import Softmax
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Problem
from manykernels.solvers.svrg.solver import SVRG
from manykernels.solvers.svrg.theory import BlockEpochs

TOLS = (1e-2, 1e-4, 1e-6)
KERNELS = (4, 16, 64)
P_VALUES = (12 / 11, 1.25, 4 / 3, 1.6)  # 1/q is 1/6, 0.4, 0.5 and 0.75
RANK = 100  # features of an explicit block


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        quick=(False, "150 rows, 4 and 16 kernels, one seed, a gap of 1e-4 at last"),
        rows=(500, "rows"),
        classes=(5, "classes"),
        C=(1.0, "weight of the losses"),
        p=(4 / 3, "norm of the practical steps"),
        seeds=(3, "data sets, and seeds of the runs"),
    )
    counts, tols = KERNELS, TOLS
    if options.quick:
        options.rows, options.seeds = 150, 1
        counts, tols = KERNELS[:2], TOLS[:2]
    practical = {
        kind: {n: measure(kind, n, tols, options) for n in counts}
        for kind in ("kernels", "explicit features")
    }
    theory = {f"{p:.3g}": theory_steps(p, counts, options) for p in P_VALUES}
    report(practical, theory, tols)
    save(
        "svrg_epochs",
        options=vars(options),
        tols=tols,
        practical=practical,
        theory=theory,
    )


def make_problem(kind: str, n_kernels: int, p: float, seed: int, o: Any) -> Problem:
    """The log loss on kernels, or on features that give nearly the same kernels."""
    stack, labels, _ = make_data(o.rows, n_kernels, o.classes, seed)
    bank: Bank = GramBank(stack)
    if kind != "kernels":
        blocks = [FeatureBlock(features(stack[:, f])) for f in range(n_kernels)]
        bank = BlockBank(blocks, max_combined_rows=1)
    weight = np.ones(o.rows)
    return Problem(bank, labels, o.classes, Softmax(), LpGroupNorm(p), o.C, weight)


def features(gram: np.ndarray) -> np.ndarray:
    """The first principal components of a kernel; their rows have unit length."""
    values, vectors = np.linalg.eigh(gram)
    phi = vectors[:, -RANK:] * np.sqrt(np.maximum(values[-RANK:], 0.0))
    return np.asarray(phi / np.linalg.norm(phi, axis=1, keepdims=True))


def measure(
    kind: str, n_kernels: int, tols: tuple[float, ...], options: Any
) -> dict[str, Any]:
    """Quartiles of epochs and passes over the seeds, and the fit."""
    epochs, passes = [], []
    digits: list[float] = []
    numbers: list[int] = []
    for seed in range(options.seeds):
        problem = make_problem(kind, n_kernels, options.p, seed, options)
        history = SVRG(min(tols), random_state=seed).solve(problem).history
        gaps = np.array([line.gap for line in history])
        work = np.cumsum([line.updates for line in history]) / options.rows
        reached = [int(np.argmax(gaps <= tol)) for tol in tols]
        solved = gaps.min() <= np.array(tols)
        epochs.append(np.where(solved, np.array(reached) + 1, np.inf))
        passes.append(np.where(solved, work[reached], np.inf))
        digits += (-np.log10(np.maximum(gaps, min(tols)))).tolist()
        numbers += [line.epoch for line in history]
    slope, first = np.polyfit(digits, numbers, 1)
    return {
        "epochs": [quartiles(column) for column in np.transpose(epochs)],
        "passes": [quartiles(column) for column in np.transpose(passes)],
        "epochs_per_digit": slope,
        "first_epochs": first,
        "r2": np.corrcoef(digits, numbers)[0, 1] ** 2,
    }


def theory_steps(p: float, counts: tuple[int, ...], options: Any) -> dict[str, Any]:
    """L and the steps of an epoch by the number of kernels, and their exponents.

    `steps` are those of the paper's rule, all kernels together, from uniform weights of
    norm one; `steps_if_L_stayed` those for kernels divided by their number, so that L
    is the same for all F; `combined_L` is the smoothness on the combined kernel.
    """
    found: dict[str, list[float]] = {
        "L": [],
        "steps": [],
        "steps_if_L_stayed": [],
        "combined_L": [],
    }
    for n in counts:
        problem = make_problem("kernels", n, p, 0, options)
        found["L"].append(largest_row(problem, np.ones(n)))
        weights = problem.norm.uniform_weights(n)
        found["combined_L"].append(largest_row(problem, weights))
        found["steps"].append(first_epoch(problem))
        divided = replace(problem, bank=GramBank(problem.bank.stored_rows() / n))
        found["steps_if_L_stayed"].append(first_epoch(divided))
    exponents = {key: exponent(counts, values) for key, values in found.items()}
    return {**found, "exponents": exponents, "paper": 2.0 * (p - 1.0) / p}


def largest_row(problem: Problem, weights: np.ndarray) -> float:
    """max_i sum_f weights_f K_f(i, i), times the smoothness of the loss."""
    rows = problem.bank.diagonals() @ weights
    return float(problem.loss.smoothness or 0.0) * float(rows.max())


def first_epoch(problem: Problem) -> float:
    """Steps that the paper's rule gives to the first epoch, over all kernels."""
    rng = np.random.default_rng(0)
    search = BlockEpochs(problem, problem.zero(), rng, min(TOLS))
    search._rule(problem.norm.uniform_weights(problem.bank.n_blocks))
    return float(search.lengths[0].sum())


def report(
    practical: dict[str, dict[int, Any]],
    theory: dict[str, dict[str, Any]],
    tols: tuple[float, ...],
) -> None:
    """Print."""
    columns = ["kernels", *(f"epochs to {tol:g}" for tol in tols)]
    columns += ["epochs a digit", "R2", f"passes to {tols[-1]:g}"]
    for kind, found in practical.items():
        rows = [
            [
                n,
                *(cell["median"] for cell in f["epochs"]),
                f["epochs_per_digit"],
                f["r2"],
                f["passes"][-1]["median"],
            ]
            for n, f in found.items()
        ]
        show(f"SVRG, practical steps, {kind}", columns, rows)
    rows = [[p, one["paper"], *one["exponents"].values()] for p, one in theory.items()]
    head = ["p", "paper's table", "L", "steps", "steps, K / F", "L, combined"]
    show("exponents of F", head, rows)
    console.print(
        "The paper's exponent holds for the steps only where L does not grow."
    )


if __name__ == "__main__":
    main()
