"""A line per epoch of any history, counted steps, and the estimate of a long fit."""

import logging
import warnings
from threading import Thread
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from manykernels.device import Device
from manykernels.inputs.reporting import (
    HOST_SECONDS_PER_VALUE,
    counted_steps,
    epoch_text,
    progress_callback,
    warn_if_long,
)
from manykernels.solvers.loop import Epoch


class OtherEpoch(NamedTuple):
    """A history of another sort."""

    epoch: int
    time: float
    n_templates: int
    accuracy: float


def test_every_history_has_words() -> None:
    text = epoch_text(OtherEpoch(12, 3.25, 1234567, 0.5))
    assert text == "epoch  12   templates 1234567   accuracy 0.5   3.2 s"


def test_progress_estimates_the_time_left(capsys) -> None:
    tell = progress_callback(1, 1e-2, None)
    tell(Epoch(1, 1.0, 0.5, 1.0, 10))
    tell(Epoch(2, 2.0, 0.4, 0.1, 10))
    first, second = capsys.readouterr().err.splitlines()
    assert "left" not in first
    # A tenth of the gap a second: the next tenth is the tolerance.
    assert "about 1.0 s left" in second


@pytest.mark.parametrize("verbose", [0, 1])
def test_the_callback_is_asked_whether_to_stop(verbose, capsys) -> None:
    tell = progress_callback(verbose, None, lambda line: line.epoch == 2)
    answers = [tell(OtherEpoch(epoch, 0.0, 1, 1.0)) for epoch in (1, 2)]
    assert answers == [False, True]
    assert capsys.readouterr().err.count("epoch") == 2 * verbose


def test_callbacks_must_be_functions() -> None:
    with pytest.raises(TypeError, match="callback must be a function of one line"):
        progress_callback(0, None, 3)


@pytest.mark.parametrize(("total", "lines"), [(3, 3), (10, 10), (25, 10), (1000, 10)])
def test_steps_are_said_ten_times_at_most(total, lines, capsys) -> None:
    with counted_steps(1, "searching", total) as step:
        for _ in range(total):
            step()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == lines and said[-1] == f"searching: {total} of {total}"


def test_threads_count_together(capsys) -> None:
    with counted_steps(1, "searching", 400) as step:
        workers = [
            Thread(target=lambda: [step() for _ in range(100)]) for _ in range(4)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert "searching: 400 of 400" in capsys.readouterr().err


def kernels_of_size(
    n_rows: int, n_kernels: int, columns: int | None = None
) -> SimpleNamespace:
    """What the estimate reads of a fitted set, without the rows."""
    return SimpleNamespace(
        n_reference=n_rows,
        n_kernels=n_kernels,
        dtype=np.dtype(np.float32),
        is_explicit=columns is not None,
        n_feature_columns=lambda: [columns] * n_kernels,
    )


@pytest.mark.parametrize(("n_rows", "n_kernels"), [(200_000, 20), (400_000, 5)])
def test_very_long_fits_are_announced(n_rows, n_kernels) -> None:
    minutes = HOST_SECONDS_PER_VALUE * n_rows**2 * n_kernels / 60
    with pytest.warns(UserWarning, match=f"{n_rows} rows with {n_kernels} ker") as seen:
        warn_if_long(kernels_of_size(n_rows, n_kernels))
    assert f"about {minutes:.0f} minutes; try fewer" in str(seen[0].message)


def test_short_fits_are_only_logged(caplog) -> None:
    with warnings.catch_warnings(), caplog.at_level(logging.INFO, "manykernels"):
        warnings.simplefilter("error")
        warn_if_long(kernels_of_size(1_000, 10))
    assert "1000 rows, 10 kernels: about 0.068 GB" in caplog.text
    assert f"about {HOST_SECONDS_PER_VALUE * 1e7:.2g} s" in caplog.text


def test_features_and_fast_devices_are_not_announced() -> None:
    fast = Device("fast", np)
    fast.seconds_per_value = 1e-12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_long(kernels_of_size(1_000_000, 12, columns=30))
        warn_if_long(kernels_of_size(400_000, 5), fast)
    with pytest.warns(UserWarning, match="may take about"):
        warn_if_long(kernels_of_size(400_000, 5), Device("as the processor", np))
