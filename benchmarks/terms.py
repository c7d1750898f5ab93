"""Terms by default: against a lasso on all pairs, in heavy tails, and of 0/1 columns.

`PolynomialMKLRegressor()` with all its defaults. The grid: 12 terms of one to three
different columns, drawn alike often, with coefficients of 1 to 2 standard deviations;
correlated normal columns (0.6 between neighbors), exponential and 0/1 columns; SNR is
the variance of the signal over that of the noise. R2 on 2,000 new rows. The settings of
the estimator were chosen on seeds from 100 on. --folder keeps runs, to go on later.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from common import console, parse, save, show
from sklearn.linear_model import LassoCV
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from terms_lasso import lasso_cv
from threadpoolctl import threadpool_limits

from manykernels import PolynomialMKLRegressor

KINDS, SNRS, TERMS, TEST = ("correlated", "skewed", "binary"), (2, 5), 12, 2000
SIZES = ((20, 200), (100, 200), (20, 1000), (500, 200), (100, 1000), (500, 1000))
LISTED = 20  # columns up to which LassoCV itself is run, beside the screened one


def correlated(rng, n, r):
    X = rng.normal(size=(n, r))
    for j in range(1, r):
        X[:, j] = 0.6 * X[:, j - 1] + 0.8 * X[:, j]
    return X


def skewed(rng, n, r):
    return rng.exponential(size=(n, r))


def binary(rng, n, r):
    return (rng.random((n, r)) < rng.uniform(0.2, 0.8, size=r)).astype(float)


def planted(kind, r, n, snr, seed):
    """Training rows, test rows and the terms."""
    rng = np.random.default_rng([seed, r, n])
    X = globals()[kind](rng, n + TEST, r)
    terms = set()
    while len(terms) < TERMS:
        factors = rng.choice(r, size=rng.integers(1, 4), replace=False)
        terms.add(tuple(sorted(factors.tolist())))
    signal = np.zeros(n + TEST)
    for term in sorted(terms):
        z = X[:, list(term)].prod(axis=1)
        signal += rng.choice([-1, 1]) * rng.uniform(1.0, 2.0) * z / z.std()
    y = signal + signal.std() / np.sqrt(snr) * rng.normal(size=n + TEST)
    return (X[:n], y[:n]), (X[n:], y[n:]), terms


def found_terms(model):
    return {
        tuple(int(name[1:]) for name in names)
        for names in model.interactions_["columns"]
    }


def cell_run(kind, r, n, snr, seed):
    """One fit of ours and of the lasso."""
    (X, y), (X_new, y_new), terms = planted(kind, r, n, snr, seed)
    model = PolynomialMKLRegressor().fit(X, y)
    found = found_terms(model)
    run = {
        "ours": model.score(X_new, y_new),
        "lasso": r2_score(y_new, lasso_cv(X, y).predict(X_new)),
        "model": model.candidates_[0]["model"],
        "terms": len(found),
        "true terms": len(terms & found),
    }
    if r <= LISTED:
        pairs = PolynomialFeatures(2, include_bias=False)
        listed = make_pipeline(pairs, StandardScaler(), LassoCV(cv=5)).fit(X, y)
        run["LassoCV"] = listed.score(X_new, y_new)
    return run


def null_run(kind, r, n, snr, seed):
    """Terms found where there is nothing to find, and R2 on new rows."""
    rng = np.random.default_rng([seed, r, n])
    X, y = rng.normal(size=(n + TEST, r)), rng.normal(size=n + TEST)
    if kind == "log-normal":
        X, y = np.exp(X), np.exp(y)
    model = PolynomialMKLRegressor().fit(X[:n], y[:n])
    return {"terms": model.interactions_.n_rows, "ours": model.score(X[n:], y[n:])}


def zeros_and_ones(kind, r, n, snr, seed):
    """Recovery from 0/1 columns, beside normal ones."""
    (X, y), _, terms = planted(kind, r, n, snr, seed)
    found = found_terms(PolynomialMKLRegressor().fit(X, y))
    return {"terms": len(found), "true terms": len(terms & found)}


WORK = {"grid": cell_run, "null": null_run, "recovery": zeros_and_ones}


def tasks(seeds, sizes):
    """All runs, the short ones first."""
    for seed in range(2 * seeds):
        for kind in ("log-normal", "normal"):
            yield "null", kind, 20, 200, 0, seed
    for seed in range(seeds):
        for kind in ("correlated", "binary"):
            yield "recovery", kind, 60, 1000, 5, seed
    for r, n in sizes:
        for seed in range(seeds):
            for kind in KINDS:
                for snr in SNRS:
                    yield "grid", kind, r, n, snr, seed


def kept(folder, part, *cell):
    """The run of an earlier start, or a new one."""
    path = Path(folder) / ("-".join(map(str, (part, *cell))) + ".json")
    if not (folder and path.exists()):
        run = WORK[part](*cell)
        names = ("columns", "r", "n", "snr", "seed")
        run = {"part": part, **dict(zip(names, cell, strict=True)), **run}
        if folder:
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_text(json.dumps(run))
        return run
    return json.loads(path.read_text())


def grid_rows(runs):
    """One line per cell."""
    keys = dict.fromkeys(
        (one["columns"], one["r"], one["n"], one["snr"]) for one in runs
    )
    for key in keys:
        own = [o for o in runs if (o["columns"], o["r"], o["n"], o["snr"]) == key]
        means = [
            float(np.mean([one[name] for one in own])) for name in ("ours", "lasso")
        ]
        lists = sum(one["model"] == "list" for one in own)
        terms = [
            np.mean([one[name] for one in own]) for name in ("terms", "true terms")
        ]
        yield [*key, *means, means[0] - means[1], f"{lists} of {len(own)}", *terms]


def main() -> None:
    options = parse(
        __doc__.splitlines()[0],
        quick=(False, "one seed of the smallest size"),
        seeds=(4, "seeds of every cell"),
        sizes=(len(SIZES), "sizes of the grid, the small ones first"),
        folder=("", "where finished runs are kept, to go on later"),
    )
    if options.quick:
        options.seeds, options.sizes = 1, 1
    runs = []
    with threadpool_limits(1):
        for task in tasks(options.seeds, SIZES[: options.sizes]):
            runs.append(kept(options.folder, *task))
            console.print(*task, {k: v for k, v in runs[-1].items() if k in SHOWN})
    parts = {part: [one for one in runs if one["part"] == part] for part in WORK}
    head = ["columns", "r", "n", "SNR", "ours", "lasso", "difference"]
    show(
        "R2 on new rows, means over seeds",
        [*head, "lists", "terms", "true"],
        list(grid_rows(parts["grid"])),
    )
    save("terms", **parts)


SHOWN = ("ours", "lasso", "terms", "true terms", "model")

if __name__ == "__main__":
    main()
