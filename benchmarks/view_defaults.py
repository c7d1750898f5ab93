"""Which kernels, p and C should `kernels=None` mean for every view?

Data sets in views, several splits. For each family (kernels for every view, and how
views are scaled), p and C a model is fitted on training rows, and judged on validation
and on test rows. The default is the setting with the best mean accuracy on validation
rows over all data sets. On test rows it is then set beside the best of 64 settings
chosen for each split on its validation rows, uniform weights (p = 2) under the same SVM
with C chosen so, and other methods with C chosen so.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import console, parse, save, show, timed
from joblib import Parallel, delayed
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits
from view_sets import VIEW_SETS, Rows, Views, ViewSet, available, joined, scaled, split

import manykernels as mk
from manykernels.kernels import KernelSet, as_kernels

P_VALUES = (1.0, 1.1, 1.25, 1.5, 2.0)
C_VALUES = (0.1, 1.0, 10.0, 100.0)
LEARNED, UNIFORM = 1, 4  # places of p = 1.1 and p = 2
MOST_BOOSTED = 3000  # columns times classes that gradient boosting is tried on

LINEAR = ("linear",)
RBF = ("rbf:gamma=median",)
RBFS = ("rbf:gamma=0.25*median", "rbf:gamma=median", "rbf:gamma=4*median")
WIDE = ("rbf:gamma=0.0625*median", "rbf:gamma=0.25*median", "rbf:gamma=median")
FIVE = ("rbf:gamma=0.0625*median", *RBFS, "rbf:gamma=16*median")
TABLE = (  # what None means for one table
    "linear",
    "polynomial:degree=2,gamma=scale",
    "rbf:gamma=0.1*scale",
    "rbf:gamma=scale",
    "rbf:gamma=10*scale",
)


@dataclass(frozen=True)
class Family:
    """Kernels for every view, and how the views are scaled first."""

    name: str
    kernels: tuple[str, ...]
    scaling: str = "standard"

    @property
    def averaged(self) -> str:
        """The name of an SVM on the mean of these kernels."""
        return f"averaged kernel, {self.name}"


FAMILIES = (
    Family("linear", LINEAR),
    Family("one RBF", RBF),
    Family("three RBFs", RBFS),
    Family("linear, three RBFs", LINEAR + RBFS),
    Family("linear, three wide RBFs", LINEAR + WIDE),
    Family("linear, five RBFs", LINEAR + FIVE),
    Family(
        "linear by trace, linear, three RBFs",
        ("linear:normalize=trace", *LINEAR, *RBFS),
    ),
    Family("as for one table", TABLE),
    Family("linear, three RBFs, log1p", LINEAR + RBFS, "log1p"),
    Family("linear, three RBFs, raw", LINEAR + RBFS, "raw"),
    Family("linear, five RBFs, log1p", LINEAR + FIVE, "log1p"),
    Family("linear, five RBFs, raw", LINEAR + FIVE, "raw"),
)
# One kernel for every view, and several: what do learned weights add?
SEVERAL = FAMILIES[1], FAMILIES[3], FAMILIES[5]
AVERAGED = (*SEVERAL, FAMILIES[10])
# The grid of 64 that a careful user would try.
GRID = ("linear", "one RBF", "linear, three RBFs", "linear, three RBFs, raw")
GRID_P = (1.0, 1.1, 1.5, 2.0)


def main() -> None:
    """Measure, choose, judge, print and store."""
    options = parse(
        __doc__,
        quick=(False, "one split of three small data sets"),
        splits=(2, "splits per data set"),
        jobs=(1, "processes"),
        keep=("", "folder in which finished splits are kept and found again"),
    )
    wanted = VIEW_SETS
    if options.quick:
        options.splits = 1
        wanted = tuple(data for data in VIEW_SETS if data.name in QUICK)
    usable = [data for data in wanted if available(data)]
    for data in wanted:
        if data not in usable:
            console.print(f"No files for {data.name}: left out (see MANYKERNELS_DATA).")
    names = [data.name for data in usable]
    cells = [(name, seed) for seed in range(options.splits) for name in names]
    jobs = (delayed(kept)(options.keep, *cell) for cell in cells)
    found = Parallel(options.jobs)(jobs)
    seconds = sum(cell["seconds"] for cell in found)
    found = [cell for d in range(len(usable)) for cell in found[d :: len(usable)]]
    shape = len(usable), options.splits, len(FAMILIES), len(P_VALUES), len(C_VALUES), 2
    accuracy = np.array(
        [[cell["settings"][family.name] for family in FAMILIES] for cell in found]
    ).reshape(shape)
    others = {
        name: np.array([cell["others"][name] for cell in found], dtype=float).reshape(
            shape[:2]
        )
        for name in found[0]["others"]
    }
    report(names, accuracy, others, seconds)


QUICK = ("tumors", "sonar", "digits")


# --- one split ----------------------------------------------------------------


def kept(folder: str, name: str, seed: int) -> dict[str, Any]:
    """What is measured on a split; what is in the folder is not measured again."""
    (data,) = (data for data in VIEW_SETS if data.name == name)
    path = Path(folder) / f"{data.name} {seed}.json"
    known = json.loads(path.read_text()) if folder and path.is_file() else {}
    found, seconds = timed(lambda: measure(data, seed, known))
    found["seconds"] = known.get("seconds", 0.0) + seconds
    if folder:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
    return found


def measure(data: ViewSet, seed: int, known: dict[str, Any]) -> dict[str, Any]:
    """Accuracies on validation and test rows: of every setting, and of the others."""
    settings, others = known.get("settings", {}), known.get("others", {})
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        views, target = data.load()
        judge = Judge(target, split(data, target, seed))
        dense = not any(map(sp.issparse, views.values()))
        for family in FAMILIES:
            if family.scaling == "log1p" and dense:
                settings[family.name] = settings[family.name.removesuffix(", log1p")]
            elif family.name not in settings:
                settings[family.name] = family_accuracies(family, views, judge).tolist()
        others = others or rivals(views, judge, seed)
        for family in AVERAGED:
            if family.scaling == "log1p" and dense:
                name = family.averaged.removesuffix(", log1p")
                others[family.averaged] = others[name]
            elif family.averaged not in others:
                others[family.averaged] = averaged(family, views, judge)
    print(f"{data.name}, split {seed}", flush=True)
    return {"settings": settings, "others": others}


@dataclass(frozen=True)
class Judge:
    """Labels and rows of a split."""

    target: np.ndarray
    rows: Rows

    @property
    def labels(self) -> np.ndarray:
        """Of the training rows."""
        return self.target[self.rows.train]

    def accuracies(self, predicted: np.ndarray) -> tuple[float, float]:
        """On validation and on test rows, from labels of all new rows."""
        right = predicted == self.target[self.rows.new]
        n_validation = len(self.rows.validation)
        return float(right[:n_validation].mean()), float(right[n_validation:].mean())

    def best(self, candidates: Any) -> float:
        """Accuracy on test rows of the one that is best on validation rows."""
        found = [self.accuracies(predicted) for predicted in candidates]
        return max(found, key=lambda pair: pair[0])[1]


def family_accuracies(family: Family, views: Views, judge: Judge) -> np.ndarray:
    """Shape (p, C, 2)."""
    train, new = stacks(family, views, judge.rows)
    found = np.empty((len(P_VALUES), len(C_VALUES), 2))
    for a, p in enumerate(P_VALUES):
        for b, C in enumerate(C_VALUES):
            model = mk.MKLClassifier(
                "precomputed", p=p, C=C, psd="skip", random_state=0
            ).fit(train, judge.labels)
            found[a, b] = judge.accuracies(model.predict(new))
    return found


def stacks(family: Family, views: Views, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Kernels of the training rows, and of new rows with them, last axis kernels."""
    train, new = [], []
    for view in views.values():
        table = scaled(view, family.scaling, rows.train)
        fitted = KernelSet.fit(as_kernels(list(family.kernels)), table[rows.train])
        train.append(fitted.stack())
        blocks = [block for _, block in fitted.cross(table[rows.new])]
        new.append(np.concatenate(blocks, axis=1))
    return tuple(
        np.ascontiguousarray(np.moveaxis(np.concatenate(part), 0, -1))
        for part in (train, new)
    )


def averaged(family: Family, views: Views, judge: Judge) -> float:
    """SVC on the mean of the kernels, C chosen."""
    train, new = (part.mean(axis=2) for part in stacks(family, views, judge.rows))
    models = (SVC(kernel="precomputed", C=C) for C in C_VALUES)
    return judge.best(model.fit(train, judge.labels).predict(new) for model in models)


def rivals(views: Views, judge: Judge, seed: int) -> dict[str, float | None]:
    """Methods on the joined columns; None where one would take too long."""
    table = joined(views, judge.rows.train)
    train, new = table[judge.rows.train], table[judge.rows.new]
    y = judge.labels

    def best(*models: Any) -> float:
        return judge.best(model.fit(train, y).predict(new) for model in models)

    small = train.shape[1] * len(np.unique(y)) <= MOST_BOOSTED
    boosted = small and not sp.issparse(train)
    return {
        "SVC, joined columns": best(*(SVC(C=C) for C in C_VALUES)),
        "logistic regression": best(
            *(LogisticRegression(C=C, max_iter=500) for C in C_VALUES)
        ),
        "random forest": best(RandomForestClassifier(300, random_state=seed)),
        "gradient boosting": best(HistGradientBoostingClassifier(random_state=seed))
        if boosted
        else None,
    }


# --- choosing and judging -----------------------------------------------------


def choose(accuracy: np.ndarray) -> tuple[int, int, int]:
    """Family, p and C with the best mean on validation rows over all data sets."""
    mean = accuracy[..., 0].mean(axis=(0, 1))
    return tuple(map(int, np.unravel_index(np.argmax(mean), mean.shape)))


def best_of(accuracy: np.ndarray, families: list[int], ps: list[int]) -> np.ndarray:
    """Test accuracy by data set and split of what validation rows choose in a grid."""
    part = accuracy[:, :, families][:, :, :, ps]
    flat = part.reshape(*part.shape[:2], -1, 2)
    place = np.argmax(flat[..., 0], axis=-1)[..., None]
    return np.take_along_axis(flat[..., 1], place, axis=-1)[..., 0]


def methods(
    accuracy: np.ndarray, others: dict[str, np.ndarray], default: tuple[int, int, int]
) -> dict[str, np.ndarray]:
    """Test accuracies by data set and split."""
    names = [family.name for family in FAMILIES]
    every = list(range(len(P_VALUES)))
    ps = [P_VALUES.index(p) for p in GRID_P]
    found = {
        "default": accuracy[:, :, *default, 1],
        "best of 64": best_of(accuracy, [names.index(name) for name in GRID], ps),
        "best of all": best_of(accuracy, list(range(len(names))), every),
    }
    for family in SEVERAL:
        place = [names.index(family.name)]
        found[f"{family.name}, p = 1.1"] = best_of(accuracy, place, [LEARNED])
        found[f"{family.name}, p chosen"] = best_of(accuracy, place, every[:UNIFORM])
        found[f"{family.name}, uniform"] = best_of(accuracy, place, [UNIFORM])
    return found | others


def summary(found: dict[str, np.ndarray], default: Family) -> dict[str, Any]:
    """Differences in points: means over data sets, and the data set with the least."""
    pairs = {
        "default against best of 64": ("default", "best of 64"),
        "default against averaged kernel": ("default", default.averaged),
    }
    for family in SEVERAL:
        for learned in ("p = 1.1", "p chosen"):
            name = f"{family.name}, {learned}"
            pairs[f"{name}, against uniform"] = (name, f"{family.name}, uniform")
    table = {}
    for name, (ours, theirs) in pairs.items():
        if theirs in found:
            points = 100 * (found[ours] - found[theirs])
            error = points.std(ddof=1) / np.sqrt(len(points)) if len(points) > 1 else 0
            table[name] = {
                "mean": points.mean(),
                "error": error,
                "least": points.min(),
                "most": points.max(),
                "where": int(points.argmin()),
            }
    return table


def report(
    names: list[str],
    accuracy: np.ndarray,
    others: dict[str, np.ndarray],
    seconds: float,
) -> None:
    """Print what was chosen and how it does, and store everything."""
    default = choose(accuracy)
    family, a, b = default
    judged = methods(accuracy, others, default)
    found = {name: table.mean(axis=1) for name, table in judged.items()}
    differences = summary(found, FAMILIES[family])
    validation = accuracy[..., 0].mean(axis=(0, 1))
    show_all(names, validation, found, differences, seconds)
    chosen = {
        "family": FAMILIES[family].name,
        "kernels": FAMILIES[family].kernels,
        "scaling": FAMILIES[family].scaling,
        "p": P_VALUES[a],
        "C": C_VALUES[b],
    }
    console.print(chosen)
    save(
        "view_defaults",
        seconds=seconds,
        default=chosen,
        families={
            f.name: {"kernels": f.kernels, "scaling": f.scaling} for f in FAMILIES
        },
        grid={"families": GRID, "p": GRID_P, "C": C_VALUES},
        p=P_VALUES,
        C=C_VALUES,
        data_sets=names,
        validation={f.name: validation[i] for i, f in enumerate(FAMILIES)},
        test={
            name: {
                data: None if np.isnan(value) else value
                for data, value in zip(names, values, strict=True)
            }
            for name, values in found.items()
        },
        summary=differences,
    )


def show_all(
    names: list[str],
    validation: np.ndarray,
    found: dict[str, np.ndarray],
    differences: dict[str, Any],
    seconds: float,
) -> None:
    """Print three tables."""
    show(
        f"validation rows, mean over data sets, % ({seconds:.0f} s)",
        ["kernels, p", *(f"C = {C:g}" for C in C_VALUES)],
        [
            [f"{family.name}, p = {p:g}", *(100 * validation[f, a])]
            for f, family in enumerate(FAMILIES)
            for a, p in enumerate(P_VALUES)
        ],
    )
    show(
        "test rows, %",
        ["data set", *(str(place) for place in range(len(found)))],
        [
            [name, *(100 * values[d] for values in found.values())]
            for d, name in enumerate(names)
        ]
        + [["mean", *(100 * values.mean() for values in found.values())]],
    )
    console.print(dict(enumerate(found)))
    show(
        "differences on test rows, points",
        ["", "mean", "its standard error", "least", "most", "least on"],
        [
            [name, *list(one.values())[:-1], names[one["where"]]]
            for name, one in differences.items()
        ],
    )


if __name__ == "__main__":
    main()
