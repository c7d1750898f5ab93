"""What the estimators share: from X, y and parameters to a problem and its solution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manykernels.banks import Bank, Storage, build_bank
from manykernels.banks.base import support_of
from manykernels.banks.device_bank import where_features_fit
from manykernels.banks.shared_nugget import shared_nugget
from manykernels.base.imports import room
from manykernels.base.stored import (
    Count,
    Fields,
    Maybe,
    Names,
    Part,
    Wholes,
    require_all,
)
from manykernels.base.tables import count_rows
from manykernels.device import Device
from manykernels.files import Saved, by_weight, certificate
from manykernels.files.checkpoint import certified_anew, open_checkpoint
from manykernels.inputs import reporting
from manykernels.inputs.parameters import (
    Rules,
    check_parameters,
    draw_seed,
    seeded,
)
from manykernels.inputs.table import READING_FIELDS, RowsEstimator
from manykernels.kernels import Kernel
from manykernels.kernels.base import OutOfRangeError, reads_matrices
from manykernels.kernels.kernel_set import KernelSet
from manykernels.mkl.choices import PASS_LIMITS
from manykernels.mkl.models.device_model import on_device
from manykernels.mkl.models.model import (
    BlockModel,
    FeatureModel,
    bytes_at_a_time,
    fitted_model,
)
from manykernels.mkl.models.nugget_model import NuggetModel
from manykernels.mkl.reads import KernelPresence, kernel_views, presence
from manykernels.norms import LpGroupNorm
from manykernels.solvers.loop import SolveResult
from manykernels.solvers.problem import Expansion, Problem

FLOAT32_ROUNDING = 0.5 * float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class BankRecipe:
    """What a bank is built from, here or on another machine."""

    kernels: KernelSet
    storage: Storage
    memory_limit: Any
    nugget_weight: np.ndarray | None  # of the rows, where there is a nugget

    def build(self, device: Device | None = None, defer: bool = False) -> Bank:
        """The bank; see `build_bank`."""
        bank = build_bank(self.kernels, self.storage, self.memory_limit, device, defer)
        if self.nugget_weight is not None:
            bank = shared_nugget(bank, self.nugget_weight)
        return bank


class FitData(NamedTuple):
    """Everything that an estimator learns from."""

    kernels: KernelSet
    bank: Bank
    targets: Any  # Labels, Values or Times
    seed: int  # of everything random in this fit
    recipe: BankRecipe  # of the bank

    def problem(self, p: float, C: float) -> Problem:
        """The problem to solve, for an exponent and a weight of the losses."""
        problem: Problem = self.targets.problem(self.bank, LpGroupNorm(p), C)
        return problem


class MKLEstimator(Saved, RowsEstimator):
    """Steps of a fit that do not depend on what is predicted, and files.

    Subclasses have the parameters named here and rules for them, read y in
    `_read_targets`, and have a fitted `_model`.
    """

    _rules: ClassVar[Rules]
    _solvers: ClassVar[Mapping[str, Callable[..., Any]]]
    _precision: ClassVar[str] = "float32"  # of kernel values, where nothing is said
    _model: Any
    _stored: ClassVar[Fields] = {
        "_model": Part(BlockModel, FeatureModel, NuggetModel),
        "support_": Wholes("support rows", low=0),
        "n_iter_": Count(),
        "n_features_in_": Count(size="features"),
        "feature_names_in_": Maybe(Names("features")),
        **READING_FIELDS,
    }

    def _read(
        self, X: Any, y: Any, sample_weight: Any, largest_C: float | None = None
    ) -> FitData:
        """Read the rows and compute the kernels, precise enough for the largest C."""
        check_parameters(self, self._rules)
        device = self._open_device()
        # 1) rows in one order, numbers checked, targets of the rows that count
        X, y, sample_weight = self._match(X, y, sample_weight)
        specs = self._specs(X)
        X = self._read_training(X, specs, min_rows=2)
        n_rows = count_rows(X)
        targets = self._read_targets(n_rows, y, sample_weight)
        # Class weights are not among these weights: views are scaled without them.
        weight = row_weight(n_rows, targets.kept, sample_weight)
        X = self._prepare(X, weight)
        # 2) kernels
        seed = draw_seed(self.random_state)
        largest = float(self.C if largest_C is None else largest_C)
        bound = largest * float(targets.weight.max())
        kernels, storage = self._fit_kernels(
            specs, X, targets.kept, weight, seed, bound, device
        )
        # 3) their values, where they are to be stored
        with reporting.shown_log() if self.verbose else nullcontext():
            reporting.warn_if_long(kernels, device)
            nugget = None
            if getattr(self, "nugget", None) is not None:
                nugget = weight[targets.kept]
            recipe = BankRecipe(kernels, storage, self.memory_limit, nugget)
            bank = recipe.build(device, getattr(self, "checkpoint", None) is None)
        return FitData(kernels, bank, targets, seed, recipe)

    def _fit_kernels(
        self,
        specs: list[Kernel],
        X: Any,
        kept: np.ndarray,
        weight: np.ndarray,
        seed: int,
        bound: float,
        device: Device | None = None,
    ) -> tuple[KernelSet, Storage]:
        """Kernels on the kept rows, and how to store their values.

        `bound` is the largest dual coefficient that a row may have.
        """
        if not reads_matrices(specs) and len(kept) < len(weight):
            X, weight = X[kept], weight[kept]  # matrices need the others' columns
        precise = Storage.of(self.storage, "float64")  # unless the user chose
        # Single precision halves memory and time; it is tried first where it may do.
        for default in (self._precision, "float64"):
            storage = Storage.of(self.storage, default)
            fit = partial(
                KernelSet.fit,
                specs,
                X,
                sample_weight=weight,
                feature_names=getattr(self, "feature_names_in_", None),
                psd=self.psd,
                random_state=seed,
                device=device
                and where_features_fit(
                    device, specs, len(weight), storage, self.memory_limit
                ),
            )
            try:
                kernels = fit(dtype=storage.working_dtype)
            # Values that overflow in single precision may still be computed in double.
            except OutOfRangeError:
                kernels = fit(dtype=np.float64)
            if len(kept) < kernels.n_train:
                kernels = kernels.take(kept)
            if storage == precise:
                break
            # Scores are of the order of one: what float32 leaves uncertain of the score
            # of a row with the largest coefficient stands for a relative gap as well.
            if FLOAT32_ROUNDING * bound * float(kernels.diagonals().max()) <= self.tol:
                break
        return kernels, storage

    def _solve(
        self, data: FitData, problem: Problem, start: Expansion | None = None
    ) -> SolveResult:
        """The best model that the solver finds."""
        solver, callback = self._make_solver(data.seed), self.callback
        saved, options = None, {}
        if getattr(self, "checkpoint", None) is not None:
            path, seed = self.checkpoint, self.random_state
            saved = open_checkpoint(path, data.kernels, problem, solver, seed=seed)
            # Solvers of other packages need not know about checkpoints.
            options = {"checkpoint": saved}
        if self.verbose:
            callback = reporting.progress_callback(1, self.tol, callback)
        shown = reporting.shown_log() if self.verbose else nullcontext()
        device = self._open_device()
        full = nullcontext() if device is None else device.out_of_memory_error()
        with shown, full:
            result: SolveResult = solver.solve(problem, start, callback, **options)
        if saved is not None and saved.resumed:
            result = certified_anew(problem, result, getattr(solver, "tol", self.tol))
        # A model that rounding decides is refused, one that is only late is kept.
        if not result.converged:
            reporting.require_precision(problem, result)
            reporting.warn_unless_converged(solver, result)
        # The point that certifies the gap; the model has other coefficients near p = 1.
        self.dual_point_ = result.dual_coef
        return result

    def _finish(self, data: FitData, problem: Problem, result: SolveResult) -> Any:
        """Set the fitted attributes from the solution of a problem."""
        self.objective_: Any = result.objective
        self.duality_gap_: Any = result.duality_gap
        self.history_: list[Any] = result.history
        self.n_iter_ = len(result.history)
        return self._store_model(data, result.model)

    def _store_model(self, data: FitData, solution: Expansion) -> Any:
        nugget = data.bank.nugget
        if nugget is None:
            self._model = fitted_model(data.kernels, solution)
        else:
            self._model = NuggetModel.from_expansion(data.kernels, nugget, solution)
        self.support_ = data.targets.kept[support_of(solution.coef)]
        self._show_model()
        return self

    def _make_solver(self, seed: int) -> Any:
        """A solver by name, with the estimator's settings, or as it is but seeded."""
        rng = np.random.default_rng(seed)
        if not isinstance(self.solver, str):
            return seeded(self.solver, rng)
        limit = {}
        if self.max_iter is not None:
            limit = {PASS_LIMITS.get(self.solver, "max_iter"): self.max_iter}
        return self._solvers[self.solver](tol=self.tol, random_state=rng, **limit)

    def _warm_start(self, kernels: KernelSet, problem: Problem) -> Expansion | None:
        """The earlier solution as a start, if rows, kernels and outputs are as many."""
        if not hasattr(self, "_model"):
            return None
        known, n_outputs = self._model.kernels, self._model.coef.shape[1]
        if not (
            n_outputs == problem.n_outputs
            and known.n_train == kernels.n_train
            and self._model.weights.shape[-1] == problem.bank.n_blocks
        ):
            return None
        start = self._model.expansion(problem.norm)
        coef = getattr(self, "dual_point_", None)
        # Near p = 1 only the dual point has the bound: the model serves its weights.
        if coef is None or len(coef) != kernels.n_train:
            coef = np.zeros((kernels.n_train, n_outputs))
            coef[known.support] = start.coef
        rows = slice(None) if kernels.support is None else kernels.support
        return Expansion(coef[rows], start.weights)

    def report(
        self,
        path: Any,
        X: Any = None,
        y: Any = None,
        *,
        sample_weight: Any = None,
        title: str | None = None,
    ) -> None:
        """Write what the model does on unseen rows as one HTML file to look at.

        Importance beside weights, how alike kernels are, convergence, what is taken for
        what, calibration, and the part of every view in each prediction. The file needs
        nothing else, and no network.

        Parameters
        ----------
        path : str or path
        X, y : as in `fit`, optional
            Rows that the model has not seen. Without them the report shows weights
            and convergence only.
        sample_weight : array of shape (n,), optional
        title : str, optional
        """
        write = room("report").write_report
        write(self, path, X, y, sample_weight=sample_weight, title=title)

    def _repr_html_inner(self) -> str:
        return self._card() + str(super()._repr_html_inner())

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """A notebook shows what was learned above scikit-learn's diagram."""
        shown: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in shown:
            shown["text/html"] = self._card() + shown["text/html"]
        return shown

    def _card(self) -> str:
        if "dual_coef_" not in vars(self):
            return ""
        return str(room("report").model_card(self))

    def _evaluate(self, X: Any, method: str = "scores") -> np.ndarray:
        """A method of the model at new rows, in blocks within the memory limit."""
        if "dual_coef_" not in vars(self):  # asking for tags takes microseconds
            check_is_fitted(self, "dual_coef_")
        table, device = self._check_new(X), self._open_device()
        n_results = self.dual_coef_.shape[-1]
        if method == "block_scores":
            n_results *= len(self.kernel_names_)
        # A table of other numbers was copied. Results are held up to four times: in
        # parts, put together, and what is made of them.
        copied = 0 if table is X else int(getattr(table, "nbytes", 0))
        kept = copied + 32 * n_results * int(getattr(table, "shape", [0])[0])
        block_bytes = bytes_at_a_time(self.memory_limit, kept)
        model = self._model if device is None else on_device(self._model, device)
        run, parts = getattr(model, method), []
        with nullcontext() if device is None else device.out_of_memory_error():
            for part in self._new_parts(table, block_bytes):
                parts.append(run(part, block_bytes))
        results = np.asarray(parts[0] if len(parts) == 1 else np.concatenate(parts))
        return _require_finite(results) if method == "scores" else results

    @property
    def kernel_views_(self) -> list[str]:
        """For every kernel its group, the views that it reads, or its columns."""
        self._require_fitted()
        return kernel_views(self, self._model.kernels, self.kernel_names_)

    def kernel_presence(self, X: Any) -> KernelPresence:
        """Which rows have what each kernel reads, and how rows are rescaled for it.

        `has`, of shape (n, n_kernels), is False where a row lacks a view; `stretch`, of
        shape (n,), is what `missing="rescale"` multiplies the row with.
        """
        self._require_fitted()
        return presence(self, X)

    def _fitted_values(self) -> dict[str, Any]:
        if self._preparation is not None:
            self._preparation.require_saveable()
        return super()._fitted_values()

    def _show_model(self) -> None:
        """Attributes that follow from the model."""
        for name in ("view_counts_", "importance_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if self._reader is not None and self._preparation is not None:
            counts = self._preparation.counts.tolist()
            self.view_counts_ = dict(zip(self._reader.names, counts, strict=True))
        self.kernel_names_ = list(self._model.names)
        self.kernel_weights_ = self._model.weights
        self.__dict__.pop("nugget_parts_", None)
        if self._model.nugget is not None:
            self.nugget_parts_ = self._model.nugget.parts
        self.dual_coef_ = self._model.coef

    def _require_fitted(self) -> None:
        check_is_fitted(self, "dual_coef_")

    def _restored(self) -> None:
        kernels = self._model.kernels
        given = reads_matrices(self.kernels)
        require_all(
            type(self).__name__,
            {
                "columns": kernels.width == self.n_features_in_,
                "kernels": kernels.are_given == given,
                "support rows": len(self.support_) == kernels.n_reference,
                "views": self._reading_agrees(),
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
        facts: dict[str, Any] = {}
        if hasattr(self, "view_counts_"):
            facts["rows_by_view"] = self.view_counts_
        facts |= {
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


def _require_finite(scores: np.ndarray) -> np.ndarray:
    """Raise where values are so large that kernels overflow: NaN predicts nothing."""
    bad = ~np.isfinite(scores).all(axis=1)
    if bad.any():
        raise ValueError(
            "X must hold values whose kernels are finite numbers, got an overflow in "
            f"row {int(np.argmax(bad))}; check that row, or rescale its columns as in "
            "training."
        )
    return scores


def row_weight(n_rows: int, kept: np.ndarray, sample_weight: Any) -> np.ndarray:
    """Sample weights of all rows, zero for those that are not kept."""
    weight = np.zeros(n_rows)
    given = 1.0 if sample_weight is None else sample_weight
    weight[kept] = np.broadcast_to(np.asarray(given, dtype=float), n_rows)[kept]
    return weight
