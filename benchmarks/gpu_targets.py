"""Thousands of regression targets on a GPU, against himalaya's torch backend.

10 linear kernels, every target with weights of its own, from himalaya's own generator
of data. The rival runs as it comes (random search over weights, 5 folds), with the
number of random weights as its documentation has it (100) and with more. Ours chooses p
and C on held-out training rows of a few targets; the choice is part of its time.
Neither sees the test rows. Times are those of `fit` on float32 matrices that lie on the
device.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from common import medians, parse, save, show, timed
from gpu import pytorch
from sklearn.metrics import r2_score

import manykernels as mk

N_KERNELS, FEATURES, N_TEST = 10, 200, 1000
CHOOSING = 32  # targets that p and C are chosen on
PS, CS = (1.1, 1.5, 2.0), (0.3, 1.0, 3.0, 10.0)


def main() -> None:
    """Measure, print and store."""
    torch = pytorch()
    options = parse(
        __doc__,
        device=("cuda", "where to compute"),
        rows=(5000, "training rows"),
        targets=(5000, "targets"),
        repeats=(3, "fits of ours"),
        draws=("100,400", "random weights that himalaya tries, one fit each"),
        seed=(1, "seed of the data"),
    )
    train, test, Y, Y_test = make_data(options.rows, options.targets, options.seed)
    train, test = (there(part, options.device) for part in (train, test))
    ours(train[:, :500, :500], Y[:500, :50], options.device)  # compile
    runs = []
    for _ in range(options.repeats):
        (model, chosen), seconds = timed(partial(ours, train, Y, options.device))
        gaps = model.duality_gap_ / model.objective_
        score = float(r2_score(Y_test, model.predict(list(test))))
        runs.append({"seconds": seconds, "r2": score, "largest_gap": gaps.max()})
        del model
    found: dict[str, Any] = {"manykernels": {**medians(runs), **chosen}, "himalaya": {}}
    show("ours", list(found["manykernels"]), [list(found["manykernels"].values())])
    for draws in options.draws.split(","):
        other = rival(train, test, Y, Y_test, options.device, int(draws))
        other["times"] = other["seconds"] / found["manykernels"]["seconds"]
        found["himalaya"][draws] = other
        show("himalaya", list(other), [list(other.values())])
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
    save("gpu_targets", gpu=name, torch=versions, results=found)


def there(values: np.ndarray, device: str) -> Any:
    """On the device, in float32."""
    torch = pytorch()
    return torch.as_tensor(values, dtype=torch.float32, device=device)


def himalaya(part: str) -> Any:
    """A part of the rival; this folder holds a file of the same name."""
    sys.path = [folder for folder in sys.path if folder != str(Path(__file__).parent)]
    return import_module(f"himalaya.{part}")


def make_data(n_rows: int, n_targets: int, seed: int) -> tuple[np.ndarray, ...]:
    """Kernels of training and test rows with unit mean diagonal, and the targets."""
    X, X_test, Y, Y_test, _, widths = himalaya("utils").generate_multikernel_dataset(
        n_kernels=N_KERNELS,
        n_targets=n_targets,
        n_samples_train=n_rows,
        n_samples_test=N_TEST,
        noise=0.5,
        n_features_list=np.full(N_KERNELS, FEATURES),
        random_state=seed,
    )
    train, test = [], []
    for end, width in zip(np.cumsum(widths), widths, strict=True):
        A, B = (np.asarray(part[:, end - width : end], float) for part in (X, X_test))
        A, B = A - A.mean(axis=0), B - A.mean(axis=0)
        scale = np.mean(np.einsum("ij,ij->i", A, A))
        train.append(A @ A.T / scale)
        test.append(B @ A.T / scale)
    mean = Y.mean(axis=0)
    return np.stack(train), np.stack(test), Y - mean, Y_test - mean


def ours(train: Any, Y: np.ndarray, device: str) -> tuple[Any, dict[str, Any]]:
    """p and C on held-out rows, then all targets."""
    given = {
        "psd": "skip",
        "per_target_weights": True,
        "device": device,
        "random_state": 0,
    }
    cut = len(Y) * 4 // 5
    fold = [(np.arange(cut), np.arange(cut, len(Y)))]
    few = mk.MKLRegressorCV("precomputed", PS, CS, cv=fold, refit=False, **given)
    few.fit(list(train), Y[:, :CHOOSING])
    table = few.cv_results_
    best = table["params"][int(np.argmax(table["mean_test_score"]))]
    model = mk.MKLRegressor("precomputed", **best, **given)
    return model.fit(list(train), Y), best


def rival(
    train: Any, test: Any, Y: np.ndarray, Y_test: np.ndarray, device: str, draws: int
) -> dict[str, Any]:
    """MultipleKernelRidgeCV on the same device."""
    himalaya("backend").set_backend("torch_cuda" if device == "cuda" else "torch")
    model = himalaya("kernel_ridge").MultipleKernelRidgeCV(
        kernels="precomputed",
        solver_params={"progress_bar": False, "n_iter": draws},
        random_state=0,
    )
    targets = there(Y, device)
    _, seconds = timed(lambda: model.fit(train, targets))
    score = r2_score(Y_test, model.predict(test).cpu().numpy())
    return {"seconds": seconds, "r2": float(score)}


if __name__ == "__main__":
    main()
