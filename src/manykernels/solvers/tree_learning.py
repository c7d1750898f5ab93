"""Online learning of arc weights for dependency trees, one group per template.

minimise  reg * penalty(w) + 1/N sum_i loss(w; sentence_i, tree_i)

with the structured hinge loss max over trees of score + Hamming cost - score of the
true tree, or the loss of a conditional random field. A round looks at one sentence: a
step along the loss, then the proximity operator of the penalty on the group norms.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manykernels.hot import trees as hot
from manykernels.solvers.loop import InterruptedFitWarning

LOSSES = {"hinge": hot.HINGE, "crf": hot.CRF}
PENALTIES = {
    None: hot.NO_PENALTY,
    "squared_l2": hot.SQUARED_L2,
    "group_lasso": hot.GROUP_LASSO,
    "sparse_mkl": hot.SPARSE_MKL,
}
REMEMBERED = 512  # places of a template that are cleared one by one

FloatArray = NDArray[np.float64]


class TreeEpoch(NamedTuple):
    """One line of the history."""

    epoch: int
    time: float
    loss: float  # mean over the sentences, before each one's step
    accuracy: float  # words that kept their head in these rounds
    n_templates: int  # groups that are not zero


Callback = Callable[[TreeEpoch], object]


@dataclass(frozen=True)
class TreeRule:
    """How weights are learnt.

    Parameters
    ----------
    loss : str
        "hinge" or "crf".
    penalty : str, optional
        "squared_l2", "group_lasso" or "sparse_mkl", which is 1/2 (sum of norms)^2.
    passive_aggressive : bool
        Steps just long enough to mend a sentence, `step` at most; otherwise step /
        sqrt(epoch).
    step : float
        For features of unit length: each of T templates counts 1 / sqrt(T).
    reg : float
        Factor of the penalty.
    single_root : bool
    """

    loss: str = "hinge"
    penalty: str | None = None
    passive_aggressive: bool = True
    step: float = 1.0
    reg: float = 0.0
    single_root: bool = True

    def at(self, epoch: int) -> hot.Rule:
        """The rule of an epoch, counted from 1, for the compiled loop."""
        decay = 1.0 if self.passive_aggressive else np.sqrt(epoch)
        return hot.Rule(
            LOSSES[self.loss],
            PENALTIES[self.penalty],
            self.passive_aggressive,
            self.single_root,
            float(self.step / decay),
            float(self.reg),
        )


class TreeState:
    """Weights of all templates while they are learnt, and their sum over rounds."""

    def __init__(
        self, templates: hot.Templates, weights: NDArray[np.float32] | None = None
    ) -> None:
        n_templates, n_weights = len(templates.pair), int(templates.start[-1])
        self.templates = templates
        self.rounds = 0
        self.epochs = 0
        self.tables = hot.Tables(
            np.zeros(n_weights, np.float32) if weights is None else weights.copy(),
            np.zeros(n_weights, np.float32),
            np.ones(n_templates),
            np.zeros(n_templates),
            np.zeros(n_templates),
            np.zeros((n_templates, REMEMBERED), np.int64),
            np.zeros(n_templates, np.int64),
        )
        if weights is not None:
            hot.flush_all(templates, self.tables)
            self.tables.n_touched[self.tables.square > 0] = REMEMBERED + 1

    def epoch(
        self, corpus: hot.Corpus, rule: TreeRule, order: NDArray[np.int64]
    ) -> tuple[float, int]:
        """One round per sentence of `order`; summed loss and words with other heads."""
        self.epochs += 1
        loss, wrong = hot.train_epoch(
            corpus, self.templates, self.tables, rule.at(self.epochs), order
        )
        hot.flush_all(self.templates, self.tables)
        self.rounds += len(order)
        return float(loss), int(wrong)

    @property
    def group_norms(self) -> FloatArray:
        """||w_t|| of the last model."""
        norms: FloatArray = self.tables.scale * np.sqrt(self.tables.square)
        return norms

    def last(self) -> NDArray[np.float32]:
        """The weights after the last round."""
        hot.flush_all(self.templates, self.tables)
        return self.tables.vector.copy()

    def average(self) -> NDArray[np.float32]:
        """The mean of the weights after every round; zero where the last model is.

        A group that the penalty has pruned stays so: the average would bring back
        what it had in early rounds.
        """
        hot.flush_all(self.templates, self.tables)
        mean: NDArray[np.float32] = np.divide(
            self.tables.offset, -max(self.rounds, 1), dtype=np.float32
        )
        starts = self.templates.start
        for t in np.flatnonzero(self.tables.square == 0.0):
            mean[starts[t] : starts[t + 1]] = 0.0
        return mean


def learn_trees(
    state: TreeState,
    corpus: hot.Corpus,
    rule: TreeRule,
    n_epochs: int,
    rng: np.random.Generator,
    callback: Callback | None = None,
) -> list[TreeEpoch]:
    """Run epochs in random order; stops early on Ctrl-C or a true callback."""
    history: list[TreeEpoch] = []
    try:
        for line in _epochs(state, corpus, rule, n_epochs, rng):
            history.append(line)
            if callback is not None and callback(line):
                break
    except KeyboardInterrupt:
        warnings.warn(
            f"Interrupted after {len(history)} epochs; the model so far was kept.",
            InterruptedFitWarning,
            stacklevel=3,
        )
    return history


def _epochs(
    state: TreeState,
    corpus: hot.Corpus,
    rule: TreeRule,
    n_epochs: int,
    rng: np.random.Generator,
) -> Iterator[TreeEpoch]:
    began = time.perf_counter()
    n_sentences = len(corpus.starts) - 1
    n_words = int(corpus.starts[-1]) - n_sentences * (1 + 2 * hot.MARGIN)
    for epoch in range(1, n_epochs + 1):
        loss, wrong = state.epoch(corpus, rule, rng.permutation(n_sentences))
        yield TreeEpoch(
            epoch,
            time.perf_counter() - began,
            loss / n_sentences,
            1.0 - wrong / n_words,
            int(np.sum(state.group_norms > 0.0)),
        )


def template_norms(
    templates: hot.Templates, weights: NDArray[np.float32]
) -> FloatArray:
    """||w_t|| of each template's part of the weights."""
    squares = np.add.reduceat(weights.astype(np.float64) ** 2, templates.start[:-1])
    norms: FloatArray = np.sqrt(squares)
    return norms
