"""Smooth losses on a GPU: log loss on MNIST, a million rows as features, a search.

MNIST with the OBSCURE paper's 12 kernels at p = 1.1 and C = 10; a million deformed
digits, drawn on the device, with 12 kernels of rank 300 (Nystroem) and at most 40 GB of
its memory; 10 folds, 20 values of C from 0.01 to 100 and 3 of p on 10,000 rows. All are
fits of the log loss from pixels to a relative gap of 1e-2: transfers are included,
compilation is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import medians, parse, save, show, timed
from gpu import pytorch
from mnist_speed import SIDE, C, block_kernels, blocks

import manykernels as mk
from manykernels.kernels import RBF, Kernel, Polynomial

RANK = 300
PS, CS = (1.1, 1.5, 2.0), np.logspace(-2.0, 2.0, 20)
DRAWN = 100_000  # deformed digits at a time
LIMIT = "40GB"


def main() -> None:
    """Measure, print and store."""
    torch = pytorch()
    options = parse(
        __doc__,
        device=("cuda", "where to compute"),
        rows=("10000,20000,40000,60000", "training images"),
        million=(1_000_000, "deformed digits; 0 leaves them out"),
        search=(10_000, "rows of the search; 0 leaves it out"),
        repeats=(3, "fits of MNIST, each with another seed"),
        large_repeats=(1, "fits of the deformed digits, and searches"),
    )
    mnist = mk.datasets.load_mnist()
    settings = {"loss": "log", "device": options.device}
    fit(mnist, mnist.data[:3000], mnist.target[:3000], settings)  # compile
    seeds = range(options.repeats)
    results: dict[str, Any] = {
        "growth": {
            n: medians(
                [
                    fit(
                        mnist, mnist.data[: int(n)], mnist.target[: int(n)], settings, s
                    )
                    for s in seeds
                ]
            )
            for n in options.rows.split(",")
        }
    }
    show_fits(results["growth"])
    if options.search:
        runs = [search(mnist, options) for _ in range(options.large_repeats)]
        results["search"] = medians(runs)
    if options.million:
        results["million"] = medians(million(mnist, options, settings))
        show_fits({options.million: results["million"]})
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
    save("gpu_smooth", gpu=name, torch=versions, seeds=list(seeds), results=results)


def fit(
    mnist: Any,
    X: np.ndarray,
    y: np.ndarray,
    settings: dict[str, Any],
    seed: int = 0,
    kernels: list[Kernel] | None = None,
) -> dict[str, Any]:
    """One fit: seconds, gap, error on the test images, memory, products."""
    torch = pytorch()
    model = mk.MKLClassifier(
        kernels or block_kernels(), p=1.1, C=C, random_state=seed, **settings
    )
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    _, seconds = timed(lambda: model.fit(X, y))
    used = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    return {
        "seconds": seconds,
        "solver_seconds": model.history_[-1].time,
        "gap": model.duality_gap_ / model.objective_,
        "error": 1.0 - model.score(mnist.data_test, mnist.target_test),
        "device_gigabytes": used / 1e9,
        "rounds": len(model.history_),
        "products": sum(line.updates for line in model.history_),
    }


def show_fits(found: dict[Any, dict[str, Any]]) -> None:
    """Print a table."""
    columns = list(next(iter(found.values())))
    columns = [name for name in columns if name != "spread"]
    rows = [[n, *(one[name] for name in columns)] for n, one in found.items()]
    show("Log loss, 12 kernels, to 1e-2", ["rows", *columns], rows)


def search(mnist: Any, options: Any) -> dict[str, Any]:
    """Seconds of a search over p and C, with the refit."""
    n = options.search
    model = mk.MKLClassifierCV(
        block_kernels(),
        PS,
        CS.tolist(),
        cv=10,
        loss="log",
        storage="gram",
        device=options.device,
        random_state=0,
    )
    _, seconds = timed(lambda: model.fit(mnist.data[:n], mnist.target[:n]))
    found = {
        "seconds": seconds,
        "fits": 10 * len(PS) * len(CS),
        "best_p": model.best_p_,
        "best_C": model.best_C_,
        "accuracy_of_folds": model.best_score_,
        "error": 1.0 - model.score(mnist.data_test, mnist.target_test),
    }
    show("Search over p and C", list(found), [list(found.values())])
    return found


def million(mnist: Any, options: Any, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Fits of the deformed digits."""
    X, y = deformed(mnist, options.million, options.device)
    settings = {**settings, "memory_limit": LIMIT}
    return [
        fit(mnist, X, y, settings, seed, feature_kernels())
        for seed in range(options.large_repeats)
    ]


def feature_kernels() -> list[Kernel]:
    """Three kernels of rank 300 for every quarter of the image."""
    common = {"approximate": "nystroem", "rank": RANK}
    return [
        kernel
        for columns in blocks()
        for kernel in (
            RBF(0.02, columns=columns, **common),
            RBF(0.1, columns=columns, **common),
            Polynomial(5, columns=columns, **common),
        )
    ]


def deformed(mnist: Any, n_rows: int, device: str) -> tuple[np.ndarray, np.ndarray]:
    """Digits of the training set turned, sheared, moved and scaled at random."""
    torch = pytorch()
    draw = torch.Generator(device=device).manual_seed(0)
    images = torch.as_tensor(mnist.data, device=device).reshape(-1, 1, SIDE, SIDE)
    X, y = np.empty((n_rows, SIDE * SIDE), np.float32), np.empty(n_rows, np.int64)
    for start in range(0, n_rows, DRAWN):
        size = min(DRAWN, n_rows - start)
        chosen = torch.randint(len(images), (size,), generator=draw, device=device)
        maps = affine_maps(size, draw, device)
        grid = torch.nn.functional.affine_grid(
            maps, (size, 1, SIDE, SIDE), align_corners=False
        )
        found = torch.nn.functional.grid_sample(
            images[chosen], grid, align_corners=False
        )
        X[start : start + size] = found.reshape(size, -1).cpu().numpy()
        y[start : start + size] = mnist.target[chosen.cpu().numpy()]
    return X, y


def affine_maps(size: int, draw: Any, device: str) -> Any:
    """Random maps of the plane near the identity, shape (size, 2, 3)."""
    torch = pytorch()

    def uniform(low: float, high: float) -> Any:
        return low + (high - low) * torch.rand(size, generator=draw, device=device)

    angle, scale, shear = uniform(-0.2, 0.2), uniform(0.9, 1.1), uniform(-0.2, 0.2)
    cosine, sine = torch.cos(angle) / scale, torch.sin(angle) / scale
    first = torch.stack([cosine, shear - sine, uniform(-0.12, 0.12)], 1)
    second = torch.stack([sine, cosine, uniform(-0.12, 0.12)], 1)
    return torch.stack([first, second], 1)


if __name__ == "__main__":
    main()
