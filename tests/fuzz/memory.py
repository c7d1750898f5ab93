"""The memory that a piece of code takes at its peak, where the system tells it."""

import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

STATUS, REFERENCES = Path("/proc/self/status"), Path("/proc/self/clear_refs")
TIMES, EXTRA = 4, 100_000_000  # what loading may take: of the file's size, and beside


@dataclass
class Peak:
    """The most that any input took, in bytes, since it was asked for."""

    most: int = 0

    def forget(self) -> int:
        found, self.most = self.most, 0
        return found


PEAK = Peak()


class MemoryHungerError(AssertionError):
    """A file that took more memory than its size allows."""


def _now(key: str) -> int:
    found = re.search(key + r":\s+(\d+)", STATUS.read_text())
    return 1024 * int(found[1]) if found else 0


@contextmanager
def require_little_memory(n_bytes: int):
    """Raise where the code takes more than a file of this size allows."""
    if not REFERENCES.exists():
        yield
        return
    REFERENCES.write_text("5")  # the peak starts anew
    before = _now("VmRSS")
    try:
        yield
    finally:
        taken = _now("VmHWM") - before
        PEAK.most = max(PEAK.most, taken)
        if taken > TIMES * n_bytes + EXTRA:
            raise MemoryHungerError(f"{n_bytes} bytes took {taken} bytes of memory")
