"""The demonstration's results as a table and two sentences."""

from __future__ import annotations

from rich.table import Table

from manykernels.cli.contest import Result


def result_table(results: list[Result], n_test: int) -> Table:
    """One row per contender; a line divides the sets of kernels."""
    table = Table(title=f"{n_test} test images", title_justify="left")
    for name in ("method", "kernels"):
        table.add_column(name, overflow="fold")
    for name in ("accuracy", "fit s", "certified gap", "used", "noise weight"):
        table.add_column(name, justify="right", no_wrap=True)
    for result, following in zip(results, [*results[1:], None], strict=True):
        ends = following is not None and following.kernels != result.kernels
        table.add_row(*_cells(result), end_section=ends)
    return table


def conclusion(results: list[Result]) -> str:
    """What the numbers say, in words chosen by the numbers.

    Examples
    --------
    >>> learnt = Result("MKL, p = 1", "12 useful + 48 noise", 0.9, 0.1, 1.0)
    >>> mean = Result("SVM, averaged kernel", "12 useful + 48 noise", 0.8, 0.1, 1.0)
    >>> conclusion([learnt, mean])
    'With 12 useful + 48 noise kernels, learning weights gains 10.0 points over averaging.'
    """
    return "\n".join(
        _sentence(kernels, [r for r in results if r.kernels == kernels])
        for kernels in dict.fromkeys(result.kernels for result in results)
    )


def _sentence(kernels: str, results: list[Result]) -> str:
    learnt = next(r for r in results if r.method.startswith("MKL"))
    mean = next(r for r in results if "averaged" in r.method)
    points = 100.0 * (learnt.accuracy - mean.accuracy)
    if abs(points) < 2.0:
        verdict = (
            f"averaging is as good as learning weights ({points:+.1f} points): use it "
            "when you trust all your kernels"
        )
    elif points > 0.0:
        verdict = f"learning weights gains {points:.1f} points over averaging"
    else:
        verdict = f"learning weights loses {-points:.1f} points to averaging"
    return f"With {kernels} kernels, {verdict}."


def _cells(result: Result) -> list[str]:
    return [
        result.method,
        result.kernels,
        f"{result.accuracy:.1%}",
        f"{result.seconds:.3f}",
        "-" if result.gap is None else f"{result.gap:.1e}",
        "-" if result.used is None else str(result.used),
        "-" if result.noise_weight is None else f"{result.noise_weight:.0%}",
    ]
