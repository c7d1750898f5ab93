"""The p and C that a search tries, and the table of what came out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy.stats import rankdata

from manykernels.inputs.parameters import require_number
from manykernels.mkl.choices import choose_norm

DECADES = 3  # a number of Cs reaches from 10^-3 to 10^3


@dataclass(frozen=True)
class Grid:
    """All pairs of p and C; C rises along a path, so that fits start warm."""

    ps: list[float]
    Cs: list[float]

    @classmethod
    def of(cls, ps: Any, Cs: Any) -> Grid:
        """From lists, single numbers, or for C the number of values.

        Examples
        --------
        >>> Grid.of(1.5, 3).Cs
        [0.001, 1.0, 1000.0]
        """
        if isinstance(Cs, Integral) and not isinstance(Cs, bool) and int(Cs) > 1:
            Cs = np.logspace(-DECADES, DECADES, int(Cs)).tolist()
        chosen = [require_number("C", C, 0.0) for C in _listed("Cs", Cs)]
        norms = [choose_norm(p) for p in _listed("ps", ps)]
        return cls([norm.p for norm in norms], sorted(set(chosen)))

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """In the order of the tables: all C for the first p, and so on."""
        return [(p, C) for p in self.ps for C in self.Cs]

    def best(self, scores: np.ndarray) -> tuple[int, float]:
        """Position of the best mean score, the first of equals, and the score."""
        usable = np.where(np.isfinite(scores), scores, -np.inf)
        place = int(np.argmax(usable))
        return place, float(scores[place])

    def results(self, scores: np.ndarray) -> dict[str, Any]:
        """The table, in the form of scikit-learn's `cv_results_`.

        `scores` has shape (folds, pairs).
        """
        mean = scores.mean(axis=0)
        table: dict[str, Any] = {
            "param_p": np.array([p for p, _ in self.pairs]),
            "param_C": np.array([C for _, C in self.pairs]),
            "params": [{"p": p, "C": C} for p, C in self.pairs],
        }
        for fold, row in enumerate(scores):
            table[f"split{fold}_test_score"] = row
        table["mean_test_score"] = mean
        table["std_test_score"] = scores.std(axis=0)
        worst = np.where(np.isfinite(mean), -mean, np.inf)
        table["rank_test_score"] = rankdata(worst, method="min").astype(np.int32)
        return table


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        values = [values]
    found = list(values)
    if not found:
        raise ValueError(
            f"{name} must hold at least one number, got none; leave it out for the "
            "default."
        )
    return found
