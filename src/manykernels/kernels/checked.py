"""What fitted kernels say of themselves: do their parts agree, what do they read?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Array, Values
from manykernels.base.stored import require_all
from manykernels.kernels.given import GivenGroup, Precomputed, as_one_stack

if TYPE_CHECKING:
    from manykernels.kernels.base import Kernel
    from manykernels.kernels.fitted import Group
    from manykernels.kernels.psd import Clip
    from manykernels.kernels.scaling import Scaling

LARGEST_BLANK = 2**20  # numbers in a row of zeros that is worth a try


class CheckedKernels:
    """What a fitted set of kernels can say about itself without computing values."""

    kernels: list[Kernel]
    groups: list[Group]
    scalings: list[Scaling]
    clips: list[Clip | None]
    n_columns: int
    n_train: int
    n_kernels: int
    n_reference: int
    support: Values | None

    def require_sound(self) -> None:
        """Raise a ValueError where kernels, rows and constants do not fit together."""
        assert self.support is not None
        members = [f for group in self.groups for f in group.members]
        kinds = {isinstance(group, GivenGroup) for group in self.groups}
        require_all(
            "kernels",
            {
                "members": sorted(members) == list(range(self.n_kernels)) != [],
                "groups": len(kinds) == 1,
            },
        )
        fit = [g.fits(self.kernels, self.n_columns, self.support) for g in self.groups]
        require_all(
            "kernels",
            {
                "columns and maps": all(fit),
                "rows": all(self._has_rows(group) for group in self.groups),
                "clips": all(
                    c is None or len(c.whiten) == self.n_train for c in self.clips
                ),
            },
        )

    def blank_row(self) -> Any | None:
        """A row of zeros, with which a model that was read from a file can be tried.

        None where a function from elsewhere need not take zeros, or where the row
        itself would be large.
        """
        given = self.are_given
        shape = (1, self.n_train, self.n_columns) if given else (1, self.n_columns)
        custom = any(kernel.family == "custom" for kernel in self.kernels)
        if custom or math.prod(shape) > LARGEST_BLANK:
            return None
        sparse = not given and any(
            sp.issparse(group.rows.values) for group in self.groups
        )
        return sp.csr_matrix(shape) if sparse else np.zeros(shape)

    def columns_read(self) -> Values:
        """Positions of the columns that some kernel reads, in order."""
        read = np.zeros(self.n_columns, dtype=bool)
        for group in self.groups:
            if not isinstance(group, GivenGroup) and group.family != "constant":
                read[group.columns] = True
        return np.flatnonzero(read)

    def n_feature_columns(self) -> list[int]:
        """Columns of every kernel's explicit features; 0 where it is not evaluated."""
        columns = [0] * self.n_kernels
        for group in self.groups:
            for f in group.members:
                kernel = self.kernels[f]
                single = kernel.form == "constant" and kernel.approximate is None
                columns[f] = 1 if single else group.rows.values.shape[1]
        return columns

    def stack_as_given(self) -> tuple[Values, Array] | None:
        """The given array (N, N, F) and a factor for each kernel, if that is all.

        None where a kernel is a function of what was given, where matrices lie apart,
        or where they are symmetric by tolerance only.
        """
        given = self.matrices_as_given()
        stack = None if given is None else as_one_stack(given[0])
        return None if given is None or stack is None else (stack, given[1])

    def matrices_as_given(self) -> tuple[list[Any], Array] | None:
        """The given matrices and a factor for each kernel, if that is all.

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
        scaled = all(scaling.is_factor for scaling in self.scalings)
        if not (plain and scaled and self.clips == [None] * self.n_kernels):
            return None
        return matrices, np.array([scaling.factor for scaling in self.scalings])

    @property
    def are_given(self) -> bool:
        """Whether new rows bring kernel values with all training rows."""
        return isinstance(self.groups[0], GivenGroup)

    @property
    def width(self) -> int:
        """Columns of a new row: those of the table, or the training rows."""
        return self.n_train if self.are_given else self.n_columns

    @property
    def holds_rows(self) -> bool:
        """Whether kernel values of new rows can be computed: `cross` works."""
        groups = [g for g in self.groups if not isinstance(g, GivenGroup)]
        return self.n_reference == 0 or all(len(group.rows) for group in groups)

    def _has_rows(self, group: Group) -> bool:
        """Whether a group and its scalings speak of the support rows, or of none."""
        counts = {len(self.scalings[f].diagonal) for f in group.members}
        if isinstance(group, GivenGroup):
            return counts == {self.n_train}
        counts.add(len(group.rows))
        return counts in ({self.n_train if group.full else self.n_reference}, {0})
