"""Breast cancer subtypes with views missing at random: accuracy of every way out.

Patients of the file's training part (150 with three views) are split by seeds into 100
to learn from and 50 to test on. Every patient lacks each view with a probability from 0
to 0.6, but keeps at least one, to learn from and to test on alike. "drop" learns from
the patients that have all views and "mean" fills a view with the mean of the patients
that have it; both fill the test patients with means. The same kernels, p and C
everywhere: the defaults. "without" lines leave a whole view out of the test patients,
after learning from all three.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import loaders
import numpy as np
from common import parse, save, show
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import manykernels as mk

Tables = dict[str, np.ndarray]
SHARES = (0.0, 0.2, 0.4, 0.6)
STRATEGIES = ("rescale", "zero", "complete")
WAYS = (*STRATEGIES, "mean", "drop")


def main() -> None:
    """Measure, print and store."""
    options = parse(__doc__, seeds=(20, "splits"), jobs=(2, "processes"))
    cells = [(share, seed) for share in SHARES for seed in range(options.seeds)]
    jobs = (delayed(accuracies)(*cell) for cell in cells)
    found = np.array(Parallel(options.jobs)(jobs)).reshape(
        len(SHARES), options.seeds, len(WAYS)
    )
    left = Parallel(options.jobs)(
        delayed(without_views)(seed) for seed in range(options.seeds)
    )
    report(found, left)


def patients() -> tuple[Tables, np.ndarray]:
    """All three views of the 150 patients that have them."""
    bunch = loaders.load_tcga_breast()
    return dict(bunch.views), bunch.target


def split(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Patients to learn from and to test on."""
    _, target = patients()
    train, test = train_test_split(
        np.arange(len(target)), train_size=100, stratify=target, random_state=seed
    )
    return train, test


def thinned(views: Tables, share: float, seed: int) -> Tables:
    """Every row lacks each view with a probability, but never all of them."""
    rng = np.random.default_rng(1000 + seed)
    n_rows = len(next(iter(views.values())))
    lacks = rng.random((n_rows, len(views))) < share
    kept = rng.integers(len(views), size=n_rows)
    lacks[np.arange(n_rows), kept] = False
    return {
        name: np.where(lacks[:, [v]], np.nan, table)
        for v, (name, table) in enumerate(views.items())
    }


def take(views: Tables, rows: np.ndarray) -> Tables:
    """Some rows of every view."""
    return {name: table[rows] for name, table in views.items()}


def filled(views: Tables, like: Tables) -> Tables:
    """Means of the rows that have a view, in those that do not."""
    return {
        name: np.where(np.isnan(table), np.nanmean(like[name], axis=0), table)
        for name, table in views.items()
    }


def quietly(work: Callable[[], list[float]]) -> list[float]:
    """One BLAS thread, and no word about gaps."""
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return work()


def accuracies(share: float, seed: int) -> list[float]:
    """Of every way on one split."""
    views, target = patients()
    views = thinned(views, share, seed)
    train, test = split(seed)
    learn, seen = take(views, train), take(views, test)
    return quietly(
        lambda: [score(way, learn, target[train], seen, target[test]) for way in WAYS]
    )


def score(
    way: str, train: Tables, target: np.ndarray, test: Tables, truth: np.ndarray
) -> float:
    """Accuracy on the test patients."""
    if way in STRATEGIES:
        model = mk.MKLClassifier(missing=way, random_state=0).fit(train, target)
        return float(model.score(test, truth))
    test = filled(test, train)
    if way == "mean":
        train = filled(train, train)
    else:
        whole = ~np.any([np.isnan(t).any(axis=1) for t in train.values()], axis=0)
        classes = np.unique(target[whole])
        if len(classes) < 2:  # nobody to learn from: the commonest subtype
            names, counts = np.unique(target, return_counts=True)
            return float(np.mean(truth == names[np.argmax(counts)]))
        train, target = take(train, np.flatnonzero(whole)), target[whole]
    model = mk.MKLClassifier(random_state=0).fit(train, target)
    return float(model.score(test, truth))


def without_views(seed: int) -> list[dict[str, object]]:
    """Accuracy where test patients lack a whole view."""
    views, target = patients()
    train, test = split(seed)
    lines: list[dict[str, object]] = []
    for name in views:
        rest = {key: table for key, table in take(views, test).items() if key != name}
        for way in STRATEGIES:
            model = mk.MKLClassifier(missing=way, random_state=0)
            model.fit(take(views, train), target[train])
            found = float(model.score(rest, target[test]))
            lines.append({"without": name, "way": way, "accuracy": found})
    return lines


def report(found: np.ndarray, left: list[list[dict[str, object]]]) -> None:
    """Print and save."""
    root = np.sqrt(found.shape[1])
    rows = [
        [way, *(f"{100 * found[s, :, w].mean():.1f}" for s in range(len(SHARES)))]
        for w, way in enumerate(WAYS)
    ]
    show("accuracy, %", ["", *(f"{share:.0%} missing" for share in SHARES)], rows)
    without: dict[str, dict[str, list[float]]] = {}
    for lines in left:
        for line in lines:
            own = without.setdefault(str(line["without"]), {})
            own.setdefault(str(line["way"]), []).append(float(line["accuracy"]))  # type: ignore[arg-type]
    show(
        "accuracy without a view of the test patients, %",
        ["", *STRATEGIES],
        [
            [name, *(f"{100 * np.mean(own[way]):.1f}" for way in STRATEGIES)]
            for name, own in without.items()
        ],
    )
    save(
        "missing_views",
        shares=list(SHARES),
        accuracy={
            way: [summary(found[s, :, w], root) for s in range(len(SHARES))]
            for w, way in enumerate(WAYS)
        },
        against_drop={
            way: [
                summary(found[s, :, w] - found[s, :, WAYS.index("drop")], root)
                for s in range(len(SHARES))
            ]
            for w, way in enumerate(WAYS)
        },
        without={
            name: {way: summary(np.array(own[way]), root) for way in STRATEGIES}
            for name, own in without.items()
        },
    )


def summary(values: np.ndarray, root: float) -> dict[str, float]:
    """Mean and standard error over the splits."""
    return {"mean": float(values.mean()), "error": float(values.std(ddof=1) / root)}


if __name__ == "__main__":
    main()
