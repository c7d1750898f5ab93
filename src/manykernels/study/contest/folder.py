"""Finished splits in a folder: a study that was killed goes on from there."""

from __future__ import annotations

import hashlib
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from manykernels.banks.fingerprint import feed
from manykernels.base.disk import file_name
from manykernels.base.quoted import quoted, quoted_error
from manykernels.files.container import ModelFileError, read_container, write_container
from manykernels.files.plain import from_plain, to_plain
from manykernels.inputs.views import Views
from manykernels.study.contest.entrants import Outcome
from manykernels.study.contest.record import Record
from manykernels.study.held_out import HeldOut


class Folder:
    """One file per finished split, each written whole or not at all.

    Parameters
    ----------
    path : str or path
        Made where it does not exist.
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

    def load(self, place: int) -> Record | None:
        """A split that an earlier run finished, if it did."""
        path = self._file(place)
        if not os.path.exists(path):
            return None
        content, arrays = read_container(path)
        if not isinstance(content, dict) or content.get("study") != self.identity:
            raise ValueError(
                "folder must be a new one or that of the same study, got "
                f"{quoted(str(self.path))}, which belongs to other data or settings; "
                "choose another, or delete it."
            )
        try:
            return _record(from_plain(content["record"], arrays))
        except Exception as error:
            raise ModelFileError(
                f"expected a finished split in {quoted(str(path))}, got parts that do "
                f"not fit together ({quoted_error(error)}); delete it."
            ) from error

    def save(self, place: int, record: Record) -> None:
        """Keep a finished split."""
        arrays: list[np.ndarray] = []
        content = {"study": self.identity, "record": to_plain(_plain(record), arrays)}
        write_container(self._file(place), content, arrays)

    def _file(self, place: int) -> Path:
        return self.path / f"split_{place:04d}.mk"


def identity(X: Any, *others: Any) -> str:
    """A text that changes with any number of the data or the settings."""
    digest = hashlib.blake2b(digest_size=16)
    feed(digest, [_values(X), *map(_values, others)])
    return digest.hexdigest()


def _values(X: Any) -> Any:
    """Tables as arrays: what they are called and hold."""
    if isinstance(X, Views):
        return [[name, _values(X.table(name)), X.has(name)] for name in X.names]
    if hasattr(X, "columns"):
        return [list(map(str, X.columns)), np.asarray(X)]
    return X


def _plain(record: Record) -> dict[str, Any]:
    """Nothing but dicts, numbers and arrays."""
    return {
        "outcomes": {name: dict(vars(one)) for name, one in record.outcomes.items()},
        "by_kernel": _held(record.by_kernel),
        "by_view": _held(record.by_view),
        "parts": record.parts,
        "lacks": record.lacks,
    }


def _held(found: HeldOut) -> dict[str, Any]:
    return {field.name: getattr(found, field.name) for field in fields(found)}


def _record(plain: dict[str, Any]) -> Record:
    outcomes = {name: Outcome(**one) for name, one in plain["outcomes"].items()}
    by_kernel, by_view = HeldOut(**plain["by_kernel"]), HeldOut(**plain["by_view"])
    return Record(outcomes, by_kernel, by_view, plain["parts"], plain["lacks"])
