"""Chain decoding: labels per second, next to plain NumPy; training next to crfsuite."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import parse, save, show
from ocr_data import KERNELS, MODELS, Fold, learn, words_of_all

from manykernels.base.machine import one_blas_thread
from manykernels.kernels.kernel_set import KernelSet
from manykernels.structured import ChainDecoder


def main() -> None:
    options = parse(
        __doc__ or "",
        chains=(20_000, "chains to decode"),
        repeats=(5, "of each measurement"),
        crfsuite=(False, "also train python-crfsuite on a fold of the words"),
    )
    with one_blas_thread():
        speed = decoding(options.chains, options.repeats)
        rows = [[name, value] for name, value in speed.items()]
        show("8 positions, 26 labels", ["", "chains per CPU second"], rows)
        training = against_crfsuite() if options.crfsuite else {}
    if training:
        rows = [[name, *values.values()] for name, values in training.items()]
        show(
            "one fold of the words",
            ["", "CPU seconds", "for kernels", "accuracy"],
            rows,
        )
    save("decoders", seeds=[0], chains_per_second=speed, training=training)


def decoding(n_chains: int, repeats: int) -> dict[str, float]:
    """Chains per CPU second, the best of some runs."""
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(n_chains * 8, 26))
    transitions = rng.normal(size=(26, 26))
    starts = np.arange(0, n_chains * 8 + 1, 8)
    few = n_chains // 20
    return {
        "viterbi": rate(
            lambda: ChainDecoder(unary, transitions, starts).best(), n_chains, repeats
        ),
        "marginals": rate(
            lambda: ChainDecoder(unary, transitions, starts).marginals(),
            n_chains,
            repeats,
        ),
        "viterbi in NumPy": rate(
            lambda: [
                numpy_viterbi(unary[8 * n : 8 * n + 8], transitions) for n in range(few)
            ],
            few,
            repeats,
        ),
    }


def rate(action: Callable[[], Any], n_chains: int, repeats: int) -> float:
    action()
    seconds = []
    for _ in range(repeats):
        began = time.process_time()
        action()
        seconds.append(time.process_time() - began)
    return n_chains / min(seconds)


def numpy_viterbi(unary: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """Row by row, with whole arrays."""
    best, before = unary[0], []
    for row in unary[1:]:
        scores = best[:, None] + transitions
        before.append(scores.argmax(axis=0))
        best = scores.max(axis=0) + row
    labels = [int(best.argmax())]
    for pointers in reversed(before):
        labels.append(int(pointers[labels[-1]]))
    return np.array(labels[::-1])


def against_crfsuite() -> dict[str, dict[str, float]]:
    """CPU seconds of training on fold 1, and accuracy on the other folds."""
    import pycrfsuite

    fold = Fold(words_of_all(), 1)
    found: dict[str, dict[str, float]] = {}
    for name in ("linear (L)", "MKL L, Q, G"):
        model = MODELS[name]
        problem = fold.problem(model, 10.0)
        learn(problem, 0.1, 1)  # compiles
        result, seconds = learn(problem, 0.1)
        began = time.process_time()
        KernelSet.fit([KERNELS[f] for f in model.kernels], fold.train.pixels).stack()
        kernels = time.process_time() - began
        accuracy = fold.test_accuracies({name: (model, result.weights)})[name]
        found[name] = {"seconds": seconds, "kernels": kernels, "accuracy": accuracy}
    trainer = pycrfsuite.Trainer(verbose=False)
    for a, b in zip(fold.train.starts, fold.train.starts[1:], strict=False):
        letters = [[f"p{j}" for j in np.flatnonzero(x)] for x in fold.train.pixels[a:b]]
        trainer.append(letters, [str(k) for k in fold.train.labels[a:b]])
    path = str(Path(tempfile.mkdtemp()) / "model")
    began = time.process_time()
    trainer.train(path)
    seconds = time.process_time() - began
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    right = 0
    for a, b in zip(fold.test.starts, fold.test.starts[1:], strict=False):
        letters = [[f"p{j}" for j in np.flatnonzero(x)] for x in fold.test.pixels[a:b]]
        predicted = np.array(tagger.tag(letters), dtype=int)
        right += int(np.sum(predicted == fold.test.labels[a:b]))
    accuracy = right / len(fold.test.labels)
    found["python-crfsuite"] = {
        "seconds": seconds,
        "kernels": 0.0,
        "accuracy": accuracy,
    }
    return found


if __name__ == "__main__":
    main()
