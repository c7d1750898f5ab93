"""The online proximal method written plainly: explicit vectors, every model kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manykernels.chains import cost_augmented, marginals
from manykernels.norms import Term, successive_prox


class NaiveSPOM:
    """w as a list of (columns, labels) arrays; the last is the table of label pairs."""

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
        radius: float = np.inf,
        uses_pairs: bool = True,
    ) -> None:
        self.features, self.starts, self.target = features, starts, target
        self.terms, self.reg, self.loss = terms, reg, loss
        self.radius, self.uses_pairs = radius, uses_pairs
        n_chains = len(starts) - 1
        self.importance = np.ones(n_chains) if importance is None else importance
        self.w = [np.zeros((phi.shape[1], n_labels)) for phi in features]
        self.w.append(np.zeros((n_labels, n_labels)))
        self.seen: list[list[np.ndarray]] = []

    def visit(self, chain: int, eta: float) -> None:
        self.seen.append([block.copy() for block in self.w])
        gradient = self.gradient(chain)
        move = eta * self.importance[chain]
        stepped = [w - move * g for w, g in zip(self.w, gradient, strict=True)]
        self.w = successive_prox(self.terms, stepped, eta * self.reg)
        length = np.sqrt(sum(np.sum(w**2) for w in self.w))
        if length > self.radius:
            self.w = [self.radius / length * w for w in self.w]

    def gradient(self, chain: int) -> list[np.ndarray]:
        part = slice(self.starts[chain], self.starts[chain + 1])
        target = self.target[part]
        rows = [phi[part] for phi in self.features]
        unary = sum(phi @ w for phi, w in zip(rows, self.w[:-1], strict=True))
        n_labels = self.w[-1].shape[0]
        true = np.eye(n_labels)[target]
        if self.loss == "crf":
            found = marginals(unary, self.w[-1])
            extra, pairs = found.labels - true, found.pairs.copy()
        else:
            worst, _ = cost_augmented(unary, self.w[-1], target)
            extra = np.eye(n_labels)[worst] - true
            pairs = np.zeros((n_labels, n_labels))
            np.add.at(pairs, (worst[:-1], worst[1:]), 1.0)
        np.subtract.at(pairs, (target[:-1], target[1:]), 1.0)
        if not self.uses_pairs:
            pairs[:] = 0.0
        return [*(phi.T @ extra for phi in rows), pairs]

    def average(self) -> list[np.ndarray]:
        return [np.mean(blocks, axis=0) for blocks in zip(*self.seen, strict=True)]
