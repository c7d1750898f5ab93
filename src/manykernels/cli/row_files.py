"""Rows from files for the commands: DATA, files with other views, and gene sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import is_classifier

from manykernels.cli.data_files import RowSource
from manykernels.cli.errors import fail
from manykernels.cli.options import Given
from manykernels.cli.roles import (
    DataRows,
    Roles,
    as_labels,
    as_times,
    as_values,
    labels_like,
)
from manykernels.inputs.gmt import read_gmt
from manykernels.inputs.groups import group_kernels
from manykernels.inputs.views import Views
from manykernels.mkl import MKLSurvival

DATA_VIEW = "data"  # the view of columns that are in DATA itself


@dataclass(frozen=True)
class RowFiles:
    """The rows that a command reads: DATA with its roles, and files of other views."""

    source: RowSource
    roles: Roles
    views: dict[str, str]  # files by the name of the view
    model: Any = None  # a fitted one, whose columns are to be found

    @classmethod
    def of(cls, given: Given, model: Any = None, labeled: bool = True) -> RowFiles:
        """From the options of a command, to learn from or for a fitted model."""
        survival = given.survival if model is None else isinstance(model, MKLSurvival)
        views = pairs("--view", given.view, "FILE")
        roles = Roles(
            _target_column(given, survival) if labeled else None,
            given.weight,
            given.group,
            tuple(given.drop or ()),
            event=given.event,
            index=given.index,
            lenient=bool(views),  # beside views, DATA need not have features
        )
        if model is not None:
            roles = _known_roles(model, roles, views)
        return cls(
            RowSource(given.data, given.format, given.header), roles, views, model
        )

    def named(self) -> dict[str, str]:
        """Files of views by the words of the command line that they belong to."""
        return {f"--view {name}": path for name, path in self.views.items()}

    def read(self) -> DataRows:
        return self.join(self.source.read(self.roles))

    def read_labeled(self) -> DataRows:
        """Return the rows with labels as the file has them."""
        return self.join(self.source.read_labeled(self.roles))

    def read_known(self) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """Return X as the fitted model takes it, the truth and the weights."""
        rows = self.read_labeled()
        y = true_targets(
            rows, not is_classifier(self.model), getattr(self.model, "classes_", None)
        )
        X = inputs(self.model, rows)
        # Reports name single rows by the index.
        if rows.index is not None and isinstance(X, pd.DataFrame):
            X.index = row_names(rows.index)
        return X, y, rows.weight

    def join(self, rows: DataRows) -> DataRows:
        """Join rows of DATA with the files of views; unchanged where one table is."""
        if not self.views and getattr(self.model, "_reader", None) is None:
            return rows
        index = self.roles.index
        tables: dict[str, Any] = {}
        if rows.X.shape[1]:
            tables[DATA_VIEW] = _frame(rows, index)
        for name, path in self.views.items():
            if name in tables:
                fail(
                    f"--view must have other names than '{DATA_VIEW}', that of the "
                    "columns of DATA, got it; choose another, or leave these out with "
                    "--drop"
                )
            source = replace(self.source, path=path, format=None)
            tables[name] = _frame(source.read(Roles(index=index, lenient=True)), index)
        names = None if rows.index is None else row_names(rows.index)
        return replace(rows, X=Views(tables, rows=names), names=None)


def _target_column(given: Given, survival: bool) -> str | None:
    """The column of the target; times need two options, and others have none."""
    target, time, event = given.target, given.time, given.event
    # Options of the other task would be ignored: a typing error must not go unnoticed.
    if not survival and (time or event):
        fail(
            f"expected --target, got --{'time' if time else 'event'}, which is for "
            "times until an event; learn these with --survival"
        )
    if survival and (target or not time or not event):
        got = "--target" if target else "--time alone" if time else "--event alone"
        got = got if target or time or event else "neither"
        fail(f"expected --time and --event for survival, got {got}; name both columns")
    return time if survival else target


def _known_roles(model: Any, roles: Roles, views: dict[str, str]) -> Roles:
    """Roles with the columns of a fitted model, by name where these have names."""
    reader = getattr(model, "_reader", None)
    if reader is None:
        if views:
            fail(
                f"--view is for models of several views, got {type(model).__name__} of "
                "one table; leave it out"
            )
        names = getattr(model, "feature_names_in_", None)
        features = None if names is None else [str(name) for name in names]
        return replace(roles, features=features, n_features=int(model.n_features_in_))
    if not views and DATA_VIEW not in reader.names:
        fail(
            f"expected --view for some of {', '.join(reader.names)}, got none; name "
            "their files"
        )
    features = []
    if DATA_VIEW in reader.names:
        columns = reader.columns[reader.names.index(DATA_VIEW)]
        features = [str(name) for name in columns]
    return replace(
        roles,
        features=features,
        n_features=len(features),
        index=reader.index_name if roles.index is None else roles.index,
        lenient=True,
    )


def true_targets(rows: DataRows, numbers: bool, classes: Any = None) -> np.ndarray:
    """Times with events, numbers, or labels (among the `classes` if given)."""
    assert rows.y is not None  # `read_labeled` reads it
    if rows.event is not None:
        return as_times(rows.y, rows.event)
    if numbers:
        return as_values(rows.y)
    return as_labels(rows.y) if classes is None else labels_like(rows.y, classes)


def inputs(model: Any, rows: DataRows) -> Any:
    """Rows as the model takes them: with names if its training rows had names."""
    pairwise = model.__sklearn_tags__().input_tags.pairwise
    if pairwise != rows.holds_kernels:
        wanted, got = ("kernel values", "columns")[:: 1 if pairwise else -1]
        fail(f"expected {wanted} as in training, got {got}; pass data of the same sort")
    if isinstance(rows.X, Views):
        return rows.X
    return with_names(rows.X, getattr(model, "feature_names_in_", None))


def with_names(X: Any, names: Sequence[str] | None) -> Any:
    """A data frame where columns have names, else the rows as they are."""
    if names is None:
        return X
    return pd.DataFrame(X.toarray() if sp.issparse(X) else X, columns=list(names))


def pairs(option: str, texts: Sequence[str] | None, what: str) -> dict[str, str]:
    """NAME=VALUE, each name once.

    Examples
    --------
    >>> pairs("--view", ["mrna=a.csv", "meth=b.csv"], "FILE")
    {'mrna': 'a.csv', 'meth': 'b.csv'}
    """
    values: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            fail(
                f"{option} must be NAME={what}, got {text!r}; write for instance "
                f"{option} mrna={value or what}"
            )
        if name in values:
            fail(
                f"{option} must come once for every view, got {name!r} twice; leave "
                "one out"
            )
        values[name] = value
    return values


def read_scales(texts: Sequence[str] | None) -> Any:
    """One scale for all, or a dict of scales by view; None without the option."""
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    return pairs("--scale", texts, "SCALE")


def _frame(rows: DataRows, index_name: str | None) -> Any:
    """A table with the names of its rows and columns, where these are known."""
    if sp.issparse(rows.X) and rows.index is None:
        return rows.X
    X = rows.X.toarray() if sp.issparse(rows.X) else rows.X
    if rows.index is None:
        return pd.DataFrame(X, columns=rows.names)
    index = pd.Index(row_names(rows.index), name=index_name)
    return pd.DataFrame(X, index=index, columns=rows.names)


def row_names(index: np.ndarray) -> list[str]:
    """Names of rows as texts: 7 and 7.0 are the same row in any file.

    Examples
    --------
    >>> row_names(np.array([7.0, 8.5])), row_names(np.array(["07"]))
    (['7', '8.5'], ['07'])
    """
    return [
        str(int(value))
        if isinstance(value, float) and value.is_integer()
        else str(value)
        for value in index.tolist()
    ]


def kernels_of_sets(given: Given, kernels: Any, rows: DataRows) -> Any:
    """The kernels, once for every gene set; unchanged without a file of these."""
    if given.gene_sets is None:
        for name in ("gene_set_view", "min_set_size"):
            if getattr(given, name) is not None:
                option = name.replace("_", "-")
                fail(f"--{option} is for gene sets, got none; add --gene-sets")
        return kernels
    columns = rows.X if isinstance(rows.X, Views) else rows.names
    if columns is None:
        fail("--gene-sets needs names of columns, got none; add a header to DATA")
    return group_kernels(
        read_gmt(given.gene_sets),
        columns,
        "rbf" if kernels is None else kernels,
        view=given.gene_set_view,
        min_size=1 if given.min_set_size is None else given.min_set_size,
    )
