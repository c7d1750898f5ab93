"""Trees decoded per CPU-second: best trees and marginals, next to plain Python."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import parse, save, show

from manykernels.structured import TreeDecoder


def main() -> None:
    """Measure, print and store."""
    options = parse(
        __doc__,
        words=(25, "words of a sentence"),
        trees=(20_000, "sentences"),
        repeats=(5, "repetitions, of which the best counts"),
    )
    rng = np.random.default_rng(0)
    shape = (options.trees, options.words + 1, options.words + 1)
    scores = rng.normal(size=shape)
    few, fewer = scores[: options.trees // 10], scores[: options.trees // 100]
    rates = {
        "best tree, one root": rate(
            lambda: TreeDecoder(scores).best(), len(scores), options
        ),
        "best tree, any roots": rate(
            lambda: TreeDecoder(scores, single_root=False).best(), len(scores), options
        ),
        "marginals, one root": rate(
            lambda: [TreeDecoder(one).marginals() for one in few], len(few), options
        ),
        "best head of each word, NumPy": rate(
            lambda: [one[:, 1:].argmax(axis=0) for one in few], len(few), options
        ),
        "log-determinant alone, NumPy": rate(
            lambda: [log_partition(one) for one in fewer], len(fewer), options
        ),
    }
    show(
        f"Sentences of {options.words} words with random scores",
        ["", "per CPU-second"],
        [[name, value] for name, value in rates.items()],
    )
    save("tree_decoders", seeds=[0], per_cpu_second=rates)


def log_partition(scores: np.ndarray) -> float:
    """The matrix-tree theorem by a determinant, without marginals."""
    weights = np.exp(scores)
    np.fill_diagonal(weights, 0.0)
    laplacian = np.diag(weights[:, 1:].sum(axis=0)) - weights[1:, 1:]
    return float(np.linalg.slogdet(laplacian)[1])


def rate(action: Callable[[], Any], count: int, options: Any) -> float:
    """Sentences per CPU-second in the best of several runs."""
    action()
    seconds = []
    for _ in range(options.repeats):
        began = time.process_time()
        action()
        seconds.append(time.process_time() - began)
    return count / min(seconds)


if __name__ == "__main__":
    main()
