"""What a kernel value costs to compute, and whether reading it is cheaper."""

from __future__ import annotations

import scipy.sparse as sp

from manykernels.base.machine import available_threads
from manykernels.kernels import KernelSet
from manykernels.kernels.feature_group import FeatureGroup
from manykernels.kernels.kernel_set import Group
from manykernels.kernels.matrices import GivenGroup

# Nanoseconds on one core, measured with 3,000 rows: orders of magnitude that choose
# between ways of storing. They are constants, so that the same data make the same
# choice whatever else the machine does.
COLUMN_NS = {
    "dot": 0.03,  # float32; twice that in float64
    "manhattan": 0.45,
    "intersection": 0.45,
    "chi_squared": 1.3,
    "constant": 0.0,
}
UNKNOWN_NS = 1.3  # per column, of a function that nobody has measured
VALUE_NS = 1.5  # transform, scaling and copying of one kernel's value
GIVEN_NS = 5.0  # gathered from a given stack
BYTE_NS = 1.0  # of a disk that reads 1 GB per second
WRITE_NS = 2.0
HALF_NS = 2.0  # conversion to float32
STORE_NS = 0.4  # a byte of memory that nothing has touched yet
ADVANTAGE = 2.0  # how much faster reading must be to be worth the disk


def pair_ns(kernels: KernelSet) -> float:
    """Nanoseconds to compute every kernel for one pair of rows.

    Examples
    --------
    >>> from manykernels.kernels import RBF, ChiSquared
    >>> X = [[1.0] * 100, [2.0] * 100]
    >>> cheap, dear = (KernelSet.fit([k], X) for k in (RBF(), ChiSquared()))
    >>> pair_ns(cheap) < 10.0 < pair_ns(dear)
    True
    """
    shared = sum(_shared_ns(group) for group in kernels.groups if group.members)
    clips = [s.clip for s in kernels.scalings if s.clip is not None]
    ranks = sum(clip.features.shape[1] for clip in clips)
    products = 2.0 * COLUMN_NS["dot"] * float(ranks)
    return float(shared + VALUE_NS * kernels.n_kernels + products)


def _shared_ns(group: Group) -> float:
    """Of the quantity that the kernels of a group share."""
    if isinstance(group, GivenGroup):
        return GIVEN_NS
    values = group.rows.values
    if sp.issparse(values):
        columns = 10.0 * values.nnz / max(1, values.shape[0])  # products of sparse rows
    else:
        columns = float(values.shape[1])
    family = group.family if isinstance(group, FeatureGroup) else "dot"
    scale = float(values.dtype.itemsize) / 4 if family == "dot" else 1.0
    return float(scale * COLUMN_NS.get(family, UNKNOWN_NS) * columns)


def read_ns(kernels: KernelSet, itemsize: int) -> float:
    """Nanoseconds to read every kernel's value for one pair of rows from disk."""
    convert = HALF_NS if itemsize == 2 else 0.0
    return kernels.n_kernels * (BYTE_NS * itemsize + convert)


def reading_pays(kernels: KernelSet, itemsize: int) -> bool:
    """Whether values are read from disk clearly faster than they are computed.

    Given matrices are always worth it: in the layout in which they come, a row of all
    kernels is spread over the whole stack.
    """
    if any(isinstance(group, GivenGroup) for group in kernels.groups):
        return True
    return pair_ns(kernels) > ADVANTAGE * read_ns(kernels, itemsize)


def waiting_pays(kernels: KernelSet) -> bool:
    """Whether to store all values takes about as long as to compute them all once.

    With symmetry they are computed in half the time, so that to store them must take
    most of the other half. Only kernels that are combined in one pass are that cheap.

    Examples
    --------
    >>> from manykernels.kernels import RBF, ChiSquared
    >>> X = [[1.0] * 10, [2.0] * 10]
    >>> [waiting_pays(KernelSet.fit([k], X)) for k in (RBF(), ChiSquared())]
    [True, False]
    """
    stored = STORE_NS * kernels.n_kernels * kernels.dtype.itemsize
    cheap = stored > 0.4 * pair_ns(kernels)
    return cheap and all(map(kernels.is_fused, kernels.groups))


def all_pairs_seconds(kernels: KernelSet) -> float:
    """To compute every value of the stack once; half of that with symmetry."""
    pairs = float(kernels.n_reference) ** 2
    return 1e-9 * pairs * pair_ns(kernels) / available_threads()
