"""Which kernels, p and C should `kernels=None` mean for every view?

Data sets in views, several splits. For each family (kernels for every view, and how
views are scaled), p and C a model is fitted on training rows, and judged on validation
and on test rows. Defaults are chosen by the mean accuracy on validation rows over all
data sets. On test rows `MKLClassifier()` and `MKLClassifierCV()`, to which nothing is
said, are then set beside the best of 64 settings chosen for each split on its
validation rows, uniform weights (p = 2) under the same SVM with C chosen so, and other
methods with C chosen so.
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
from view_judging import (
    DEFAULT,
    SEARCH,
    choose,
    differences,
    fixed,
    judged,
    standard_error,
)
from view_sets import VIEW_SETS, Rows, Views, ViewSet, available, joined, scaled, split
from view_settings import (
    AVERAGED,
    C_VALUES,
    FAMILIES,
    GRID,
    GRID_P,
    P_VALUES,
    USED,
    WIDE_ONLY,
    WITH_NARROW,
    Family,
)

import manykernels as mk
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet

MOST_BOOSTED = 3000  # columns times classes that gradient boosting is tried on
NARROW = ("gamma=4*median", "gamma=16*median")


def main() -> None:
    """Measure, choose, judge, print and store."""
    options = parse(
        __doc__,
        quick=(False, "one split of three small data sets"),
        splits=(10, "splits per data set"),
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
    narrow = np.array([cell["narrow"] for cell in found]).reshape(shape[:2])
    report(names, accuracy, others, narrow, seconds)


QUICK = ("tumors", "sonar", "digits")


# --- one split ----------------------------------------------------------------


def kept(folder: str, name: str, seed: int) -> dict[str, Any]:
    """What is measured on a split; what is in the folder is not measured again."""
    (data,) = (data for data in VIEW_SETS if data.name == name)
    path = Path(folder) / f"{data.name} {seed}.json"
    known = json.loads(path.read_text()) if folder and path.is_file() else {}
    if whole(known):
        return known
    found, seconds = timed(lambda: measure(data, seed, known))
    found["seconds"] = known.get("seconds", 0.0) + seconds
    if folder:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
    return found


def whole(known: dict[str, Any]) -> bool:
    """Whether everything is there that is measured on a split."""
    wanted = {family.name for family in FAMILIES} | {f.averaged for f in AVERAGED}
    return "narrow" in known and wanted <= {*known["settings"], *known["others"]}


def measure(data: ViewSet, seed: int, known: dict[str, Any]) -> dict[str, Any]:
    """Accuracies on validation and test rows: of every setting, and of the others."""
    settings, others = known.get("settings", {}), known.get("others", {})
    narrow = known.get("narrow")
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The least populated class")
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
        if narrow is None:
            found, narrow = nothing_said(views, judge)
            others |= found
    print(f"{data.name}, split {seed}", flush=True)
    return {"settings": settings, "others": others, "narrow": narrow}


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


def nothing_said(views: Views, judge: Judge) -> tuple[dict[str, float], float]:
    """Test accuracies as a user gets them; the default's weight on narrow RBFs."""
    X, rows = mk.Views(views), judge.rows
    train, new = X[rows.train], X[rows.new]
    one = mk.MKLClassifier(random_state=0).fit(train, judge.labels)
    search = mk.MKLClassifierCV(random_state=0).fit(train, judge.labels)
    narrow = [any(width in name for width in NARROW) for name in one.kernel_names_]
    found = {
        DEFAULT: judge.accuracies(one.predict(new))[1],
        SEARCH: judge.accuracies(search.predict(new))[1],
    }
    return found, float(one.kernel_weights_[narrow].sum())


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


# --- what came of it -----------------------------------------------------------


def report(
    names: list[str],
    accuracy: np.ndarray,
    others: dict[str, np.ndarray],
    narrow: np.ndarray,
    seconds: float,
) -> None:
    """Print what was chosen and how it does, and store everything."""
    family, a, b = choose(accuracy)
    by_split = judged(accuracy, others)
    found = {name: table.mean(axis=1) for name, table in by_split.items()}
    points = differences(by_split, names, USED)
    validation = accuracy[..., 0].mean(axis=(0, 1))
    show_all(names, validation, found, points, seconds)
    chosen = {
        "family": FAMILIES[family].name,
        "p": P_VALUES[a],
        "C": C_VALUES[b],
        "validation": validation[family, a, b],
    }
    unlike = fixed(accuracy, by_split["best of 64"], names)
    console.print(chosen, unlike)
    save(
        "view_defaults",
        seconds=seconds,
        splits=accuracy.shape[1],
        chosen=chosen,
        used=validation[FAMILIES.index(USED), *USED_AT],
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
        summary=points,
        narrow=narrow_kernels(names, accuracy, narrow),
        best_fixed=unlike,
    )


USED_AT = P_VALUES.index(1.1), C_VALUES.index(1.0)  # the default p and C


def narrow_kernels(
    names: list[str], accuracy: np.ndarray, weight: np.ndarray
) -> dict[str, Any]:
    """Weight of narrow RBFs, and what they add on validation rows, by data set."""
    with_narrow, wide_only = (
        accuracy[:, :, FAMILIES.index(family), *USED_AT, 0]
        for family in (WITH_NARROW, WIDE_ONLY)
    )
    gain = 100 * (with_narrow - wide_only)
    return {
        name: {
            "weight": own.mean(),
            "gain": points.mean(),
            "error": standard_error(points),
        }
        for name, own, points in zip(names, weight, gain, strict=True)
    }


def show_all(
    names: list[str],
    validation: np.ndarray,
    found: dict[str, np.ndarray],
    points: dict[str, Any],
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
            [name, *(one[k] for k in ("mean", "error", "least", "most", "where"))]
            for name, one in points.items()
        ],
    )


if __name__ == "__main__":
    main()
