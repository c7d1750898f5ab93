"""The online proximal method written plainly: explicit vectors, every model kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manykernels.norms.terms import Term, successive_prox
from manykernels.structured import ChainDecoder


class NaiveSPOM:
    """w as a list of (columns, labels) arrays; the last is the table of label pairs.

    Before it come the tables of edges, (columns, labels * labels). With `sums` every
    proximal step starts from the sum of all gradients (dual averaging).
    """

    def __init__(
        self,
        features: Sequence[np.ndarray],
        starts: np.ndarray,
        target: np.ndarray,
        n_labels: int,
        terms: tuple[Term, ...],
        reg: float,
        loss: str,
        importance: np.ndarray | None = None,
        uses_pairs: bool = True,
        edges: Sequence[np.ndarray] = (),
        sums: bool = False,
    ) -> None:
        self.features, self.edges = features, edges
        self.starts, self.target = starts, target
        self.terms, self.reg, self.loss = terms, reg, loss
        self.uses_pairs, self.sums = uses_pairs, sums
        n_chains = len(starts) - 1
        self.importance = np.ones(n_chains) if importance is None else importance
        self.w = [np.zeros((phi.shape[1], n_labels)) for phi in features]
        self.w += [np.zeros((psi.shape[1], n_labels**2)) for psi in edges]
        self.w.append(np.zeros((n_labels, n_labels)))
        self.total = [np.zeros(w.shape) for w in self.w]
        self.seen: list[list[np.ndarray]] = []

    def visit(self, chain: int, eta: float) -> None:
        self.seen.append([block.copy() for block in self.w])
        gradient = [self.importance[chain] * g for g in self.gradient(chain)]
        for total, g in zip(self.total, gradient, strict=True):
            total += g
        stepped = [w - eta * g for w, g in zip(self.w, gradient, strict=True)]
        due = eta * self.reg
        if self.sums:
            stepped, due = [-eta * total for total in self.total], due * len(self.seen)
        self.w = successive_prox(self.terms, stepped, due)

    def scores(self, chain: int, w: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Of labels, and of label pairs at every position."""
        part = slice(self.starts[chain], self.starts[chain + 1])
        n_labels, n = len(w[-1]), len(self.features)
        unary = sum(
            phi[part] @ block for phi, block in zip(self.features, w[:n], strict=True)
        )
        tables = np.broadcast_to(w[-1], (len(unary), n_labels, n_labels)).copy()
        for psi, block in zip(self.edges, w[n:-1], strict=True):
            tables += (psi[part] @ block).reshape(tables.shape)
        return unary, tables

    def gradient(self, chain: int) -> list[np.ndarray]:
        part = slice(self.starts[chain], self.starts[chain + 1])
        target = self.target[part]
        unary, tables = self.scores(chain, self.w)
        true, true_pairs = indicators(target, len(self.w[-1]))
        if self.loss == "crf":
            found = ChainDecoder(unary, tables).marginals()
            extra, pairs = found.labels - true, found.pairs - true_pairs
        else:
            worst, _ = ChainDecoder(unary, tables).best(target)
            labels, found_pairs = indicators(worst, len(self.w[-1]))
            extra, pairs = labels - true, found_pairs - true_pairs
        flat = pairs.reshape(len(target), -1)
        return [
            *(phi[part].T @ extra for phi in self.features),
            *(psi[part].T @ flat for psi in self.edges),
            pairs.sum(axis=0) * self.uses_pairs,
        ]

    def average(self) -> list[np.ndarray]:
        return [np.mean(blocks, axis=0) for blocks in zip(*self.seen, strict=True)]


def indicators(labels: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """1 at every label, and at every pair of labels at its second position."""
    pairs = np.zeros((len(labels), n_labels, n_labels))
    for t in range(1, len(labels)):
        pairs[t, labels[t - 1], labels[t]] = 1.0
    return np.eye(n_labels)[labels], pairs
