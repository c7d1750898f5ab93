"""checkpoint=path: a long fit that survives being killed."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from manykernels.banks.fingerprint import fingerprint
from manykernels.files.container import read_container, write_container
from manykernels.files.plain import from_plain, to_plain
from manykernels.kernels import KernelSet
from manykernels.solvers import Problem
from manykernels.solvers.loop import State

PAUSE = 20.0  # times as long as the last save took: saving takes 5 % at most


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
        self._next = -np.inf

    def load(self) -> State | None:
        """The state of an earlier run of the same fit, if there is one."""
        if not self.path.exists():
            return None
        content, arrays = read_container(self.path)
        if not isinstance(content, dict) or content.get("fit") != self.identity:
            raise ValueError(
                "checkpoint must name a new file or that of the same fit, got "
                f"{os.fspath(self.path)!r}, which belongs to other data or settings; "
                "choose another file, or delete it."
            )
        return dict(from_plain(content["state"], arrays))

    def save(self, state: Callable[[], State], last: bool) -> None:
        """Write the state, unless one was written a moment ago and more will come."""
        began = time.perf_counter()
        if began < self._next and not last:
            return
        arrays: list[np.ndarray] = []
        content = {"fit": self.identity, "state": to_plain(state(), arrays)}
        write_container(self.path, content, arrays)
        ended = time.perf_counter()
        self._next = ended + PAUSE * (ended - began)


def open_checkpoint(
    path: Any, kernels: KernelSet, problem: Problem, solver: Any
) -> FileCheckpoint | None:
    """The checkpoint for this very problem and solver, or None without a path."""
    if path is None:
        return None
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise ValueError(
            "checkpoint must be a file in an existing folder, got "
            f"{os.fspath(path)!r}; create the folder first."
        )
    return FileCheckpoint(path, _identity(kernels, problem, solver))


def _identity(kernels: KernelSet, problem: Problem, solver: Any) -> str:
    """What the course of a fit depends on; not how far it should go."""
    settings = {
        key: value
        for key, value in vars(solver).items()
        if key not in ("tol", "max_iter", "random_state")
    }
    words = [
        fingerprint(kernels),
        type(problem.bank).__name__,
        repr(problem.loss),
        repr((problem.norm.p, problem.C, problem.n_outputs)),
        type(solver).__name__,
        repr(sorted(settings.items())),
    ]
    digest = hashlib.sha256("\n".join(words).encode())
    digest.update(problem.target.tobytes())
    digest.update(problem.sample_weight.tobytes())
    return digest.hexdigest()
