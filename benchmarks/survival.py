"""MKLSurvival next to scikit-survival: concordance on its data sets, and known effects.

Data sets that come with scikit-survival, as it loads them: categories become indicator
columns, and columns are standardized on training rows. Repeated five-fold
cross-validation; in every fold all learners choose their settings by three folds of the
training rows, and never see the test rows. The measure is Harrell's concordance.

The second part simulates groups of columns of which two matter, one by a sum and one by
squares: which groups get weight, and how well new rows are ranked, as p varies.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from common import console, parse, save, show
from joblib import Memory, Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import KFold, RepeatedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manykernels as mk

FOLDS, INNER = 5, 3
PS, CS = (1.0, 1.2, 2.0), (0.01, 0.1, 1.0, 10.0)
KERNEL_ROWS = 500
COX = "Cox, ridge"
GROUPS, COLUMNS, TRUE = 10, 10, 2  # of the simulation
SIMULATED_PS = (1.0, 1.05, 1.2, 1.5, 2.0)
TEST_ROWS = 2000
Settings = Sequence[Mapping[str, Any]]
Learner = tuple[Any, Settings]


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        repeats=(1, "repetitions of the cross-validation"),
        sets=(4, "data sets, in their order"),
        seeds=(20, "simulated data sets"),
        rows=(300, "training rows of a simulated data set"),
        jobs=(2, "processes"),
        keep=("", "folder that keeps every fold, for a run that was stopped"),
    )
    try:
        import sksurv  # noqa: F401
    except ModuleNotFoundError:
        print("scikit-survival is not installed: there is nothing to compare with.")
        sys.exit(0)
    keep = Memory(options.keep or None, verbose=0).cache
    simulated = simulate(keep(one_draw), options.rows, options.seeds, options.jobs)
    found = {
        name: compare(keep(one_fold), name, options.repeats, options.jobs)
        for name in list(data_sets())[: options.sets]
    }
    save("survival", options=vars(options), data_sets=found, simulated=simulated)


def data_sets() -> dict[str, Callable[[], Any]]:
    """Functions that load a table and a structured array of events and times."""
    from sksurv import datasets as given

    return {
        "veterans' lung cancer": given.load_veterans_lung_cancer,
        "WHAS500": given.load_whas500,
        "GBSG2": given.load_gbsg2,
        "breast cancer": given.load_breast_cancer,
    }


def read(name: str) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """Numbers, times, and the columns that each variable became."""
    import pandas as pd

    frame, y = data_sets()[name]()
    parts = [pd.get_dummies(frame[[one]], drop_first=True) for one in frame.columns]
    widths = np.cumsum([0, *(part.shape[1] for part in parts)])
    columns = [
        list(range(a, b)) for a, b in zip(widths[:-1], widths[1:], strict=True) if b > a
    ]
    return pd.concat(parts, axis=1).to_numpy(float), y, columns


def grid(**values: Sequence[Any]) -> Settings:
    """All combinations."""
    return [dict(zip(values, one, strict=True)) for one in product(*values.values())]


def learners(n_rows: int, columns: list[list[int]]) -> dict[str, Learner]:
    """Models by name, with the settings that they choose from."""
    own = ["linear", "rbf", *(mk.kernels.RBF(columns=one) for one in columns)]
    ours = partial(mk.MKLSurvival, random_state=0)
    return {
        "MKLSurvival, a kernel per variable": (ours(own), grid(p=PS, C=CS)),
        "the same, p = 2: weights alike": (ours(own, p=2.0), grid(C=CS)),
        "MKLSurvival, default kernels": (ours(), grid(p=PS, C=CS)),
        "MKLSurvival(), nothing chosen": (ours(), [{}]),
        **rivals(n_rows, sum(map(len, columns))),
    }


def rivals(n_rows: int, n_columns: int) -> dict[str, Learner]:
    """What scikit-survival has; its kernel SVM takes too long for many rows."""
    from sksurv.ensemble import RandomSurvivalForest
    from sksurv.linear_model import CoxPHSurvivalAnalysis
    from sksurv.svm import FastKernelSurvivalSVM, FastSurvivalSVM

    alphas = (1e-3, 1e-2, 1e-1, 1.0)
    gammas = (0.1 / n_columns, 1.0 / n_columns)
    linear = FastSurvivalSVM(fit_intercept=True, max_iter=200, random_state=0)
    kernel = FastKernelSurvivalSVM(kernel="rbf", random_state=0)
    forest = RandomSurvivalForest(100, random_state=0)
    found: dict[str, Learner] = {
        COX: (CoxPHSurvivalAnalysis(), grid(alpha=(0.1, 1.0, 10.0, 100.0, 1000.0))),
        "survival SVM, linear": (linear, grid(alpha=alphas, rank_ratio=(0.0, 1.0))),
        "random survival forest": (forest, grid(min_samples_leaf=(5, 15, 30))),
    }
    if n_rows <= KERNEL_ROWS:
        settings = grid(alpha=alphas[:-1], gamma=gammas)
        found["survival SVM, Gaussian"] = kernel, settings
    return found


def compare(
    work: Callable[..., Any], name: str, repeats: int, jobs: int
) -> dict[str, Any]:
    """Concordance of all learners in all folds."""
    X, y, _ = read(name)
    splits = RepeatedKFold(n_splits=FOLDS, n_repeats=repeats, random_state=0).split(X)
    folds = Parallel(jobs)(delayed(work)(name, *rows) for rows in splits)
    events = y[y.dtype.names[0]].mean()
    figures = {
        learner: described(folds, learner, COX) for learner in folds[0]["scores"]
    }
    rows = [
        [learner, one["mean"], one["standard_error"], one["lead"]["mean"]]
        for learner, one in figures.items()
    ]
    show(
        f"{name}: {X.shape[0]} rows, {X.shape[1]} columns, {events:.0%} events",
        ["", "concordance", "standard error", f"lead over {COX}"],
        rows,
    )
    return {
        "rows": len(X),
        "columns": X.shape[1],
        "events": events,
        "folds": len(folds),
        "learners": figures,
    }


def described(folds: Sequence[Any], name: str, base: str) -> dict[str, Any]:
    """Mean and standard error over test folds, also of the difference to the base."""
    scores = np.array([fold["scores"][name] for fold in folds])
    lead = scores - [fold["scores"][base] for fold in folds]
    return {
        **mean_of(scores),
        "lead": mean_of(lead),
        "chosen": [fold["chosen"][name] for fold in folds],
    }


def mean_of(values: Any) -> dict[str, float]:
    """Mean and standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return {"mean": float(np.mean(values)), "standard_error": float(error)}


def one_fold(name: str, train: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    """Concordance and chosen settings of every learner in one fold."""
    warnings.simplefilter("ignore")
    X, y, columns = read(name)
    scores, chosen = {}, {}
    for learner, (model, settings) in learners(len(X), columns).items():
        best = choose(model, settings, X[train], y[train])
        fitted = scaled(model, best).fit(X[train], y[train])
        scores[learner] = float(fitted.score(X[test], y[test]))
        chosen[learner] = best
    return {"scores": scores, "chosen": chosen}


def scaled(model: Any, settings: Mapping[str, Any]) -> Any:
    """With columns standardized on the rows it is fitted to."""
    return make_pipeline(StandardScaler(), clone(model).set_params(**settings))


def choose(model: Any, settings: Settings, X: np.ndarray, y: np.ndarray) -> Any:
    """The settings with the best mean concordance on rows left out."""
    if len(settings) == 1:
        return settings[0]
    splits = list(KFold(INNER, shuffle=True, random_state=0).split(X))
    means = [np.mean([tried(model, one, X, y, *s) for s in splits]) for one in settings]
    return settings[int(np.argmax(means))]


def tried(
    model: Any,
    settings: Mapping[str, Any],
    X: np.ndarray,
    y: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
) -> float:
    """Concordance on the rows left out; that of guessing where a fit fails."""
    try:
        fitted = scaled(model, settings).fit(X[train], y[train])
        return float(fitted.score(X[test], y[test]))
    except (ArithmeticError, ValueError, np.linalg.LinAlgError):
        return 0.5


def simulate(
    work: Callable[..., Any], n_rows: int, n_seeds: int, jobs: int
) -> dict[str, Any]:
    """Weight of the groups that matter and concordance, by p, and of Cox's model."""
    turns = Parallel(jobs)(delayed(work)(n_rows, seed) for seed in range(n_seeds))
    found = {
        name: {key: mean_of([turn[name][key] for turn in turns]) for key in turn_keys}
        for name, turn_keys in turns[0].items()
    }
    rows = [
        [name, *(one.get(key, {}).get("mean") for key in ("concordance", *SHARES))]
        for name, one in found.items()
    ]
    show("Simulated groups of columns", ["", "concordance", *SHARES], rows)
    console.print(f"{turns[0]['events']['share']:.0%} events")
    return found


SHARES = ("share of the sum", "share of the squares", "of the largest other")


def one_draw(n_rows: int, seed: int) -> dict[str, dict[str, float]]:
    """All of the models on one data set."""
    warnings.simplefilter("ignore")
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    X, y = draw(n_rows, seed)
    X_test, y_test = draw(TEST_ROWS, 1000 + seed)
    found = {"events": {"share": float(y["event"].mean())}}
    for p in SIMULATED_PS:
        found[f"MKLSurvival, p = {p:g}"] = by_group(p, X, y, X_test, y_test)
    alphas = grid(alpha=(1.0, 10.0, 100.0, 1000.0))
    best = choose(CoxPHSurvivalAnalysis(), alphas, X, y)
    cox = scaled(CoxPHSurvivalAnalysis(), best).fit(X, y)
    found[COX] = {"concordance": float(cox.score(X_test, y_test))}
    return found


def draw(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Times that depend on a sum in group 0 and on squares in group 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, GROUPS * COLUMNS))
    linear = X[:, :COLUMNS].sum(axis=1) / np.sqrt(COLUMNS)
    squares = (X[:, COLUMNS : COLUMNS + 3] ** 2 - 1.0).sum(axis=1) / np.sqrt(6.0)
    time = np.exp(linear + squares + 0.5 * rng.normal(size=n_rows))
    end = rng.exponential(3.0, size=n_rows)
    y = np.zeros(n_rows, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = time <= end, np.minimum(time, end)
    return X, y


def by_group(
    p: float, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> dict[str, float]:
    """A linear and a Gaussian kernel per group; C is chosen on training rows."""
    places = [range(g * COLUMNS, (g + 1) * COLUMNS) for g in range(GROUPS)]
    kernels = [
        kind(columns=list(one))
        for one in places
        for kind in (mk.kernels.Linear, mk.kernels.RBF)
    ]
    model = mk.MKLSurvival(kernels, p=p, random_state=0)
    best = choose(model, grid(C=(0.03, 0.3, 3.0)), X, y)
    fitted = scaled(model, best).fit(X, y)
    groups = fitted[-1].kernel_weights_.reshape(GROUPS, 2).sum(axis=1)
    shares = (*groups[:TRUE], groups[TRUE:].max())
    return {
        "concordance": float(fitted.score(X_test, y_test)),
        **dict(zip(SHARES, map(float, shares), strict=True)),
    }


if __name__ == "__main__":
    main()
