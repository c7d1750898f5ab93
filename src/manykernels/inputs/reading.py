"""From what people pass as X to a table that kernels read, in fit and ever after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from manykernels.base.stored import Fields, Maybe, Part
from manykernels.device import Device, open_device
from manykernels.inputs.data import check_matrices, check_table
from manykernels.inputs.foreign import given_matrices, on_processor
from manykernels.inputs.joined import JoinedTable
from manykernels.inputs.parameters import read_approximation
from manykernels.inputs.preparation import Preparation, warn_of_empty
from manykernels.inputs.reader import ViewReader
from manykernels.inputs.scaling import NONE, read_scale
from manykernels.inputs.target import in_order
from manykernels.inputs.views import Views, are_views, as_views
from manykernels.kernels import (
    Kernel,
    approximate_kernels,
    as_kernels,
    reads_matrices,
    select_columns,
)
from manykernels.kernels.grammar import view_kernels
from manykernels.kernels.pairwise import row_blocks

# What a file holds of the way from X to numbers.
READING: Fields = {
    "_reader": Maybe(Part(ViewReader)),
    "_preparation": Maybe(Part(Preparation)),
}


class RowsEstimator(BaseEstimator):
    """An estimator whose parameter `kernels` says what X must be.

    `scale` and `missing`, where there are such parameters, say what becomes of the
    numbers of views before kernels read them.
    """

    _reader: ViewReader | None = None  # of views
    _preparation: Preparation | None = None  # of views, and of tables that are scaled

    def _in_order(self, X: Any, y: Any, *others: Any) -> tuple[Any, ...]:
        """Views and what belongs to them in one order of rows."""
        here = map(on_processor, (y, *others))
        if reads_matrices(self.kernels):
            return X, *here
        return in_order(on_processor(X), *here)

    def _open_device(self) -> Device | None:
        """Where to compute; None is the processor with NumPy."""
        name = getattr(self, "device", None)  # some estimators have no such parameter
        return None if name is None else open_device(name)

    def _said_when_full(self) -> AbstractContextManager[None]:
        """A sentence in place of the device's own words when its memory runs out."""
        device = self._open_device()
        return nullcontext() if device is None else device.said_when_full()

    def _specs(self, X: Any) -> list[Kernel]:
        """The kernels to fit on X as it was passed."""
        approximate = getattr(self, "approximate", None)
        return training_kernels(self.kernels, X, approximate)

    def _check_X(
        self,
        X: Any,
        reset: bool,
        min_rows: int = 1,
        specs: Sequence[Kernel] | None = None,
    ) -> Any:
        """A checked table, joined views or matrices.

        `specs` are the kernels of a first fit. What comes of it goes through `_prepare`
        in a first fit and through `_prepared` ever after.
        """
        if reads_matrices(self.kernels):
            X = given_matrices(X, self._open_device())
            return check_matrices(self, X, reset, min_rows)
        X = on_processor(X)
        if reset:
            self._reader = self._preparation = None
        many = are_views(X)
        if not reset and many != (self._reader is not None):
            raise _other_form(self._reader, X)
        if many:
            return self._read_views(as_views(X), reset, min_rows, specs)
        used = partial(self._used, X, specs)
        return check_table(self, X, reset, min_rows, used=used)

    def _read_views(
        self, X: Views, reset: bool, min_rows: int, specs: Sequence[Kernel] | None
    ) -> JoinedTable:
        if len(X) < min_rows:
            raise ValueError(
                f"views must have at least {min_rows} rows, got {len(X)}; pass more."
            )
        if reset:
            self._reader = ViewReader.of(X)
            self.feature_names_in_ = self._reader.feature_names
            self.n_features_in_ = len(self.feature_names_in_)
        assert self._reader is not None
        return self._reader.read(X, self._used(self._reader.shell, specs))

    def _used(self, X: Any, specs: Sequence[Kernel] | None) -> np.ndarray:
        """Which columns the kernels read: those of a first fit, or of the model."""
        if specs is None:
            used = np.zeros(self.n_features_in_, dtype=bool)
            used[self._model.kernels.columns_read()] = True
            return used
        used = np.zeros(X.shape[1], dtype=bool)
        names: Any = None if self._reader is None else self._reader.feature_names
        for kernel in specs:
            if kernel.family != "constant":
                used[select_columns(kernel.columns, X, names)] = True
        return used

    def _prepare(self, X: Any, weight: np.ndarray) -> Any:
        """Fit scaling, and the way with missing views, on rows of positive weight."""
        scale = getattr(self, "scale", "auto")
        if not isinstance(X, JoinedTable):
            wanted = read_scale(scale)
            if wanted is None or wanted == list(NONE):
                return X  # a table is taken as it comes
            _require_one_scale(wanted, reads_matrices(self.kernels))
            X = as_joined(X)
        missing = getattr(self, "missing", "rescale")
        self._preparation, X = Preparation.fit(X, scale, missing, weight)
        return X

    def _prepared(self, X: Any) -> Any:
        """New rows, as the kernels shall see them."""
        if self._preparation is None:
            return X
        return self._preparation.apply(as_joined(X))

    def _prepared_parts(self, X: Any, block_bytes: int) -> Iterator[Any]:
        """The same, some rows at a time: scaled numbers take as much as the table."""
        if self._preparation is None:
            yield X
            return
        table = as_joined(X)
        warn_of_empty(table)
        for rows in row_blocks(table.shape[0], 2 * table.shape[1], 8, block_bytes):
            yield self._preparation.apply(table[rows])

    def _reading_agrees(self) -> bool:
        """Whether a file's views, columns and scaling fit together."""
        widths = [int(self.n_features_in_)]
        names = [""]
        if self._reader is not None:
            widths = [len(own) for own in self._reader.columns]
            names = self._reader.names
        if sum(widths) != self.n_features_in_:
            return False
        if self._preparation is None:
            return self._reader is None
        same = self._preparation.names == names
        return same and self._preparation.fits(widths)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = reads_matrices(self.kernels)
        tags.input_tags.pairwise = given
        tags.input_tags.three_d_array = given
        tags.input_tags.sparse = not given
        return tags


def as_joined(X: Any) -> JoinedTable:
    """One table as the only view; views as they are."""
    return X if isinstance(X, JoinedTable) else JoinedTable([X], [""], [None])


def _require_one_scale(wanted: Any, matrices: bool) -> None:
    if matrices:
        raise ValueError(
            "scale is for tables, got given kernel matrices; leave scale out."
        )
    if isinstance(wanted, Mapping):
        raise ValueError(
            "scale by view needs X with several views, got one table; name one scale."
        )


def _other_form(reader: ViewReader | None, X: Any) -> ValueError:
    got = type(X).__name__
    if reader is None:
        return ValueError(
            f"X must be one table as in fit, got {got}; pass the table itself."
        )
    return ValueError(
        f"X must be views as in fit, some of {', '.join(reader.names)}, got one table "
        f"({got}); pass a dict of tables."
    )


def training_kernels(kernels: Any, X: Any, approximate: Any = None) -> list[Kernel]:
    """The kernels, with callable column selectors applied to X as it was passed.

    Selectors such as `make_column_selector` read the names and types of a data
    frame, which are gone once X has been checked. Kernels that say nothing of an
    approximation get this one.
    """
    if are_views(X) and not reads_matrices(kernels):
        chosen = kernels_of_views(kernels, as_views(X).names)
        return approximate_kernels(chosen, *read_approximation(approximate))
    chosen = as_kernels(kernels)
    _require_plain_names(chosen, X)
    for k, kernel in enumerate(chosen):
        if callable(kernel.columns):
            chosen[k] = _with_columns(kernel, X)
    if approximate is None:
        return chosen
    return approximate_kernels(chosen, *read_approximation(approximate))


def _require_plain_names(kernels: Sequence[Kernel], X: Any) -> None:
    """Raise where columns are asked for by name, and have names that are no text."""
    wanted = [name for kernel in kernels for name in _asked(kernel.columns)]
    names = list(getattr(X, "columns", ()))
    odd = [name for name in names if not isinstance(name, str)]
    if wanted and odd:
        raise ValueError(
            f"X must have texts as column names for a kernel on {wanted[0]!r}, got "
            f"{odd[0]!r}; rename them, for instance with X.columns = "
            "['_'.join(map(str, name)) for name in X.columns]."
        )


def _asked(columns: Any) -> list[str]:
    items = columns if isinstance(columns, tuple) else (columns,)
    return [item for item in items if isinstance(item, str)]


def _with_columns(kernel: Kernel, X: Any) -> Kernel:
    if kernel.family == "given":
        raise TypeError(
            f"kernel {kernel.label!r} picks matrices of a stack by position, got the "
            f"selector {kernel.columns!r}; pass for instance columns=[0, 2]."
        )
    table = X if hasattr(X, "shape") else np.asarray(X)
    chosen = select_columns(kernel.columns, table, None)
    return replace(kernel, columns=np.arange(table.shape[1])[chosen].tolist())


def kernels_of_views(kernels: Any, views: Sequence[str]) -> list[Kernel]:
    """Kernels on views: one that names no columns is taken once for every view.

    Examples
    --------
    >>> [kernel.label for kernel in kernels_of_views("rbf; linear@b:0", ["a", "b"])]
    ['rbf@a', 'rbf@b', 'linear@b:0']
    """
    if kernels is None:
        return [kernel for name in views for kernel in view_kernels(name)]
    found: list[Kernel] = []
    for kernel in as_kernels(kernels):
        columns = kernel.columns
        if callable(columns):
            raise TypeError(
                f"columns of views are chosen by name, got the selector {columns!r}; "
                "write for instance 'rbf@view' or 'rbf@view:a*'."
            )
        if columns is None and kernel.family != "constant":
            found += [_on_view(kernel, name) for name in views]
            continue
        if isinstance(columns, str) and columns not in views:
            name, colon, rest = columns.partition(":")
            if colon and name in views:
                kernel = replace(kernel, columns=slice(name, rest))
        found.append(kernel)
    return found


def _on_view(kernel: Kernel, view: str) -> Kernel:
    name = None if kernel.name is None else f"{kernel.name}@{view}"
    return replace(kernel, columns=view, name=name)
