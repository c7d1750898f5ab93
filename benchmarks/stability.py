"""Stability selection and permutation tests: seconds, what is found, is chance told.

The first part has 50 groups of columns, five of which matter, on 300 rows, as in the
benchmark of groups: one RBF per group, p = 1, 100 halves of the rows and 10 values of
C, next to as many fits of the same estimator by itself, of which some are timed. Then
the permutation test of all groups with 200 refits. Processor seconds are those of all
threads: the ones to look at where others use the machine as well.

The second part simulates data sets of 40 rows with labels that mean nothing, and with
labels that depend on the columns of the first of three kernels: p-values of the first
and of the second kernel. Where they mean nothing, p-values less a uniform share of a
step are uniform numbers, which a Kolmogorov test looks at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import in_own_process, parse, save, show
from groups import Case, clocked, make, warm_up
from scipy.stats import kstest
from sklearn.base import clone

import manykernels as mk

CASE, QUICK = Case(50, 300, 2000), Case(10, 80, 200)
CS = np.logspace(-2, 2, 10).tolist()
JOBS = 2
SEPARATE = 20  # fits by themselves that are timed
NULL_ROWS, NULL_REFITS, LEVEL = 40, 99, 0.05
NULL_KERNELS = "rbf@0-1; rbf@2-3; rbf@4-9"


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        quick=(False, "fewer groups, rows and data sets"),
        data_sets=(200, "simulated without a signal; a quarter of it with one"),
        seed=(0, "of the data"),
    )
    quick = options.quick
    speed = in_own_process(
        measure, QUICK if quick else CASE, 5 if quick else 50, options.seed
    )
    n_sets = 20 if quick else options.data_sets
    null = simulate(n_sets, options.seed, signal=False)
    signal = simulate(n_sets // 4, options.seed + 1, signal=True)
    show("Seconds", ["", "s", "processor s", "fits"], seconds_rows(speed))
    show("p-values", ["", "data sets", *null["shares"]], p_value_rows(null, signal))
    save("stability", speed=speed, null=null, signal=signal)


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


def simulate(n_sets: int, seed: int, signal: bool) -> dict[str, Any]:
    """p-values of the first two kernels on many data sets."""
    rng = np.random.default_rng(seed)
    model = mk.MKLClassifier(NULL_KERNELS, random_state=0)
    found = []
    for k in range(n_sets):
        X = rng.normal(size=(NULL_ROWS, 10))
        y = rng.normal(size=NULL_ROWS) + signal * X[:, :2].sum(axis=1) > 0
        test = mk.permutation_test(
            model, X, y, n_permutations=NULL_REFITS, n_jobs=JOBS, random_state=k
        )
        found.append(test.p_values[:2])
    values = np.array(found)
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


def seconds_rows(speed: dict[str, Any]) -> list[list[Any]]:
    """Seconds of everything that was timed."""
    names = ("stability", "permutation", "fits_apart")
    keys = ("seconds", "processor", "fits")
    return [[name, *(speed[name][key] for key in keys)] for name in names]


def p_value_rows(null: dict[str, Any], signal: dict[str, Any]) -> list[list[Any]]:
    """Shares of small p-values."""
    both = {"no signal": null, "signal in the first": signal}
    return [
        [name, one["data_sets"], *one["shares"].values()] for name, one in both.items()
    ]


if __name__ == "__main__":
    main()
