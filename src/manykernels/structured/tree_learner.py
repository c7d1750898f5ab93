"""Online learning of arc weights for dependency trees, one group per template.

minimize  reg * penalty(w) + 1/N sum_i loss(w; sentence_i, tree_i)

with the structured hinge loss max over trees of score + Hamming cost - score of the
true tree, or the loss of a conditional random field. A round looks at one sentence: a
step along the loss, then the proximity operator of the penalty on the group norms.
Dual averaging (Xiao, 2010) applies that operator to the sum of all gradients instead of
the last weights, and so sets groups to zero that single steps would keep alive.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manykernels.base import stored
from manykernels.base.stored import Maybe, OneOf, Real, storable
from manykernels.hot import tree_learning as hot
from manykernels.hot.arcs import MARGIN, Corpus, Templates, longest_sentence
from manykernels.hot.prox import TermCodes
from manykernels.inputs import parameters
from manykernels.inputs.parameters import Flag, Number, Rules, check_parameters
from manykernels.norms.regularizers import Regularizer, named_regularizer
from manykernels.norms.terms import term_codes
from manykernels.solvers.loop import InterruptedFitWarning

UPDATES = ("auto", "passive_aggressive", "gradient", "dual_averaging")
STEPS = {"hinge": 1.0, "crf": 5.0}
RULES: Rules = {
    "update": parameters.OneOf(*UPDATES),
    "step": Number(optional=True),
    "average": Flag(),
}
REMEMBERED = 512  # places of a template that are cleared one by one

FloatArray = NDArray[np.float64]
Sums = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


@storable
class TreeEpoch(NamedTuple):
    """One line of the history."""

    epoch: int
    time: float
    loss: float  # mean over the sentences, before each one's step
    accuracy: float  # words that kept their head in these rounds
    n_templates: int  # groups that are not zero


Callback = Callable[[TreeEpoch], object]


class Learned(NamedTuple):
    """What happened in some epochs."""

    history: list[TreeEpoch]
    norms: list[FloatArray]  # of the templates' weights after each epoch
    ended: bool  # by somebody, before the last epoch


@dataclass(frozen=True)
class TreeRule:
    """How weights are learned.

    Parameters
    ----------
    loss : str
        "hinge" or "crf".
    penalty : str or Regularizer, optional
        On the norms of the templates' weights; see :mod:`manykernels.norms`.
    passive_aggressive : bool
        Steps just long enough to mend a sentence, `step` at most.
    step : float
        For features of unit length: each of T templates counts 1 / sqrt(T).
    reg : float
        Factor of the penalty.
    single_root : bool
    dual_averaging : bool
        The weights are the proximal map of all gradients so far, times step /
        sqrt(passes over the sentences). With neither of the two, steps are step /
        sqrt(epoch) long.
    """

    loss: str = "hinge"
    penalty: str | Regularizer | None = None
    passive_aggressive: bool = True
    step: float = 1.0
    reg: float = 0.0
    single_root: bool = True
    dual_averaging: bool = False

    def at(self, epoch: int) -> hot.Rule:
        """The rule of an epoch, counted from 1, for the compiled loop."""
        steady = self.passive_aggressive or self.dual_averaging
        decay = 1.0 if steady else np.sqrt(epoch)
        return hot.Rule(
            self.passive_aggressive,
            self.dual_averaging,
            self.single_root,
            float(self.step / decay),
            float(self.reg),
        )

    def terms(self, n_templates: int) -> TermCodes:
        """The penalty's terms for the compiled loop; none without a penalty."""
        if self.penalty is None:
            return term_codes((), n_templates)
        return term_codes(named_regularizer(self.penalty).terms(), n_templates)

    def sums(self, corpus: Corpus) -> Sums | None:
        """Room for the marginals of the longest sentence; None for the hinge."""
        if self.loss == "hinge":
            return None
        size = int(longest_sentence(corpus.starts)) + 1
        table = (size, size)
        through = np.empty(size**3 // 3 + 1)
        return np.empty(table), np.empty(table), through, np.empty(table)


@storable(
    update=OneOf(*UPDATES), step=Maybe(Real(0.0, above=True)), average=stored.FLAG
)
@storable
@dataclass(frozen=True)
class TreeLearning:
    """Which steps a parser takes, and which of the weights on the way it keeps.

    Parameters
    ----------
    update : {"auto", "passive_aggressive", "gradient", "dual_averaging"}
        Steps as long as a sentence needs, `step` at most; steps of step / sqrt(epoch);
        or weights made anew from all gradients so far, without which the regularizers
        prune next to nothing. "auto" takes the first for the hinge loss without a
        regularizer and the last for regularizers that prune.
    step : float, optional
        Length of a step, for arcs of unit length in feature space; by default 1, and
        5 for the CRF loss, whose steps are weighted by probabilities.
    average : bool
        Keep the mean of the weights of all rounds in the second half of the epochs
        rather than the last.

    Examples
    --------
    >>> TreeLearning().rule("hinge", "sparse_mkl", 0.1).dual_averaging
    True
    """

    update: str = "auto"
    step: float | None = None
    average: bool = True

    def __post_init__(self) -> None:
        check_parameters(self, RULES)

    def rule(
        self,
        loss: str,
        penalty: str | Regularizer | None,
        reg: float,
        single_root: bool = True,
    ) -> TreeRule:
        """What a round does, for a loss and a penalty."""
        plain = loss == "hinge" and penalty is None
        update = self.update
        if update == "passive_aggressive" and not plain:
            raise ValueError(
                "update='passive_aggressive' needs the hinge loss and no regularizer, "
                f"got loss={loss!r} and regularizer={penalty!r}; use update='auto'."
            )
        if update == "auto":
            update = "passive_aggressive" if plain else "gradient"
            update = "dual_averaging" if prunes(penalty) else update
        return TreeRule(
            loss,
            penalty,
            update == "passive_aggressive",
            float(STEPS[loss] if self.step is None else self.step),
            reg,
            single_root,
            update == "dual_averaging",
        )


def prunes(penalty: str | Regularizer | None) -> bool:
    """Whether a penalty sends templates to zero.

    Examples
    --------
    >>> prunes("sparse_mkl"), prunes("squared_l2"), prunes(None)
    (True, False, False)
    """
    if penalty is None:
        return False
    return any(term.prunes for term in named_regularizer(penalty).terms())


def require_blocks(penalty: str | Regularizer | None, n_templates: int) -> None:
    """Raise unless a penalty speaks of the templates' norms, and of no others."""
    terms = () if penalty is None else named_regularizer(penalty).terms()
    if any(term.kind == "entries" for term in terms):
        raise ValueError(
            "regularizer must be one of the norms of templates, got one of single "
            "weights, of which every round would visit all; use 'group_lasso' or "
            "'elastic_net'."
        )
    blocks = [block for term in terms for block in term.blocks or ()]
    if blocks and not 0 <= min(blocks) <= max(blocks) < n_templates:
        raise ValueError(
            f"regularizer must name templates by positions from 0 to {n_templates - 1},"
            f" got {min(blocks)} to {max(blocks)}; count them in the given order."
        )


class TreeState:
    """Weights of all templates while they are learned, and their sum over rounds.

    Weights to start from rule dual averaging out: their gradients are not known.
    """

    def __init__(
        self, templates: Templates, weights: NDArray[np.float32] | None = None
    ) -> None:
        n_templates, n_weights = len(templates.pair), int(templates.start[-1])
        self.templates = templates
        self.rounds = 0
        self.averaged = 0
        self.epochs = 0
        self.passes = 0.0
        self.from_weights = weights is not None
        self._sums_gradients = False
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
        self, corpus: Corpus, rule: TreeRule, order: NDArray[np.int64]
    ) -> tuple[float, int]:
        """One round per sentence of `order`; summed loss and words with other heads."""
        self._begin(rule.dual_averaging)
        self.epochs += 1
        loss, wrong = hot.train_epoch(
            corpus,
            self.templates,
            self.tables,
            rule.at(self.epochs),
            rule.terms(len(self.templates.pair)),
            order,
            self.passes,
            rule.sums(corpus),
        )
        if not rule.dual_averaging:
            hot.flush_all(self.templates, self.tables)
        self.rounds += len(order)
        self.averaged += len(order)
        self.passes += len(order) / (len(corpus.starts) - 1)
        return float(loss), int(wrong)

    def _begin(self, sums_gradients: bool) -> None:
        """What the vectors mean changes at the start only, or from sums to weights."""
        if sums_gradients and not self._sums_gradients:
            if self.rounds or self.from_weights:
                raise ValueError(
                    "dual averaging must start from zero, got weights that were "
                    "learned in another way; begin a new fit."
                )
        elif self._sums_gradients and not sums_gradients:
            hot.flush_all(self.templates, self.tables)
        self._sums_gradients = sums_gradients

    @property
    def group_norms(self) -> FloatArray:
        """||w_t|| of the last model."""
        norms: FloatArray = self.tables.scale * np.sqrt(self.tables.square)
        return norms

    def last(self) -> NDArray[np.float32]:
        """The weights after the last round."""
        weights: NDArray[np.float32] = hot.last_weights(self.templates, self.tables)
        return weights

    def forget_average(self) -> None:
        """The mean begins anew: early rounds are worse than late ones."""
        self.tables.offset[:] = 0.0
        self.tables.passed[:] = 0.0
        self.averaged = 0

    def average(self) -> NDArray[np.float32]:
        """The mean of the weights after every round; zero where the last model is.

        A group that the penalty has pruned stays so: the average would bring back
        what it had in early rounds.
        """
        weights: NDArray[np.float32] = hot.mean_weights(
            self.templates, self.tables, max(self.averaged, 1)
        )
        return weights


def learn_trees(
    state: TreeState,
    corpus: Corpus,
    rule: TreeRule,
    n_epochs: int,
    rng: np.random.Generator,
    callback: Callback | None = None,
) -> Learned:
    """Run epochs in random order.

    Ctrl-C after the first epoch and a callback that returns something true end it.
    """
    learned = Learned([], [], False)
    try:
        for line in _epochs(state, corpus, rule, n_epochs, rng):
            learned.history.append(line)
            learned.norms.append(state.group_norms)
            if callback is not None and callback(line):
                return learned._replace(ended=True)
    except KeyboardInterrupt:
        if not learned.history:
            raise
        done = len(learned.history)
        warnings.warn(
            f"Interrupted after {done} epochs; the model so far was kept.",
            InterruptedFitWarning,
            stacklevel=3,
        )
        return learned._replace(ended=True)
    return learned


def _epochs(
    state: TreeState,
    corpus: Corpus,
    rule: TreeRule,
    n_epochs: int,
    rng: np.random.Generator,
) -> Iterator[TreeEpoch]:
    began = time.perf_counter()
    n_sentences = len(corpus.starts) - 1
    n_words = int(corpus.starts[-1]) - n_sentences * (1 + 2 * MARGIN)
    for epoch in range(1, n_epochs + 1):
        if 1 < epoch == n_epochs // 2 + 1:
            state.forget_average()
        loss, wrong = state.epoch(corpus, rule, rng.permutation(n_sentences))
        yield TreeEpoch(
            epoch,
            time.perf_counter() - began,
            loss / n_sentences,
            1.0 - wrong / n_words,
            int(np.sum(state.group_norms > 0.0)),
        )


def template_norms(templates: Templates, weights: NDArray[np.float32]) -> FloatArray:
    """||w_t|| of each template's part of the weights."""
    spans = zip(templates.start[:-1], templates.start[1:], strict=True)
    # One at a time: all weights in double precision would be the largest array of all.
    norms = [np.linalg.norm(weights[a:b].astype(np.float64)) for a, b in spans]
    return np.array(norms)
