"""Values and errors as other error messages quote them."""

from __future__ import annotations

from typing import Any

QUOTED_LENGTH = 200  # characters; a table passed by mistake may have millions


def quoted(value: Any, most: int = QUOTED_LENGTH) -> str:
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
    return _shortened(text, most)


def quoted_error(error: Exception) -> str:
    """Class and message of an error in one line, not all of it if it is long.

    Examples
    --------
    >>> quoted_error(KeyError("a  word"))
    "KeyError: 'a  word'"
    """
    return _shortened(f"{type(error).__name__}: {error}".replace("\n", " "))


def _shortened(text: str, most: int = QUOTED_LENGTH) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def described(data: Any) -> str:
    """Type, shape and sort of data that has a shape; others are quoted.

    Examples
    --------
    >>> described([1, 2]), described("text")
    ('list of length 2', "'text'")
    """
    name, shape = type(data).__name__, getattr(data, "shape", ())
    if isinstance(shape, tuple) and shape:
        kind = getattr(data, "dtype", None)
        return f"{name} of shape {shape}" + ("" if kind is None else f", {kind}")
    if isinstance(data, list | tuple):
        return f"{name} of length {len(data)}"
    return quoted(data, 60)
