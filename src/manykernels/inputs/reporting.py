"""What a fit tells the people who wait for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from manykernels.solvers import Epoch, SolveResult
from manykernels.solvers.progress import ProgressPrinter


def progress_callback(
    verbose: int, tol: float, callback: Any
) -> Callable[[Epoch], object] | None:
    """The user's callback, after a printed line if `verbose`."""
    if callback is not None and not callable(callback):
        raise TypeError(
            "callback must be a function of one line of the history, got "
            f"{callback!r}; pass the function itself or None."
        )
    if not verbose:
        return callback
    printer = ProgressPrinter(tol)

    def print_and_call(line: Epoch) -> object:
        printer(line)
        return callback(line) if callback is not None else None

    return print_and_call


def warn_unless_converged(solver: Any, result: SolveResult) -> None:
    """Warn where a solver that promises a certificate did not reach its gap."""
    if result.converged or result.stopped:
        return
    if getattr(solver, "certified", False):
        warnings.warn(
            f"The relative duality gap is {result.relative_gap:.2g} after "
            f"{len(result.history)} epochs, above tol={solver.tol:g}; raise max_iter "
            "or tol.",
            ConvergenceWarning,
            stacklevel=4,
        )
