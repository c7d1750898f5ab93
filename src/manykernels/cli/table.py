"""The demonstration's results as a table and two sentences."""

from __future__ import annotations

from rich import box
from rich.table import Table

from manykernels.cli.contest import Result

# Points of accuracy within which two methods count as equal; two standard errors of
# a difference on 1,600 images are about as much.
AS_GOOD = 1.0


def result_table(results: list[Result], n_test: int) -> Table:
    """One row per contender, one section per set of kernels."""
    table = Table(
        title=f"{n_test} test images",
        caption="used: kernels with weight; noise: weight on noise kernels",
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("method", no_wrap=True)
    for name in ("accuracy", "fit s", "certified gap", "used", "noise"):
        table.add_column(name, justify="right", no_wrap=True)
    for kernels, rows in by_kernels(results).items():
        table.add_section()
        table.add_row(f"[bold]{kernels}")
        for result in rows:
            table.add_row(*_cells(result))
    return table


def by_kernels(results: list[Result]) -> dict[str, list[Result]]:
    """The results of each set of kernels, in order."""
    sets = dict.fromkeys(result.kernels for result in results)
    return {name: [r for r in results if r.kernels == name] for name in sets}


def conclusion(results: list[Result]) -> str:
    """What the numbers say, in words chosen by the numbers.

    Examples
    --------
    >>> learnt = Result("MKL, p = 1", "2 useful + 4 noise", 0.9, 0.1, 1.0)
    >>> mean = Result("SVM, averaged kernel", "2 useful + 4 noise", 0.8, 0.1, 1.0)
    >>> print(conclusion([learnt, mean]))
    With 2 useful + 4 noise kernels, learning weights gains 10.0 points over averaging.
    """
    sets = by_kernels(results)
    return "\n".join(_sentence(kernels, rows) for kernels, rows in sets.items())


def _sentence(kernels: str, results: list[Result]) -> str:
    learnt = next(r for r in results if r.method.startswith("MKL"))
    mean = next(r for r in results if "averaged" in r.method)
    points = 100.0 * (learnt.accuracy - mean.accuracy)
    if abs(points) < AS_GOOD:
        verdict = f"averaging is as good as learning weights ({points:+.1f} points)"
    elif points > 0.0:
        verdict = f"learning weights gains {points:.1f} points over averaging"
    else:
        verdict = f"learning weights loses {-points:.1f} points to averaging"
    return f"With {kernels} kernels, {verdict}."


def _cells(result: Result) -> list[str]:
    return [
        f"  {result.method}",
        f"{result.accuracy:.1%}",
        f"{result.seconds:.3f}",
        "-" if result.gap is None else f"{result.gap:.1e}",
        "-" if result.used is None else str(result.used),
        "-" if result.noise_weight is None else f"{result.noise_weight:.0%}",
    ]
