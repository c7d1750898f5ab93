"""checkpoint=path: a killed fit resumes from its file."""

from __future__ import annotations

import hashlib
import numbers
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from manykernels.banks.fingerprint import fingerprint
from manykernels.base.disk import file_name
from manykernels.base.quoted import quoted, quoted_error
from manykernels.files.container import (
    ModelFileError,
    read_container,
    write_container,
)
from manykernels.files.plain import from_plain, to_plain
from manykernels.kernels.kernel_set import KernelSet
from manykernels.solvers.loop import SolveResult, State, relative_gap
from manykernels.solvers.problem import Problem

SAVE_PAUSE_FACTOR = 20.0  # times the duration of a save: saving takes 5 % at most
# A certificate of a resumed fit may differ from its evaluation by rounding: shares of
# the gap, and of the objective.
GAP_ROUNDING, OBJECTIVE_ROUNDING = 1e-6, 1e-12


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written, or claimed another result than it holds."""


class FileCheckpoint:
    """The state of one fit in one file, written whole or not at all.

    Parameters
    ----------
    path : str or path
    identity : str
        Of the fit; the state of another fit is refused.
    """

    def __init__(self, path: str | os.PathLike[str], identity: str) -> None:
        self.path = Path(path)
        self.identity = identity
        self.resumed = False
        self._next = -np.inf

    def load(self) -> State | None:
        """Return the state of an earlier run of the same fit, if there is one."""
        if not os.path.exists(self.path):  # Path.exists raises for some names
            return None
        content, arrays = read_container(self.path)
        if not isinstance(content, dict) or content.get("fit") != self.identity:
            raise ValueError(
                "checkpoint must name a new file or that of the same fit, got "
                f"{os.fspath(self.path)!r}, which belongs to other data or settings; "
                "choose another file, or delete it."
            )
        try:
            state = dict(from_plain(content["state"], arrays))
        except Exception as error:
            raise self.broken(error) from error
        self.resumed = True
        return state

    def save(self, state: Callable[[], State], last: bool) -> None:
        """Write the state, unless the last save was a moment ago and others follow.

        A state that cannot be written gives a warning, and the fit goes on.
        """
        began = time.perf_counter()
        if began < self._next and not last:
            return
        arrays: list[np.ndarray] = []
        content = {"fit": self.identity, "state": to_plain(state(), arrays)}
        try:
            write_container(self.path, content, arrays)
        except OSError as error:
            warnings.warn(
                f"A checkpoint was not written, and the fit goes on: {error}",
                CheckpointWarning,
                stacklevel=2,
            )
        ended = time.perf_counter()
        # Large states take long to write: the larger, the rarer.
        self._next = ended + SAVE_PAUSE_FACTOR * (ended - began)

    def broken(self, error: Exception) -> ModelFileError:
        """Return the error for a file whose parts do not fit together."""
        return ModelFileError(
            f"expected the state of a fit in the checkpoint {os.fspath(self.path)!r}, "
            f"got parts that do not fit together ({quoted_error(error)}); delete it."
        )


def open_checkpoint(
    path: Any, kernels: KernelSet, problem: Problem, solver: Any, seed: Any = None
) -> FileCheckpoint | None:
    """The checkpoint for this very problem, solver and seed, or None without a path."""
    if path is None:
        return None
    return checkpoint_file(path, _identity(kernels, problem, solver, seed))


def checkpoint_file(path: Any, identity: str) -> FileCheckpoint:
    """The checkpoint of the fit with this identity, in a folder that can be used."""
    path = file_name(path, "checkpoint")
    folder = Path(path).resolve().parent
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise ValueError(
            "checkpoint must be a file in an existing folder that may be written to, "
            f"got {quoted(path)}; create the folder first."
        )
    return FileCheckpoint(path, identity)


def _identity(kernels: KernelSet, problem: Problem, solver: Any, seed: Any) -> str:
    """Digest of all that the steps of a fit depend on; not of its tolerance.

    A seed that is drawn anew in every run does not count: the state has its own.
    """
    settings = {
        key: value
        for key, value in vars(solver).items()
        if key not in ("tol", "max_iter")
        and not isinstance(value, np.random.Generator | np.random.RandomState)
    }
    # Tolerance and limit are left out: a fit may go on to a smaller gap.
    words = [
        fingerprint(kernels),
        problem.bank.kind,
        repr(problem.loss),
        repr((problem.norm.p, problem.C, problem.n_outputs)),
        type(solver).__name__,
        repr(sorted(settings.items())),
        str(seed) if isinstance(seed, numbers.Integral) else "drawn",
    ]
    digest = hashlib.sha256("\n".join(words).encode())
    digest.update(problem.target.tobytes())
    digest.update(problem.sample_weight.tobytes())
    return digest.hexdigest()


def certified_anew(problem: Any, result: SolveResult, tol: float | None) -> SolveResult:
    """The result with objective and gap from the kernels in place of those of a file.

    Values that differ by rounding stay as they are: a resumed fit has the same bits.
    """
    objective = gap = np.nan
    dual_coef = result.model.coef if result.dual_coef is None else result.dual_coef
    if dual_coef.shape == result.model.coef.shape:
        with np.errstate(all="ignore"):  # of a forged file, refused below
            objective = problem.objective(result.model)
            gap = problem.duality_gap(result.model, dual_coef)
    if not (np.isfinite(objective) and np.isfinite(gap)):
        raise ValueError(
            "expected a checkpoint with the state of this fit, got one that leads to "
            "no finite scores; delete the checkpoint and fit again."
        )
    rounding = GAP_ROUNDING * abs(gap) + OBJECTIVE_ROUNDING * abs(objective)
    if max(objective - result.objective, gap - result.duality_gap) <= rounding:
        return result
    warnings.warn(
        "The checkpoint claimed more than its state is worth: a duality gap of "
        f"{result.duality_gap:.3g} at {result.objective:.6g}, where the kernels give "
        f"{gap:.3g} at {objective:.6g}; the latter was kept.",
        CheckpointWarning,
        stacklevel=2,
    )
    return replace(
        result,
        objective=objective,
        duality_gap=max(gap, 0.0),
        converged=relative_gap(objective, objective - gap) <= (tol or 0.0),
    )
