"""From kernel specifications and training rows to groups ready for evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Values
from manykernels.kernels.base import Kernel
from manykernels.kernels.columns import positions, select_columns
from manykernels.kernels.custom import check_custom_symmetry
from manykernels.kernels.explicit import feature_map, mean_feature
from manykernels.kernels.groups import (
    FeatureGroup,
    GivenGroup,
    Group,
    MappedGroup,
    check_values,
    read_values,
)
from manykernels.kernels.maps import draw_landmarks, fit_map
from manykernels.kernels.rows import Rows, prepare_rows, squared_norms
from manykernels.kernels.scaling import Scaling, fit_scaling
from manykernels.kernels.stacks import (
    check_training_matrix,
    check_training_stack,
    read_stack,
)

# gamma * ||x||^2 above which float32 inner products spoil the fifth digit of an RBF.
SAFE_EXPONENT = 16.0
BLOCK_BYTES = 2**22


@dataclass
class Built:
    """Resolved kernels, their names and the groups that evaluate them."""

    kernels: list[Kernel]
    names: list[str]
    groups: list[Group]
    n_columns: int
    n_train: int


def build(
    kernels: Sequence[Kernel],
    X: Any,
    feature_names: Any,
    dtype: np.dtype[Any],
    rng: np.random.Generator,
) -> Built:
    """Resolve and group kernels on a feature table or on a stack of matrices."""
    given = {kernel.family == "given" for kernel in kernels}
    if len(given) != 1:
        problem = "got both in one set" if given else "got no kernel"
        raise ValueError(
            f"a set needs kernels that are either all on feature columns or all given "
            f"as matrices, {problem}; fit them separately or choose one sort."
        )
    if given == {True}:
        return _build_given(kernels, read_stack(X), feature_names, dtype)
    return _build_features(kernels, as_table(X), feature_names, dtype, rng)


def as_table(X: Any) -> Any:
    """X with two dimensions: array, sparse matrix or data frame as it is."""
    table = X if hasattr(X, "shape") else np.asarray(X)
    if len(table.shape) != 2:
        raise ValueError(
            f"kernels on feature columns need X of shape (n_samples, n_features), got "
            f"{len(table.shape)} dimensions; use Precomputed for a stack of kernels."
        )
    return table


def unique_names(labels: Sequence[str]) -> list[str]:
    """Labels with "#2", "#3" added to repeated ones.

    >>> unique_names(["rbf", "linear", "rbf"])
    ['rbf', 'linear', 'rbf#2']
    """
    names: list[str] = []
    for label in labels:
        count, name = 1, label
        while name in names:
            count += 1
            name = f"{label}#{count}"
        names.append(name)
    return names


def fit_scalings(built: Built) -> list[Scaling]:
    """Training constants of every kernel."""
    scalings: list[Scaling | None] = [None] * len(built.kernels)
    for group in built.groups:
        means = _group_means(group, built)
        rows = group.everything()
        for f in group.members:
            diagonal = group.diagonal(built.kernels[f], built.names[f], rows)
            scalings[f] = fit_scaling(
                built.kernels[f], built.names[f], diagonal, *means.get(f, (None, None))
            )
    return [scaling for scaling in scalings if scaling is not None]


def row_blocks(n_rows: int, n_columns: int, itemsize: int, n_bytes: int) -> list[slice]:
    """Row slices of blocks with `n_columns` columns that fit in `n_bytes`."""
    size = max(1, n_bytes // max(1, n_columns * itemsize))
    return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]


def _build_given(
    kernels: Sequence[Kernel], matrices: list[Values], names: Any, dtype: np.dtype[Any]
) -> Built:
    check_training_stack(matrices)
    chosen: list[tuple[int, Kernel]] = []
    for kernel in kernels:
        index = positions(kernel.columns, len(matrices), names)
        picked = np.arange(len(matrices))[index].tolist()
        chosen += [(k, _for_matrix(kernel, k, picked)) for k in picked]
    labels = unique_names([kernel.label for _, kernel in chosen])
    members: dict[tuple[int, bool], list[int]] = {}
    for f, (k, kernel) in enumerate(chosen):
        check_training_matrix(matrices[k], labels[f], kernel.nonnegative)
        members.setdefault((k, kernel.center), []).append(f)
    resolved = [kernel.resolve(matrices[k]) for k, kernel in chosen]
    groups: list[Group] = [
        GivenGroup(k, matrices[k], np.dtype(float) if center else dtype, found)
        for (k, center), found in members.items()
    ]
    return Built(resolved, labels, groups, len(matrices), len(matrices[0]))


def _for_matrix(kernel: Kernel, k: int, picked: list[int]) -> Kernel:
    """A copy for one of several matrices; a single choice keeps its own columns."""
    single = len(picked) == 1 and kernel.columns is not None
    return kernel if single else replace(kernel, columns=k)


def _build_features(
    kernels: Sequence[Kernel],
    X: Any,
    feature_names: Any,
    dtype: np.dtype[Any],
    rng: np.random.Generator,
) -> Built:
    names = unique_names([kernel.label for kernel in kernels])
    resolved = list(kernels)
    groups: list[Group] = []
    members: dict[tuple[str, bool, bytes], list[int]] = {}
    columns: dict[tuple[str, bool, bytes], Values | slice] = {}
    for f, kernel in enumerate(kernels):
        index = select_columns(kernel.columns, X, feature_names)
        if callable(kernel.columns):
            # Fitted kernels are plain data: what the selector chose, not the selector.
            chosen = np.arange(X.shape[1])[index]
            resolved[f] = replace(kernel, columns=chosen)
        if kernel.approximate is not None:
            groups.append(_mapped_group(f, index, resolved, names, X, dtype, rng))
            continue
        # Kernels that need float64 must not slow the others down.
        precise = kernel.center or kernel.compact
        key = (kernel.family, precise, np.arange(X.shape[1])[index].tobytes())
        members.setdefault(key, []).append(f)
        columns[key] = index
    for key, found in members.items():
        values = read_values(X, columns[key])
        for f in found:
            resolved[f] = _resolve(resolved[f], names[f], values)
        rows, offset = _working_rows([resolved[f] for f in found], values, dtype)
        groups.append(FeatureGroup(key[0], columns[key], offset, rows, found))
    return Built(resolved, names, groups, int(X.shape[1]), int(X.shape[0]))


def _mapped_group(
    f: int,
    columns: Values | slice,
    resolved: list[Kernel],
    names: Sequence[str],
    X: Any,
    dtype: np.dtype[Any],
    rng: np.random.Generator,
) -> MappedGroup:
    """The group of one approximate kernel, with its map fitted on all the rows."""
    values = read_values(X, columns)
    kernel = resolved[f] = _resolve(resolved[f], names[f], values)
    landmarks = draw_landmarks(kernel, names[f], values, rng)
    source = FeatureGroup(kernel.family, columns, None, landmarks, [f])
    unit = kernel.normalize == "diagonal" and not kernel.center
    no_rows = prepare_rows(np.empty((0, 0)))
    group = MappedGroup(
        source, fit_map(resolved, names, source, rng), no_rows, [f], unit
    )
    precision = np.dtype(np.float64) if kernel.center else dtype
    return replace(group, rows=group.mapped(values, resolved, names, precision))


def _resolve(kernel: Kernel, name: str, values: Any) -> Kernel:
    check_values(kernel, name, values)
    if kernel.family == "custom":
        check_custom_symmetry(kernel, name, values)
    return kernel.resolve(values)


def _working_rows(
    kernels: Sequence[Kernel], values: Any, dtype: np.dtype[Any]
) -> tuple[Rows, Values | None]:
    """Rows in the cheapest precision that keeps five digits, and their offset."""
    squares = squared_norms(values)
    offset = None
    if _exponent(kernels, squares) > SAFE_EXPONENT and not sp.issparse(values):
        offset = np.asarray(values.mean(axis=0, dtype=np.float64))
        squares = squared_norms(values - offset)
    # Centering subtracts numbers of equal size, so it needs the digits too.
    precise = any(kernel.center for kernel in kernels)
    if precise or _exponent(kernels, squares) > SAFE_EXPONENT:
        dtype = np.dtype(np.float64)
    return prepare_rows(values, offset, dtype), offset


def _exponent(kernels: Sequence[Kernel], squares: Values) -> float:
    """Largest gamma * ||x||^2 of kernels made from squared distances."""
    distance = [k for k in kernels if k.form == "squared_distance"]
    # The root in a compact kernel has unbounded slope at zero, so it gets float64.
    gammas = [np.inf if k.compact else float(vars(k)["gamma"]) for k in distance]
    return max(gammas, default=0.0) * max(float(squares.max()), np.finfo(float).tiny)


def _group_means(group: Group, built: Built) -> dict[int, tuple[Values, Values | None]]:
    """Row means, and mean features where explicit, of the group's centered kernels."""
    centered = [f for f in group.members if built.kernels[f].center]
    implicit = [f for f in centered if not built.kernels[f].has_features]
    means: dict[int, tuple[Values, Values | None]] = {}
    for f in set(centered) - set(implicit):
        phi = feature_map(built.kernels[f], group.everything(), group.offset)
        direction = mean_feature(phi)
        means[f] = (np.asarray(phi @ direction), direction)
    if implicit:
        sums = _row_means(group, built)
        means |= {f: (sums[f], None) for f in implicit}
    return means


def _row_means(group: Group, built: Built) -> dict[int, Values]:
    n = built.n_train
    means = {f: np.empty(n) for f in group.members}
    for part in row_blocks(n, n, 8, BLOCK_BYTES):
        left = group.reference(part)
        blocks = group.blocks(built.kernels, built.names, left, group.everything())
        for f, block in blocks:
            means[f][part] = block.mean(axis=1, dtype=np.float64)
    return means
