"""Stability selection and permutation tests: seconds, what is found, is chance told.

The first part has 50 groups of columns, five of which matter, on 300 rows, as in the
benchmark of groups: one RBF per group, p = 1, 100 halves of the rows and 10 values of
C, next to as many fits of the same estimator by itself, of which some are timed. Then
the permutation test of all groups with 200 refits. Subsamples go to two processes.

The second part simulates data sets of 40 rows with labels that mean nothing, and with
labels that depend on the columns of the first of two kernels: p-values of both, against
shuffled labels and against shuffled rows of the kernel. Where the null hypothesis
holds, p-values less a uniform share of a step are uniform numbers, which a Kolmogorov
test looks at; against shuffled rows it holds for the second kernel whatever the first
one says. --part does only one of the two, and leaves the other as it was saved.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from common import parse, results_folder, save, show
from groups import Case, clocked, make, warm_up
from joblib import Parallel, delayed
from scipy.stats import kstest
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import manykernels as mk

CASE, QUICK = Case(50, 300, 2000), Case(10, 80, 200)
CS = np.logspace(-2, 2, 10).tolist()
JOBS = 2
SEPARATE = 20  # fits by themselves that are timed
NULL_ROWS, NULL_REFITS, LEVEL = 40, 99, 0.05
NULL_KERNELS = "rbf@0-1; rbf@2-9"


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        quick=(False, "fewer groups, rows and data sets"),
        data_sets=(200, "simulated without a signal; a quarter of it with one"),
        seed=(0, "of the data"),
        part=("both", "speed, p-values or both"),
    )
    quick = options.quick
    found = {}
    if options.part != "p-values":
        case, n_pairs = (QUICK, 5) if quick else (CASE, 50)
        found["speed"] = measure(case, n_pairs, options.seed)
    if options.part != "speed":
        n_sets = 20 if quick else options.data_sets
        for shuffle in ("target", "view"):
            null = simulate(n_sets, options.seed, shuffle, signal=False)
            signal = simulate(n_sets // 4, options.seed + 1, shuffle, signal=True)
            found[shuffle] = {"null": null, "signal": signal}
    if options.part != "both":
        found = saved(quick) | found
    if "speed" in found:
        show("Seconds", ["", "s", "fits"], seconds_rows(found["speed"]))
    if "view" in found:
        columns = ["shuffled", "labels", "data sets", *found["view"]["null"]["shares"]]
        show("p-values", [*columns, "Kolmogorov"], p_value_rows(found))
    save("stability", **found)


def saved(quick: bool) -> dict[str, Any]:
    """What an earlier run measured."""
    path = results_folder(quick) / "stability.json"
    if not path.exists():
        return {}
    earlier = json.loads(path.read_text())
    return {key: earlier[key] for key in ("speed", "target", "view") if key in earlier}


def measure(case: Case, n_pairs: int, seed: int) -> dict[str, Any]:
    """Stability, fits by themselves and the permutation test on grouped columns."""
    data = make(case, seed)
    warm_up(data)
    kernels = mk.group_kernels(data.groups)
    sparse = mk.MKLClassifier(kernels, p=1.0, random_state=0)
    found: dict[str, Any] = {}
    shared = {"n_jobs": JOBS, "random_state": 0}

    def select() -> None:
        found["stability"] = mk.weight_stability(
            sparse, data.X, data.y, Cs=CS, n_pairs=n_pairs, **shared
        )

    def test() -> None:
        model = clone(sparse).set_params(p=1.1)
        found["test"] = mk.permutation_test(model, data.X, data.y, **shared)

    stability, permutation = clocked(select), clocked(test)
    apart = clocked(lambda: fit_apart(sparse, data, SEPARATE))
    for one in (stability, permutation):
        del one["processor"]  # that of other processes is not known
    stable = found["stability"].stable()
    true = [f"group{g}" for g in range(5)]
    few = [name for name in stable if any(_belongs(name, one) for one in true)]
    return {
        "kernels": case.groups,
        "rows": case.rows,
        "stability": {**stability, "fits": 2 * n_pairs * len(CS)},
        "permutation": {**permutation, "fits": 1 + len(found["test"].null)},
        "fits_apart": {**apart, "fits": SEPARATE},
        "stable": len(stable),
        "stable_and_true": len(few),
        "bound": found["stability"].false_selections(),
        "test_found": int(np.sum(found["test"].adjusted <= LEVEL)),
    }


def _belongs(kernel: str, group: str) -> bool:
    return kernel == group or kernel.endswith(f"@{group}")


def fit_apart(model: Any, data: Any, n_fits: int) -> None:
    """The same fits one by one: kernels anew, no warm start, the same tolerance."""
    rng = np.random.default_rng(0)
    for k in range(n_fits):
        half = np.sort(rng.permutation(len(data.X))[: len(data.X) // 2])
        one = clone(model).set_params(C=CS[k % len(CS)], tol=1e-4)
        one.fit(data.X[half], data.y[half])


def simulate(n_sets: int, seed: int, shuffle: str, signal: bool) -> dict[str, Any]:
    """p-values of the first two kernels on many data sets."""
    jobs = (delayed(p_values)(seed, k, shuffle, signal) for k in range(n_sets))
    values = np.array(Parallel(JOBS)(jobs))
    rng = np.random.default_rng(seed)
    uniform = values - rng.random(values.shape) / (1 + NULL_REFITS)
    return {
        "data_sets": n_sets,
        "refits": NULL_REFITS,
        "rows": NULL_ROWS,
        "level": LEVEL,
        "shares": {
            "first kernel": float(np.mean(values[:, 0] <= LEVEL)),
            "second kernel": float(np.mean(values[:, 1] <= LEVEL)),
        },
        "kolmogorov": [float(kstest(column, "uniform").pvalue) for column in uniform.T],
    }


def p_values(seed: int, k: int, shuffle: str, signal: bool) -> np.ndarray:
    """Of the first two kernels on one data set."""
    rng = np.random.default_rng([seed, k])
    X = rng.normal(size=(NULL_ROWS, 10))
    y = rng.normal(size=NULL_ROWS) + signal * X[:, :2].sum(axis=1) > 0
    model = mk.MKLClassifier(NULL_KERNELS, random_state=0)
    options = {"n_permutations": NULL_REFITS, "random_state": k}
    with threadpool_limits(limits=1):
        test = mk.permutation_test(model, X, y, shuffle=shuffle, **options)
    return np.asarray(test.p_values[:2])


def seconds_rows(speed: dict[str, Any]) -> list[list[Any]]:
    """Seconds of everything that was timed."""
    names = ("stability", "permutation", "fits_apart")
    keys = ("seconds", "fits")
    return [[name, *(speed[name][key] for key in keys)] for name in names]


def p_value_rows(found: dict[str, Any]) -> list[list[Any]]:
    """Shares of small p-values, and Kolmogorov's p-values."""
    return [
        [
            shuffle,
            labels,
            one["data_sets"],
            *one["shares"].values(),
            ", ".join(f"{value:.2g}" for value in one["kolmogorov"]),
        ]
        for shuffle in ("target", "view")
        for labels, one in found[shuffle].items()
    ]


if __name__ == "__main__":
    main()
