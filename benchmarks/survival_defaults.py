"""Which kernels should `MKLSurvival()` take? Concordance on seven public data sets.

Data that come with lifelines and scikit-survival, other ones than those on which
`survival.py` compares the result with scikit-survival's learners. Rows with gaps are
left out, categories become indicator columns, columns are standardized on training
rows, and of large tables 700 rows are drawn. Repeated three-fold cross-validation.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from common import parse, save, show
from sklearn.model_selection import RepeatedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import manykernels as mk

FOLDS, MOST_ROWS = 3, 700
Data = tuple[np.ndarray, np.ndarray]  # columns; events and times
WIDE = "linear; rbf:gamma=0.0625*median; rbf:gamma=0.25*median; rbf:gamma=median"
FIVE = f"{WIDE}; rbf:gamma=4*median; rbf:gamma=16*median"
KERNELS = {
    "as other estimators": mk.kernels.default_kernels(),
    "linear, five RBFs": FIVE,
    "linear, three wide RBFs": WIDE,
    "linear": "linear",
}
PS, CS = (1.1, 2.0), (0.1, 0.3, 1.0)
BASE = "as other estimators, p = 1.1, C = 1"


def main() -> None:
    """Measure, print and store."""
    options = parse(__doc__, repeats=(2, "repetitions of the cross-validation"))
    warnings.simplefilter("ignore")
    try:
        sets = data_sets()
    except ModuleNotFoundError:
        print("lifelines and scikit-survival are not installed: there are no data.")
        sys.exit(0)
    found = {name: measure(load(), options.repeats) for name, load in sets.items()}
    table = np.array([list(one["concordance"].values()) for one in found.values()])
    names = list(next(iter(found.values()))["concordance"])
    lead = table - table[:, [names.index(BASE)]]
    error = lead.std(axis=0, ddof=1) / np.sqrt(len(lead))
    settings = {
        name: {"mean": mean, "lead": more, "error": off}
        for name, mean, more, off in zip(
            names, table.mean(axis=0), lead.mean(axis=0), error, strict=True
        )
    }
    show(
        f"mean concordance on {len(found)} data sets",
        ["", "mean", "lead", "its standard error"],
        [[name, *one.values()] for name, one in settings.items()],
    )
    save(
        "survival_defaults",
        seeds=[0],
        options=vars(options),
        data_sets=found,
        settings=settings,
    )


def data_sets() -> dict[str, Callable[[], Data]]:
    """Functions that load a table, events and times."""
    from lifelines import datasets as ours
    from sksurv import datasets as theirs

    return {
        "rossi": lambda: _of_frame(ours.load_rossi(), "week", "arrest"),
        "lung": lambda: _of_frame(ours.load_lung().drop(columns="inst"), *STATUS),
        "larynx": lambda: _of_frame(ours.load_larynx(), "time", "death"),
        "kidney": lambda: _of_frame(ours.load_kidney_transplant(), "time", "death"),
        "heart": lambda: _of_frame(
            ours.load_stanford_heart_transplants(), "stop", "event"
        ),
        "cgvhd": lambda: _of_pair(*theirs.load_cgvhd()),
        "aids": lambda: _of_pair(*theirs.load_aids()),
    }


STATUS = ("time", "status")


def _of_frame(frame: Any, time: str, event: str) -> Data:
    frame = frame.dropna()
    times, events = frame[time].to_numpy(float), frame[event].to_numpy() > 0
    return _numbers(frame.drop(columns=[time, event]), times, events)


def _of_pair(frame: Any, y: np.ndarray) -> Data:
    event, time = y.dtype.names
    whole = frame.notna().all(axis=1).to_numpy()
    return _numbers(frame[whole], y[time][whole].astype(float), y[event][whole])


def _numbers(frame: Any, time: np.ndarray, event: np.ndarray) -> Data:
    """Indicators for categories; rows whose time is not positive are left out."""
    import pandas as pd

    X = pd.get_dummies(frame, drop_first=True).to_numpy(float)
    y = np.zeros(len(X), dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = event, time
    rows = np.random.default_rng(0).permutation(np.flatnonzero(time > 0.0))
    return X[rows[:MOST_ROWS]], y[rows[:MOST_ROWS]]


def measure(data: Data, repeats: int) -> dict[str, Any]:
    """Mean concordance of every setting on rows left out."""
    X, y = data
    splits = list(
        RepeatedKFold(n_splits=FOLDS, n_repeats=repeats, random_state=0).split(X)
    )
    found = {}
    with threadpool_limits(limits=1):
        for name, kernels in KERNELS.items():
            for p in PS:
                for C in CS:
                    model = mk.MKLSurvival(kernels, p=p, C=C, random_state=0)
                    scores = [left_out(model, X, y, *rows) for rows in splits]
                    found[f"{name}, p = {p:g}, C = {C:g}"] = float(np.mean(scores))
    size = {"rows": len(X), "columns": X.shape[1], "events": float(y["event"].mean())}
    return {**size, "concordance": found}


def left_out(
    model: Any, X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray
) -> float:
    """Concordance on the test rows."""
    scaled = make_pipeline(StandardScaler(), model).fit(X[train], y[train])
    return float(scaled.score(X[test], y[test]))


if __name__ == "__main__":
    main()
