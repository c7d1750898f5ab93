"""The (2, p) group norm, seen only through the norms of the blocks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from manykernels.base.arrays import Array


def p_norm(values: Array, p: float) -> float:
    """Return (sum |v|^p)^(1/p), safe for huge p (and p = inf) by taking ratios first.

    Examples
    --------
    >>> round(p_norm(np.array([3.0, 4.0]), 2.0), 6)
    5.0
    >>> p_norm(np.array([3.0, 4.0]), np.inf)
    4.0
    """
    magnitudes = np.abs(values)
    largest = float(magnitudes.max(initial=0.0))
    if largest == 0.0 or np.isinf(p):
        return largest
    total = float(np.sum((magnitudes / largest) ** p))
    return float(largest * total ** (1.0 / p))


def p_norms(rows: Array, p: float) -> Array:
    """The p-norm of every row, all at once.

    Examples
    --------
    >>> p_norms(np.array([[3.0, 4.0], [0.0, 0.0]]), 2.0).tolist()
    [5.0, 0.0]
    """
    largest = np.max(np.abs(rows), axis=1, initial=0.0)
    if np.isinf(p):
        return np.asarray(largest)
    safe = np.where(largest > 0.0, largest, 1.0)
    ratios = np.abs(rows) / safe[:, None]
    return np.asarray(largest * np.sum(ratios**p, axis=1) ** (1.0 / p))


@dataclass(frozen=True)
class LpGroupNorm:
    r"""Half the squared group norm, :math:`\tfrac12 (\sum_f \|w_f\|^p)^{2/p}`.

    Every method is a map on the vector of block norms.

    Parameters
    ----------
    p : float in [1, 2]
        1 selects few blocks, 2 treats all blocks alike.

    Examples
    --------
    >>> norm = LpGroupNorm(p=2.0)
    >>> norm.value(np.array([3.0, 4.0]))
    12.5
    """

    p: float
    # The dual exponent p / (p - 1); infinite for p = 1.
    q: float = field(init=False, repr=False)
    # The r of the constraint ||d||_r <= 1 that the kernel weights obey.
    weight_exponent: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 1.0 <= self.p <= 2.0:
            raise ValueError(
                f"p must be between 1 (sparse) and 2 (uniform), got {self.p!r}; "
                "choose for instance p=1.1."
            )
        q = np.inf if self.p == 1.0 else self.p / (self.p - 1.0)
        r = np.inf if self.p == 2.0 else self.p / (2.0 - self.p)
        object.__setattr__(self, "q", q)
        object.__setattr__(self, "weight_exponent", r)

    def value(self, block_norms: Array) -> float:
        """Half the squared p-norm of the norms of w."""
        return 0.5 * p_norm(block_norms, self.p) ** 2

    def dual_value(self, dual_norms: Array) -> float:
        """Half the squared q-norm of the norms of theta: the convex conjugate."""
        return 0.5 * p_norm(dual_norms, self.q) ** 2

    def mirror_scale(self, dual_norms: Array) -> Array:
        """Multipliers c_f with w_f = c_f theta_f, the gradient of the conjugate.

        For p = 1 the gradient is any point of the largest blocks; ties share.
        """
        largest = float(np.max(dual_norms, initial=0.0))
        if largest == 0.0:
            return np.zeros_like(dual_norms)
        if self.p == 1.0:
            top = dual_norms == largest
            return np.asarray(top / top.sum(), dtype=np.float64)
        # Ratios to the largest norm, not to the q-norm: its rounding to the power of
        # a huge q would spoil the result.
        ratios, q = dual_norms / largest, self.q
        common = float(np.sum(ratios**q)) ** ((2.0 - q) / q)
        return np.asarray(common * ratios ** (q - 2.0), dtype=np.float64)

    def weights(self, block_norms: Array) -> Array:
        """Kernel weights d of ||w||^2 = min over ||d||_r <= 1 of sum ||w_f||^2 / d_f.

        d_f = (||w_f|| / ||w||)^(2 - p).
        """
        if not np.any(block_norms > 0.0):
            return self.uniform_weights(len(block_norms))
        ratios = block_norms / p_norm(block_norms, self.p)
        return np.asarray(ratios ** (2.0 - self.p), dtype=np.float64)

    def uniform_weights(self, n_blocks: int) -> Array:
        """The feasible weights that trust all blocks alike: ||d||_r = 1."""
        return self.normalize_weights(np.ones(n_blocks))

    def normalize_weights(self, weights: Array) -> Array:
        """Scale non-negative weights to ||d||_r = 1."""
        return np.asarray(weights / p_norm(weights, self.weight_exponent))
