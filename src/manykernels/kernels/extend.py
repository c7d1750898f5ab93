"""More reference rows for a fitted set, as a stream of data needs them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from manykernels.kernels.given import GivenGroup
from manykernels.kernels.rows import Rows
from manykernels.kernels.scaling import Scaling, Side, new_diagonal, new_side

if TYPE_CHECKING:
    from manykernels.kernels.fitted import Group, KernelSet


def extended(fitted: KernelSet, sides: list[Any]) -> KernelSet:
    """Append prepared rows, one entry per group, under unchanged constants."""
    _require_extendable(fitted)
    groups: list[Group] = []
    scalings = list(fitted.scalings)
    for group, rows in zip(fitted.groups, sides, strict=True):
        if not isinstance(group, GivenGroup):
            groups.append(replace(group, rows=_join_rows(group.rows, rows)))
        for f in group.members:
            side = new_side(fitted, group, f, rows, None)
            diagonal = new_diagonal(fitted, group, f, rows)
            scalings[f] = _join_scaling(scalings[f], side, diagonal)
    n_rows = fitted.n_reference + len(sides[0])
    return replace(
        fitted, groups=groups, scalings=scalings, n_train=n_rows, support=None
    )


def _require_extendable(fitted: KernelSet) -> None:
    if any(isinstance(group, GivenGroup) for group in fitted.groups):
        raise ValueError(
            "more rows can be added to kernels on feature columns only, got given "
            "matrices; fit on one stack that holds all the rows."
        )
    stuck = [fitted.names[f] for f in range(fitted.n_kernels) if fitted.needs_all(f)]
    if stuck:
        raise ValueError(
            f"rows cannot be added to centered or clipped kernels, got {stuck[0]!r}"
            "; use center=False and psd='check' for data that arrives in parts."
        )
    _require_rows(fitted)


def _require_rows(fitted: KernelSet) -> None:
    n_rows = {len(group.rows) for group in fitted.groups}
    if n_rows != {fitted.n_reference}:
        raise ValueError(
            f"more rows can be added only to earlier ones that were kept, got explicit "
            f"features of {fitted.n_reference} rows summed up in a model; fit it again "
            f"on all the rows."
        )


def _join_rows(old: Rows, new: Rows) -> Rows:
    shifts = None
    if old.shifts is not None and new.shifts is not None:
        shifts = np.concatenate([old.shifts, new.shifts])
    if sp.issparse(old.values) or sp.issparse(new.values):
        values = sp.vstack([old.values, new.values], format="csr")
    else:
        values = np.concatenate([old.values, new.values])
    return Rows(values, np.concatenate([old.squares, new.squares]), shifts)


def _join_scaling(scaling: Scaling, side: Side, diagonal: Any) -> Scaling:
    def join(old: Any, new: Any) -> Any:
        return None if old is None else np.concatenate([old, new])

    norms = scaling.norms
    if side.factors is not None and norms is None:  # the first rows that lack a view
        norms = np.ones(len(scaling.diagonal))
    elif norms is not None and side.norms is None:
        side = replace(side, norms=np.ones(len(diagonal)))
    return replace(
        scaling,
        diagonal=np.concatenate([scaling.diagonal, diagonal]),
        norms=join(norms, side.norms),
        means=join(scaling.means, side.means),
    )
