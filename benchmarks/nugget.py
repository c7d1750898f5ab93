"""Kernels on noise of 2 to 1,000 columns: weights and accuracy, with a nugget and not.

Eight small data sets in views, each with its useful kernels alone and with as many
noise kernels (RBF of default width on columns of Gaussian noise) as useful ones. For
every p, C is chosen on a third of the training rows, and so is p in the lines "chosen";
kernels, and with a nugget the part of each that is the identity, come from all the
training rows. "weight" is that of all noise kernels, "nugget" that of the nugget.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from common import console, parse, save, show, timed
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits
from views import DATA_SETS, DataSet, Split, available, make_split

import manykernels as mk

PS, CS = (1.0, 1.1, 1.5), (0.1, 1.0, 10.0, 100.0)
COLUMNS = (0, 2, 20, 200, 1000)  # of a noise view; 0 for no noise
KINDS = {"plain": None, "nugget": "shared"}
CHOSEN = "chosen"


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        quick=(False, "one split of the three smallest data sets"),
        splits=(5, "per data set"),
        jobs=(2, "processes"),
    )
    wanted = [data for data in DATA_SETS if available(data)]
    if options.quick:
        options.splits = 1
        wanted = sorted(wanted, key=lambda data: data.n_train)[:3]
    cells = [
        (data, columns, seed)
        for data in wanted
        for columns in COLUMNS
        for seed in range(options.splits)
    ]
    jobs = (delayed(measured)(*cell) for cell in cells)
    found, seconds = timed(lambda: Parallel(options.jobs)(jobs))
    lines = [line for several in found for line in several]
    cases = [
        summary(lines, columns=columns, p=p)
        for columns in COLUMNS
        for p in (*PS, CHOSEN)
    ]
    report(lines, cases)
    save("nugget", seconds=seconds, lines=lines, cases=cases, overall=overall(lines))


def measured(data: DataSet, columns: int, seed: int) -> list[dict[str, Any]]:
    """A line for every kind and p on one split."""
    ratio = 0 if columns == 0 else 1
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # a nugget with all the weight
        split = make_split(data, ratio, seed, width=columns)
        lines = [line for kind in KINDS for line in tried(split, kind, seed)]
    case = {"data": data.name, "columns": columns, "seed": seed}
    return [case | line for line in lines]


def tried(split: Split, kind: str, seed: int) -> list[dict[str, Any]]:
    """Every p with its best C, and the best of these."""
    every = np.arange(len(split.target))
    folds = [
        train_test_split(
            every, test_size=1 / 3, stratify=split.target, random_state=seed
        )
    ]
    shared: dict[str, Any] = {
        "nugget": KINDS[kind],
        "psd": "skip",
        "random_state": seed,
    }
    search = mk.MKLClassifierCV(
        "precomputed", ps=PS, Cs=CS, cv=folds, refit=False, **shared
    ).fit(split.train, split.target)
    scores = np.reshape(search.cv_results_["mean_test_score"], (len(PS), len(CS)))
    lines = []
    for p, own in zip(PS, scores, strict=True):
        C = CS[int(np.argmax(own))]
        model = mk.MKLClassifier("precomputed", p=p, C=C, **shared)
        model.fit(split.train, split.target)
        lines.append({"kind": kind, "p": p, "C": C, **told(model, split)})
    best = lines[int(np.argmax(scores.max(axis=1)))]
    return [*lines, {**best, "p": CHOSEN, "chosen p": best["p"]}]


def told(model: mk.MKLClassifier, split: Split) -> dict[str, float]:
    """Accuracy and weights."""
    n_kernels = split.train.shape[-1]
    weights = model.kernel_weights_
    return {
        "accuracy": float(model.score(split.test, split.target_test)),
        "weight": float(weights[split.n_useful : n_kernels].sum()),
        "nugget": float(weights[n_kernels:].sum()),
    }


def summary(lines: list[dict[str, Any]], **case: Any) -> dict[str, Any]:
    """Means over data sets and splits, and the difference in pairs.

    Standard errors are over data sets: splits of one are not independent.
    """
    result: dict[str, Any] = dict(case)
    accuracy = {}
    for kind in KINDS:
        own = pick(lines, kind=kind, **case)
        accuracy[kind] = by_data(own, "accuracy")
        result[f"{kind} accuracy"] = float(accuracy[kind].mean())
        result[f"{kind} weight"] = float(by_data(own, "weight").mean())
        result[f"{kind} most weight"] = max(line["weight"] for line in own)
    own = pick(lines, kind="nugget", **case)
    result["nugget"] = float(by_data(own, "nugget").mean())
    gain = accuracy["nugget"] - accuracy["plain"]
    result |= {"gain": float(gain.mean()), "least gain": float(gain.min())}
    result["gain error"] = float(gain.std(ddof=1) / np.sqrt(len(gain)))
    return result


def pick(lines: list[dict[str, Any]], **case: Any) -> list[dict[str, Any]]:
    """The lines of a case."""
    return [line for line in lines if all(line[key] == v for key, v in case.items())]


def by_data(lines: list[dict[str, Any]], key: str) -> np.ndarray:
    """Means over the splits of every data set."""
    names = dict.fromkeys(line["data"] for line in lines)
    return np.array(
        [np.mean([one[key] for one in lines if one["data"] == name]) for name in names]
    )


def overall(lines: list[dict[str, Any]]) -> dict[str, float]:
    """With p chosen: gains with noise and without it, and zeros at p = 1."""
    noisy = [line for line in lines if line["columns"] > 0]
    clean = [line for line in lines if line["columns"] == 0]
    sparse = pick(noisy, p=1.0, kind="nugget")
    found = {
        "no noise weight at p = 1": float(np.mean([s["weight"] == 0.0 for s in sparse]))
    }
    for name, some in (("with noise", noisy), ("without", clean)):
        for p in (*PS, CHOSEN):
            one = summary(some, p=p)
            found |= {f"gain {name}, p = {p}": one["gain"]}
            found |= {f"error {name}, p = {p}": one["gain error"]}
    return found


def report(lines: list[dict[str, Any]], cases: list[dict[str, Any]]) -> None:
    """Print."""
    keys = list(cases[0])
    show("plain and nugget", keys, [[case[key] for key in keys] for case in cases])
    for name in dict.fromkeys(line["data"] for line in lines):
        own = [line for line in lines if line["data"] == name]
        rows = [
            [one[key] for key in keys]
            for one in (summary(own, columns=c, p=CHOSEN) for c in COLUMNS)
        ]
        show(name, keys, rows)
    console.print(overall(lines))


if __name__ == "__main__":
    main()
