"""From options and rows to a fitted model."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit

from manykernels.cli.errors import fail, one_line
from manykernels.cli.readers.columns import Sample
from manykernels.cli.readers.kernel_files import read_kernels
from manykernels.inputs.parameters import require_number
from manykernels.kernels import Kernel, as_kernels
from manykernels.kernels.columns import positions
from manykernels.mkl import MKLClassifier
from manykernels.mkl.choices import choose_loss, choose_norm, choose_solver


def choose_kernels(text: str | None) -> list[Kernel] | None:
    """Kernels from the grammar or from a file that ends in .toml."""
    if text is None:
        return None
    return read_kernels(text) if text.endswith(".toml") else as_kernels(text)


def build_model(kernels: list[Kernel] | None, **options: Any) -> MKLClassifier:
    """A classifier with the options that were given, checked before data are read."""
    given = {name: value for name, value in options.items() if value is not None}
    unknown = sorted(set(given) - set(inspect.signature(MKLClassifier).parameters))
    if unknown:
        fail(f"this version of the estimator has no option {', '.join(unknown)}")
    model = MKLClassifier(kernels=kernels, **given)
    choose_norm(model.p)
    choose_loss(model.loss)
    choose_solver(model.solver, model.tol, model.max_iter, model.random_state)
    require_number("C", model.C, 0.0)
    return model


def fit_model(model: MKLClassifier, sample: Sample, y: np.ndarray) -> MKLClassifier:
    """Fit on rows of a file; the model remembers the names of its columns."""
    if model.kernels is None and sample.given:
        model.set_params(kernels="precomputed")
    elif model.kernels is not None and sample.names is not None:
        model.set_params(kernels=by_position(model.kernels, sample.names))
    model.fit(sample.X, y, sample_weight=sample.weight)
    if sample.names is not None:
        model.feature_names_in_ = np.array(sample.names, dtype=object)
    return model


def by_position(kernels: Sequence[Kernel], names: Sequence[str]) -> list[Kernel]:
    """The same kernels with positions for column names; their labels stay.

    Rows of a file are an array, so that no data frame library is needed.

    Examples
    --------
    >>> by_position(as_kernels("linear@b*"), ["a", "b1", "b2"])
    [Linear(columns=(1, 2), name='linear@b*')]
    """
    return [
        replace(
            kernel,
            columns=np.arange(len(names))[positions(kernel.columns, len(names), names)],
            name=kernel.label,
        )
        if _has_names(kernel.columns)
        else kernel
        for kernel in kernels
    ]


def hold_out(
    sample: Sample, y: np.ndarray, share: float, seed: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from and rows to evaluate; groups stay together."""
    if not 0.0 < share < 1.0:
        fail(f"--holdout must be a share between 0 and 1, got {share:g}; try 0.2")
    if sample.given:
        fail(
            "--holdout needs columns, got kernel values, whose training rows "
            "must be known when predicting; pass held-out rows with --test"
        )
    splitter = StratifiedShuffleSplit if sample.group is None else GroupShuffleSplit
    split = splitter(n_splits=1, test_size=share, random_state=seed)
    try:
        learn, rest = next(split.split(np.empty(len(y)), y, sample.group))
    except ValueError as error:
        why = one_line(error).rstrip(".")
        fail(
            f"--holdout {share:g} must leave rows of every class (or group) on both "
            f"sides, which failed ({why}); choose another share"
        )
    return learn, rest


def _has_names(columns: Any) -> bool:
    if isinstance(columns, slice):
        return isinstance(columns.start, str) or isinstance(columns.stop, str)
    items = columns if isinstance(columns, tuple) else (columns,)
    return any(isinstance(item, str) for item in items)
