"""Progress, estimates and warnings of a fit: plain lines on standard error."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from itertools import count
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from manykernels.banks.build import gram_bytes
from manykernels.device import Device
from manykernels.kernels.kernel_set import KernelSet
from manykernels.solvers.loop import SolveResult
from manykernels.solvers.problem import Problem

USELESS_GAP = 0.9  # relative: a bound this weak is no certificate at all
SAME_SCORE_TOL = 1e-3  # margins are of the order of one: smaller is no difference
# An order of magnitude, from whole fits of 1,200 to 60,000 rows with 12 kernels on two
# cores: 4e-9 with few rows, 1e-9 with many, where most values are never computed.
HOST_SECONDS_PER_VALUE = 3e-9
LONG_FIT_SECONDS = 600.0  # worth a warning

logger = logging.getLogger(__name__)


def say(text: str) -> None:
    """One line on standard error, at once."""
    print(text, file=sys.stderr, flush=True)


def shortened(name: str, most: int = 72) -> str:
    """The name of a kernel, which may list many columns, in a table or a picture.

    Examples
    --------
    >>> shortened("rbf@0+2+4+6+8", 10)
    'rbf@0+2...'
    """
    return name if len(name) <= most else name[: most - 3] + "..."


def epoch_text(line: Any) -> str:
    """One line of a history, of whatever sort, in words.

    Examples
    --------
    >>> from manykernels.solvers.loop import Epoch
    >>> epoch_text(Epoch(1, 0.5, 0.25, 0.3, 120))
    'epoch   1   objective 0.25   gap 0.3   updates 120   0.5 s'
    """
    parts = [
        f"{name.removeprefix('n_').replace('_', ' ')} "
        + (f"{value:.6g}" if isinstance(value, float) else str(value))
        for name, value in line._asdict().items()
        if name not in ("epoch", "time")
    ]
    return "   ".join([f"epoch {line.epoch:3d}", *parts, f"{line.time:.1f} s"])


class EpochPrinter:
    """Print the line of an epoch, and the time left where a gap is to be reached.

    Examples
    --------
    >>> from manykernels.solvers.loop import Epoch
    >>> EpochPrinter(tol=1e-2).seconds_left(Epoch(1, 0.5, 0.25, 0.3, 120)) is None
    True
    """

    def __init__(self, tol: float | None = None) -> None:
        self.tol = tol
        self._first: Any = None

    def __call__(self, line: Any) -> None:
        left = self.seconds_left(line)
        more = "" if left is None else f"   about {left:.1f} s left"
        say(epoch_text(line) + more)

    def seconds_left(self, line: Any) -> float | None:
        """Extrapolate the gap, which falls about geometrically; None if too early.

        That is until it has halved: before, its pace is not known.
        """
        first = self._first = self._first or line
        if not self.tol or not self.tol < line.gap < 0.5 * first.gap:
            return None
        rate = np.log(first.gap / line.gap) / max(line.time - first.time, 1e-9)
        return float(np.log(line.gap / self.tol) / rate)


def notebook_display() -> Any | None:
    """IPython's display, where a notebook runs this; else None."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if not hasattr(shell, "kernel"):
        return None
    return sys.modules["IPython"].display


class ProgressBar:
    """A bar in a notebook, in place of lines that would fill its page.

    Parameters
    ----------
    display : module
        IPython's.
    """

    def __init__(self, display: Any) -> None:
        self._display = display
        self._shown: Any = None

    def update(self, share: float, text: str) -> None:
        """How far it is, from 0 to 1, and in words."""
        bar = f'<progress max="1" value="{min(max(share, 0.0), 1.0):.3f}"></progress>'
        page = self._display.HTML(f"{bar} {escape(text)}")
        if self._shown is None:
            self._shown = self._display.display(page, display_id=True)
        else:
            self._shown.update(page)


class EpochBar:
    """The same for a fit: how far the gap has fallen, on the way to its goal."""

    def __init__(self, bar: ProgressBar, tol: float | None) -> None:
        self.bar, self.tol = bar, tol
        self._printer = EpochPrinter(tol)
        self._first: float | None = None

    def __call__(self, line: Any) -> None:
        left = self._printer.seconds_left(line)
        more = "" if left is None else f"   about {left:.1f} s left"
        self.bar.update(self.share(line), epoch_text(line) + more)

    def share(self, line: Any) -> float:
        """The way from the first gap to `tol` that is done, by logarithms."""
        gap = getattr(line, "gap", np.nan)
        if not self.tol or not gap > 0.0:
            return float(gap == 0.0)
        self._first = self._first or gap
        if gap <= self.tol or self._first <= self.tol:
            return 1.0
        return float(np.log(self._first / gap) / np.log(self._first / self.tol))


def progress_callback(
    verbose: int, tol: float | None, callback: Any
) -> Callable[[Any], object] | None:
    """The user's callback, after a printed line if `verbose`."""
    if callback is not None and not callable(callback):
        raise TypeError(
            "callback must be a function of one line of the history, got "
            f"{callback!r}; pass the function itself or None."
        )
    if not verbose:
        return callback  # type: ignore[no-any-return]
    display = notebook_display()
    printer: Callable[[Any], None] = EpochPrinter(tol)
    if display is not None:
        printer = EpochBar(ProgressBar(display), tol)

    def print_and_call(line: Any) -> object:
        printer(line)
        return callback(line) if callback is not None else None

    return print_and_call


@contextmanager
def counted_steps(verbose: int, what: str, total: int) -> Iterator[Callable[[], None]]:
    """A function to call after each of `total` steps, which prints every tenth.

    Examples
    --------
    >>> with counted_steps(0, "searching", 3) as step:
    ...     step()
    """
    done, display = count(1), notebook_display() if verbose else None
    bar = None if display is None else ProgressBar(display)

    def step() -> None:
        n = next(done)  # one step of the interpreter: threads may count together
        if bar is not None:
            bar.update(n / total, f"{what}: {n} of {total}")
        elif verbose and 10 * n // total > 10 * (n - 1) // total:
            say(f"{what}: {n} of {total}")

    yield step


@contextmanager
def shown_log(show: Callable[[str], object] = say) -> Iterator[None]:
    """Show what this thread logs meanwhile."""
    package = logging.getLogger("manykernels")
    thread = threading.get_ident()
    handler = logging.Handler()
    handler.emit = lambda record: show(record.getMessage())  # type: ignore[method-assign,assignment,return-value]
    handler.addFilter(lambda record: record.thread == thread)
    level = package.level
    package.addHandler(handler)
    package.setLevel(min(package.getEffectiveLevel(), logging.INFO))
    try:
        yield
    finally:
        package.removeHandler(handler)
        package.setLevel(level)


def warn_unless_converged(solver: Any, result: SolveResult) -> None:
    """Warn where a solver that promises a certificate did not reach its gap."""
    if result.converged or result.stopped:
        return
    if getattr(solver, "certified", False):
        advice = "raise max_iter or tol"
        if result.at_rounding:
            advice = (
                "the rounding of the kernel values allows no smaller one: normalize "
                "the kernels, pass given ones in float64, lower C or raise tol"
            )
        warnings.warn(
            f"The relative duality gap is {result.relative_gap:.2g} after "
            f"{len(result.history)} epochs, above tol={solver.tol:g}; {advice}.",
            ConvergenceWarning,
            stacklevel=5,
        )


def require_precision(problem: Problem, result: SolveResult) -> None:
    """Raise where rounding hides all that there is to learn.

    The bound is then as good as none, and the model no better than chance.
    """
    # A weak bound after few rounds is no reason to stop: rounding is.
    if result.at_rounding and result.relative_gap > USELESS_GAP:
        largest = float(problem.bank.diagonals().max())
        raise ValueError(
            "expected kernel values whose rounding is small next to a margin of one, "
            f"got k(x, x) up to {largest:.2g} with C={problem.C:g}; "
            "normalize the kernels, rescale the columns, or lower C."
        )


def warn_if_alike(problem: Problem, scores: np.ndarray) -> None:
    """Warn where all rows score alike, although C would allow differences.

    Such a model is the optimum where kernel values are tiny, or all the same: the
    certificate is right and the model is useless.

    Parameters
    ----------
    problem : Problem
    scores : array of shape (rows, outputs)
        Of training rows; margins are of the order of one.
    """
    # With a tiny C all scores are small, as they should be: reg is 1 / (C n).
    apart = float(np.ptp(scores, axis=0).max(initial=0.0))
    if apart <= SAME_SCORE_TOL and problem.reg <= 1.0:
        warnings.warn(
            f"All training rows get nearly the same scores, at most {apart:.2g} apart: "
            "the kernels have tiny values, or the same ones for all rows; scale the "
            "columns, leave normalize at its default, or choose other widths.",
            stacklevel=5,
        )


def warn_if_long(kernels: KernelSet, device: Device | None = None) -> None:
    """Log the estimates of time and memory; warn when a fit may take very long."""
    n_rows, n_kernels = kernels.n_reference, kernels.n_kernels
    # Kernel values dominate the time of a fit.
    # Features take the place of kernel values where there are fewer of them.
    columns = n_rows * n_kernels
    if kernels.is_explicit:
        columns = min(columns, sum(kernels.n_feature_columns()))
    pace = HOST_SECONDS_PER_VALUE
    if device is not None and device.seconds_per_value is not None:
        pace = device.seconds_per_value
    seconds = pace * n_rows * columns
    if logger.isEnabledFor(logging.INFO):
        logger.info(
            "%d rows, %d kernels: about %.2g GB if stored, about %.2g s",
            n_rows,
            n_kernels,
            gram_bytes(kernels) / 1e9,
            seconds,
        )
    if seconds > LONG_FIT_SECONDS:
        warnings.warn(
            f"Fitting {n_rows} rows with {n_kernels} kernels may take about "
            f"{seconds / 60:.0f} minutes; try fewer rows or kernels first, or "
            "solver='obscure' with a small max_iter.",
            UserWarning,
            stacklevel=5,
        )
