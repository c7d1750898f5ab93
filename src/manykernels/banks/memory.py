"""How much memory there is, and a clear refusal before it runs out."""

from __future__ import annotations

import os
import re

PREFIXES = ["", "K", "M", "G", "T"]
SIZE = r"\s*([\d.]+)\s*(?:([KMGT])(i?))?B?\s*"  # number, prefix, "i" of 1024
SAFE_SHARE = 0.8  # of the free memory, when the user sets no limit


def parse_bytes(limit: int | float | str) -> int:
    """Bytes from a number or from text such as "4GB" (powers of 1000) or "4GiB".

    Examples
    --------
    >>> parse_bytes("4GB")
    4000000000
    >>> parse_bytes("1KiB")
    1024
    """
    if isinstance(limit, (int, float)) and not isinstance(limit, bool) and limit > 0:
        return int(limit)
    match = re.fullmatch(SIZE, str(limit), re.IGNORECASE)
    try:
        if match is not None and float(match[1]) > 0:
            base = 1024 if match[3] else 1000
            power = PREFIXES.index((match[2] or "").upper())
            return int(float(match[1]) * base**power)
    except ValueError:
        pass
    raise ValueError(
        f"memory_limit must be a positive number of bytes or text such as '4GB', got "
        f"{limit!r}."
    )


def free_bytes() -> int:
    """Memory that is free now; all memory where the system does not tell."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 8 * 10**9


def allowed_bytes(limit: int | float | str | None) -> int:
    """The user's limit, or most of what is free."""
    return int(SAFE_SHARE * free_bytes()) if limit is None else parse_bytes(limit)


def require_memory(needed: int, limit: int | float | str | None, what: str) -> None:
    """Raise MemoryError when `needed` bytes exceed the limit, or what is free."""
    allowed = allowed_bytes(limit)
    if needed > allowed:
        raise MemoryError(
            f"{what} needs about {needed / 1e9:.3g} GB, more than the "
            f"{allowed / 1e9:.3g} GB allowed; use fewer kernels or rows, or raise "
            "memory_limit."
        )
