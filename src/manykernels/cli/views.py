"""Several files as views, and gene sets as kernels, for the commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp

from manykernels.cli.errors import fail
from manykernels.cli.readers.columns import Roles, Sample
from manykernels.cli.readers.tables import Source
from manykernels.inputs.gmt import read_gmt
from manykernels.inputs.groups import group_kernels
from manykernels.inputs.views import Views

OWN = "data"  # the view of columns that are in DATA itself


@dataclass(frozen=True)
class ViewFiles:
    """Files about the rows of DATA, and the column that names the rows in all."""

    files: dict[str, str]  # by the name of the view
    index: str | None
    wanted: bool = False  # whether a model reads views, be it of DATA alone

    @classmethod
    def of(cls, texts: Sequence[str] | None, index: str | None) -> ViewFiles:
        """As the options --view and --index have it."""
        return cls(pairs("--view", texts, "FILE"), index)

    def roles(self, roles: Roles) -> Roles:
        """What DATA is read for: beside views it need not have features."""
        return replace(roles, index=self.index, lenient=bool(self.files))

    def join(self, sample: Sample, source: Source) -> Sample:
        """Rows of DATA with the views of the files; unchanged where there are none."""
        if not self.files and not self.wanted:
            return sample
        tables: dict[str, Any] = {}
        if sample.X.shape[1]:
            tables[OWN] = frame(sample, self.index)
        for name, path in self.files.items():
            if name in tables:
                fail(
                    f"--view must have other names than '{OWN}', that of the columns "
                    "of DATA, got it; choose another, or leave these out with --drop"
                )
            roles = Roles(index=self.index, lenient=True)
            read = replace(source, path=path, format=None).read(roles)
            tables[name] = frame(read, self.index)
        rows = None if sample.index is None else names_of(sample.index)
        return replace(sample, X=Views(tables, rows=rows), names=None)

    def known_by(self, model: Any) -> ViewFiles:
        """The same, with the index that a model was fitted with if none is named."""
        reader = getattr(model, "_reader", None)
        if reader is None:
            return self
        index = reader.index_name if self.index is None else self.index
        return replace(self, index=index, wanted=True)

    def roles_of(self, model: Any, roles: Roles) -> Roles:
        """What DATA is read for by a fitted model; None of its views may be of DATA."""
        reader = getattr(model, "_reader", None)
        if reader is None:
            if self.files:
                fail(
                    "--view is for models of several views, got "
                    f"{type(model).__name__} of one table; leave it out"
                )
            return replace(roles, index=self.index)
        if not self.files and OWN not in reader.names:
            fail(
                f"expected --view for some of {', '.join(reader.names)}, got none; "
                "name their files"
            )
        own: list[str] = []
        if OWN in reader.names:
            own = [str(name) for name in reader.columns[reader.names.index(OWN)]]
        known = replace(roles, features=own, n_features=len(own))
        return replace(self.roles(known), lenient=True)


def pairs(option: str, texts: Sequence[str] | None, what: str) -> dict[str, str]:
    """NAME=VALUE, each name once.

    Examples
    --------
    >>> pairs("--view", ["mrna=a.csv", "meth=b.csv"], "FILE")
    {'mrna': 'a.csv', 'meth': 'b.csv'}
    """
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            fail(
                f"{option} must be NAME={what}, got {text!r}; write for instance "
                f"{option} mrna={value or what}"
            )
        if name in found:
            fail(
                f"{option} must come once for every view, got {name!r} twice; leave "
                "one out"
            )
        found[name] = value
    return found


def read_scales(texts: Sequence[str] | None) -> Any:
    """One scale for all, or a dict of scales by view; None where nothing is said."""
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    return pairs("--scale", texts, "SCALE")


def frame(sample: Sample, called: str | None) -> Any:
    """A table with the names of its rows and columns, where there are such."""
    if sp.issparse(sample.X) and sample.index is None:
        return sample.X
    ids = None if sample.index is None else names_of(sample.index)
    X = sample.X.toarray() if sp.issparse(sample.X) else sample.X
    found = pd.DataFrame(X, index=ids, columns=sample.names)
    return found if ids is None else found.rename_axis(index=called)


def names_of(index: np.ndarray) -> list[str]:
    """Names of rows as texts: 7 and 7.0 are the same row in any file.

    Examples
    --------
    >>> names_of(np.array([7.0, 8.5])), names_of(np.array(["07"]))
    (['7', '8.5'], ['07'])
    """
    return [
        str(int(one)) if isinstance(one, float) and one.is_integer() else str(one)
        for one in index.tolist()
    ]


class GeneSets(NamedTuple):
    """A file of sets of columns, where these are, and how many a set must have."""

    path: Any
    view: str | None
    min_size: int | None

    def kernels(self, kernels: Any, sample: Sample) -> Any:
        """The kernels, once for every set; unchanged where there is no file."""
        if self.path is None:
            options = {"--gene-set-view": self.view, "--min-set-size": self.min_size}
            for option, value in options.items():
                if value is not None:
                    fail(f"{option} is for gene sets, got none; add --gene-sets")
            return kernels
        columns = sample.X if isinstance(sample.X, Views) else sample.names
        if columns is None:
            fail("--gene-sets needs names of columns, got none; add a header to DATA")
        wanted = "rbf" if kernels is None else kernels
        size = 1 if self.min_size is None else self.min_size
        sets = read_gmt(self.path)
        return group_kernels(sets, columns, wanted, view=self.view, min_size=size)
