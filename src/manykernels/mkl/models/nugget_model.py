"""A fitted model whose kernels gave their identity parts to one nugget."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.banks.base import support_of
from manykernels.banks.shared_nugget import NUGGET_NAME, Nugget
from manykernels.base.arrays import Array
from manykernels.base.stored import Floats, Part, require_all, storable
from manykernels.kernels.base import unique_names
from manykernels.kernels.kernel_set import KernelSet
from manykernels.mkl.models.model import (
    PREDICTION_BLOCK_BYTES,
    STORED_WEIGHTS,
    BlockModel,
    FeatureModel,
    Model,
    expansion_of,
)
from manykernels.norms import LpGroupNorm
from manykernels.solvers.problem import Expansion


@storable(
    model=Part(BlockModel, FeatureModel),
    coef=Floats("support rows", "outputs"),
    weights=STORED_WEIGHTS,
    nugget=Part(Nugget),
)
@dataclass(frozen=True)
class NuggetModel:
    """scores(x) = sum_f weights_f scales_f sum_j k_f(x, x_j) coef_j, without a nugget.

    To new rows it is the ordinary model that it holds. Coefficients and weights, with
    that of the nugget behind the others, are those of the problem that was solved.
    """

    model: Model  # the same scores, from the kernels as they were
    coef: Array  # (support rows, outputs)
    weights: Array  # (kernels + 1,) or (outputs, kernels + 1), summing to one
    nugget: Nugget

    @classmethod
    def from_expansion(
        cls, kernels: KernelSet, nugget: Nugget, solution: Expansion
    ) -> NuggetModel:
        """Keep the support rows of a solution on the kernels' reference rows."""
        support = support_of(solution.coef)
        total = solution.weights.sum(axis=-1)
        coef, weights = (
            total * solution.coef[support],
            solution.weights / total[..., None],
        )
        of_kernels = nugget.at_new_rows(weights)
        share = of_kernels.sum(axis=-1)
        if not np.all(share > 0.0):
            warnings.warn(
                "The nugget has all the weight: no kernel says more about the targets "
                "than the identity does, and new rows are all predicted alike; try a "
                "smaller C, or other kernels.",
                stacklevel=5,
            )
        # Where the nugget has all the weight, coefficients at new rows are zero, and
        # the kernels get equal weights.
        safe = np.where(share > 0.0, share, 1.0)[..., None]
        equal = np.full_like(of_kernels, 1.0 / kernels.n_kernels)
        model = BlockModel(
            kernels.take(support, matrices=False),
            share * coef,
            np.where(share[..., None] > 0.0, of_kernels / safe, equal),
        )
        explicit = FeatureModel.from_rows(model) if kernels.is_explicit else model
        return cls(explicit, coef, weights, nugget)

    @property
    def without_nugget(self) -> Model:
        """The model on kernels alone."""
        return self.model

    @property
    def kernels(self) -> KernelSet:
        """As they were, without the nugget."""
        return self.model.kernels

    @property
    def names(self) -> list[str]:
        """Of the kernels and the nugget."""
        return unique_names([*self.kernels.names, NUGGET_NAME])

    @property
    def weights_at_new_rows(self) -> Array:
        """Weights of the kernels as they were, for the same coefficients."""
        return self.nugget.at_new_rows(self.weights)

    def expansion(self, norm: LpGroupNorm) -> Expansion:
        """The same model on its support rows with the weights that solvers use."""
        return expansion_of(self.coef, self.weights, norm)

    def scores(self, X: Any, block_bytes: int = PREDICTION_BLOCK_BYTES) -> Array:
        """Scores of new rows, shape (rows, outputs)."""
        return self.model.scores(X, block_bytes)

    def block_scores(self, X: Any, block_bytes: int = PREDICTION_BLOCK_BYTES) -> Array:
        """Each kernel's part of the scores, and the nugget's, which is zero."""
        parts = self.model.block_scores(X, block_bytes)
        return np.concatenate([parts, np.zeros_like(parts[:, :1])], axis=1)

    def require_sound(self) -> None:
        """Raise a ValueError where the parts disagree."""
        n_kernels, checks = self.kernels.n_kernels, {}
        checks["kernels"] = len(self.nugget.scales) == n_kernels
        checks["weights"] = self.weights.shape[-1] == n_kernels + 1
        checks["coefficients"] = self.coef.shape == self.model.coef.shape
        checks["sum of the weights"] = np.allclose(self.weights.sum(axis=-1), 1.0)
        require_all("a model with a nugget", checks)
