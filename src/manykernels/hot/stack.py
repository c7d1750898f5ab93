"""Loops over a stored Gram stack of shape (rows, blocks, columns).

One row holds the values of every kernel side by side: all the solvers read whole
rows, so a row is one contiguous stream from memory.
"""

from __future__ import annotations

import numpy as np

from manykernels.hot.lazy import njit


@njit(cache=True, fastmath=True, nogil=True)
def combine_rows(stack, weights, rows, out, start, stop):
    """out[a, j] = sum_f weights[f] * stack[rows[a], f, j] for a in start..stop."""
    n_blocks, n_columns = stack.shape[1], stack.shape[2]
    for a in range(start, stop):
        target = out[a]
        target[:] = 0
        for f in range(n_blocks):
            weight = weights[f]
            if weight == 0:
                continue
            source = stack[rows[a], f]
            for j in range(n_columns):
                target[j] += weight * source[j]


@njit(cache=True, nogil=True)
def gather_block(stack, index, out, start, stop):
    """out[a, f, b] = stack[index[a], f, index[b]]."""
    for a in range(start, stop):
        for f in range(stack.shape[1]):
            source = stack[index[a], f]
            target = out[a, f]
            for b in range(len(index)):
                target[b] = source[index[b]]


@njit(cache=True, fastmath=True, nogil=True)
def quadratic_forms(stack, coef, support, start, stop):
    """out[f] = sum over i in support[start:stop], j of <coef_i, coef_j> K_f(i, j).

    coef has shape (outputs, columns), so that the inner products <coef_i, coef_j>
    of one row are formed once, in cache, and shared by all blocks. Kernels are
    symmetric: the values left of the diagonal count twice, the others are not read.
    """
    n_outputs, n_columns = coef.shape
    out = np.zeros(stack.shape[1])
    products = np.empty(n_columns, np.float64)
    for a in range(start, stop):
        i = support[a]
        products[:i] = 0.0
        square = 0.0
        for k in range(n_outputs):
            c = coef[k, i]
            if c == 0.0:
                continue
            square += c * c
            for j in range(i):
                products[j] += c * coef[k, j]
        for f in range(stack.shape[1]):
            source = stack[i, f]
            total = 0.0
            for j in range(i):
                total += source[j] * products[j]
            out[f] += 2.0 * total + square * source[i]
    return out
