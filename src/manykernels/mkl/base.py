"""What the estimators share: inputs, kernels, banks, solvers, files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manykernels.banks import Bank, Storage, build_bank
from manykernels.base.stored import (
    Count,
    Fields,
    Maybe,
    Names,
    Part,
    Wholes,
    require_all,
)
from manykernels.files import Saved, by_weight, certificate
from manykernels.files.checkpoint import open_checkpoint
from manykernels.inputs.parameters import choose_generator
from manykernels.inputs.reporting import shown_log, warn_unless_converged
from manykernels.inputs.tables import check_matrices, check_table
from manykernels.kernels import Kernel, KernelSet, reads_matrices
from manykernels.mkl.effort import warn_if_long
from manykernels.mkl.model import BlockModel, FeatureModel
from manykernels.solvers import Epoch, Expansion, Problem, SolveResult


class MKLEstimator(Saved, BaseEstimator):
    """Steps of a fit that do not depend on what is predicted, and files.

    Subclasses have the parameters named here, and a fitted `_model`.
    """

    _model: Any
    _stored: ClassVar[Fields] = {
        "_model": Part(BlockModel, FeatureModel),
        "support_": Wholes("support rows", low=0),
        "n_iter_": Count(),
        "n_features_in_": Count(size="features"),
        "feature_names_in_": Maybe(Names("features")),
    }

    def _require_fitted(self) -> None:
        check_is_fitted(self, "dual_coef_")

    def _show_model(self) -> None:
        """Attributes that follow from the model."""
        self.kernel_names_ = list(self._model.kernels.names)
        self.kernel_weights_ = self._model.weights.T  # kernels on the last axis
        self.dual_coef_ = self._model.coef

    def _restored(self) -> None:
        kernels = self._model.kernels
        given = reads_matrices(self.kernels)
        require_all(
            type(self).__name__,
            {
                "columns": kernels.width == self.n_features_in_,
                "kernels": kernels.are_given == given,
                "support rows": len(self.support_) == kernels.n_reference,
            },
        )
        row = kernels.blank_row()
        if row is not None and not np.isfinite(self._model.scores(row)).all():
            raise ValueError("its scores are no finite numbers")
        self._show_model()

    def _fitted_kernels(self) -> list[Kernel]:
        return list(self._model.kernels.kernels)

    def _facts(self) -> dict[str, Any]:
        names = getattr(self, "feature_names_in_", None)
        facts = {
            "features": self.n_features_in_,
            "feature_names": None if names is None else [str(name) for name in names],
            "support_rows": len(self.support_),
            "kernels": by_weight(self.kernel_names_, self._shown_weights()),
            "epochs": self.n_iter_,
        }
        return facts | self._certified()

    def _shown_weights(self) -> Any:
        """One weight per kernel: the mean where outputs have their own."""
        return np.atleast_2d(self.kernel_weights_).mean(axis=0)

    def _certified(self) -> dict[str, Any]:
        return {"certificate": certificate(self)}

    def _check_X(self, X: Any, reset: bool, min_rows: int = 1) -> Any:
        check = check_matrices if reads_matrices(self.kernels) else check_table
        return check(self, X, reset, min_rows)

    def _fit_kernels(self, specs: list[Kernel], X: Any, kept: np.ndarray) -> KernelSet:
        """Kernels on the kept rows; only given matrices need the others' columns."""
        given = reads_matrices(self.kernels)
        kernels = KernelSet.fit(
            specs,
            X if given or len(kept) == X.shape[0] else X[kept],
            feature_names=getattr(self, "feature_names_in_", None),
            dtype=self._storage().working_dtype,
            psd=self.psd,
            random_state=choose_generator(self.random_state),
        )
        return kernels.restrict(kept) if len(kept) < kernels.n_train else kernels

    def _build_bank(self, kernels: KernelSet) -> Bank:
        with shown_log(self.verbose):
            warn_if_long(kernels)
            return build_bank(kernels, self._storage(), self.memory_limit)

    def _storage(self) -> Storage:
        return Storage(self.storage, self.dtype, self.storage_dir)

    def _solve(
        self,
        solver: Any,
        kernels: KernelSet,
        problem: Problem,
        start: Expansion | None,
        callback: Callable[[Epoch], object] | None,
    ) -> SolveResult:
        saved = open_checkpoint(self.checkpoint, kernels, problem, solver)
        # Solvers from elsewhere need not know about checkpoints.
        options = {} if saved is None else {"checkpoint": saved}
        with shown_log(self.verbose):
            result = solver.solve(problem, start, callback, **options)
        warn_unless_converged(solver, result)
        return result

    def _warm_start(self, kernels: KernelSet, problem: Problem) -> Expansion | None:
        """The earlier solution as a start, if it speaks of as many rows and kernels."""
        if not self.warm_start or not hasattr(self, "_model"):
            return None
        known, n_outputs = self._model.kernels, self._model.coef.shape[1]
        if not (
            n_outputs == problem.n_outputs
            and known.n_train == kernels.n_train
            and known.n_kernels == kernels.n_kernels
        ):
            return None
        start = self._model.expansion(problem.norm)
        coef = np.zeros((kernels.n_train, n_outputs))
        coef[known.support] = start.coef
        rows = slice(None) if kernels.support is None else kernels.support
        return Expansion(coef[rows], start.weights)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = reads_matrices(self.kernels)
        tags.input_tags.pairwise = given
        tags.input_tags.three_d_array = given
        tags.input_tags.sparse = not given
        return tags
