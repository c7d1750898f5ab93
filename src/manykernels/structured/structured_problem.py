r"""What structured learning minimizes, for label sequences and for trees alike.

.. math:: \min_w \lambda \sum_j \Omega_j(w) + \frac1W \sum_n c_n loss(w; x_n, y_n)
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from manykernels.base.arrays import Array
from manykernels.base.quoted import quoted
from manykernels.norms.terms import Term, kernel_weights, strong_convexity
from manykernels.structured.decoders import Decoder, hamming_cost

if TYPE_CHECKING:
    from manykernels.structured.online_proximal import Descent, OnlineProximal


class StructuredLoss(Protocol):
    """A convex function of the scores of all structures.

    Examples
    --------
    >>> from manykernels.structured.decoders import ChainDecoder
    >>> def value(loss: StructuredLoss) -> float:
    ...     decoder = ChainDecoder(np.zeros((1, 2)), np.zeros((2, 2)))
    ...     return float(loss.values(decoder, [0])[0])
    >>> value(StructuredHinge()), round(value(CRF()), 3)
    (1.0, 0.693)
    """

    @property
    def name(self) -> str:
        """The name that estimators take: "hinge" or "crf"."""

    @property
    def coarse(self) -> float:
        """Parts of the gradient below this may be rounded at random, or 0."""

    def values(self, decoder: Decoder, target: Any) -> Any:
        """Loss of every structure that the decoder holds."""

    def cost_table(self, n_labels: int) -> Array:
        """Cost of a label (column) in place of the true one (row)."""


@dataclass(frozen=True)
class StructuredHinge:
    r"""max over y' of score(y') - score(y) + cost(y, y').

    Parameters
    ----------
    cost : array of shape (labels, labels), optional
        Of each label (column) in place of the true one (row), summed over positions;
        zeros on the diagonal. 1 for every wrong label or head if not given.

    Examples
    --------
    >>> from manykernels.structured.decoders import ChainDecoder, TreeDecoder
    >>> chain = ChainDecoder([[0.5, 0.0], [3.0, 0.0]], np.zeros((2, 2)))
    >>> StructuredHinge().values(chain, [0, 0]).tolist()
    [0.5]
    >>> tree = TreeDecoder([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    >>> float(StructuredHinge().values(tree, [0, 1]))
    3.0
    """

    cost: Array | None = None
    name: str = "hinge"
    coarse: float = 0.0

    def values(self, decoder: Decoder, target: Any) -> Any:
        # Never negative, as y' = y is one of the structures.
        return decoder.best(target, self.cost)[1] - decoder.score(target)

    def cost_table(self, n_labels: int) -> Array:
        if self.cost is None:
            return hamming_cost(n_labels)
        table = np.ascontiguousarray(self.cost, dtype=np.float64)
        wrong = table.shape != (n_labels, n_labels) or not np.isfinite(table).all()
        if wrong or np.any(table < 0.0) or np.any(np.diag(table) != 0.0):
            raise ValueError(
                f"cost must be a table of {n_labels} x {n_labels} numbers >= 0 with a "
                f"zero diagonal, got one of shape {table.shape}; leave it out to count "
                "wrong labels."
            )
        return table


@dataclass(frozen=True)
class CRF:
    r"""Minus the log probability of y: :math:`\log \sum_{y'} e^{s(y')} - s(y)`.

    Its gradient touches every label at every position. Parts smaller than `coarse`
    are replaced by 0 or `coarse` at random, without bias, when sequences are learned
    online; an update then costs about as much as one of the hinge loss.

    Parameters
    ----------
    coarse : float
        0 for exact gradients.

    Examples
    --------
    >>> from manykernels.structured.decoders import ChainDecoder
    >>> CRF().values(ChainDecoder(np.zeros((1, 2)), np.zeros((2, 2))), [0]).round(4)
    array([0.6931])
    """

    coarse: float = 0.1
    name: str = "crf"

    def values(self, decoder: Decoder, target: Any) -> Any:
        return decoder.log_partition() - decoder.score(target)

    def cost_table(self, n_labels: int) -> Array:
        # Probabilities need no margin.
        return np.zeros((n_labels, n_labels))


def sequence_loss(name: str, cost: Any, n_labels: int) -> StructuredLoss:
    """Return a loss of label sequences by its name; only the hinge takes costs."""
    if name == "crf":
        if cost is not None:
            raise ValueError(
                "cost belongs to loss='hinge', got it with loss='crf'; leave it out."
            )
        return CRF()
    try:
        table = None if cost is None else np.asarray(cost, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"cost must be a table of {n_labels} by {n_labels} numbers, got "
            f"{quoted(cost)}; give one row per true label, or None."
        ) from error
    hinge = StructuredHinge(table)
    hinge.cost_table(n_labels)
    return hinge


class StructuredProblem:
    """Loss and regularizer; a subclass adds the structures and their features."""

    loss: StructuredLoss
    terms: tuple[Term, ...]  # on the norms of all blocks
    C: float  # lambda = 1 / (C W)

    @abstractmethod
    def descent(self, method: OnlineProximal, start: Any = None) -> Descent:
        """Return the state in which passes of the online learner begin."""

    @property
    def default_step(self) -> float:
        """eta0 of the online learner, for features of usual lengths."""
        return 0.1

    @property
    def default_update(self) -> str:
        """The online learner's update where it is "auto"."""
        return "gradient"

    @property
    @abstractmethod
    def n_examples(self) -> int:
        """Number of structures to learn from."""

    @property
    @abstractmethod
    def n_blocks(self) -> int:
        """Number of blocks whose norms the regularizer sees."""

    @property
    def total_weight(self) -> float:
        """W, the sum of the examples' weights."""
        return float(self.n_examples)

    @property
    def reg(self) -> float:
        """The regularization lambda."""
        return 1.0 / (float(self.C) * self.total_weight)

    @property
    def prunes(self) -> bool:
        """Whether proximal steps set whole blocks to zero."""
        return any(term.prunes for term in self.terms)

    def strong_convexity(self) -> float:
        """A sigma for which the regularizer, times lambda, is strongly convex; or 0."""
        return self.reg * strong_convexity(self.terms, self.n_blocks)

    def kernel_weights(self, block_norms: Array) -> Array:
        """beta of every block from the blocks' norms."""
        return kernel_weights(self.terms, block_norms)
