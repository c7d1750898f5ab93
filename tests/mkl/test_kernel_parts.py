"""Parts of a set of kernels evaluate what the whole does."""

import numpy as np
import pytest

from manykernels.kernels import RBF, Linear
from manykernels.kernels.kernel_set import KernelSet
from manykernels.mkl.models.model import kernel_parts

rng = np.random.default_rng(0)
X, X_NEW = rng.normal(size=(15, 6)), rng.normal(size=(4, 6))
SPECS = [
    kernel
    for j in range(6)
    for kernel in (RBF("median", columns=[j]), Linear(columns=[j, 0], center=True))
]


@pytest.mark.parametrize("most", [1, 3, 5, 12, 100])
@pytest.mark.parametrize("support", [None, [1, 4, 5, 9]])
def test_parts_hold_every_kernel_once_with_its_values(most, support):
    whole = KernelSet.fit(SPECS, X)
    if support is not None:
        whole = whole.take(support)
    ((_, expected),) = whole.cross(X_NEW)
    seen = []
    for chosen, part in kernel_parts(whole, most):
        assert 0 < len(chosen) == part.n_kernels <= most + 1
        assert part.names == [whole.names[f] for f in chosen]
        ((_, block),) = part.cross(X_NEW)
        np.testing.assert_array_equal(block, expected[chosen])
        seen += chosen
    assert sorted(seen) == list(range(12))


def test_kernels_that_are_not_evaluated_are_in_no_part():
    whole = KernelSet.fit(SPECS, X).only([2, 3, 7])
    parts = list(kernel_parts(whole, 2))
    assert sorted(f for chosen, _ in parts for f in chosen) == [2, 3, 7]
    assert not list(kernel_parts(whole.only([]), 2))
