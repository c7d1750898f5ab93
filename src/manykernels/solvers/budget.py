"""A bound on the support of an online learner, and what becomes of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from manykernels.base.arrays import Array, Index
from manykernels.base.quoted import quoted
from manykernels.base.stored import storable

POLICIES = ("smallest", "oldest", "project")
# Share of the mean diagonal that is added to it: kept rows may be nearly alike.
RIDGE = 1e-3


@storable
@dataclass(frozen=True)
class Budget:
    """At most `size` support rows, theta = sum_i coef_i phi(x_i) over these.

    Parameters
    ----------
    size : int
        Support rows to keep.
    policy : {"project", "smallest", "oldest"}
        "oldest" removes the rows that came first; "smallest" those with the smallest
        part ||coef_i|| sqrt(k(x_i, x_i)) of the norm, among equals the oldest;
        "project" removes the same and puts their projection in their place.

    References
    ----------
    Crammer, Kandola, Singer: Online classification on a budget, NIPS 2003 (removal by
    a criterion). Dekel, Shalev-Shwartz, Singer: The forgetron, SIAM J. Comput. 2008
    (the oldest go). Orabona, Keshet, Caputo: Bounded kernel-based online learning,
    JMLR 2009 (projection; the projectron). Wang, Crammer, Vucetic: Breaking the curse
    of kernelization, JMLR 2012 (removal and projection compared).

    Examples
    --------
    >>> coef = np.array([[2.0, -2.0], [1.0, -1.0], [3.0, -3.0]])
    >>> Budget(2, "smallest").kept(coef, np.ones(3)).tolist()
    [0, 2]
    >>> Budget(2, "oldest").kept(coef, np.ones(3)).tolist()
    [1, 2]
    """

    size: int
    policy: str = "project"

    def __post_init__(self) -> None:
        """Validate both."""
        whole = isinstance(self.size, Integral) and not isinstance(self.size, bool)
        if not (whole and self.size >= 1):
            raise ValueError(
                "budget must be a positive whole number or None, got "
                f"{quoted(self.size)}; choose for instance 2000."
            )
        if self.policy not in POLICIES:
            raise ValueError(
                f"policy of a budget must be one of {', '.join(map(repr, POLICIES))}, "
                f"got {quoted(self.policy)}; choose one of these."
            )

    @classmethod
    def of(cls, value: Any) -> Budget | None:
        """From a number of rows, or as it is; None for no bound."""
        return value if value is None or isinstance(value, Budget) else cls(value)

    @property
    def projects(self) -> bool:
        """Whether the removed part is replaced by its projection."""
        return self.policy == "project"

    @property
    def limit(self) -> int:
        """Support rows beyond which a pass pauses to remove some.

        Removal does the less harm the fewer rows go at a time. Projection loses little
        whenever it comes, and a factorization costs a third of size^3.
        """
        return 2 * self.size if self.projects else self.size

    @property
    def patience(self) -> int:
        """Rows that a pass may learn between two looks at the budget."""
        return max(self.size // 2, 32)

    def kept(self, coef: Array, diagonal: Array) -> Index:
        """Rows to keep, in order of arrival as they come.

        Parameters
        ----------
        coef : array of shape (rows, outputs)
        diagonal : array of shape (rows,)
            k(x_i, x_i) of the combined kernel.
        """
        excess = max(len(coef) - self.size, 0)
        if self.policy == "oldest":
            return np.arange(excess, len(coef))
        parts = np.linalg.norm(coef, axis=1) * np.sqrt(np.maximum(diagonal, 0.0))
        # Rounding must not decide between equals, and the steps of one pass are equal.
        parts = np.round(parts / max(parts.max(), np.finfo(float).tiny), 9)
        return np.sort(np.argsort(parts, kind="stable")[excess:])


def projection(among: Array, across: Array, removed: Array) -> Array:
    """argmin over b of ||sum_r removed_r phi_r - sum_k b_k phi_k||^2 + ridge ||b||^2.

    b = (K_kk + ridge I)^-1 K_kr removed, with the ridge a small share of the diagonal.

    Parameters
    ----------
    among : array of shape (kept, kept)
        Combined kernel of the kept rows.
    across : array of shape (kept, removed)
    removed : array of shape (removed, outputs)

    Examples
    --------
    >>> twin = np.ones((1, 1))
    >>> projection(twin, twin, np.array([[2.0, -2.0]])).round(1).tolist()
    [[2.0, -2.0]]
    """
    matrix = among.astype(np.float64)
    diagonal = np.einsum("ii->i", matrix)
    diagonal += RIDGE * max(float(diagonal.mean()), np.finfo(float).tiny)
    factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    right = across.astype(np.float64) @ removed
    return np.asarray(cho_solve(factor, right, check_finite=False))
