"""Which p is a good default? Accuracy over data sets, with and without noise kernels.

For every data set, noise ratio (0 or 4 irrelevant kernels per useful one), seed and p,
C is chosen from {1, 10, 100} on a third of the training rows, and the model is fitted
again on all of them. p = 2 is the averaged kernel. Where a data set brings its own
split, a seed draws training rows from its training part, and its test rows are used.
"""

from __future__ import annotations

import warnings

import numpy as np
from common import console, parse, save, show, timed
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits
from views import DATA_SETS, DataSet, Split, available, make_split

import manykernels as mk

P_VALUES = (1.0, 1.05, 1.1, 1.25, 1.5, 2.0)
C_VALUES = (1.0, 10.0, 100.0)
NOISE_RATIOS = (0, 4)


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        quick=(False, "one split of the three smallest data sets"),
        seeds=(3, "splits per data set"),
        jobs=(2, "processes"),
    )
    wanted = DATA_SETS
    if options.quick:
        options.seeds = 1
        wanted = sorted(DATA_SETS, key=lambda data: data.n_train)[:3]
    usable = [data for data in wanted if available(data)]
    for data in set(wanted) - set(usable):
        console.print(f"No files for {data.name}: left out (see MANYKERNELS_DATA).")
    cells = [
        (data, ratio, seed)
        for data in usable
        for ratio in NOISE_RATIOS
        for seed in range(options.seeds)
    ]
    jobs = (delayed(accuracies)(*cell) for cell in cells)
    found, seconds = timed(lambda: Parallel(options.jobs)(jobs))
    shape = (len(usable), len(NOISE_RATIOS), options.seeds, len(P_VALUES))
    report(usable, np.array(found).reshape(shape), seconds)


def accuracies(data: DataSet, noise_ratio: int, seed: int) -> list[float]:
    """Test accuracy for every p on one split."""
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        split = make_split(data, noise_ratio, seed)
        return [tuned_accuracy(split, p, seed) for p in P_VALUES]


def tuned_accuracy(split: Split, p: float, seed: int) -> float:
    """Choose C on held-out training rows, fit on all of them, score the test rows."""
    rows = np.arange(len(split.target))
    fitting, held = train_test_split(
        rows, test_size=1 / 3, stratify=split.target, random_state=seed
    )
    scores = []
    for C in C_VALUES:
        model = classifier(p, C, seed)
        model.fit(split.train[np.ix_(fitting, fitting)], split.target[fitting])
        validation = split.train[np.ix_(held, fitting)]
        scores.append(model.score(validation, split.target[held]))
    best = classifier(p, C_VALUES[int(np.argmax(scores))], seed)
    best.fit(split.train, split.target)
    return float(best.score(split.test, split.target_test))


def classifier(p: float, C: float, seed: int) -> mk.MKLClassifier:
    """The estimator under test; kernels made here need no check."""
    return mk.MKLClassifier("precomputed", p=p, C=C, psd="skip", random_state=seed)


def report(usable: list[DataSet], found: np.ndarray, seconds: float) -> None:
    """Print accuracies, mean ranks and the worst loss, and store everything."""
    mean = found.mean(axis=2)  # (data sets, noise ratios, p)
    columns = ["data set", "noise", *(f"p = {p:g}" for p in P_VALUES)]
    rows: list[list[object]] = [
        [data.name, NOISE_RATIOS[r], *(100 * mean[d, r])]
        for r in range(len(NOISE_RATIOS))
        for d, data in enumerate(usable)
    ]
    rows += summaries(mean)
    show(f"test accuracy in %, C tuned for each p ({seconds:.0f} s)", columns, rows)
    save(
        "default_p",
        seconds=seconds,
        p=P_VALUES,
        C=C_VALUES,
        noise_ratios=NOISE_RATIOS,
        data_sets=[data.name for data in usable],
        accuracy=found,
        summary={f"{row[0]}, noise {row[1]}": row[2:] for row in summaries(mean)},
    )


def summaries(mean: np.ndarray) -> list[list[object]]:
    """Mean accuracy, mean rank (1 is best) and largest loss against the best p.

    The last two lines compare with p = 1 in pairs, data set by data set.
    """
    parts = [(str(ratio), mean[:, r]) for r, ratio in enumerate(NOISE_RATIOS)]
    parts.append(("both", mean.reshape(-1, mean.shape[-1])))
    lines: list[list[object]] = []
    for label, values in parts:
        ranks = rankdata(-values.round(6), axis=1)
        losses = 100 * (values.max(axis=1, keepdims=True) - values)
        lines.append(["mean accuracy", label, *(100 * values.mean(axis=0))])
        lines.append(["mean rank", label, *ranks.mean(axis=0)])
        lines.append(["largest loss", label, *losses.max(axis=0)])
        behind = 100 * (values[:, :1] - values)
        error = behind.std(axis=0, ddof=1) / np.sqrt(len(behind))
        lines.append(["behind p = 1", label, *behind.mean(axis=0)])
        lines.append(["its standard error", label, *error])
    return lines


if __name__ == "__main__":
    main()
