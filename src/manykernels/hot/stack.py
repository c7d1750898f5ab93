"""Loops over stored kernel values.

A Gram stack is a table of kernel rows: row i of kernel f is values[i * steps[0] + f *
steps[1]], so that all kernels of a row may lie side by side, one contiguous stream from
memory, or one matrix after the other. A given stack has the shape (rows, columns,
blocks), kernels last, as users often have it.
"""

from __future__ import annotations

import numpy as np

from manykernels.hot.jit import njit


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


@njit(cache=True, fastmath=True, nogil=True)
def combined_scores(values, steps, weights, coef, support, start, stop):
    """sum of coef[i, k] sum_f weights[f] K_f(i, j) over i in support[start:stop].

    Returns shape (outputs, columns). A combined row is used while it is in cache.
    """
    n_columns, n_outputs = values.shape[1], coef.shape[1]
    out = np.zeros((n_outputs, n_columns))
    combined = np.empty(n_columns)
    for a in range(start, stop):
        i = support[a]
        combined[:] = 0.0
        for f in range(len(weights)):
            weight = weights[f]
            if weight == 0.0:
                continue
            source = values[i * steps[0] + f * steps[1]]
            for j in range(n_columns):
                combined[j] += weight * source[j]
        for k in range(n_outputs):
            c = coef[i, k]
            if c == 0.0:
                continue
            target = out[k]
            for j in range(n_columns):
                target[j] += c * combined[j]
    return out


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
def _equal_tile(words, first, last, left, right):
    """Whether words[first:last, left:right] equals its mirror image bit by bit."""
    # Unsigned, because a signed place might be one that counts from the end.
    n_rows, n_words = np.uint64(words.shape[0]), np.uint64(words.shape[2])
    flat = words.reshape(words.size)
    differ = flat[0] ^ flat[0]
    for i in range(np.uint64(first), np.uint64(last)):
        for j in range(np.uint64(left), np.uint64(right)):
            here, mirrored = (i * n_rows + j) * n_words, (j * n_rows + i) * n_words
            for w in range(n_words):
                differ |= flat[here + w] ^ flat[mirrored + w]
    return differ == 0


@njit(cache=True, nogil=True)
def _take_in(values, largest, total):
    """A place of `largest` and `total` for each value, so that none waits."""
    for k in range(len(values)):
        size = abs(values[k])
        largest[k] = size if size > largest[k] else largest[k]
        total[k] += size


@njit(cache=True, nogil=True)
def _compare_tile(stack, first, last, left, right, gap, total):
    for i in range(first, last):
        for j in range(left, right):
            for f in range(stack.shape[2]):
                apart = abs(stack[i, j, f] - stack[j, i, f])
                gap[f] = max(gap[f], apart)
                total[f] += apart


@njit(cache=True, nogil=True)
def stack_facts(stack, words, tile, bands, start, stop):
    """Per kernel: largest |K_ij|, largest |K_ij - K_ji|, and a sum that NaN spoils.

    For `tile` rows from each of bands[start:stop], right of the diagonal, and their
    mirror images: every value is read from memory once. `words` are the same bytes as
    whole numbers, because most stacks are symmetric to the bit.
    """
    n_rows, n_blocks = stack.shape[0], stack.shape[2]
    rows = stack.reshape(n_rows, n_rows * n_blocks)
    largest = np.zeros(tile * n_blocks, stack.dtype)
    total = np.zeros(tile * n_blocks, stack.dtype)
    facts = np.zeros((3, n_blocks), stack.dtype)
    for band in range(start, stop):
        first = bands[band]
        last = min(first + tile, n_rows)
        for left in range(first, n_rows, tile):
            right = min(left + tile, n_rows)
            if not _equal_tile(words, first, last, left, right):
                _compare_tile(stack, first, last, left, right, facts[1], facts[2])
            for i in range(first, last):
                _take_in(rows[i, left * n_blocks : right * n_blocks], largest, total)
    for k in range(len(largest)):
        f = k % n_blocks
        facts[0, f] = max(facts[0, f], largest[k])
        facts[2, f] += total[k]
    return facts


@njit(cache=True, fastmath=True, nogil=True)
def combine_pairs(stack, weights, rows, columns, out, start, stop):
    """out[a, b] = sum_f weights[f] * stack[rows[a], columns[b], f].

    For a in start..stop.
    """
    shares = weights.astype(out.dtype)  # conversions would cost more than the sums
    for a in range(start, stop):
        values = stack[rows[a]]
        for b in range(len(columns)):
            source = values[columns[b]]
            total = out.dtype.type(0.0)
            for f in range(stack.shape[2]):
                total += shares[f] * source[f]
            out[a, b] = total


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
def quadratic_forms_given(stack, coef, support, turns, start, stop):
    """out[f] = sum of <coef_i, coef_j> K_f(i, j) over pairs of support rows.

    coef has shape (outputs, support rows). Kernels are symmetric: a pair is read once
    and counts twice. turns[start:stop] are the positions in `support` of the pairs'
    later rows.
    """
    n_blocks = stack.shape[2]
    out = np.zeros(n_blocks)
    products = np.empty(len(support))
    for turn in range(start, stop):
        a = turns[turn]
        products[: a + 1] = 0.0
        for k in range(len(coef)):
            c = coef[k, a]
            if c != 0.0:
                for b in range(a + 1):
                    products[b] += c * coef[k, b]
        products[a] *= 0.5
        values = stack[support[a]]
        for b in range(a + 1):
            source = values[support[b]]
            for f in range(n_blocks):
                out[f] += products[b] * source[f]
    return 2.0 * out
