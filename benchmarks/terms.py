"""Terms by default: against a lasso on all pairs, in heavy tails, and of 0/1 columns.

`PolynomialMKLRegressor()` with all its defaults; R2 on 2,000 new rows. The settings of
the estimator were chosen on seeds from 100 on, but for one that was changed after a
look at a test fit; that cell is measured once more on seeds that nothing had seen
before ("fresh"). Of the recovery of 0/1 columns, seeds 0 and 2 had been looked at, the
others had not. --folder keeps runs, to go on later, and --last takes over those of
the last result that it does not hold; every fit of ours names its commit. Scores of the
lasso are those of the last result while its code is the same.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from common import console, parse, save, show
from evidence import RESULTS, commit
from sklearn.linear_model import LassoCV
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sources import changed
from terms_data import KINDS, TEST, planted
from terms_lasso import lasso_cv
from threadpoolctl import threadpool_limits

from manykernels import PolynomialMKLRegressor

SNRS = (2, 5)
RIVAL = ("benchmarks/terms_data.py", "benchmarks/terms_lasso.py")
CELL = ("columns", "r", "n", "snr", "seed")
KEY = ("part", *CELL)
SIZES = ((20, 200), (100, 200), (20, 1000), (500, 200), (100, 1000), (500, 1000))
LOOKED_AT = ("skewed", 500, 200, 5)  # a fit of it led to a change of the defaults
LISTED = 20  # columns up to which LassoCV itself is run, beside the screened one


def found_terms(model):
    return {
        tuple(int(name[1:]) for name in names)
        for names in model.interactions_["columns"]
    }


def cell_run(kind, r, n, snr, seed):
    """One fit of ours."""
    (X, y), (X_new, y_new), terms = planted(kind, r, n, snr, seed)
    began = time.process_time()
    model = PolynomialMKLRegressor().fit(X, y)
    seconds = time.process_time() - began
    found = found_terms(model)
    return {
        "ours": model.score(X_new, y_new),
        "model": model.candidates_[0]["model"],
        "terms": len(found),
        "true terms": len(terms & found),
        "seconds": seconds,
    }


def lasso_run(kind, r, n, snr, seed):
    """One fit of the lasso."""
    (X, y), (X_new, y_new), _ = planted(kind, r, n, snr, seed)
    run = {"lasso": r2_score(y_new, lasso_cv(X, y).predict(X_new))}
    if r <= LISTED:
        pairs = PolynomialFeatures(2, include_bias=False)
        listed = make_pipeline(pairs, StandardScaler(), LassoCV(cv=5)).fit(X, y)
        run["LassoCV"] = listed.score(X_new, y_new)
    return run


def last_result():
    """What this benchmark saved last."""
    path = RESULTS / "terms.json"
    return json.loads(path.read_text()) if path.exists() else {"environment": {}}


def known_rivals(last):
    """Runs of the lasso in the last result, if its code has not changed."""
    recorded = last["environment"].get("sources", {})
    if not all(name in recorded for name in RIVAL):
        return {}
    if changed({name: recorded[name] for name in RIVAL}):
        return {}
    return {tuple(run[name] for name in KEY): run for run in last["lasso"]}


def known_runs(last):
    """Our runs in the last result, with their commits."""
    own = [run for part in WORK if part != "lasso" for run in last.get(part, [])]
    named = {"commit": last["environment"].get("commit")}
    return {tuple(run[name] for name in KEY): {**named, **run} for run in own}


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


WORK = {
    "grid": cell_run,
    "fresh": cell_run,
    "lasso": lasso_run,
    "null": null_run,
    "recovery": zeros_and_ones,
}


def tasks(seeds, sizes, fresh):
    """All runs, the short ones first; fresh seeds follow those of the grid."""
    for seed in range(seeds, seeds + fresh):
        yield "lasso", *LOOKED_AT, seed
        yield "fresh", *LOOKED_AT, seed
    for seed in range(2 * seeds):
        for kind in ("log-normal", "normal"):
            yield "null", kind, 20, 200, 0, seed
    for seed in range(seeds + fresh):
        for kind in ("correlated", "binary"):
            yield "recovery", kind, 60, 1000, 5, seed
    for r, n in sizes:
        for seed in range(seeds):
            for kind in KINDS:
                for snr in SNRS:
                    yield "lasso", kind, r, n, snr, seed
                    yield "grid", kind, r, n, snr, seed


def path_of(folder, part, *cell):
    """Where a run is kept."""
    return Path(folder) / ("-".join(map(str, (part, *cell))) + ".json")


def kept(folder, part, *cell):
    """The run of an earlier start, or a new one."""
    path = path_of(folder, part, *cell)
    if folder and path.exists():
        return json.loads(path.read_text())
    run = {"part": part, **dict(zip(CELL, cell, strict=True)), **WORK[part](*cell)}
    run["commit"] = commit()
    if folder:
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(json.dumps(run))
    return run


def cells_of(runs, rivals):
    """Means over the seeds of every cell."""
    known = {tuple(one[name] for name in CELL): one["lasso"] for one in rivals}
    cells = {}
    for one in runs:
        key = tuple(one[name] for name in CELL)
        cells.setdefault(key[:-1], []).append({**one, "lasso": known[key]})
    found = []
    for key, own in cells.items():
        cell = dict(zip(CELL[:-1], key, strict=True))
        for name in ("ours", "lasso", "terms", "true terms", "seconds"):
            cell[name] = float(np.mean([one[name] for one in own]))
        cell["difference"] = cell["ours"] - cell["lasso"]
        cell["lists"] = sum(one["model"] == "list" for one in own)
        cell["seeds"] = len(own)
        found.append(cell)
    return found


def main() -> None:
    options = parse(
        __doc__.splitlines()[0],
        quick=(False, "one seed of the smallest size"),
        seeds=(4, "seeds of every cell"),
        sizes=(len(SIZES), "sizes of the grid, the small ones first"),
        fresh=(8, "more seeds of the cell that was looked at"),
        folder=("", "where finished runs are kept, to go on later"),
        last=(False, "take over runs of the last result that are not in the folder"),
        finished=(False, "only the runs that are in the folder or taken over"),
    )
    if options.quick:
        options.seeds, options.sizes, options.fresh = 1, 1, 0
    runs, last = [], last_result()
    known = known_rivals(last) | (known_runs(last) if options.last else {})
    with threadpool_limits(1):
        for task in tasks(options.seeds, SIZES[: options.sizes], options.fresh):
            there = options.folder and path_of(options.folder, *task).exists()
            if options.finished and not (there or task in known):
                continue
            taken = None if there else known.get(task)
            runs.append(taken or kept(options.folder, *task))
            console.print(*task, {k: v for k, v in runs[-1].items() if k in SHOWN})
    parts = {part: [one for one in runs if one["part"] == part] for part in WORK}
    cells = cells_of(parts["grid"], parts["lasso"])
    fresh = cells_of(parts["fresh"], parts["lasso"])
    head = list(cells[0])
    rows = [list(cell.values()) for cell in cells + fresh]
    show("R2 on new rows, means over seeds; the last: fresh seeds", head, rows)
    seeds = range(options.seeds + options.fresh)
    save("terms", seeds=list(seeds), cells=cells, fresh_cells=fresh, **parts)


SHOWN = ("ours", "lasso", "terms", "true terms", "model")

if __name__ == "__main__":
    main()
