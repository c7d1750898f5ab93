"""OBSCURE and Pegasos as printed: an explicit theta for every block and class.

No cache, no shared coefficients, no lazy scale. Line numbers are those of
Algorithms 1 and 2 of Orabona, Jie and Caputo (2010).
"""

from __future__ import annotations

import numpy as np

from tests.oracles.naive import group_norm, hinge


class NaiveObscure:
    """theta[f] has shape (features of block f, classes)."""

    def __init__(
        self,
        features: list[np.ndarray],
        target: np.ndarray,
        n_classes: int,
        p: float,
        reg: float,
        importance: np.ndarray | None = None,
    ) -> None:
        self.features = features
        self.target = target
        self.p = p
        self.q = p / (p - 1.0)
        self.reg = reg
        n_rows = len(target)
        self.importance = np.ones(n_rows) if importance is None else importance
        self.theta = [np.zeros((phi.shape[1], n_classes)) for phi in features]
        self.t = 0
        self.s = 0.0
        self.updates = 0

    def weights_of_theta(self) -> list[np.ndarray]:
        """Lines 9 and 13: w_f = 1/q (||theta_f|| / ||theta||)^(q-2) theta_f."""
        norms = [float(np.linalg.norm(block)) for block in self.theta]
        total = group_norm(norms, self.q)
        if total == 0.0:
            return [np.zeros_like(block) for block in self.theta]
        return [
            (norm / total) ** (self.q - 2.0) * block / self.q if norm > 0.0 else block
            for norm, block in zip(norms, self.theta, strict=True)
        ]

    def theta_norm(self) -> float:
        return group_norm([float(np.linalg.norm(b)) for b in self.theta], self.q)

    def scores(self, row: int) -> np.ndarray:
        w = self.weights_of_theta()
        return sum(
            phi[row] @ block for phi, block in zip(self.features, w, strict=True)
        )

    def subgradient(self, row: int) -> tuple[list[np.ndarray], bool]:
        """Lines 5 to 7: z = phi(x, y) - phi(x, rival) where the loss is positive."""
        scores = self.scores(row)
        own = self.target[row]
        rivals = scores.copy()
        rivals[own] = -np.inf
        rival = int(np.argmax(rivals))
        wrong = hinge(scores, own) > 0.0
        z = [np.zeros_like(block) for block in self.theta]
        if wrong:
            for block, phi in zip(z, self.features, strict=True):
                block[:, own] += self.importance[row] * phi[row]
                block[:, rival] -= self.importance[row] * phi[row]
        return z, wrong

    def online(self, order: np.ndarray, eta: float) -> None:
        """Algorithm 1 on the rows of `order`."""
        for row in order:
            z, wrong = self.subgradient(row)
            self.updates += wrong
            for block, change in zip(self.theta, z, strict=True):
                block += eta * change

    def objective(self) -> float:
        norms = [float(np.linalg.norm(block)) for block in self.weights_of_theta()]
        losses = [hinge(self.scores(i), own) for i, own in enumerate(self.target)]
        mean_loss = float(np.average(losses, weights=self.importance))
        return 0.5 * self.reg * group_norm(norms, self.p) ** 2 + mean_loss

    def radius(self) -> float:
        """Line 12 of Algorithm 1."""
        return float(np.sqrt(2.0 * self.objective() / self.reg))

    def batch(self, order: np.ndarray, radius: float, self_tuned: bool = True) -> None:
        """Algorithm 2; without self-tuning (s = 0) it is Pegasos."""
        q, reg = self.q, self.reg
        for row in order:
            self.t += 1
            z, wrong = self.subgradient(row)
            self.updates += wrong
            z_norm = group_norm([float(np.linalg.norm(block)) for block in z], q)
            if self_tuned:
                d = reg * self.t + self.s
                slope = reg / q * self.theta_norm() + z_norm
                self.s += 0.5 * (np.sqrt(d**2 + q * slope**2 / radius**2) - d)
            eta = q / (reg * self.t + self.s)
            half = [
                (1.0 - reg * eta / q) * block + eta * change
                for block, change in zip(self.theta, z, strict=True)
            ]
            length = group_norm([float(np.linalg.norm(block)) for block in half], q)
            shrink = min(1.0, q * radius / length) if length > 0.0 else 1.0
            self.theta = [shrink * block for block in half]
