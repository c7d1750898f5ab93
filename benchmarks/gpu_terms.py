"""Interactions on a GPU: all products of three columns looked at there.

12 planted terms of one to three columns among correlated ones (see terms_data.py), SNR
5, the default regressor with C and all else chosen by itself, on the GPU and with all
cores of the processor; tables that the processor cannot look through completely are
fitted on the GPU alone. Seconds of `fit`, transfers included, compilation apart; a look
is one search among all products for the largest.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from common import medians, parse, save, show, timed
from gpu import pytorch
from terms_data import planted

import manykernels as mk
from manykernels.device import open_device
from manykernels.products.base import RankOneKernels
from manykernels.products.indices import n_products
from manykernels.products.pricing import Pricing

SNR, DEGREE, TOP = 5.0, 3, 50


def main() -> None:
    """Measure, print and store after every table."""
    torch = pytorch()
    options = parse(
        __doc__,
        device=("cuda", "where to compute"),
        sizes=("100x1000,300x1000,500x1000", "columns x rows, on both"),
        large=("1000x2000", "columns x rows, on the GPU alone"),
        repeats=(3, "fits on the GPU, each with other data; one on the processor"),
    )
    one(planted("correlated", 20, 200, SNR, 0), options.device)  # compile
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    found: dict[str, Any] = {}
    both = options.sizes.split(",")
    for size in both + [text for text in options.large.split(",") if text]:
        r, n = map(int, size.split("x"))
        seeds = range(options.repeats)
        fits = [one(planted("correlated", r, n, SNR, s), options.device) for s in seeds]
        found[size] = {"products": n_products(r, DEGREE), "gpu": medians(fits)}
        found[size]["gpu"]["look"] = look(r, n, options.device)
        found[size]["fewest_true"] = min(fit["true"] for fit in fits)
        found[size]["most_terms"] = max(fit["terms"] for fit in fits)
        if size in both:
            found[size]["processor"] = one(planted("correlated", r, n, SNR, 0), None)
            found[size]["processor"]["look"] = look(r, n, None)
        show(size, list(found[size]["gpu"]), [list(found[size]["gpu"].values())])
        save(
            "gpu_terms",
            gpu=name,
            torch={"torch": torch.__version__, "cuda": torch.version.cuda},
            seeds=list(seeds),
            results=found,
        )


def one(data: Any, device: str | None) -> dict[str, Any]:
    """A fit, its certificate, and what it found."""
    (X, y), test, terms = data
    model = mk.PolynomialMKLRegressor(degree=DEGREE, random_state=0, device=device)
    _, seconds = timed(lambda: model.fit(X, y))
    chosen = {tuple(sorted(set(columns))) for columns in factors(model)}
    return {
        "seconds": seconds,
        "gap": float(model.duality_gap_ / model.objective_),
        "r2": float(model.score(*test)),
        "terms": len(chosen),
        "true": len(chosen & terms),
    }


def factors(model: Any) -> list[tuple[int, ...]]:
    """Columns of every term."""
    return [
        tuple(int(name.split("^")[0][1:]) for name in text.split(" * "))
        for text in model.kernel_names_
        if text != "1"
    ]


def look(r: int, n: int, device: str | None) -> float:
    """Seconds of one search, after a first one that computes sizes."""
    X = np.random.default_rng(0).normal(size=(n, r))
    place = None if device is None else open_device(device)
    base = RankOneKernels(X, normalized=True, around_mean=True, device=place)
    pricing = Pricing(base, np.ones(DEGREE + 1), 1, single=True)
    coef = np.random.default_rng(1).normal(size=n)
    pricing.search(coef, TOP)
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        pricing.search(coef, TOP)
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds))


if __name__ == "__main__":
    main()
