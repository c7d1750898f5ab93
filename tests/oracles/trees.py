"""All trees over a few words, one by one."""

from collections.abc import Iterator
from itertools import product

import numpy as np


def reaches_root(heads: tuple[int, ...]) -> bool:
    for start in range(1, len(heads) + 1):
        node, steps = start, 0
        while node and steps <= len(heads):
            node, steps = heads[node - 1], steps + 1
        if node:
            return False
    return True


def all_trees(n: int, single_root: bool) -> Iterator[tuple[int, ...]]:
    for heads in product(range(n + 1), repeat=n):
        if single_root and heads.count(0) != 1:
            continue
        if reaches_root(heads):
            yield heads


def tree_score(scores: np.ndarray, heads: tuple[int, ...]) -> float:
    return float(sum(scores[h, m] for m, h in enumerate(heads, 1)))


def brute_force(scores: np.ndarray, single_root: bool):
    """Best score, log-partition and marginals."""
    n = len(scores) - 1
    trees = list(all_trees(n, single_root))
    values = np.array([tree_score(scores, heads) for heads in trees])
    top = values.max()
    log_partition = top + np.log(np.exp(values - top).sum())
    marginals = np.zeros_like(scores)
    for heads, value in zip(trees, values, strict=True):
        for m, h in enumerate(heads, 1):
            marginals[h, m] += np.exp(value - log_partition)
    return top, log_partition, marginals
