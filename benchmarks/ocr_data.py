"""Handwritten words: one fold to learn from, the others to test on."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from loaders import load_ocr_letters

from manykernels.kernels import RBF, BSpline, Linear, Polynomial
from manykernels.kernels.kernel_set import KernelSet
from manykernels.norms import Regularizer, SparseMKL
from manykernels.structured import ChainDecoder, OnlineProximal
from manykernels.structured.chain_blocks import ChainBlocks, ChainWeights
from manykernels.structured.chain_learning import ChainProblem, chain_terms
from manykernels.structured.online_proximal import StructuredResult
from manykernels.structured.structured_problem import StructuredHinge

LINEAR, QUADRATIC, GAUSSIAN, SPLINE = range(4)
# sigma^2 = 5 in exp(-||x - y||^2 / (2 sigma^2)); the spline has 95 % zeros.
KERNELS = [Linear(), Polynomial(2, 1.0, 1.0), RBF(0.1), BSpline("sparse")]


@dataclass(frozen=True)
class Words:
    """Letters of some words, end to end."""

    pixels: np.ndarray
    labels: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, data: Any, index: np.ndarray) -> Words:
        lengths = [len(data.target[n]) for n in index]
        return cls(
            np.concatenate([data.data[n] for n in index]),
            np.concatenate([data.target[n] for n in index]),
            np.concatenate([[0], np.cumsum(lengths)]),
        )

    @property
    def n_words(self) -> int:
        return len(self.starts) - 1

    def positions(self, words: np.ndarray) -> np.ndarray:
        """Letters of some words."""
        spans = [np.arange(self.starts[n], self.starts[n + 1]) for n in words]
        return np.concatenate(spans)


@dataclass(frozen=True)
class Model:
    """A row of the table: kernels, how they are combined, and their transitions."""

    kernels: tuple[int, ...]
    average: bool = False  # one kernel, the mean
    transitions: str = "fixed"
    regularizer: Regularizer = SparseMKL()


MODELS = {
    "linear (L)": Model((LINEAR,)),
    "quadratic (Q)": Model((QUADRATIC,)),
    "Gaussian (G)": Model((GAUSSIAN,)),
    "average (L+Q+G)/3": Model((LINEAR, QUADRATIC, GAUSSIAN), average=True),
    "MKL L, Q, G": Model((LINEAR, QUADRATIC, GAUSSIAN)),
    "MKL L, Q, G, beta_0": Model((LINEAR, QUADRATIC, GAUSSIAN), transitions="learned"),
    "B1-spline (B1)": Model((SPLINE,)),
    "average (L+B1)/2": Model((LINEAR, SPLINE), average=True),
    "MKL L, B1": Model((LINEAR, SPLINE)),
    "MKL L, B1, beta_0": Model((LINEAR, SPLINE), transitions="learned"),
}


class Fold:
    """Kernels of one training fold, and of the other nine against it."""

    def __init__(self, data: Any, fold: int, with_test: bool = True) -> None:
        self.train = Words.of(data, np.flatnonzero(data.fold == fold))
        self.test = Words.of(data, np.flatnonzero(data.fold != fold))
        # On 128 columns the spline is not positive semi-definite for sure.
        fitted = KernelSet.fit(KERNELS, self.train.pixels, psd="skip")
        began = time.process_time()
        self.stack = fitted.stack()  # (kernels, letters, letters)
        self.build_seconds = time.process_time() - began
        self.fitted = fitted if with_test else None

    def problem(
        self, model: Model, C: float, words: np.ndarray | None = None
    ) -> ChainProblem:
        """The problem on all words of the fold, or on some."""
        train = self.train
        chosen = np.arange(train.n_words) if words is None else words
        letters = train.positions(chosen)
        lengths = np.diff(train.starts)[chosen]
        blocks = self.blocks(model, letters)
        return ChainProblem(
            blocks,
            np.concatenate([[0], np.cumsum(lengths)]),
            train.labels[letters],
            26,
            StructuredHinge(),
            chain_terms(model.regularizer, blocks.n_blocks, model.transitions),
            C,
            np.ones(len(chosen)),
        )

    def blocks(self, model: Model, letters: np.ndarray) -> ChainBlocks:
        """Kernel values; the spline as a sparse matrix."""
        whole = len(letters) == len(self.train.labels)
        values = [
            self.stack[f] if whole else self.stack[f][np.ix_(letters, letters)]
            for f in model.kernels
        ]
        if model.average:
            return ChainBlocks.of([np.mean(values, axis=0)])
        return ChainBlocks.of(
            [
                sp.csr_array(value) if f == SPLINE else value
                for f, value in zip(model.kernels, values, strict=True)
            ]
        )

    def letter_scores(
        self, model: Model, weights: ChainWeights, values: np.ndarray
    ) -> np.ndarray:
        """values[f] are kernel values of letters (rows) with training letters."""
        if model.average:
            coef = weights.coef[0].astype(np.float32) / len(model.kernels)
            return sum(values[f] @ coef for f in model.kernels)
        order = ordered(model)
        return sum(
            values[f] @ weights.coef[j].astype(np.float32) for j, f in enumerate(order)
        )

    def test_accuracies(
        self, fitted: dict[str, tuple[Model, ChainWeights]]
    ) -> dict[str, float]:
        """Per-letter accuracy on the nine other folds; kernels are computed once."""
        n = len(self.test.labels)
        scores = {name: np.zeros((n, 26), np.float32) for name in fitted}
        assert self.fitted is not None
        for rows, values in self.fitted.cross(self.test.pixels):
            for name, (model, weights) in fitted.items():
                scores[name][rows] = self.letter_scores(model, weights, values)
        return {
            name: label_accuracy(
                scores[name], weights.pairs, self.test.labels, self.test.starts
            )
            for name, (_, weights) in fitted.items()
        }

    def choose(
        self, model: Model, grid: list[tuple[float, float]], n_parts: int
    ) -> tuple[float, float]:
        """C and eta0 of the best accuracy in cross-validation inside the fold."""
        parts = np.array_split(
            np.random.default_rng(0).permutation(self.train.n_words), n_parts
        )
        right = dict.fromkeys(grid, 0.0)
        for held in parts:
            kept = np.setdiff1d(np.arange(self.train.n_words), held)
            letters, others = self.train.positions(kept), self.train.positions(held)
            values = {f: self.stack[f][np.ix_(others, letters)] for f in model.kernels}
            lengths = np.diff(self.train.starts)[held]
            starts = np.concatenate([[0], np.cumsum(lengths)])
            problem = self.problem(model, 1.0, kept)
            for C, eta0 in grid:
                result, _ = learn(replace(problem, C=C), eta0)
                scores = self.letter_scores(model, result.weights, values)
                share = label_accuracy(
                    scores, result.weights.pairs, self.train.labels[others], starts
                )
                right[C, eta0] += share * len(others)
        return max(right, key=right.__getitem__)


def label_accuracy(
    unary: np.ndarray, pairs: np.ndarray, target: np.ndarray, starts: np.ndarray
) -> float:
    """Share of the positions that are decoded right."""
    labels, _ = ChainDecoder(unary, pairs, starts).best()
    return float(np.mean(labels == target))


def ordered(model: Model) -> list[int]:
    """Dense kernels first, as blocks hold their coefficients."""
    dense = [f for f in model.kernels if f != SPLINE]
    return dense + [f for f in model.kernels if f == SPLINE]


def learn(
    problem: ChainProblem, eta0: float | str, epochs: int = 20, seed: int = 0
) -> tuple[StructuredResult, float]:
    """SPOM, and its CPU seconds."""
    began = time.process_time()
    # The last model, as in the paper.
    method = OnlineProximal(epochs, "epoch", eta0, average=False, random_state=seed)
    result = method.solve(problem)
    return result, time.process_time() - began


def words_of_all() -> Any:
    return load_ocr_letters()
