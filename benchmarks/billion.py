"""What a billion rows would take, calculated from the largest fit: no measurement.

python benchmarks/billion.py reads results/cluster.json and prints the calculation that
docs/cluster.md shows. Passes over all rows and products with the curvature are taken to
be as many as measured; seconds of a pass grow with the rows of a worker, those of all
else with the rows that a worker holds; the source is read again in every pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from common import parse, show
from evidence import load

WORKER_SHARE = 0.4  # of a worker's memory for features, as in the package
MEASURED_WORKERS = 2
SOURCE_BYTES = 784  # of a row: pixels
READ = 500e6  # bytes that a worker reads in a second: an assumption
TASK = 1e-3  # seconds of the scheduler for a task: an assumption
TASK_ROWS = 100_000  # of a partition


@dataclass(frozen=True)
class Calculation:
    """All figures for some rows and workers.

    Parameters
    ----------
    large : dict
        The largest fit of the benchmark, whose features did not fit.
    rank, kernels : int
    rows, workers : int
    memory : float
        Bytes of a worker.
    """

    large: dict[str, Any]
    rank: int = 200
    kernels: int = 12
    rows: int = 10**9
    workers: int = 32
    memory: float = 2e9

    @property
    def passes(self) -> int:
        """Over all rows, as measured."""
        return int(self.large["passes"]["all"])

    @property
    def products(self) -> int:
        """Over held rows, as measured."""
        return int(self.large["passes"]["held"])

    @property
    def row_bytes(self) -> int:
        """Of the features of a row in float32."""
        return 4 * self.rank * self.kernels

    @property
    def source_bytes(self) -> float:
        """To read in every pass."""
        return float(SOURCE_BYTES * self.rows)

    @property
    def feature_bytes(self) -> float:
        """Of the features of all rows, which are never held together."""
        return float(self.row_bytes * self.rows)

    @property
    def held_rows(self) -> float:
        """Rows whose features are held."""
        return WORKER_SHARE * self.memory * self.workers / self.row_bytes

    @property
    def moved_bytes(self) -> float:
        """That travel between machines: w to and a sum from every worker, each time."""
        once = 2 * self.workers * self.large["bytes_of_a_product"]
        return float(once * (self.passes + self.products))

    @property
    def seconds_of_a_pass(self) -> float:
        """Features and sums of a worker's rows, reading, and the scheduler."""
        one = self.large["passes"]["seconds_of_one"]
        by_row = one * MEASURED_WORKERS / self.large["rows"]
        each = self.rows / self.workers
        reading = SOURCE_BYTES * each / READ
        return float(by_row * each + reading + TASK * self.rows / TASK_ROWS)

    @property
    def seconds_of_the_rest(self) -> float:
        """Held rows: what was measured beside the passes, by the rows of a worker."""
        large = self.large
        one = large["passes"]["seconds_of_one"]
        rest = large["seconds"] - large["passes"]["all"] * one
        spare = WORKER_SHARE * self.memory * MEASURED_WORKERS
        held = (spare - SOURCE_BYTES * large["rows"]) / self.row_bytes
        return float(rest * (self.held_rows / self.workers) / (held / MEASURED_WORKERS))

    @property
    def seconds(self) -> float:
        """Of all."""
        return self.passes * self.seconds_of_a_pass + self.seconds_of_the_rest


def largest(results: dict[str, Any]) -> dict[str, Any]:
    """The fit of most rows."""
    return results["large"] if "large" in results else results["growth"]


def lines(found: Calculation) -> list[list[str]]:
    """The calculation in words."""
    return [
        ["rows read in every pass", f"{found.source_bytes / 1e9:,.0f} GB"],
        ["features of all rows, never held", f"{found.feature_bytes / 1e12:,.1f} TB"],
        ["rows whose features are held", f"{found.held_rows / 1e6:,.1f} million"],
        ["passes over all rows (as measured)", f"{found.passes}"],
        ["products with held rows (as measured)", f"{found.products}"],
        ["bytes moved between machines", f"{found.moved_bytes / 1e9:,.1f} GB"],
        ["a pass", f"{found.seconds_of_a_pass / 60:,.0f} minutes"],
        ["all else", f"{found.seconds_of_the_rest / 60:,.0f} minutes"],
        ["the fit", f"{found.seconds / 3600:,.1f} hours"],
    ]


def main() -> None:
    """Print it."""
    options = parse(__doc__, rows=(10**9, "rows"), workers=(32, "workers"))
    large = largest(load("cluster")["results"])
    found = Calculation(large, rows=options.rows, workers=options.workers)
    title = f"{found.rows:,} rows on {found.workers} workers: a calculation"
    show(title, ["", ""], lines(found))


if __name__ == "__main__":
    main()
