"""One kernel, or several, for every group of columns: pathways, sensors, regions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from numbers import Integral
from typing import Any

import numpy as np

from manykernels.inputs.parameters import Whole
from manykernels.inputs.view_table import ViewReader
from manykernels.inputs.views import are_views, as_views
from manykernels.kernels import Kernel
from manykernels.kernels.columns import exact
from manykernels.kernels.grammar import as_kernels

logger = logging.getLogger(__name__)


class GroupKernels(list[Kernel]):
    """Kernels of groups of columns, with what became of every group.

    A list, to be passed as `kernels`.

    Attributes
    ----------
    groups : list of str
        For each kernel the name of its group.
    unmatched : dict of list of str
        For each group that has some, names that are not among the columns.
    dropped : dict of int
        Groups without a kernel, and how many columns they have: less than `min_size`.
    """

    def __init__(
        self,
        kernels: Iterable[Kernel],
        groups: Sequence[str],
        unmatched: Mapping[str, list[str]],
        dropped: Mapping[str, int],
    ) -> None:
        super().__init__(kernels)
        self.groups = list(groups)
        self.unmatched = dict(unmatched)
        self.dropped = dict(dropped)

    def __repr__(self) -> str:
        """Counts: hundreds of kernels are nothing to read."""
        n_groups = len(set(self.groups))
        return f"<GroupKernels: {len(self)} kernels on {n_groups} groups>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made anew."""
        parts = list(self), self.groups, self.unmatched, self.dropped
        return GroupKernels, parts

    def group_weights(self, kernel_weights: Any) -> dict[str, float]:
        """The weight of every group: the sum over its kernels, largest first.

        Parameters
        ----------
        kernel_weights : array of shape (n_kernels,)
            As `kernel_weights_` of an estimator fitted with these kernels alone.
        """
        weights = np.asarray(kernel_weights, dtype=np.float64)
        if weights.shape != (len(self),):
            raise ValueError(
                f"kernel_weights must hold one number for each of the {len(self)} "
                f"kernels, got shape {weights.shape}; pass those of a model fitted "
                "with these kernels."
            )
        totals = dict.fromkeys(self.groups, 0.0)
        for group, weight in zip(self.groups, weights.tolist(), strict=True):
            totals[group] += weight
        return dict(sorted(totals.items(), key=lambda item: -item[1]))


def group_kernels(
    groups: Mapping[str, Iterable[str | int]],
    columns: Any = None,
    kernels: Any = "rbf",
    *,
    view: str | None = None,
    min_size: int = 1,
) -> GroupKernels:
    """Kernels ``rbf@group`` for every group of columns; groups may overlap.

    Parameters
    ----------
    groups : dict of sequences
        For every group the names or positions of its columns, for instance from
        :func:`manykernels.read_gmt`.
    columns : sequence of str, data frame or views, optional
        Names of the columns of the table to learn from. Names of a group that are not
        among them are left out and reported. Without `columns` names are looked up
        when a model is fitted, where each must be found.
    kernels : str, Kernel or list of these, default="rbf"
        What every group gets, such as ``"linear; rbf:gamma=median"``; see
        :mod:`manykernels.kernels`.
    view : str, optional
        Which of several views has the columns.
    min_size : int, default=1
        Groups with fewer columns are dropped.

    Returns
    -------
    GroupKernels
        A list of kernels, to be passed to an estimator, that knows what was left out:
        `unmatched`, `dropped`, and for every kernel its group in `groups`. What is
        left out is also said in one line of the log.

    Examples
    --------
    >>> pathways = {"hypoxia": ["VEGFA", "LDHA"], "repair": ["TP53", "ATM"]}
    >>> found = group_kernels(pathways, ["TP53", "VEGFA", "LDHA"], "linear; rbf")
    >>> [kernel.label for kernel in found]
    ['linear@hypoxia', 'rbf@hypoxia', 'linear@repair', 'rbf@repair']
    >>> found[0].columns, found.unmatched
    ((1, 2), {'repair': ['ATM']})
    """
    Whole(example=5).check("min_size", min_size)
    templates = kernel_templates(kernels)
    # Positions of a group are within its view; kernels read joined views.
    columns, first = _of_view(columns, view)
    places = None if columns is None else _places(columns)
    made: list[Kernel] = []
    owners: list[str] = []
    unmatched: dict[str, list[str]] = {}
    dropped: dict[str, int] = {}
    for group, members in _checked(groups).items():
        chosen, missing = _matched(group, members, places)
        if missing:
            unmatched[group] = missing
        # Columns that are not found do not count.
        if len(chosen) < min_size:
            dropped[group] = len(chosen)
            continue
        if first:
            chosen = tuple(first + place for place in chosen)
        for template in templates:
            name = f"{template.label}@{group}"
            made.append(replace(template, columns=chosen, name=name))
            owners.append(group)
    _require_some(made, groups, unmatched, min_size)
    _say(groups, unmatched, dropped, min_size)
    return GroupKernels(made, owners, unmatched, dropped)


def _checked(groups: Any) -> Mapping[str, Any]:
    if not isinstance(groups, Mapping) or not groups:
        raise TypeError(
            "groups must be a dict from names to columns with at least one group, got "
            f"{type(groups).__name__ if groups else 'none'}; write for instance "
            "{'shape': ['width', 'height']}."
        )
    for group, members in groups.items():
        if not isinstance(group, str) or not group.strip():
            raise TypeError(f"names of groups must be texts, got {group!r}; rename it.")
        if isinstance(members, str | bytes) or not isinstance(members, Iterable):
            raise TypeError(
                f"group {group!r} must be a list of column names or positions, got "
                f"{members!r}; put it into a list."
            )
    return groups


def kernel_templates(kernels: Any) -> list[Kernel]:
    """Kernels that read any columns."""
    templates = as_kernels(kernels)
    for kernel in templates:
        if kernel.columns is not None or kernel.family == "given":
            raise ValueError(
                "kernels for groups must read the columns of a table and name none, "
                f"got {kernel.label!r}; write for instance 'linear; rbf'."
            )
    return templates


def _of_view(columns: Any, view: str | None) -> tuple[Any, int]:
    """Columns of one view, and the position of the first among those of all views."""
    if not are_views(columns):
        if view is not None:
            raise ValueError(
                f"view={view!r} is for columns of several views, got one table; leave "
                "it out, or pass the views."
            )
        return columns, 0
    reader = ViewReader.of(as_views(columns))
    if view is None and len(reader.names) == 1:
        view = reader.names[0]
    if view not in reader.names:
        raise ValueError(
            f"view must be one of {', '.join(reader.names)}, got {view!r}; name the "
            "one that has the columns."
        )
    place = reader.names.index(view)
    return list(reader.columns[place]), sum(map(len, reader.columns[:place]))


def _places(columns: Any) -> dict[str, int]:
    """The position of every column name."""
    names = list(map(str, getattr(columns, "columns", columns)))
    places = {name: place for place, name in enumerate(names)}
    if len(places) < len(names):
        twice = next(n for place, n in enumerate(names) if places[n] != place)
        raise ValueError(
            f"columns must have different names, got {twice!r} more than once; rename "
            "one, or give groups as positions."
        )
    return places


def _matched(
    group: str, members: Iterable[Any], places: Mapping[str, int] | None
) -> tuple[tuple[Any, ...], list[str]]:
    """Columns of a group, each once, and names that are no columns."""
    chosen: dict[Any, None] = {}
    missing: dict[str, None] = {}
    for member in members:
        if isinstance(member, str) and places is not None and member not in places:
            missing[str(member)] = None
        elif isinstance(member, str):
            chosen[exact(member) if places is None else places[member]] = None
        else:
            chosen[_position(group, member, places)] = None
    return tuple(chosen), list(missing)


def _position(group: str, member: Any, places: Mapping[str, int] | None) -> int:
    whole = isinstance(member, Integral) and not isinstance(member, bool)
    if not whole or member < 0 or (places is not None and member >= len(places)):
        known = "" if places is None else f" below {len(places)}"
        raise ValueError(
            f"group {group!r} must hold column names or positions from 0{known}, got "
            f"{member!r}; correct it."
        )
    return int(member)


def _require_some(
    made: list[Kernel],
    groups: Mapping[str, Any],
    unmatched: Mapping[str, list[str]],
    min_size: int,
) -> None:
    if made:
        return
    names = [name for missing in unmatched.values() for name in missing]
    seen = f", and {_few(names)} are not among the columns" if names else ""
    raise ValueError(
        f"some group must have at least {min_size} of the columns, got none of "
        f"{len(groups)}{seen}; check that groups and columns use the same names."
    )


def _say(
    groups: Mapping[str, Any],
    unmatched: Mapping[str, list[str]],
    dropped: Mapping[str, int],
    min_size: int,
) -> None:
    """One line about what was left out."""
    parts = []
    if unmatched:
        names = list(dict.fromkeys(chain.from_iterable(unmatched.values())))
        parts.append(f"{len(names)} names are not among the columns: {_few(names)}")
    if dropped:
        parts.append(
            f"{len(dropped)} of {len(groups)} groups with fewer than {min_size} "
            f"columns are dropped: {_few(list(dropped))}"
        )
    if parts:
        logger.warning("groups of columns: %s", "; ".join(parts))


def _few(names: Sequence[str]) -> str:
    """Three names, for a line of the log."""
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
