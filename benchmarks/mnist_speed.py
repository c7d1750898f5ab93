"""MNIST, 5,000 training images, the OBSCURE paper's 12 kernels: seconds and accuracy.

Four blocks of 14 x 14 pixels with a linear, a polynomial (degree 5) and an RBF kernel
(gamma 0.1) each. Needs the MNIST files (downloaded, or in MANYKERNELS_DATA) and about
6 GB of memory for the marks in float64.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import alternate, console, parse, ratios, save, show, summary, timed
from grade import Grader, make_problem
from shares import share_inside
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from sklearn.utils import Bunch

import manykernels as mk
from manykernels.banks import build_bank
from manykernels.kernels import RBF, Kernel, Linear, Polynomial
from manykernels.kernels.kernel_set import KernelSet
from manykernels.solvers import Auto, Obscure

C = 10.0
SIDE = 28
BASE = "SVC, averaged kernel"
FIT = "fit, auto to 1e-2, p = 1.1"
CALIBRATION = "manykernels.mkl.classifier.calibrate_later"  # what a fit does for it
PIXELS_BASE = "SVC, one RBF kernel, from pixels"
PIXELS = "fit, auto to 1e-2, p = 1.1, from pixels"
SOLVERS: dict[str, tuple[float, Callable[[], Any]]] = {
    "OBSCURE 5 + 20, p = 1.25": (1.25, lambda: Obscure(5, 20, random_state=0)),
    "auto to 1e-2, p = 1.25": (1.25, lambda: Auto(tol=1e-2, random_state=0)),
    "auto to 1e-2, p = 1": (1.0, lambda: Auto(tol=1e-2, random_state=0)),
}


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        repeats=(5, "turns"),
        train=(5000, "training images"),
        test=(10000, "test images"),
        rival_rows=(1500, "training images for MKLpy's EasyMKL; 0 leaves it out"),
        rival_limit=(300, "seconds after which EasyMKL is stopped"),
    )
    mnist = mk.datasets.load_mnist(options.train, options.test)
    building = measure_building(mnist.data, options.repeats)
    bank = build_bank(KernelSet.fit(block_kernels(), mnist.data), "gram")
    mean = bank.stack.mean(axis=1, dtype=np.float64)
    solving, results, first = measure_solving(bank, mean, mnist.target, options.repeats)
    fitting, kept = measure_fitting(bank, mean, mnist.target, options.repeats)
    fitting |= measure_pixels(options.train, options.repeats)
    svc = SVC(kernel="precomputed", C=C).fit(mean, mnist.target)
    del bank, mean
    marks = grade(mnist, results, svc)
    rival = measure_rival(options.rival_rows, options.rival_limit)
    report(building, solving, fitting, kept, marks, rival, first, vars(options))


def blocks() -> list[list[int]]:
    """Columns of the four quarters of an image."""
    pixels = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    half = SIDE // 2
    return [
        pixels[top : top + half, left : left + half].ravel().tolist()
        for top in (0, half)
        for left in (0, half)
    ]


def block_kernels() -> list[Kernel]:
    """The paper's twelve kernels, with unit diagonal."""
    return [
        kernel
        for columns in blocks()
        for kernel in (
            Linear(columns=columns),
            Polynomial(5, columns=columns),
            RBF(0.1, columns=columns),
        )
    ]


def measure_building(data: np.ndarray, repeats: int) -> dict[str, list[float]]:
    """Twelve kernels of ours against four RBF kernels of scikit-learn's."""
    actions = {
        "scikit-learn, 4 RBF kernels": lambda: [
            rbf_kernel(data[:, columns], gamma=0.1) for columns in blocks()
        ],
        "manykernels, 12 kernels": lambda: build_bank(
            KernelSet.fit(block_kernels(), data), "gram"
        ),
    }
    for action in actions.values():
        action()
    return alternate(actions, repeats)


def measure_solving(
    bank: Any, mean: np.ndarray, target: np.ndarray, repeats: int
) -> tuple[dict[str, list[float]], dict[str, Any], float]:
    """Solvers on the stored bank, the SVM on the averaged kernel, in turns."""
    problems = {n: make_problem(bank, target, p, C) for n, (p, _) in SOLVERS.items()}
    results, first = timed(
        lambda: {n: SOLVERS[n][1]().solve(problem) for n, problem in problems.items()}
    )
    actions: dict[str, Callable[[], Any]] = {
        BASE: lambda: SVC(kernel="precomputed", C=C).fit(mean, target)
    }
    for name, problem in problems.items():
        actions[name] = lambda n=name, problem=problem: SOLVERS[n][1]().solve(problem)
    return alternate(actions, repeats), results, first


def measure_fitting(
    bank: Any, mean: np.ndarray, target: np.ndarray, repeats: int
) -> tuple[dict[str, list[float]], list[float]]:
    """The whole fit on the given stack (n, n, 12), and the SVM, in turns.

    And the share of the fit that later probabilities take.
    """
    stack = np.ascontiguousarray(bank.stack.transpose(0, 2, 1))
    actions: dict[str, Callable[[], Any]] = {
        BASE: lambda: SVC(kernel="precomputed", C=C).fit(mean, target),
        FIT: lambda: mk.MKLClassifier(
            "precomputed", p=1.1, C=C, tol=1e-2, random_state=0
        ).fit(stack, target),
    }
    actions[FIT]()
    seconds = alternate(actions, repeats)
    return seconds, share_inside(actions[FIT], CALIBRATION, repeats)


def measure_pixels(n_rows: int, repeats: int) -> dict[str, list[float]]:
    """The whole fit from pixels, and an SVM's, in turns, each on other images."""
    mnist = mk.datasets.load_mnist(n_test=1)
    seconds: dict[str, list[float]] = {PIXELS_BASE: [], PIXELS: []}
    for seed in range(-1, repeats):  # the first turn compiles
        rows = np.random.default_rng(seed + 1).permutation(len(mnist.target))[:n_rows]
        X, y = mnist.data[rows], mnist.target[rows]
        models = {
            PIXELS_BASE: SVC(C=C, gamma="scale", cache_size=1000),
            PIXELS: mk.MKLClassifier(
                block_kernels(), p=1.1, C=C, tol=1e-2, random_state=0
            ),
        }
        for name, model in models.items():
            _, took = timed(partial(model.fit, X, y))
            seconds[name] += [took] * (seed >= 0)
    return seconds


def grade(mnist: Bunch, results: dict[str, Any], svc: SVC) -> dict[str, Any]:
    """Marks in float64, and the SVM's accuracy on the same kernels."""
    grader = Grader.build(block_kernels(), mnist)
    marks = grader.grade({n: (r, SOLVERS[n][0], C) for n, r in results.items()})
    accuracy = svc.score(grader.mean_test_kernel(), mnist.target_test)
    marks[BASE] = {"accuracy": float(accuracy)}
    return marks


def measure_rival(n_rows: int, limit: float) -> dict[str, Any] | None:
    """EasyMKL and our certified fit on the same matrices, one after the other."""
    if n_rows == 0:
        return None
    mnist = mk.datasets.load_mnist(n_rows, 1000)
    kernels = KernelSet.fit(block_kernels(), mnist.data)
    stack = kernels.stack()
    model = mk.MKLClassifier("precomputed", p=1.25, C=C, random_state=0)
    ready = np.moveaxis(stack, 0, -1)
    model.fit(ready, mnist.target)
    ours = float(
        np.median([timed(lambda: model.fit(ready, mnist.target))[1] for _ in range(5)])
    )
    theirs = _within(limit, _fit_easymkl, stack, mnist.target)
    return {"n_rows": n_rows, "ours": ours, **theirs}


def _fit_easymkl(stack: np.ndarray, target: np.ndarray) -> dict[str, Any]:
    try:
        import torch
        from MKLpy.algorithms import EasyMKL
    except ImportError as error:
        return {"easymkl": None, "why": f"not installed ({error.name})"}
    matrices = [torch.tensor(matrix, dtype=torch.double) for matrix in stack]
    try:
        _, seconds = timed(lambda: EasyMKL(lam=0.1).fit(matrices, target))
    except Exception as error:  # a rival's failure is a result, not ours to raise
        return {"easymkl": None, "why": f"failed: {type(error).__name__}: {error}"}
    return {"easymkl": seconds}


def _within(limit: float, action: Callable[..., Any], *arguments: Any) -> Any:
    """The action's value from a process of its own, stopped after `limit` seconds."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        promise = pool.apply_async(action, arguments)
        try:
            return promise.get(limit)
        except multiprocessing.TimeoutError:
            return {"easymkl": None, "why": f"stopped after {limit:g} s"}


def report(
    building: dict[str, list[float]],
    solving: dict[str, list[float]],
    fitting: dict[str, list[float]],
    kept: list[float],
    marks: dict[str, Any],
    rival: dict[str, Any] | None,
    first: float,
    options: dict[str, Any],
) -> None:
    """Print and store."""
    relative = ratios(solving, BASE) | {
        FIT: ratios(fitting, BASE)[FIT],
        **{n: ratios(fitting, PIXELS_BASE)[n] for n in (PIXELS_BASE, PIXELS)},
    }
    solving = solving | {name: fitting[name] for name in (FIT, PIXELS_BASE, PIXELS)}
    marks = marks | {FIT: {}, PIXELS_BASE: {}, PIXELS: {}}
    build_ratio = ratios(building, "scikit-learn, 4 RBF kernels")
    rows = [
        [name, np.median(s), build_ratio[name]["median"], None, None, None]
        for name, s in building.items()
    ]
    for name, values in solving.items():
        keys = ("objective", "gap", "accuracy")
        found = [marks[name].get(key) for key in keys]
        rows.append([name, np.median(values), relative[name]["median"], *found])
    columns = ["", "seconds", "ratio", "objective", "gap", "accuracy"]
    show(f"MNIST, {options['train']} rows, 12 kernels, C = {C:g}", columns, rows)
    if rival is not None and rival["easymkl"] is not None:
        ratio = rival["easymkl"] / rival["ours"]
        console.print(f"EasyMKL on {rival['n_rows']} rows: {ratio:.0f} times our fit.")
    elif rival is not None:
        console.print(f"EasyMKL: {rival['why']}.")
    save(
        "mnist_speed",
        seeds=[0],
        options=options,
        C=C,
        first_solves_seconds=first,
        calibration_share=summary(kept),
        building_seconds={name: summary(s) for name, s in building.items()},
        building_ratio=build_ratio,
        seconds={name: summary(s) for name, s in solving.items()},
        ratio_to_svc=relative,
        marks=marks,
        easymkl=rival,
    )


if __name__ == "__main__":
    main()
