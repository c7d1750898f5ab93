"""Changed files with checksums that fit, as an attacker would write them."""

import json

import numpy as np

from manykernels.files import read_container, write_container

STRANGE = [None, -1, 10**9, 1e308, "x", [], {}, True, {"array": 99}, {"slice": []}]


def leaves(value, path=()):
    """Paths of everything in a JSON document that is no container."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, (dict, list)) and item:
            yield from leaves(item, (*path, key))
        else:
            yield (*path, key)


def strange_values(path, n, rng):
    """Yield after each of n changes of one value in the content of a file."""
    whole, arrays = read_container(path)
    text, paths = json.dumps(whole), list(leaves(whole))
    for _ in range(n):
        content = json.loads(text)
        *inner, last = paths[rng.integers(len(paths))]
        place = content
        for key in inner:
            place = place[key]
        place[last] = STRANGE[rng.integers(len(STRANGE))]
        write_container(path, content, arrays)
        yield (*inner, last), place[last]


ARRAY_CHANGES = {
    "shorter": lambda a: a[:-1],
    "longer": lambda a: np.concatenate([a, a[-1:]]),
    "empty": lambda a: a[:0],
    "deeper": lambda a: a[..., None],
    "flat": lambda a: a.ravel(),
    "transposed": lambda a: np.ascontiguousarray(a.T),
    "negative": lambda a: -a - 1 if a.dtype.kind in "if" else a[::-1],
    "huge": lambda a: a * 10**6 + 10**6 if a.dtype.kind in "if" else a[::-1],
    "nan": lambda a: np.full(a.shape, np.nan),
    "whole": lambda a: np.zeros(a.shape, np.int64),
    "text": lambda a: np.full(a.shape, "x"),
}


def strange_arrays(path, n, rng):
    """Yield after each of n changes of one array of a file."""
    content, arrays = read_container(path)
    for _ in range(n):
        k = int(rng.integers(len(arrays)))
        name = list(ARRAY_CHANGES)[rng.integers(len(ARRAY_CHANGES))]
        forged = list(arrays)
        with np.errstate(all="ignore"):
            forged[k] = np.ascontiguousarray(ARRAY_CHANGES[name](arrays[k]))
        write_container(path, content, forged)
        yield k, name
