"""What an error quotes of a value that somebody passed."""

from __future__ import annotations

from typing import Any

MOST = 200  # letters; a table or a file passed by mistake may have millions


def quoted(value: Any, most: int = MOST) -> str:
    r"""repr(value) in one line, and not all of it if it is long.

    Examples
    --------
    >>> quoted("a\nb"), quoted(range(3))
    ("'a\\nb'", 'range(0, 3)')
    >>> quoted("x" * 1000, most=12)
    "'xxxxxxxx..."
    """
    try:
        text = " ".join(repr(value).split("\n"))
    except Exception:  # whole numbers of thousands of digits, objects of any kind
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= most else text[: most - 3] + "..."
