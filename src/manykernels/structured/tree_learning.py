"""Online learning of arc weights for dependency trees, one block per template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manykernels.base.arrays import Array
from manykernels.base.stored import storable
from manykernels.hot import tree_pass as hot
from manykernels.hot.arcs import MARGIN, Corpus, Templates, longest_sentence
from manykernels.norms.terms import Term, term_codes
from manykernels.structured.online_proximal import OnlineProximal, StructuredResult
from manykernels.structured.structured_problem import StructuredLoss, StructuredProblem

WEIGHT_BYTES = 8  # a weight and its share in the average, in single precision
TOUCHED_PLACES = 512  # of a template that are cleared one by one, not all of them

Weights = NDArray[np.float32]


@dataclass(frozen=True)
class TreeProblem(StructuredProblem):
    """Dependency trees: see :class:`StructuredProblem`.

    Parameters
    ----------
    corpus : Corpus
    templates : Templates
        One block of weights for each. Arcs have features of unit length: each of T
        templates counts 1 / sqrt(T).
    loss : StructuredLoss
    terms : tuple of Term
        Regularizer on the norms of the templates' weights.
    C : float
    single_root : bool
    """

    corpus: Corpus
    templates: Templates
    loss: StructuredLoss
    terms: tuple[Term, ...]
    C: float
    single_root: bool = True

    def __post_init__(self) -> None:
        require_template_norms(self.terms, self.n_blocks)

    @property
    def default_step(self) -> float:
        return 5.0 if self.loss.name == "crf" else 1.0

    @property
    def default_update(self) -> str:
        if self.loss.name == "hinge" and not self.terms:
            return "passive_aggressive"
        return "dual_averaging" if self.prunes else "gradient"

    def descent(self, method: OnlineProximal, start: Any = None) -> TreeDescent:
        return TreeDescent(self, method, start)

    @property
    def n_examples(self) -> int:
        return len(self.corpus.starts) - 1

    @property
    def n_blocks(self) -> int:
        return len(self.templates.pair)


def require_template_norms(terms: tuple[Term, ...], n_templates: int) -> None:
    """Raise unless terms are on the templates' norms, and on no others."""
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


@storable
class TreeEpoch(NamedTuple):
    """One line of the history of trees."""

    epoch: int
    time: float
    loss: float  # mean over the sentences, before each one's step
    accuracy: float  # words that kept their head in these rounds
    n_templates: int  # blocks that are not zero


class TreeState:
    """Weights of all templates while they are learned, and their sum over rounds.

    Weights to start from rule dual averaging out, which needs all gradients.
    """

    def __init__(self, templates: Templates, weights: Weights | None = None) -> None:
        n_templates, n_weights = len(templates.pair), int(templates.start[-1])
        self.n_steps = self.n_averaged = self.n_epochs = 0
        self.from_weights = weights is not None
        self.sums_gradients = False
        self.norm_history: list[Array] = []  # of the templates' weights, by epoch
        self.tables = hot.TemplateTables(
            np.zeros(n_weights, np.float32) if weights is None else weights.copy(),
            np.zeros(n_weights, np.float32),
            np.ones(n_templates),
            np.zeros(n_templates),
            np.zeros(n_templates),
            np.zeros((n_templates, TOUCHED_PLACES), np.int64),
            np.zeros(n_templates, np.int64),
        )
        if weights is not None:
            hot.flush_all(templates, self.tables)
            self.tables.n_touched[self.tables.square > 0] = TOUCHED_PLACES + 1

    def block_norms(self) -> Array:
        """||w_t|| of the last model."""
        return np.asarray(self.tables.scale * np.sqrt(self.tables.square))


class TreeDescent:
    """w_t = scale_t * vector_t for every template; changes the state it starts from."""

    def __init__(
        self,
        problem: TreeProblem,
        method: OnlineProximal,
        start: TreeState | None = None,
    ) -> None:
        self.problem, self.method = problem, method
        self.state = TreeState(problem.templates) if start is None else start
        self.terms = term_codes(problem.terms, problem.n_blocks)
        self.rule = hot.TreeRule(
            method.update == "passive_aggressive", method.sums, problem.single_root
        )
        # The loop is compiled without marginals for the hinge, which needs none.
        self.space = None
        if problem.loss.name == "crf":
            size = int(longest_sentence(problem.corpus.starts)) + 1
            through = np.empty(size**3 // 3 + 1)
            arcs, shares, marginals = np.empty((3, size, size))
            self.space = arcs, shares, through, marginals
        state = self.state
        # Vectors may turn from sums of gradients to weights, not the other way round.
        if method.sums and not state.sums_gradients:
            if state.n_steps or state.from_weights:
                raise ValueError(
                    "dual averaging must start from zero, got weights that were "
                    "learned in another way; begin a new fit."
                )
        elif state.sums_gradients and not method.sums:
            hot.flush_all(problem.templates, state.tables)
        state.sums_gradients = method.sums

    def run_epoch(self, epoch: int, rng: np.random.Generator) -> TreeEpoch:
        """One pass over all sentences."""
        problem, state = self.problem, self.state
        state.n_epochs += 1
        order = rng.permutation(problem.n_examples)
        steps = self.method.steps(problem, state.n_epochs, state.n_steps)
        loss, wrong = self.run_pass(order, steps)
        norms = state.block_norms()
        state.norm_history.append(norms)
        rows = int(problem.corpus.starts[-1])
        n_words = rows - problem.n_examples * (1 + 2 * MARGIN)
        mean, kept = loss / problem.n_examples, 1.0 - wrong / n_words
        return TreeEpoch(epoch, 0.0, mean, kept, int(np.sum(norms > 0.0)))

    def run_pass(self, order: NDArray[np.int64], steps: Array) -> tuple[float, int]:
        """Visit the sentences; returns summed loss and words with other heads."""
        problem, state = self.problem, self.state
        loss, wrong = hot.tree_pass(
            problem.corpus,
            problem.templates,
            state.tables,
            self.rule,
            self.terms,
            order,
            steps,
            self.method.dues(problem, steps, state.n_steps),
            self.space,
        )
        if not self.method.sums:
            # Scales go into the vectors once an epoch: a product of many factors, and
            # norms that are updated place by place, lose digits.
            hot.flush_all(problem.templates, state.tables)
        state.n_steps += len(order)
        state.n_averaged += len(order)
        return float(loss), int(wrong)

    def forget_average(self) -> None:
        self.state.tables.offset[:] = 0.0
        self.state.tables.passed[:] = 0.0
        self.state.n_averaged = 0

    def weights(self) -> Weights:
        weights: Weights = hot.last_weights(self.problem.templates, self.state.tables)
        return weights

    def average(self) -> Weights:
        """The mean of the weights after every round; zero where the last model is.

        A template that the penalty has pruned stays so: the average would bring back
        what it had in early rounds.
        """
        tables, n = self.state.tables, max(self.state.n_averaged, 1)
        weights: Weights = hot.mean_weights(self.problem.templates, tables, n)
        return weights

    def result(self, history: list[TreeEpoch]) -> StructuredResult:
        weights = self.average() if self.method.average else self.weights()
        norms = template_norms(self.problem.templates, weights)
        eta0 = self.method.first_step
        return StructuredResult(weights, norms, self.state, np.nan, history, eta0)


def template_norms(templates: Templates, weights: Weights) -> Array:
    """||w_t|| of each template's part of the weights."""
    spans = zip(templates.start[:-1], templates.start[1:], strict=True)
    # One at a time: all weights in double precision would be the largest array of all.
    norms = [np.linalg.norm(weights[a:b].astype(np.float64)) for a, b in spans]
    return np.array(norms)
