"""Memory limits: what is read and what is refused."""

from __future__ import annotations

import pytest

from manykernels.base import machine
from manykernels.base.machine import free_bytes, parse_bytes, require_memory


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (1024, 1024),
        (1.5e9, 1_500_000_000),
        ("4GB", 4 * 10**9),
        ("4 gb", 4 * 10**9),
        ("1.5M", 1_500_000),
        ("2TB", 2 * 10**12),
        ("300", 300),
        ("7KB", 7000),
        ("512B", 512),
        ("2GiB", 2 * 1024**3),
        ("1.5Ki", 1536),
    ],
)
def test_parse_bytes(text: int | float | str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    "text", ["", "GB", "-1GB", 0, -5, "0", "four", "1..2GB", True, "4XB", "4iB"]
)
def test_nonsense_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="memory_limit must be a positive number"):
        parse_bytes(text)  # type: ignore[arg-type]


def test_the_message_says_how_much_is_missing() -> None:
    require_memory(10, 10, "a stack")
    with pytest.raises(
        MemoryError, match=r"a stack needs about 3 GB, more than the 2 GB allowed; use"
    ):
        require_memory(3 * 10**9, "2GB", "a stack")


def test_the_default_limit_is_most_of_what_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert free_bytes() > 0
    monkeypatch.setattr(machine, "free_bytes", lambda: 1000)
    require_memory(800, None, "a stack")
    with pytest.raises(MemoryError):
        require_memory(801, None, "a stack")
