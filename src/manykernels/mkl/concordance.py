"""Harrell's concordance: how well an order of risks agrees with censored times."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.hot.ranks import count_pairs
from manykernels.inputs.survival import read_times


def concordance_index(
    y: Any, risk: Any, sample_weight: Any = None, tied_tol: float = 1e-8
) -> float:
    """Share of comparable pairs in which the earlier event has the higher risk.

    A pair is comparable if it is known who came first: an event, and a row with a
    longer time or, without an event, the same time. Risks that differ by at most
    `tied_tol` count one half. 0.5 is what guessing gives. Takes O(n log n) time.

    Parameters
    ----------
    y : times and events, as in :class:`manykernels.MKLSurvival`
    risk : array of shape (n,)
        Higher for earlier events, as `predict_risk` gives it; minus a predicted time.
    sample_weight : array of shape (n,), optional
        A pair counts the product of its weights: k stands for k copies.
    tied_tol : float, default=1e-8

    Examples
    --------
    >>> time, event = [1, 2, 3, 4], [1, 1, 0, 1]
    >>> concordance_index((time, event), [4.0, 3.0, 2.0, 1.0])
    1.0
    >>> concordance_index((time, event), [4.0, 1.0, 2.0, 1.0])  # 3.5 of 5 pairs
    0.7
    """
    time, event = read_times(y)
    risk = _numbers("risk", risk, len(time))
    weight = np.ones(len(time))
    if sample_weight is not None:
        weight = _numbers("sample_weight", sample_weight, len(time))
    order = np.argsort(-time, kind="stable")
    time, event, risk, weight = (v[order] for v in (time, event, risk, weight))
    ranked = np.sort(risk)
    pairs, right, tied = count_pairs(
        np.searchsorted(ranked, risk),
        np.searchsorted(ranked, risk - tied_tol, side="left"),
        np.searchsorted(ranked, risk + tied_tol, side="right"),
        event,
        time,
        weight,
    )
    if pairs <= 0.0:
        raise ValueError(
            "y must have an event with a row that is known to be later, got no such "
            f"pair among {len(time)} rows; take more rows."
        )
    return float((right + 0.5 * tied) / pairs)


def _numbers(name: str, values: Any, n_rows: int) -> np.ndarray:
    found = np.asarray(values)
    numeric = found.dtype.kind in "biuf" and found.shape == (n_rows,)
    if not numeric or not np.isfinite(found).all():
        got = "some that are not" if numeric else f"{found.dtype} of {found.shape}"
        raise ValueError(
            f"{name} must hold one finite number for each of the {n_rows} rows of y, "
            f"got {got}; check it."
        )
    return found.astype(np.float64)
