"""Smooth losses to a relative gap of 1e-6, next to a wrapper with exact inner solves.

2,000 rows, 20 kernels of which half are noise, log loss (10 classes) and squared loss
(10 targets). The wrapper is that of Kloft et al. (2011): solve the problem for fixed
kernel weights exactly, set the weights in closed form, repeat. Its inner solver is, for
the squared loss, a Cholesky factor; for the log loss, scipy's L-BFGS on a Cholesky
factor of the kernel (left out for p near 1, where it takes minutes), or our own Newton
method, both from the last solution. All solvers get the same bank in float64, and
everybody's gap is evaluated anew at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from common import alternate, console, parse, ratios, save, show, summary
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

from manykernels.banks import GramBank
from manykernels.base.machine import one_blas_thread
from manykernels.losses import Softmax, Squared
from manykernels.norms import LpGroupNorm
from manykernels.solvers import Auto
from manykernels.solvers.loop import Iterate, SolveResult, run
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.smooth.frozen_kernel import FrozenKernel
from manykernels.solvers.smooth.frozen_problem import FrozenProblem
from manykernels.solvers.smooth.truncated_newton import TruncatedNewton
from manykernels.solvers.svrg.solver import SVRG

TOL = 1e-6
NEAR_ONE = 1.2
EXACT = 1e-10  # relative gap, or gradient, of an exact inner solve
GAMMAS = (0.05, 0.2, 0.5)
WIDTH = 4  # columns a kernel sees
Inner = Callable[[Problem, np.ndarray, np.ndarray], np.ndarray]


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        rows=(2000, "rows"),
        kernels=(20, "kernels"),
        outputs=(10, "classes or targets"),
        C=(1.0, "weight of the losses"),
        repeats=(1, "turns"),
    )
    stack, labels, values = make_data(options.rows, options.kernels, options.outputs)
    bank = GramBank(stack)
    measured = {}
    for loss, target in ((Softmax(), labels), (Squared(), values)):
        for p in (4 / 3, 1.1):
            problem = Problem(
                bank,
                target,
                options.outputs,
                loss,
                LpGroupNorm(p),
                options.C,
                np.ones(options.rows),
            )
            name = f"{loss.name}, p = {p:.3g}"
            measured[name] = compare(name, problem, options.repeats)
    save("smooth_wrapper", seeds=[0], options=vars(options), tol=TOL, results=measured)


def make_data(
    n_rows: int, n_kernels: int, n_outputs: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaussian kernels on views, half of them informative; labels and values."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_outputs, size=n_rows)
    values = np.zeros((n_rows, n_outputs))
    stack = np.empty((n_rows, n_kernels, n_rows))
    for f in range(n_kernels):
        view = rng.normal(size=(n_rows, WIDTH))
        if f < n_kernels // 2:
            centers = rng.normal(size=(n_outputs, WIDTH)) * rng.uniform(0.4, 1.5)
            view += centers[labels]
            values += np.sin(view) @ rng.normal(size=(WIDTH, n_outputs))
        squares = np.sum(view**2, axis=1)
        distances = squares[:, None] + squares - 2.0 * view @ view.T
        stack[:, f, :] = np.exp(-GAMMAS[f % len(GAMMAS)] * distances)
    values += rng.normal(size=values.shape)
    return stack, labels, values - values.mean(axis=0)


class Wrapper:
    """Exact solves and closed-form weights in turn, as a search like any other."""

    def __init__(self, problem: Problem, inner: Inner) -> None:
        self.problem = problem
        self.inner = inner

    def iterates(self) -> Any:
        """One iterate a solve."""
        problem = self.problem
        weights = problem.norm.uniform_weights(problem.bank.n_blocks)
        coef = np.zeros((problem.n_rows, problem.n_outputs))
        every = np.arange(problem.n_rows)
        while True:
            kernel = problem.bank.combine(weights, every)
            coef = self.inner(problem, kernel, coef)
            norms = problem.theta_norms(coef)
            unit = coef / problem.bound[:, None]
            dual = problem.loss.make_feasible(unit, problem.target)
            dual *= problem.bound[:, None]
            model = Expansion(coef, weights)
            yield Iterate(
                problem.primal_value(kernel @ coef, weights * norms),
                problem.dual_bound(dual, problem.theta_norms(dual)),
                1,
                lambda model=model: model,
                lambda dual=dual: dual,
            )
            weights = problem.norm.weights(weights * norms)

    def solve(self) -> SolveResult:
        """To the relative gap, as the solvers."""
        return run(self, self.problem.zero(), tol=TOL)


def by_cholesky(problem: Problem, kernel: np.ndarray, _: np.ndarray) -> np.ndarray:
    """(K + I / C) A = Y."""
    shifted = kernel.copy()
    shifted.flat[:: len(kernel) + 1] += 1.0 / problem.bound
    return cho_solve(cho_factor(shifted, overwrite_a=True), problem.target)


def by_newton(problem: Problem, kernel: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Our own inner solver, to a gap far below what the weights deserve."""
    combined = GramBank(kernel[:, None, :])
    frozen = FrozenProblem(problem, FrozenKernel(combined, np.ones(1)))
    with one_blas_thread():
        return frozen.solve(coef, EXACT).dual


def by_lbfgs(problem: Problem, kernel: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """L-BFGS on V = R A with K = R' R, which is the plain linear problem."""
    jitter = 1e-10 * np.trace(kernel) / len(kernel)
    root = cholesky(kernel + jitter * np.eye(len(kernel)))
    bound = problem.bound[:, None]

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        V = flat.reshape(coef.shape)
        scores = root.T @ V
        losses = problem.loss.value(scores, problem.target)
        slope = bound * problem.loss.gradient(scores, problem.target)
        total = 0.5 * np.vdot(V, V) + problem.bound @ losses
        return float(total), (V + root @ slope).ravel()

    found = minimize(
        value,
        (root @ coef).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-14, "gtol": 1e-6},
    )
    return solve_triangular(root, found.x.reshape(coef.shape))


def compare(name: str, problem: Problem, repeats: int) -> dict[str, Any]:
    """Seconds of all, in turns, and the gap that each one's model really has."""
    inners: dict[str, Inner] = {"wrapper, Cholesky": by_cholesky}
    if problem.loss.name == "log":
        inners = {"wrapper, our Newton": by_newton}
        if problem.norm.p > NEAR_ONE:
            inners = {"wrapper, L-BFGS": by_lbfgs} | inners
    base = next(iter(inners))
    actions: dict[str, Callable[[], SolveResult]] = {
        label: Wrapper(problem, inner).solve for label, inner in inners.items()
    }
    actions["auto"] = lambda: Auto(TOL, random_state=0).solve(problem)
    if problem.loss.name != "log":
        actions["newton"] = lambda: TruncatedNewton(TOL).solve(problem)
    actions["svrg"] = lambda: SVRG(TOL, random_state=0).solve(problem)
    warm_up()
    results: dict[str, SolveResult] = {}

    def kept(label: str) -> Callable[[], None]:
        return lambda: results.update({label: actions[label]()})

    seconds = alternate({label: kept(label) for label in actions}, repeats)
    relative = ratios(seconds, base)
    rows, stored = [], {}
    for label, result in results.items():
        gap = problem.duality_gap(result.model, result.dual_coef) / result.objective
        faster = 1.0 / relative[label]["median"]
        rounds = len(result.history)
        rows.append([label, np.median(seconds[label]), faster, rounds, gap])
        stored[label] = {
            "seconds": summary(seconds[label]),
            "times_faster": faster,
            "rounds": rounds,
            "gap": gap,
            "objective": result.objective,
        }
    columns = ["", "seconds", f"times faster than {base}", "rounds", "gap"]
    show(f"{name}: time to a relative gap of {TOL:g}", columns, rows)
    best = max(stored[label]["times_faster"] for label in stored if label not in inners)
    console.print(f"{name}: {best:.1f} times as fast as {base} (goal: 5).")
    return stored


def warm_up() -> None:
    """Compile the loops on a tiny problem."""
    stack, labels, values = make_data(40, 2, 3)
    for loss, target in ((Softmax(), labels), (Squared(), values)):
        norm, weight = LpGroupNorm(1.5), np.ones(40)
        tiny = Problem(GramBank(stack), target, 3, loss, norm, 1.0, weight)
        SVRG(TOL, random_state=0).solve(tiny)
        Auto(TOL).solve(tiny)


if __name__ == "__main__":
    main()
