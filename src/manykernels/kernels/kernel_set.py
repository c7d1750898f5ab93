"""Fitted kernels: training matrices and new rows, block by block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Array, Selection, Values
from manykernels.base.machine import one_blas_thread
from manykernels.base.stored import (
    Count,
    ListOf,
    Part,
    Wholes,
    require_all,
    storable,
)
from manykernels.device import Device
from manykernels.kernels.approximate import MappedGroup
from manykernels.kernels.base import Kernel, unique_names
from manykernels.kernels.columns import as_table, row_factors
from manykernels.kernels.feature_group import FeatureGroup, shared_columns
from manykernels.kernels.kernel_scaling import Psd, Scaling, fit_scalings, make_psd
from manykernels.kernels.kernel_values import KernelValues
from manykernels.kernels.matrices import (
    GivenGroup,
    Precomputed,
    as_one_stack,
    fit_given,
    read_stack,
)

# All evaluate raw blocks between `reference` rows, or of `new` rows against `rows`.
Group: TypeAlias = FeatureGroup | GivenGroup | MappedGroup


# A file has the support rows only.
@storable(
    kernels=ListOf(Part(Kernel), "kernels"),
    names=ListOf(Part(str), "kernels"),
    groups=ListOf(Part(FeatureGroup, GivenGroup, MappedGroup)),
    scalings=ListOf(Part(Scaling), "kernels"),
    n_columns=Count(),
    n_train=Count(size="training rows"),
    dtype=Part(np.dtype),
    support=Wholes("support", low=0, below="training rows"),
)
@dataclass
class KernelSet(KernelValues):
    r"""Fitted kernels on reference rows: :math:`\hat k_f(x, x_j)` for all f.

    Kernels on the same columns share one product per block. The reference rows are the
    training rows, or those kept by :meth:`take`.

    Attributes
    ----------
    kernels : list of Kernel
        Specifications with numbers in place of "scale", "median" and the like.
    names : list of str
        One display name per kernel, all different.
    groups : list
        Reference rows, one entry per set of kernels that share them.
    scalings : list of Scaling
        Constants of centering, normalization and clipping per kernel.
    n_columns : int
        Columns (or matrices) that new data must have.
    n_train : int
        Number of training rows.
    dtype : dtype
        Of all returned blocks.
    support : array of int or None
        Training positions of the reference rows, once some were taken.

    Examples
    --------
    >>> from manykernels.kernels import RBF, Linear
    >>> from manykernels.kernels.kernel_set import KernelSet
    >>> kernels = KernelSet.fit([Linear(), RBF(0.5)], [[1.0], [2.0]])
    >>> kernels.names
    ['linear', 'rbf(gamma=0.5)']
    >>> kernels.stack().shape
    (2, 2, 2)
    >>> next(kernels.cross([[3.0]]))[1].round(2)
    array([[[1.  , 1.  ]],
    <BLANKLINE>
           [[0.14, 0.61]]], dtype=float32)
    """

    @classmethod
    def fit(
        cls,
        kernels: Sequence[Kernel],
        X: Any,
        *,
        feature_names: Sequence[str] | None = None,
        dtype: Any = np.float32,
        psd: Psd = "check",
        random_state: int | np.random.Generator | None = None,
        sample_weight: Any = None,
        device: Device | None = None,
    ) -> KernelSet:
        """Fit kernels on training rows.

        Parameters
        ----------
        kernels : sequence of Kernel
            As returned by :func:`as_kernels`.
        X : array, sparse matrix, data frame, or stack of given matrices
            Training rows; for Precomputed and Distance an array of shape
            (n, n, n_matrices), a list of n x n matrices or one matrix.
        feature_names : sequence of str, optional
            Column names; taken from a data frame if not given.
        dtype : float32 or float64
            Precision of the kernel values.
        psd : {"check", "clip", "skip"}
            What to do about given, custom and spline kernels with negative
            eigenvalues.
        random_state : int, Generator or None
            For the landmarks and random features of approximate kernels.
        sample_weight : array of shape (n,), optional
            A row of weight k is fitted as k copies of it would be: in widths, means,
            normalization and landmarks. Weights that are no whole numbers are taken
            relative to their mean.
        device : Device, optional
            Where features of approximate kernels are computed, and stay.
        """
        kernels, precision = list(kernels), _check_options(kernels, dtype, psd)
        given = kernels[0].family == "given"
        X = read_stack(X) if given else as_table(X)
        n_train, n_columns = (len(X[0]), len(X)) if given else map(int, X.shape)
        copies = row_copies(sample_weight, n_train)
        groups: list[Group] = []
        if given:
            kernels, names, matrices = fit_given(
                kernels, X, feature_names, copies, precision
            )
            groups += matrices
        else:
            names = unique_names(list(map(attrgetter("label"), kernels)))
        # Kernels are resolved, and constants filled in, one group after the other.
        blank: list[Any] = [None] * len(kernels)
        fitted = cls(kernels, names, groups, blank, n_columns, n_train, precision)
        for group in groups:
            fit_scalings(fitted, group, copies, None)
        if not given:
            rng = np.random.default_rng(random_state)
            for columns, members in shared_columns(kernels, X, feature_names):
                fitted._fit_group(columns, members, X, copies, rng, device)
        if any(map(attrgetter("check_psd"), kernels)):
            # Threads of BLAS cost more than they bring on samples of 256 rows.
            with one_blas_thread():
                make_psd(fitted, psd, copies)
        return replace(fitted)  # now complete, with its facts

    def _fit_group(
        self,
        columns: Selection,
        members: list[int],
        X: Any,
        copies: Values,
        rng: np.random.Generator,
        device: Device | None,
    ) -> None:
        """Fit the kernels that share columns, on the rows that have these."""
        first = self.kernels[members[0]]
        factors = row_factors(X, columns, first.family)
        # Widths, means and landmarks come from the rows that have the view.
        if factors is not None:
            copies = copies * (factors > 0.0)
            if not copies.any():
                raise ValueError(
                    f"kernel {self.names[members[0]]!r} needs training rows that have "
                    "its view, got none; leave the view out."
                )
        group: Group
        if first.approximate is None:
            group = FeatureGroup.fit(self, columns, members, X, copies)
        else:
            group = MappedGroup.fit(self, columns, members, X, copies, rng, device)
        self.groups.append(group)
        fit_scalings(self, group, copies, factors)

    # --- other sets -------------------------------------------------------------

    def take(self, index: Any, *, matrices: bool = True) -> KernelSet:
        """Keep only the reference rows `index` (positions or a mask).

        Without the given `matrices` only `cross` remains, which is all that a fitted
        model needs: it is small, whatever the kernels were.
        """
        index = np.asarray(index)
        chosen = index if index.dtype == bool else index.astype(np.intp)
        index = np.arange(self.n_reference)[chosen]
        support = index if self.support is None else self.support[index]
        groups: list[Group] = []
        scalings = list(self.scalings)
        for group in self.groups:
            if isinstance(group, GivenGroup) and not matrices:
                groups.append(group.forget(support))
                continue
            # Constants of a group that keeps all rows keep all their entries, too.
            keep_all = not self.needs_all.isdisjoint(group.members)
            groups.append(group.take(index, support, keep_all))
            for f in group.members:
                if not groups[-1].full:
                    scalings[f] = scalings[f].take(index)
        return replace(self, groups=groups, scalings=scalings, support=support)

    def without_rows(self) -> KernelSet:
        """Return the maps of explicit features alone: only `new_features` remains."""
        no_rows = np.empty(0, dtype=np.intp)
        all_rows = np.arange(self.n_train) if self.support is None else self.support
        return replace(self.take(no_rows), support=all_rows)

    def only(self, kernels: Any, dtype: Any = None) -> KernelSet:
        """In `cross`, evaluate only the kernels at these positions; others are zero.

        With a dtype, in another precision as well.
        """
        wanted = set(np.asarray(kernels, dtype=np.intp).tolist())
        groups: list[Group] = []
        precision = np.dtype(self.dtype if dtype is None else dtype)
        for group in self.groups:
            members = sorted(wanted.intersection(group.members))
            if members:
                part = group if dtype is None else group.astype(precision)
                groups.append(replace(part, members=members))
        # One group says what sort of data the set reads, even if it evaluates nothing.
        groups = groups or [replace(self.groups[0], members=[])]
        return replace(self, groups=groups, dtype=precision)

    def astype(self, dtype: Any) -> KernelSet:
        """Return the kernels with another precision, for storage and for the work."""
        return self.only(range(self.n_kernels), dtype)

    def extend(self, X_new: Any) -> KernelSet:
        """Append new rows to the reference rows, under the same training constants.

        For data that arrives in parts; given matrices, clipped kernels and centered
        kernels without explicit features cannot grow.
        """
        prepared = self.new_rows(X_new)
        self._require_extendable()
        groups: list[Group] = []
        scalings = list(self.scalings)
        for group, rows in zip(self.groups, prepared, strict=True):
            assert not isinstance(group, GivenGroup)
            groups.append(replace(group, rows=group.rows.extend(rows)))
            for f in group.members:
                scaling = self.scaling_of_new(group, f, rows)
                diagonal = self.new_diagonal(group, f, rows, scaling)
                scalings[f] = scalings[f].extend(scaling, diagonal)
        n_rows = self.n_reference + len(prepared[0])
        return replace(
            self, groups=groups, scalings=scalings, n_train=n_rows, support=None
        )

    def _require_extendable(self) -> None:
        if self.are_given:
            raise ValueError(
                "more rows can be added to kernels on feature columns only, got given "
                "matrices; fit on one stack that holds all the rows."
            )
        # Means over the training rows and projections would change with every row.
        if self.needs_all:
            stuck = self.names[min(self.needs_all)]
            raise ValueError(
                f"rows cannot be added to centered or clipped kernels, got {stuck!r}"
                "; use center=False and psd='check' for data that arrives in parts."
            )
        if {len(group.rows) for group in self.groups} != {self.n_reference}:
            raise ValueError(
                "more rows can be added only to earlier ones that were kept, got "
                f"explicit features of {self.n_reference} rows summed up in a model; "
                "fit it again on all the rows."
            )

    # --- facts ------------------------------------------------------------------

    def columns_read(self) -> Values:
        """Return the positions of the columns that some kernel reads, in order."""
        read = np.zeros(self.n_columns, dtype=bool)
        for group in self.groups:
            if not isinstance(group, GivenGroup) and group.family != "constant":
                read[group.columns] = True
        return np.flatnonzero(read)

    def stack_as_given(self) -> tuple[Values, Array] | None:
        """Return the given array (N, N, F) and a factor for each kernel, or None.

        None where matrices lie apart, and where :meth:`matrices_as_given` is None.
        """
        given = self.matrices_as_given()
        stack = None if given is None else as_one_stack(given[0])
        return None if given is None or stack is None else (stack, given[1])

    def matrices_as_given(self) -> tuple[list[Any], Array] | None:
        """Return the given matrices and a factor for each kernel, if that is all.

        None where a kernel is a function of what was given, or where matrices are
        symmetric by tolerance only.
        """
        matrices: list[Any] = [None] * self.n_kernels
        for group in self.groups:
            if not isinstance(group, GivenGroup) or not group.symmetric:
                return None
            for f in group.members:
                matrices[f] = group.matrix
        plain = all(isinstance(kernel, Precomputed) for kernel in self.kernels)
        if not (plain and all(scaling.is_factor for scaling in self.scalings)):
            return None
        return matrices, np.array([scaling.factor for scaling in self.scalings])

    # --- sets that were read from a file ----------------------------------------

    @property
    def width(self) -> int:
        """Columns of a new row: those of the table, or the training rows."""
        return self.n_train if self.are_given else self.n_columns

    @property
    def holds_rows(self) -> bool:
        """Whether kernel values of new rows can be computed: `cross` works."""
        groups = [g for g in self.groups if not isinstance(g, GivenGroup)]
        return self.n_reference == 0 or all(len(group.rows) for group in groups)

    def blank_row(self) -> Any | None:
        """Return a row of zeros to try a set that was read from a file.

        None where a user's function need not take zeros, or where the row is large.
        """
        shape = (1, self.n_columns)
        if self.are_given:
            shape = (1, self.n_train, self.n_columns)  # type: ignore[assignment]
        custom = any(kernel.family == "custom" for kernel in self.kernels)
        if custom or math.prod(shape) > 2**20:
            return None
        if not self.are_given:
            if any(sp.issparse(group.rows.values) for group in self.groups):
                return sp.csr_matrix(shape)
        return np.zeros(shape)

    def require_sound(self) -> None:
        """Raise a ValueError where kernels, rows and constants do not fit together."""
        assert self.support is not None
        members = [f for group in self.groups for f in group.members]
        kinds = {isinstance(group, GivenGroup) for group in self.groups}
        checks: dict[str, Any] = {
            "members": sorted(members) == list(range(self.n_kernels)) != [],
            "groups": len(kinds) == 1,
        }
        require_all("kernels", checks)
        # A file may be forged: what does not fit must fail here, not in a prediction.
        fit = [g.fits(self.kernels, self.n_columns, self.support) for g in self.groups]
        clips = [s.clip for s in self.scalings if s.clip is not None]
        checks = {
            "columns and maps": all(fit),
            "rows": all(map(self._has_rows, self.groups)),
            "clips": all(len(clip.whiten) == self.n_train for clip in clips),
        }
        require_all("kernels", checks)

    def _has_rows(self, group: Group) -> bool:
        """Return whether a group and its scalings have the support rows, or none."""
        counts = {len(self.scalings[f].diagonal) for f in group.members}
        if isinstance(group, GivenGroup):
            return counts == {self.n_train}
        counts.add(len(group.rows))
        return counts in ({self.n_train if group.full else self.n_reference}, {0})


def row_copies(sample_weight: Any, n_rows: int) -> Values:
    """Return how many rows each row stands for, or its weight relative to the mean.

    >>> row_copies([2, 0, 1], 3), row_copies([0.5, 1.5], 2)
    (array([2., 0., 1.]), array([0.5, 1.5]))
    """
    if sample_weight is None:
        return np.ones(n_rows)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_rows,) or not (np.isfinite(weight) & (weight >= 0)).all():
        raise ValueError(
            f"sample_weight must hold one finite number >= 0 for each of the {n_rows} "
            f"rows, got shape {weight.shape}; pass one weight per row."
        )
    if not weight.any():
        raise ValueError(
            "sample_weight must be positive for some row, got zeros only; leave it out."
        )
    if (weight == np.floor(weight)).all():
        return weight
    # Only ratios of fractions have a meaning: a typical row stands for one row.
    return weight / weight[weight > 0].mean()


def _check_options(kernels: Sequence[Kernel], dtype: Any, psd: Any) -> np.dtype[Any]:
    """Return the precision, unless an option or the set is none that can be fitted."""
    if psd not in get_args(Psd):
        raise ValueError(
            f"psd must be 'check', 'clip' or 'skip', got {psd!r}; choose one of these."
        )
    try:
        precision = np.dtype(dtype)
    except TypeError:
        precision = np.dtype(object)
    if precision not in (np.float32, np.float64):
        got = getattr(dtype, "__name__", dtype)
        raise ValueError(
            f"dtype must be float32 or float64, got {got}; choose one of these."
        )
    families = list(map(attrgetter("family"), kernels))
    given = families.count("given")
    if given not in (0, len(families)) or not families:
        problem = "got both in one set" if given else "got no kernel"
        raise ValueError(
            f"a set needs kernels that are either all on feature columns or all given "
            f"as matrices, {problem}; fit them separately or choose one sort."
        )
    return precision
