"""Parameters are chosen on a third of the training rows; then all of them are used."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid, train_test_split

from contest.datasets import Split

Maker = Callable[..., Any]


def tuned(make: Maker, grid: dict[str, Iterable[Any]], split: Split, seed: int) -> Any:
    """The estimator fitted with the parameters that did best on held-out rows."""
    candidates = list(ParameterGrid(grid))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = candidates[0]
        if len(candidates) > 1:
            best = max(candidates, key=_judge(make, split, seed))
        return make(**best).fit(split.train, split.target)


def _judge(make: Maker, split: Split, seed: int) -> Callable[[dict[str, Any]], float]:
    fitting, held = train_test_split(
        np.arange(len(split.target)),
        test_size=1 / 3,
        stratify=split.target,
        random_state=seed,
    )
    train = split.train[np.ix_(fitting, fitting)]
    validation = split.train[np.ix_(held, fitting)]

    def judge(parameters: dict[str, Any]) -> float:
        model = make(**parameters).fit(train, split.target[fitting])
        return float(model.score(validation, split.target[held]))

    return judge


def test_accuracy(model: Any, split: Split) -> float:
    """On the rows that nobody has seen."""
    return float(model.score(split.test, split.target_test))
