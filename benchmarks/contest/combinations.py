"""Ways to combine kernels: each an estimator and the parameters to choose from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sklearn.model_selection import StratifiedShuffleSplit

import manykernels as mk
from contest.choosing import Maker

CS = (1.0, 10.0, 100.0)
PS = (1.0, 1.1, 1.25, 1.5, 2.0)


@dataclass(frozen=True)
class Combination:
    """A name, an estimator of precomputed kernels, and its grid."""

    name: str
    make: Maker
    grid: dict[str, Iterable[Any]]


def _maker(kind: Any, **fixed: Any) -> Maker:
    # Kernels that were made here need no check.
    return partial(kind, "precomputed", psd="skip", **fixed)


MKL = Combination("MKL", _maker(mk.MKLClassifier, random_state=0), {"C": CS, "p": PS})
AVERAGED = Combination(
    "averaged kernel", _maker(mk.compare.AveragedKernelClassifier), {"C": CS}
)
FOLDS = 3  # of LP-beta: the smallest training sets have few rows of a class
# It chooses kernel and C itself, on a third of the rows as well.
HELD_OUT = StratifiedShuffleSplit(1, test_size=1 / 3, random_state=0)
BEST = Combination(
    "best single kernel",
    _maker(mk.compare.BestKernelClassifier, Cs=CS, cv=HELD_OUT, random_state=0),
    {},
)
PRODUCT = Combination(
    "product kernel", _maker(mk.compare.ProductKernelClassifier), {"C": CS}
)
LP_BETA = Combination(
    "LP-beta",
    _maker(mk.compare.LPBetaClassifier, weights="shared", cv=FOLDS, random_state=0),
    {"C": CS},
)
EVERYBODY = (
    MKL,
    AVERAGED,
    BEST,
    PRODUCT,
    LP_BETA,
    Combination(
        "LP-B",
        _maker(
            mk.compare.LPBetaClassifier, weights="per_class", cv=FOLDS, random_state=0
        ),
        {"C": CS},
    ),
    Combination(
        "leave-one-out LS-SVM",
        _maker(mk.compare.LeaveOneOutKernelClassifier),
        {"C": CS},
    ),
    Combination("EasyMKL", _maker(mk.compare.EasyMKLClassifier), {"C": CS}),
    Combination(
        "centered alignment", _maker(mk.compare.AlignmentClassifier), {"C": CS}
    ),
)
