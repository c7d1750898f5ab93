"""Digits, 1,200 training images, 12 kernels ready-made: seconds and ratios to an SVM.

Solvers work on a stored bank, as the SVM gets its averaged kernel ready-made; the
lines "fit" time MKLClassifier.fit on the precomputed stack (n, n, 12), checks included.
Averaging the kernels is not counted. The "grid" is scikit-learn's GridSearchCV with
five folds and twelve settings, for the stack and for the averaged kernel alike, slicing
by scikit-learn included. The line "bare loop" is what OBSCURE cannot go below while it
keeps the scores of every row under every kernel: it weighs the cached scores of each
visited row, and adds one row of all kernels to the scores of two classes as often as
OBSCURE does; no norms, steps or objective.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from common import alternate, parse, ratios, save, show, summary, timed
from grade import Grader, make_problem
from numba import njit
from shares import share_inside
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import manykernels as mk
from manykernels.banks import build_bank
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet
from manykernels.solvers import Auto, Obscure
from manykernels.solvers.loop import SolveResult

C = 10.0
BASE = "SVC, averaged kernel"
OBSCURE = "OBSCURE 5 + 30, p = 1.25"
BARE = "bare loop of OBSCURE"
FIT = "fit, auto to 1e-2, p = 1.1"
CALIBRATION = "manykernels.mkl.classifier.calibrate_later"  # what a fit does for it
FOLDS = 5
GRID_BASE = "grid of 60 fits, SVC, averaged kernel"
GRID = "grid of 60 fits, auto to 1e-2"
SOLVERS: dict[str, tuple[float, Callable[[], Any]]] = {
    OBSCURE: (1.25, lambda: Obscure(5, 30, random_state=0)),
    "auto to 1e-2, p = 1.1": (1.1, lambda: Auto(tol=1e-2, random_state=0)),
    "auto to 1e-2, p = 1.25": (1.25, lambda: Auto(tol=1e-2, random_state=0)),
    "auto to 1e-2, p = 1": (1.0, lambda: Auto(tol=1e-2, random_state=0)),
}


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        repeats=(15, "turns"),
        grids=(5, "turns of the grid"),
        train=(1200, "training images"),
    )
    digits = mk.datasets.load_noisy_digits(options.train, 0, 0)
    kernels = KernelSet.fit(as_kernels(digits.kernels), digits.data)
    stack = kernels.stack()
    mean = stack.mean(axis=0, dtype=np.float64)
    results, warm_up = timed(lambda: solve_all(kernels, digits.target))
    actions = {BASE: lambda: SVC(kernel="precomputed", C=C).fit(mean, digits.target)}
    actions |= solver_actions(kernels, digits.target)
    actions |= {BARE: bare_loop(kernels, results[OBSCURE])}
    given = np.ascontiguousarray(np.moveaxis(stack, 0, -1))
    actions |= fit_actions(given, digits.target)
    for action in actions.values():
        action()
    seconds = alternate(actions, options.repeats)
    kept = share_inside(actions[FIT], CALIBRATION, options.repeats)
    grids = alternate(grid_actions(given, mean, digits.target), options.grids)
    marks = grade(digits, results)
    marks[BASE] = {"accuracy": svm_accuracy(digits, mean)}
    report(seconds, grids, marks, warm_up, kept, options.train)


def solve_all(kernels: KernelSet, target: np.ndarray) -> dict[str, SolveResult]:
    """One solution of each solver, which also compiles the loops."""
    bank = build_bank(kernels)
    return {
        name: solver().solve(make_problem(bank, target, p, C))
        for name, (p, solver) in SOLVERS.items()
    }


def solver_actions(
    kernels: KernelSet, target: np.ndarray
) -> dict[str, Callable[[], Any]]:
    """The solvers on a bank that is already there."""
    bank = build_bank(kernels)

    def action(p: float, solver: Callable[[], Any]) -> Callable[[], Any]:
        problem = make_problem(bank, target, p, C)
        return lambda: solver().solve(problem)

    return {name: action(p, solver) for name, (p, solver) in SOLVERS.items()}


def bare_loop(kernels: KernelSet, result: SolveResult) -> Callable[[], Any]:
    """As many visits and updates as a run of OBSCURE makes, in random order."""
    stack = build_bank(kernels).stack
    n_rows, n_kernels, _ = stack.shape
    n_classes = result.model.coef.shape[1]
    rng = np.random.default_rng(0)
    order = np.concatenate([rng.permutation(n_rows) for _ in result.history])
    n_updates = sum(line.updates for line in result.history)
    wrong = rng.permutation(len(order)) < n_updates
    support = np.flatnonzero(np.any(result.model.coef != 0.0, axis=1))
    order[wrong] = rng.choice(support, n_updates)
    own = rng.integers(n_classes, size=len(order))
    other = (own + rng.integers(1, n_classes, size=len(order))) % n_classes
    scores = np.zeros((n_classes, n_kernels, n_rows), stack.dtype)
    weights = np.ones(n_kernels, stack.dtype)
    return lambda: _bare_loop(stack, scores, weights, order, wrong, own, other)


@njit(fastmath=True)
def _bare_loop(stack, scores, weights, order, wrong, own, other):
    n_classes, n_kernels, n_rows = scores.shape
    step = scores.dtype.type(0.5)
    seen = scores.dtype.type(0)
    for t in range(len(order)):
        i = order[t]
        for k in range(n_classes):
            for f in range(n_kernels):
                seen += weights[f] * scores[k, f, i]
        if not wrong[t]:
            continue
        row = stack[i].reshape(n_kernels * n_rows)
        up = scores[own[t]].reshape(n_kernels * n_rows)
        down = scores[other[t]].reshape(n_kernels * n_rows)
        for j in range(len(row)):
            change = step * row[j]
            up[j] += change
            down[j] -= change
    return seen


def fit_actions(stack: np.ndarray, target: np.ndarray) -> dict[str, Callable[[], Any]]:
    """The whole fit, from the precomputed stack to the calibrated model."""

    def action(p: float, solver: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: mk.MKLClassifier("precomputed", p=p, C=C, solver=solver()).fit(
            stack, target
        )

    return {f"fit, {name}": action(p, solver) for name, (p, solver) in SOLVERS.items()}


def grid_actions(
    stack: np.ndarray, mean: np.ndarray, target: np.ndarray
) -> dict[str, Callable[[], Any]]:
    """Twelve settings and five folds: of C and p, or of C alone for the SVM."""
    ours = GridSearchCV(
        mk.MKLClassifier("precomputed", random_state=0),
        {"p": [1.1, 1.25], "C": np.logspace(-1, 2, 6)},
        cv=FOLDS,
    )
    svm = GridSearchCV(
        SVC(kernel="precomputed"), {"C": np.logspace(-1, 2, 12)}, cv=FOLDS
    )
    return {
        GRID_BASE: lambda: svm.fit(mean, target),
        GRID: lambda: ours.fit(stack, target),
    }


def grade(digits: Any, results: dict[str, SolveResult]) -> dict[str, dict[str, float]]:
    """Marks in float64."""
    given = {n: (r, SOLVERS[n][0], C) for n, r in results.items()}
    return Grader.build(digits.kernels, digits).grade(given)


def svm_accuracy(digits: Any, mean: np.ndarray) -> float:
    """Test accuracy of the SVM on the averaged kernel."""
    model = SVC(kernel="precomputed", C=C).fit(mean, digits.target)
    test = Grader.build(digits.kernels, digits).mean_test_kernel()
    return float(model.score(test, digits.target_test))


def report(
    seconds: dict[str, list[float]],
    grids: dict[str, list[float]],
    marks: dict[str, dict[str, float]],
    warm_up: float,
    kept: list[float],
    n_train: int,
) -> None:
    """Print and store."""
    relative = ratios(seconds, BASE) | ratios(grids, GRID_BASE)
    columns = ["", "seconds", "ratio", "quartiles", "objective", "gap", "accuracy"]
    rows = []
    for name, values in (seconds | grids).items():
        low, high = relative[name]["q25"], relative[name]["q75"]
        mark = marks.get(name, {})
        rows.append(
            [
                name,
                float(np.median(values)),
                relative[name]["median"],
                f"{low:.2f}-{high:.2f}",
                *(mark.get(key) for key in ("objective", "gap", "accuracy")),
            ]
        )
    show(f"digits, {n_train} rows, 12 kernels, C = {C:g}", columns, rows)
    save(
        "digits_speed",
        seeds=[0],
        n_train=n_train,
        C=C,
        first_solves_seconds=warm_up,
        calibration_share=summary(kept),
        seconds={name: summary(values) for name, values in (seconds | grids).items()},
        ratio_to_svc=relative,
        marks=marks,
    )


if __name__ == "__main__":
    main()
