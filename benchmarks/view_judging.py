"""Accuracies of many settings by data set and split: what is chosen, how it does.

`accuracy` has the axes data set, split, family, p, C, and validation or test rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from view_settings import (
    C_VALUES,
    FAMILIES,
    GRID,
    GRID_P,
    LEARNED,
    P_VALUES,
    SEVERAL,
    UNIFORM,
    Family,
)

Setting = tuple[int, int, int]  # positions of the family, p and C
NAMES = [family.name for family in FAMILIES]
DEFAULT, SEARCH = "MKLClassifier()", "MKLClassifierCV()"


def choose(accuracy: np.ndarray) -> Setting:
    """Family, p and C with the best mean on validation rows over all data sets."""
    mean = accuracy[..., 0].mean(axis=(0, 1))
    family, p, C = map(int, np.unravel_index(np.argmax(mean), mean.shape))
    return family, p, C


def chosen_elsewhere(accuracy: np.ndarray) -> np.ndarray:
    """Test accuracy on every data set of what all the others choose."""
    found = np.empty(accuracy.shape[:2])
    for d in range(len(accuracy)):
        others = np.delete(accuracy, d, axis=0) if len(accuracy) > 1 else accuracy
        found[d] = accuracy[d, :, *choose(others), 1]
    return found


def best_of(accuracy: np.ndarray, families: list[int], ps: list[int]) -> np.ndarray:
    """Test accuracy by data set and split of what validation rows choose in a grid."""
    part = accuracy[:, :, families][:, :, :, ps]
    flat = part.reshape(*part.shape[:2], -1, 2)
    place = np.argmax(flat[..., 0], axis=-1)[..., None]
    return np.take_along_axis(flat[..., 1], place, axis=-1)[..., 0]


def judged(
    accuracy: np.ndarray, others: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Test accuracies by data set and split, of everything that is compared."""
    every = list(range(len(P_VALUES)))
    ps = [P_VALUES.index(p) for p in GRID_P]
    found = {
        DEFAULT: others[DEFAULT],
        SEARCH: others[SEARCH],
        "chosen on the other data sets": chosen_elsewhere(accuracy),
        "best of 64": best_of(accuracy, [NAMES.index(name) for name in GRID], ps),
        "best of all": best_of(accuracy, list(range(len(NAMES))), every),
    }
    for family in SEVERAL:
        place = [NAMES.index(family.name)]
        found[f"{family.name}, p = 1.1"] = best_of(accuracy, place, [LEARNED])
        found[f"{family.name}, p chosen"] = best_of(accuracy, place, every[:UNIFORM])
        found[f"{family.name}, uniform"] = best_of(accuracy, place, [UNIFORM])
    return found | others


def differences(
    found: dict[str, np.ndarray], names: list[str], default: Family
) -> dict[str, Any]:
    """In points: over all data sets, and on each with its error over splits."""
    pairs = {
        "default against best of 64": (DEFAULT, "best of 64"),
        "default against averaged kernel": (DEFAULT, default.averaged),
        "search against best of 64": (SEARCH, "best of 64"),
        "search against averaged kernel": (SEARCH, default.averaged),
    }
    for family in SEVERAL:
        for learned in ("p = 1.1", "p chosen"):
            name = f"{family.name}, {learned}"
            pairs[f"{name}, against uniform"] = (name, f"{family.name}, uniform")
    return {
        name: difference(100 * (found[ours] - found[theirs]), names)
        for name, (ours, theirs) in pairs.items()
        if theirs in found
    }


def difference(points: np.ndarray, names: list[str]) -> dict[str, Any]:
    """A difference by data set and split: its mean, and where it is least."""
    means = points.mean(axis=1)
    return {
        "mean": means.mean(),
        "error": standard_error(means),
        "least": means.min(),
        "most": means.max(),
        "where": names[int(means.argmin())],
        "by_set": {
            name: {"mean": own.mean(), "error": standard_error(own)}
            for name, own in zip(names, points, strict=True)
        },
    }


def fixed(accuracy: np.ndarray, best: np.ndarray, names: list[str]) -> dict[str, Any]:
    """How far below `best` every fixed setting is on its worst data set.

    That of the least such distance, seen on the test rows themselves: no setting that
    is the same for all data sets can do better, however it is found.
    """
    behind = 100 * (best[..., None, None, None] - accuracy[..., 1]).mean(axis=1)
    family, p, C = np.unravel_index(np.argmin(behind.max(axis=0)), behind.shape[1:])
    own = behind[:, family, p, C]
    return {
        "family": NAMES[family],
        "p": P_VALUES[p],
        "C": C_VALUES[C],
        "behind": own.max(),
        "where": names[int(own.argmax())],
        "mean": own.mean(),
    }


def standard_error(values: np.ndarray) -> float:
    """Of the mean; 0 where there is one value only."""
    if len(values) < 2:
        return 0.0
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
