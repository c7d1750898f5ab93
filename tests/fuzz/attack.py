"""The attacker: inputs for a worker, which may hang or die of them."""

import hashlib
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
START_SECONDS = 300.0  # imports take seconds, on a busy machine more
CASE_SECONDS = 120.0  # after which a worker that says nothing hangs
BUSY = 30.0  # times as long at most, where others use the processor
BATCH = 50
MOST_DEATHS = 5  # of one target: a new worker takes seconds


@dataclass
class Report:
    """What became of the inputs of one target."""

    counts: Counter = field(default_factory=Counter)
    failures: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    most_bytes: int = 0  # of memory that an input took, where it is watched

    @property
    def deaths(self) -> int:
        """Inputs that the worker did not survive."""
        return self.counts["hung"] + self.counts["died"]

    def add(self, outcome: str, seed: int, content: bytes) -> None:
        kind = outcome.split()[0]
        self.counts[kind] += 1
        if kind not in ("accepted", "refused"):
            self.failures.setdefault(outcome, (seed, content))


class Worker:
    """A process of `tests.fuzz.worker`, started again whenever it dies."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.kept = Path(self.folder.name) / "input"
        self.process: subprocess.Popen | None = None
        self.most_bytes = 0  # of the last batch

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_) -> None:
        self._end()
        self.folder.cleanup()

    def tried(self, name: str, first: int, count: int) -> Iterator[tuple[str, int]]:
        """Outcome and seed of inputs; a worker that hangs or dies ends the batch."""
        if self.process is None:
            self._start()
        self.process.stdin.write(f"{name} {first} {count}\n".encode())
        self.process.stdin.flush()
        seed = first
        while True:
            line = self._line(CASE_SECONDS)
            if line.startswith("done"):
                self.most_bytes = int(line.split()[1])
                return
            if line.startswith("trying"):
                seed = int(line.split()[1])
                continue
            yield line, seed
            if line.startswith(("hung", "died")):
                return

    def input(self, name: str, seed: int, outcome: str) -> bytes:
        """An input that was not survived or unclear; others are of no interest."""
        if outcome in ("accepted", "refused"):
            return b""
        own = self.kept.with_name(f"{name} {seed}")
        return (own if own.exists() else self.kept).read_bytes()

    def _line(self, seconds: float) -> str:
        """The next line of the worker, or what happened in its place."""
        if not self._speaks(seconds):
            self._end()
            return f"hung for more than {seconds:g} s"
        line = self.process.stdout.readline().decode().strip()
        if line:
            return line
        code = self.process.wait()
        self._end()
        return f"died with code {code}"

    def _speaks(self, seconds: float) -> bool:
        """Whether a line comes within seconds of a processor, which may be busy."""
        end = time.monotonic() + BUSY * seconds
        before = self._processor_seconds()
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            while not ready.select(seconds):
                used = self._processor_seconds() - before  # NaN if unknown
                if time.monotonic() > end or not used <= seconds:
                    return False
        return True

    def _processor_seconds(self) -> float:
        """What the worker has had so far; infinite where the system does not tell."""
        try:
            told = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return float("inf")
        ticks = map(int, told.rpartition(")")[2].split()[11:13])
        return sum(ticks) / os.sysconf("SC_CLK_TCK")

    def _start(self) -> None:
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", str(self.kept)],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        if self._line(START_SECONDS) != "ready":
            raise RuntimeError("expected a worker that starts, got one that does not.")

    def _end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
        self.process = None


def attack(
    names: list[str], seconds: float, first: int = 0, most: int | None = None
) -> dict[str, Report]:
    """Try inputs of all targets in turns, for a while or up to a number of each."""
    reports = {name: Report() for name in names}
    end, seed = time.monotonic() + seconds, first
    with Worker() as worker:
        while time.monotonic() < end and (most is None or seed - first < most):
            for name in names:
                if time.monotonic() >= end:
                    break
                _batch(worker, name, seed, reports[name])
            seed += BATCH
    return reports


def _batch(worker: Worker, name: str, first: int, report: Report) -> None:
    """Every input of a batch, unless the worker dies again and again."""
    last = first + BATCH
    while first < last and report.deaths < MOST_DEATHS:
        for outcome, seed in worker.tried(name, first, last - first):
            report.add(outcome, seed, worker.input(name, seed, outcome))
            first = seed + 1
        report.most_bytes = max(report.most_bytes, worker.most_bytes)


def keep(name: str, content: bytes) -> Path:
    """Put an input into the corpus of past failures."""
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(content).hexdigest()[:16]
    path.write_bytes(content)
    return path
