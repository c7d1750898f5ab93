"""Learning interactions among all products of columns: speed, growth and recovery.

Data as in Afkanpour et al. (2013): columns uniform in [-1, 1], the target a sum of 10
monomials of degree 3 or less, 500 training and 1,000 test rows. Mirror descent with
p = 4/3 is timed; the sparse mode (p = 1, all defaults) has to find the monomials. All
seconds are CPU seconds.
"""

from __future__ import annotations

import resource
import time

import numpy as np
from common import console, parse, save, show, summary

from manykernels import PolynomialMKLRegressor
from manykernels.products import ColumnGeneration, RandomizedMirrorDescent
from manykernels.products.base import RankOneKernels
from manykernels.products.indices import n_products
from manykernels.products.product_problem import ProductProblem

TERMS = 10
TRAIN, TEST = 500, 1000
EXACT = 1e-6  # relative test error


def timed(action):
    """The action's value and its CPU seconds."""
    began = time.process_time()
    return action(), time.process_time() - began


def planted(r, seed, n=TRAIN, noise=0.0):
    """Training rows, test rows and the true terms; noise is a share of the variance."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n + TEST, r))
    terms = set()
    while len(terms) < TERMS:
        # Position r stands for the constant, so that lower degrees occur as well.
        drawn = sorted(rng.integers(0, r + 1, size=3).tolist())
        term = tuple(j for j in drawn if j < r)
        if term:
            terms.add(term)
    y = sum(np.prod(X[:, list(term)], axis=1) for term in terms)
    y = y + np.sqrt(noise) * y.std() * rng.normal(size=len(y))
    return (X[:n], y[:n]), (X[n:], y[n:]), terms


def descent_seconds(n, r, iterations, C=1e5):
    """Seconds of mirror descent on degree 3, without looks at the certificate."""
    (X, y), _, _ = planted(r, 0, n)
    X, y = X / X.std(axis=0), (y - y.mean()) / y.std()
    problem = ProductProblem(RankOneKernels(X), y, np.ones(4), C=C)
    solver = RandomizedMirrorDescent(
        iterations, tol=0.0, patience=None, look_every=iterations, random_state=0
    )
    return timed(lambda: solver.solve(problem))[1]


def growth(sizes, seconds):
    """Exponents: the one fitted to all sizes, and the steepest of two neighbors."""
    logs, times = np.log(sizes), np.log(seconds)
    return float(np.polyfit(logs, times, 1)[0]), float(
        (np.diff(times) / np.diff(logs)).max()
    )


def measure_growth(iterations):
    """Milliseconds per iteration against rows and against columns."""
    rows, columns = [250, 500, 1000, 2000], [25, 50, 100, 200]
    descent_seconds(100, 10, 5)
    by_rows = [descent_seconds(n, 50, iterations) / iterations for n in rows]
    by_columns = [descent_seconds(1000, r, iterations) / iterations for r in columns]
    found = {
        "rows": dict(zip(rows, by_rows, strict=True)),
        "columns": dict(zip(columns, by_columns, strict=True)),
        "exponent in rows": growth(rows, by_rows)[0],
        "steepest exponent in rows": growth(rows, by_rows)[1],
        "exponent in columns": growth(columns, by_columns)[0],
        "steepest exponent in columns": growth(columns, by_columns)[1],
    }
    show(
        f"Seconds per iteration of mirror descent ({iterations} iterations each)",
        ["", *(f"n = {n}" for n in rows), *(f"r = {r}" for r in columns)],
        [["r = 50; n = 1000", *by_rows, *by_columns]],
    )
    console.print(
        f"time ~ n^{found['exponent in rows']:.2f}, "
        f"time ~ r^{found['exponent in columns']:.2f}"
    )
    return found


def recover(r, seed, noise=0.0):
    """One sparse fit: seconds, terms found, relative test error, gap."""
    (X, y), (X_new, y_new), terms = planted(r, seed, noise=noise)
    model = PolynomialMKLRegressor(solver=ColumnGeneration(memory_limit="4GB"))
    _, seconds = timed(lambda: model.fit(X, y))
    found = [
        tuple(int(name[1:]) for name in names)
        for names in model.interactions_["columns"]
    ]
    error = float(np.mean((model.predict(X_new) - y_new) ** 2) / y_new.var())
    return {
        "r": r,
        "seed": seed,
        "seconds": seconds,
        "terms": len(found),
        "true terms": len(terms & set(found)),
        "true in first 12": len(terms & set(found[:12])),
        "relative test error": error,
        "relative gap": model.duality_gap_ / model.objective_,
    }


def recovery_row(r, noise, runs):
    """One line of the table."""
    exact = sum(run["relative test error"] <= EXACT for run in runs)
    return [
        r,
        f"{n_products(r, 3):,}",
        noise,
        f"{exact} of {len(runs)}",
        float(np.mean([run["true in first 12"] for run in runs])),
        min(run["true in first 12"] for run in runs),
        float(np.mean([run["terms"] for run in runs])),
        max(run["relative test error"] for run in runs),
        summary([run["seconds"] for run in runs])["median"],
        max(run["seconds"] for run in runs),
    ]


def pure_noise(r, seed):
    """Terms found where there is nothing to find."""
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(-1.0, 1.0, size=(TRAIN, r)), rng.normal(size=TRAIN)
    model = PolynomialMKLRegressor()
    _, seconds = timed(lambda: model.fit(X, y))
    return {"r": r, "terms": model.interactions_.n_rows, "seconds": seconds}


def normal_columns(seed, normalize, r=60):
    """Ten terms of columns with heavier tails: how many are found, among how many."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(TRAIN, r))
    drawn = [rng.integers(0, r, size=rng.integers(1, 4)) for _ in range(TERMS)]
    terms = {tuple(sorted(term.tolist())) for term in drawn}
    y = sum(np.prod(X[:, list(term)], axis=1) for term in terms)
    y = y + 0.3 * rng.normal(size=TRAIN)
    model = PolynomialMKLRegressor(normalize=normalize).fit(X, y)
    found = {
        tuple(int(name[1:]) for name in names)
        for names in model.interactions_["columns"]
    }
    return {"true": len(terms & found), "planted": len(terms), "terms": len(found)}


def descent_error(r, seed, iterations=500):
    """Relative test error of the paper's own mode, best of several C."""
    (X, y), (X_new, y_new), _ = planted(r, seed)
    errors = []
    for C in (1.0, 1e2, 1e4):
        model = PolynomialMKLRegressor(
            p=4 / 3,
            C=C,
            solver=RandomizedMirrorDescent(iterations),
            random_state=0,
        ).fit(X, y)
        errors.append(np.mean((model.predict(X_new) - y_new) ** 2) / y_new.var())
    return float(min(errors))


def main() -> None:
    options = parse(
        __doc__.splitlines()[0],
        seeds=(10, "seeds for r = 50 and 100, and for noise"),
        large_seeds=(3, "seeds for r = 300"),
        huge_seeds=(1, "seeds for r = 1000"),
        repeats=(3, "repetitions of the 500 iterations"),
        iterations=(100, "iterations per size in the growth fit"),
    )
    descent_seconds(100, 10, 5)
    speed = [descent_seconds(TRAIN, 100, 500) for _ in range(options.repeats)]
    console.print(
        f"500 iterations, r = 100, D = 3, n = 500: {summary(speed)['median']:.2f} s"
    )
    found = measure_growth(options.iterations)
    cases = [
        (10, 0.0, options.seeds),
        (50, 0.0, options.seeds),
        (100, 0.0, options.seeds),
        (100, 0.1, options.seeds),
        (300, 0.0, options.large_seeds),
        (300, 0.1, options.large_seeds),
        (1000, 0.0, options.huge_seeds),
        (1000, 0.1, options.huge_seeds),
    ]
    recovery = {
        (r, noise): [recover(r, seed, noise) for seed in range(n)]
        for r, noise, n in cases
        if n
    }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    show(
        "Sparse mode (p = 1, defaults): 10 planted monomials, 500 rows",
        ["r", "products", "noise", "exact", "true in first 12", "least", "terms"]
        + ["largest error", "median s", "longest s"],
        [recovery_row(r, noise, runs) for (r, noise), runs in recovery.items()],
    )
    console.print(f"peak memory of this process: {peak:.2f} GB")
    noise = [pure_noise(100, seed) for seed in range(options.seeds)]
    console.print(f"terms found in pure noise: {[run['terms'] for run in noise]}")
    normal = {
        str(normalize): [normal_columns(seed, normalize) for seed in range(8)]
        for normalize in (True, False)
    }
    for normalize, runs in normal.items():
        told = [f"{run['true']}/{run['planted']} in {run['terms']}" for run in runs]
        console.print(f"normal columns, normalize={normalize}: {', '.join(told)}")
    mirror = {r: [descent_error(r, seed) for seed in range(2)] for r in (10, 50)}
    console.print(f"relative test error of mirror descent, p = 4/3: {mirror}")
    save(
        "interactions",
        speed={"seconds": speed, **summary(speed)},
        growth=found,
        recovery=[
            {"noise": noise, **run}
            for (_, noise), runs in recovery.items()
            for run in runs
        ],
        peak_gigabytes=peak,
        pure_noise=noise,
        normal_columns=normal,
        mirror_descent_error=mirror,
    )


if __name__ == "__main__":
    main()
