"""Parameters of a dependency parser that make sense, alone and together."""

from __future__ import annotations

from typing import Any

import numpy as np

LOSSES = ("hinge", "crf")
PENALTIES = (None, "squared_l2", "group_lasso", "sparse_mkl")
UPDATES = ("auto", "passive_aggressive", "gradient", "dual_averaging")
PRUNING = ("group_lasso", "sparse_mkl")


def check_params(parser: Any) -> None:
    """Refuse parameters that no fit can follow, in one sentence."""
    _require_one_of("loss", parser.loss, LOSSES)
    _require_one_of("regularizer", parser.regularizer, PENALTIES)
    _require_one_of("update", parser.update, UPDATES)
    _require_positive("C", parser.C)
    if parser.step is not None:
        _require_positive("step", parser.step)
    for name in ("n_epochs", "selection_epochs", "min_count"):
        _require_count(name, getattr(parser, name))
    _check_update(parser)
    _check_selection(parser)
    if parser.callback is not None and not callable(parser.callback):
        raise TypeError(
            "callback must be a function of one line of the history, got "
            f"{parser.callback!r}; pass the function itself or None."
        )


def _check_update(parser: Any) -> None:
    plain = parser.loss == "hinge" and parser.regularizer is None
    if parser.update == "passive_aggressive" and not plain:
        raise ValueError(
            "update='passive_aggressive' needs the hinge loss and no regularizer, "
            f"got loss={parser.loss!r} and regularizer={parser.regularizer!r}; use "
            "update='auto'."
        )


def _check_selection(parser: Any) -> None:
    if parser.n_templates is not None:
        _require_count("n_templates", parser.n_templates)
        if not parser.refit:
            raise ValueError(
                "n_templates needs a second fit of the templates that are kept, got "
                "refit=False; pass refit=True."
            )
    elif parser.refit and parser.regularizer not in PRUNING:
        raise ValueError(
            "refit needs a regularizer that prunes templates, or n_templates, got "
            f"regularizer={parser.regularizer!r}; pass regularizer='sparse_mkl'."
        )


def _require_one_of(name: str, value: Any, known: Any) -> None:
    if not isinstance(value, str | None) or value not in known:
        raise ValueError(
            f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}; "
            "choose one of these."
        )


def _require_positive(name: str, value: Any) -> None:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0.0 < value < np.inf:
        raise ValueError(
            f"{name} must be a positive number, got {value!r}; choose one such as 1.0."
        )


def _require_count(name: str, value: Any) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < 1:
        raise ValueError(
            f"{name} must be a whole number of at least 1, got {value!r}; choose one "
            "in this range."
        )
