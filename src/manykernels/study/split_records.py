"""What one split leaves behind: predictions of all methods, and what kernels did."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from manykernels.banks.fingerprint import feed
from manykernels.base.disk import file_name
from manykernels.base.quoted import quoted, quoted_error
from manykernels.files.container import ModelFileError, read_container, write_container
from manykernels.files.plain import from_plain, to_plain
from manykernels.inputs.views import Views
from manykernels.study.held_out import (
    HeldOut,
    ImportanceSettings,
    examine,
    known_variance,
)
from manykernels.study.kernel_parts import KernelParts, PartPresence
from manykernels.study.methods import (
    MethodResult,
)
from manykernels.study.study_data import StudyRows
from manykernels.targets import Targets, Values


@dataclass(frozen=True)
class SplitRecord:
    """One split: what every method predicted of the test rows.

    Attributes
    ----------
    results : dict of MethodResult
        By the name of the method.
    by_kernel, by_view : HeldOut
        What kernels and views do on the test rows.
    parts : array of shape (rows, views)
        Parts of the views in the decision: of the margin of the predicted class over
        the runner-up, or of the predicted number.
    lacks : array of shape (rows, views)
        Which rows lack which view.
    """

    results: dict[str, MethodResult]
    by_kernel: HeldOut
    by_view: HeldOut
    parts: np.ndarray
    lacks: np.ndarray


def record_split(
    model: Any,
    test: StudyRows,
    targets: Targets,
    seed: int,
    n_train: int,
    results: dict[str, MethodResult],
) -> SplitRecord:
    """Return what the kernels of a fitted model do on unseen rows, beside results."""
    variance = known_variance(targets) if isinstance(targets, Values) else None

    def examined(by: str) -> HeldOut:
        # As many permutations as `kernel_importance` has by default.
        rng = np.random.default_rng(seed)
        settings = ImportanceSettings(by, True, 20, rng, variance)
        held_out = examine(model, test.X, test.y, test.weight, settings, n_train)
        return replace(held_out, classes=None)  # labels of any type stay out of files

    views = KernelParts.of(model, "view")
    presence = PartPresence.of(model, test.X, views, len(test.y))
    parts = views.sum(np.asarray(model.kernel_contributions(test.X)), axis=1)
    return SplitRecord(
        results, examined("kernel"), examined("view"), decisive(parts), ~presence.has
    )


def decisive(parts: np.ndarray) -> np.ndarray:
    """Return parts of the decision: of the margin of the best class over the second.

    Parts of two classes, or of a number, are those of the decision already.

    Examples
    --------
    >>> decisive(np.array([[[3.0, 0.0, 1.0], [0.0, 1.0, 0.5]]])).tolist()
    [[2.0, -0.5]]
    """
    if parts.ndim == 2:
        return parts
    order = np.argsort(parts.sum(axis=1), axis=1)
    rows = np.arange(len(parts))
    # The best class is last in the order, the runner-up before it.
    return np.asarray(parts[rows, :, order[:, -1]] - parts[rows, :, order[:, -2]])


# --- finished splits in a folder, with which a killed study continues -----------------


class SplitFolder:
    """One file per finished split, each written whole or not at all.

    Parameters
    ----------
    path : str or path
        Made unless it exists.
    identity : str
        Of data and settings; the splits of another study are refused.
    """

    def __init__(self, path: Any, identity: str) -> None:
        self.path = Path(file_name(path, "folder"))
        self.identity = identity
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise ValueError(
                "folder must be one that exists or can be made, got "
                f"{quoted(str(path))} ({error.strerror}); choose another."
            ) from error

    def load(self, k: int) -> SplitRecord | None:
        """Return a split that an earlier run finished, if it did."""
        path = self._file(k)
        if not os.path.exists(path):
            return None
        content, arrays = read_container(path)
        # Records of other data would mix unseen rows with training rows.
        if not isinstance(content, dict) or content.get("study") != self.identity:
            raise ValueError(
                "folder must be a new one or that of the same study, got "
                f"{quoted(str(self.path))}, which belongs to other data or settings; "
                "choose another, or delete it."
            )
        try:
            return _from_plain_record(from_plain(content["record"], arrays))
        except Exception as error:
            raise ModelFileError(
                f"expected a finished split in {quoted(str(path))}, got parts that do "
                f"not fit together ({quoted_error(error)}); delete it."
            ) from error

    def save(self, k: int, record: SplitRecord) -> None:
        """Keep a finished split."""
        arrays: list[np.ndarray] = []
        plain = {field.name: getattr(record, field.name) for field in fields(record)}
        plain["by_kernel"], plain["by_view"] = (
            dict(vars(held_out)) for held_out in (record.by_kernel, record.by_view)
        )
        plain["results"] = {name: dict(vars(r)) for name, r in record.results.items()}
        content = {"study": self.identity, "record": to_plain(plain, arrays)}
        write_container(self._file(k), content, arrays)

    def _file(self, k: int) -> Path:
        return self.path / f"split_{k:04d}.mk"


def _from_plain_record(plain: dict[str, Any]) -> SplitRecord:
    results = {name: MethodResult(**one) for name, one in plain["results"].items()}
    by_kernel, by_view = HeldOut(**plain["by_kernel"]), HeldOut(**plain["by_view"])
    return SplitRecord(results, by_kernel, by_view, plain["parts"], plain["lacks"])


def study_identity(*parts: Any) -> str:
    """Return a text that changes with any number of the data or the settings."""
    digest = hashlib.blake2b(digest_size=16)
    feed(digest, list(map(_values, parts)))
    return digest.hexdigest()


def _values(X: Any) -> Any:
    # Tables become arrays with the names of their columns.
    if isinstance(X, Views):
        return [[name, _values(X.table(name)), X.has(name)] for name in X.names]
    if hasattr(X, "columns"):
        return [list(map(str, X.columns)), np.asarray(X)]
    return X
