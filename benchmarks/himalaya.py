"""MKLRegressor against himalaya's MultipleKernelRidgeCV: test R^2 and time.

1,000 training rows, 12 kernels, 1 and 100 targets, from himalaya's own generator of
data: every target is a sum over feature spaces with random weights. The rival runs as
it comes (random search, numpy backend); both get the same linear kernels, scaled to a
mean diagonal of one, and each target has kernel weights of its own. Ours chooses p and
C by leave-one-out on a few of the targets, then fits all of them; the choice is part of
its time, and never sees the test rows. A fit with the default p and C is shown as well.
Times are CPU seconds of `fit` on given matrices, in turns; every turn draws new data.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

# This folder holds a file of the same name as the package.
sys.path = [folder for folder in sys.path if folder != str(Path(__file__).parent)]
try:
    from himalaya.backend import set_backend
    from himalaya.kernel_ridge import MultipleKernelRidgeCV
    from himalaya.utils import generate_multikernel_dataset
except ModuleNotFoundError:
    print("himalaya is not installed: there is nothing to compare with.")
    sys.exit(0)

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np  # noqa: E402
from common import console, parse, ratios, save, show, summary  # noqa: E402
from sklearn.metrics import r2_score  # noqa: E402

import manykernels as mk  # noqa: E402

N_KERNELS = 12
FEATURES = 200  # per kernel
CHOOSING = 4  # targets that p and C are chosen on
PS = (1.0, 1.1, 1.5, 2.0)
CS = (0.1, 0.3, 1.0, 3.0, 10.0)
OURS = "MKLRegressor, p and C by leave-one-out"
RIVAL = "himalaya, random search"
Predictor = Callable[[], np.ndarray]


@dataclass(frozen=True)
class Data:
    """Kernels of training rows and of test rows, and the targets of both."""

    train: np.ndarray  # (kernels, rows, rows)
    test: np.ndarray  # (kernels, test rows, rows)
    Y: np.ndarray
    Y_test: np.ndarray


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        rows=(1000, "training rows"),
        repeats=(3, "turns"),
        seed=(1, "seed of the first turn's data"),
        noise=(0.5, "scale of the noise in the targets"),
    )
    set_backend("numpy")
    found = {}
    for n_targets in (1, 100):
        turns = [
            make_data(options.rows, n_targets, options.noise, options.seed + turn)
            for turn in range(options.repeats)
        ]
        found[n_targets] = compare(turns)
    seeds = [options.seed + turn for turn in range(options.repeats)]
    save("himalaya", seeds=seeds, kernels=N_KERNELS, targets=found)


def make_data(n_rows: int, n_targets: int, noise: float, seed: int) -> Data:
    """himalaya's own data, and a linear kernel for every feature space."""
    X, X_test, Y, Y_test, _, widths = generate_multikernel_dataset(
        n_kernels=N_KERNELS,
        n_targets=n_targets,
        n_samples_train=n_rows,
        n_samples_test=400,
        noise=noise,
        n_features_list=np.full(N_KERNELS, FEATURES),
        random_state=seed,
    )
    train, test = [], []
    for end, width in zip(np.cumsum(widths), widths, strict=True):
        space = slice(end - width, end)
        A = X[:, space].astype(np.float64)
        mean = A.mean(axis=0)
        A, B = A - mean, X_test[:, space] - mean
        scale = np.mean(np.einsum("ij,ij->i", A, A))
        train.append(A @ A.T / scale)
        test.append(B @ A.T / scale)
    mean = Y.mean(axis=0)
    return Data(np.stack(train), np.stack(test), Y - mean, Y_test - mean)


def rival(data: Data) -> Predictor:
    """Predictions of MultipleKernelRidgeCV with its defaults."""
    model = MultipleKernelRidgeCV(
        kernels="precomputed", solver_params={"progress_bar": False}, random_state=0
    )
    model.fit(data.train, data.Y)
    return lambda: np.asarray(model.predict(data.test))


def ours(data: Data, choose: bool) -> Predictor:
    """Predictions with weights per target; p and C are chosen, or the defaults."""
    # Kernels that were made here need no check.
    given = {"psd": "skip", "per_target_weights": True, "random_state": 0}
    model = mk.MKLRegressor("precomputed", **given)
    if choose:
        few = mk.MKLRegressorCV("precomputed", PS, CS, refit=False, **given)
        few.fit(list(data.train), data.Y[:, :CHOOSING])
        table = few.cv_results_
        model.set_params(**table["params"][int(np.argmax(table["mean_test_score"]))])
    model.fit(list(data.train), data.Y)
    return lambda: model.predict(list(data.test))


def compare(turns: list[Data]) -> dict[str, object]:
    """R^2 on the test rows and times; all models see the same data in a turn."""
    makers: dict[str, Callable[[Data], Predictor]] = {
        OURS: partial(ours, choose=True),
        "MKLRegressor, default p and C": partial(ours, choose=False),
        RIVAL: rival,
    }
    warnings.simplefilter("ignore")
    ours(turns[0], choose=False)  # compiles what is not yet compiled
    seconds: dict[str, list[float]] = {name: [] for name in makers}
    scores: dict[str, list[float]] = {name: [] for name in makers}
    for data in turns:
        for name, make in makers.items():
            began = time.process_time()
            predict = make(data)
            seconds[name].append(time.process_time() - began)
            scores[name].append(float(r2_score(data.Y_test, predict())))
    return report(turns[0].Y.shape[1], seconds, scores)


def report(
    n_targets: int, seconds: dict[str, list[float]], scores: dict[str, list[float]]
) -> dict[str, object]:
    """Print a table; times relative to ours are ratios within the same turn."""
    rows, stored = [], {}
    for name, values in seconds.items():
        faster = ratios({RIVAL: seconds[RIVAL], name: values}, name)[RIVAL]
        r2, lead = np.mean(scores[name]), np.subtract(scores[name], scores[RIVAL])
        rows.append([name, r2, lead.min(), np.median(values), faster["median"]])
        stored[name] = {
            "r2": r2,
            "r2_by_turn": scores[name],
            "seconds": summary(values),
            "times_faster": faster,
        }
    show(
        f"{n_targets} target{'s' * (n_targets > 1)}",
        ["model", "test R^2", "smallest lead", "seconds", "times faster"],
        rows,
    )
    best = stored[OURS]["r2"] >= stored[RIVAL]["r2"]
    fast = stored[OURS]["times_faster"]["median"] >= 5.0
    console.print(
        f"R^2 at least as good: {'yes' if best else 'NO'}; "
        f"at least 5 times faster: {'yes' if fast else 'NO'}"
    )
    return stored


if __name__ == "__main__":
    main()
