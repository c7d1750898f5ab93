"""Some kernels of a fitted set as sets of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from manykernels.kernels.kernel_set import Group, KernelSet


def kernel_parts(fitted: KernelSet, most: int) -> Iterator[tuple[list[int], KernelSet]]:
    """(positions, the kernels at these positions alone) until all evaluated ones came.

    A part has about `most` kernels, and its blocks of values are as many times larger
    as it has fewer kernels than the whole; kernels on the same columns stay together.

    Examples
    --------
    >>> from manykernels.kernels import RBF, KernelSet, Linear
    >>> kernels = [RBF(0.5), Linear(columns=[0]), Linear(), RBF(2.0, columns=[0])]
    >>> fitted = KernelSet.fit(kernels, [[1.0, 2.0], [2.0, 3.0]])
    >>> [part.names for _, part in kernel_parts(fitted, 2)]
    [['rbf(gamma=0.5)', 'linear'], ['linear@0', 'rbf(gamma=2)@0']]
    """
    groups: list[Group] = []
    count = 0
    for group in fitted.groups:
        groups.append(group)
        count += len(group.members)
        if count >= most:
            yield _alone(fitted, groups)
            groups, count = [], 0
    if count:
        yield _alone(fitted, groups)


def _alone(fitted: KernelSet, groups: Sequence[Group]) -> tuple[list[int], KernelSet]:
    """The kernels of some groups, numbered anew."""
    chosen = [f for group in groups for f in group.members]
    numbers = {f: place for place, f in enumerate(chosen)}
    part = replace(
        fitted,
        kernels=[fitted.kernels[f] for f in chosen],
        names=[fitted.names[f] for f in chosen],
        scalings=[fitted.scalings[f] for f in chosen],
        groups=[
            replace(group, members=[numbers[f] for f in group.members])
            for group in groups
        ],
    )
    return chosen, part
