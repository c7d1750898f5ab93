"""Loops over stored kernel values.

A Gram stack is a table of kernel rows: row i of kernel f is values[i * steps[0] + f *
steps[1]], so that all kernels of a row may lie side by side, one contiguous stream from
memory, or one matrix after the other. A given stack has the shape (rows, columns,
blocks), kernels last, as users often have it.
"""

from __future__ import annotations

import numpy as np

from manykernels.hot.lazy import njit


@njit(cache=True, fastmath=True, nogil=True)
def combine_rows(values, steps, weights, rows, out, start, stop):
    """out[a, j] = sum_f weights[f] * K_f(rows[a], j) for a in start..stop."""
    n_columns = values.shape[1]
    for a in range(start, stop):
        target = out[a]
        target[:] = 0
        for f in range(len(weights)):
            weight = weights[f]
            if weight == 0:
                continue
            source = values[rows[a] * steps[0] + f * steps[1]]
            for j in range(n_columns):
                target[j] += weight * source[j]


@njit(cache=True, nogil=True)
def gather_block(values, steps, index, out, start, stop):
    """out[a, f, b] = K_f(index[a], index[b])."""
    for a in range(start, stop):
        for f in range(out.shape[1]):
            source = values[index[a] * steps[0] + f * steps[1]]
            target = out[a, f]
            for b in range(len(index)):
                target[b] = source[index[b]]


@njit(cache=True, fastmath=True, nogil=True)
def quadratic_forms(values, steps, n_blocks, coef, support, start, stop):
    """out[f] = sum over i in support[start:stop], j of <coef_i, coef_j> K_f(i, j).

    coef has shape (outputs, columns), so that the inner products <coef_i, coef_j>
    of one row are formed once, in cache, and shared by all blocks. Kernels are
    symmetric: the values left of the diagonal count twice, the others are not read.
    """
    n_outputs, n_columns = coef.shape
    out = np.zeros(n_blocks)
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
        for f in range(n_blocks):
            source = values[i * steps[0] + f * steps[1]]
            total = 0.0
            for j in range(i):
                total += source[j] * products[j]
            out[f] += 2.0 * total + square * source[i]
    return out


# --- given stacks, kernels last -------------------------------------------------------


@njit(cache=True, nogil=True)
def stack_facts(stack, tile, bands, start, stop):
    """Per kernel: largest |K_ij|, largest |K_ij - K_ji|, and a sum that NaN spoils.

    For `tile` rows from each of bands[start:stop], right of the diagonal, and their
    mirror images: every value is read from memory once.
    """
    n_rows, n_blocks = stack.shape[0], stack.shape[2]
    facts = np.zeros((3, n_blocks), stack.dtype)
    largest, gap, total = facts[0], facts[1], facts[2]
    for band in range(start, stop):
        first = bands[band]
        last = min(first + tile, n_rows)
        for left in range(first, n_rows, tile):
            for i in range(first, last):
                for j in range(left, min(left + tile, n_rows)):
                    for f in range(n_blocks):
                        value, mirrored = stack[i, j, f], stack[j, i, f]
                        largest[f] = max(largest[f], abs(value))
                        gap[f] = max(gap[f], abs(value - mirrored))
                        total[f] += value + mirrored
    return facts


@njit(cache=True, fastmath=True, nogil=True)
def combine_given(stack, weights, rows, out, start, stop):
    """out[a, j] = sum_f weights[f] * stack[rows[a], j, f] for a in start..stop."""
    shares = weights.astype(out.dtype)  # conversions would cost more than the sums
    for a in range(start, stop):
        values = stack[rows[a]]
        for j in range(stack.shape[1]):
            total = out.dtype.type(0.0)
            for f in range(stack.shape[2]):
                total += shares[f] * values[j, f]
            out[a, j] = total


@njit(cache=True, nogil=True)
def gather_given(stack, rows, columns, out, start, stop):
    """out[a, f, b] = stack[rows[a], columns[b], f]."""
    for a in range(start, stop):
        values = stack[rows[a]]
        for b in range(len(columns)):
            source = values[columns[b]]
            for f in range(out.shape[1]):
                out[a, f, b] = source[f]


@njit(cache=True, fastmath=True, nogil=True)
def quadratic_forms_given(stack, coef, support, start, stop):
    """out[f] = sum of <coef_i, coef_j> K_f(i, j) over i in support[start:stop], j.

    coef has shape (rows, outputs); support is every row with a coefficient. Kernels
    are symmetric: a pair is read once and counts twice.
    """
    out = np.zeros(stack.shape[2])
    for a in range(start, stop):
        i = support[a]
        for b in range(len(support)):
            j = support[b]
            if j > i:
                continue
            product = 0.0
            for k in range(coef.shape[1]):
                product += coef[i, k] * coef[j, k]
            if j < i:
                product *= 2.0
            values = stack[i, j]
            for f in range(len(out)):
                out[f] += product * values[f]
    return out
