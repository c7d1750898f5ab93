"""A short text that changes with anything kernel values depend on."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.machine import one_blas_thread
from manykernels.kernels.columns import callable_name
from manykernels.kernels.kernel_set import KernelSet

DIGEST_ROWS = 256  # of an array at a time


def fingerprint(kernels: KernelSet) -> str:
    """Digest of the kernels, their constants, their rows and a sample of values.

    The sample notices other code behind the same name, as of a custom function.

    Examples
    --------
    >>> from manykernels.kernels import RBF
    >>> narrow, wide = (KernelSet.fit([RBF(g)], [[0.0], [1.0]]) for g in (2.0, 0.5))
    >>> fingerprint(narrow) == fingerprint(wide)
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    feed(digest, kernels)
    spread = np.linspace(0, kernels.n_reference - 1, 8).astype(np.intp)
    with one_blas_thread():
        feed(digest, kernels.rows(spread))
    return digest.hexdigest()


def feed(digest: Any, value: Any) -> None:
    """Add a value; its type and length keep neighbors apart."""
    if isinstance(value, np.ndarray):
        _feed_array(digest, value)
    elif sp.issparse(value):
        csr = value.tocsr()
        feed(digest, [csr.shape, csr.data, csr.indices, csr.indptr])
    elif is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        feed(digest, [type(value).__name__, *names])
        feed(digest, [getattr(value, name) for name in names])
    elif isinstance(value, dict):
        feed(digest, list(value.items()))
    elif isinstance(value, (list, tuple)):
        feed(digest, len(value))
        for item in value:
            feed(digest, item)
    else:
        text = callable_name(value) if callable(value) else repr(value)
        digest.update(f"{type(value).__name__}:{len(text)}:{text}".encode())


def _feed_array(digest: Any, array: np.ndarray) -> None:
    """Rows in pieces: a view of a stack need not be copied at once."""
    if array.dtype == object:
        feed(digest, array.tolist())
        return
    feed(digest, [array.dtype.str, array.shape])
    for start in range(0, len(array) if array.ndim else 0, DIGEST_ROWS):
        digest.update(np.ascontiguousarray(array[start : start + DIGEST_ROWS]).data)
    if not array.ndim:
        digest.update(array.tobytes())
