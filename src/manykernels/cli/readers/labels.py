"""Labels as they stand in files: whole numbers where all of them are, else text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from manykernels.cli.readers.columns import TableError, listed

# Not 007: leading zeros belong to a name. At most what an integer of 64 bits holds.
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,17})(\.0*)?", re.ASCII)


def as_labels(values: np.ndarray) -> np.ndarray:
    """Labels to learn: integers, booleans or text.

    Examples
    --------
    >>> as_labels(np.array(["1", "-1", "+1"], dtype=object))
    array([ 1, -1,  1])
    >>> as_labels(np.array(["1", "b"], dtype=object)).tolist()
    ['1', 'b']
    >>> as_labels(np.array([0.0, 2.0]))
    array([0, 2])
    """
    if values.dtype.kind in "bi":
        return values
    if values.dtype.kind in "uf":
        return _whole_numbers(values)
    texts = [str(value) for value in values]
    if all(_WHOLE.fullmatch(text) for text in texts):
        return np.array([_to_int(text) for text in texts], dtype=np.int64)
    if all(_is_fraction(text) for text in texts):
        raise _fractions(texts)
    return np.array(texts, dtype=object)


def as_values(values: np.ndarray) -> np.ndarray:
    """Numbers to predict.

    Examples
    --------
    >>> as_values(np.array(["1", "2.5"], dtype=object))
    array([1. , 2.5])
    """
    numbers = np.array([_number(value) for value in values.tolist()])
    odd = ~np.isfinite(numbers)
    if odd.any():
        row = int(np.argmax(odd))
        raise TableError(
            f"expected finite numbers to predict, got {str(values[row])!r} in row "
            f"{row + 1}; name another column as --target, or learn classes."
        )
    return numbers


def labels_like(values: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The classes that the labels of a file stand for.

    Examples
    --------
    >>> labels_like(np.array(["2", "1"], dtype=object), np.array([1, 2]))
    array([2, 1])
    """
    place = {_key(label): k for k, label in enumerate(classes.tolist())}
    index = [place.get(_key(value), -1) for value in values.tolist()]
    if -1 in index:
        row = index.index(-1)
        raise TableError(
            f"expected labels that the model knows, {listed(classes.tolist())}, got "
            f"{str(values[row])!r} in row {row + 1}; leave such rows out."
        )
    return classes[np.array(index, dtype=np.intp)]


def _whole_numbers(values: np.ndarray) -> np.ndarray:
    inside = np.abs(values.astype(np.float64)) < 2.0**63
    if not (inside & (values == np.floor(values))).all():
        raise _fractions(values.tolist())
    return values.astype(np.int64)


def _number(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        return np.nan


def _to_int(text: str) -> int:
    return int(text.partition(".")[0])


def _is_fraction(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not re.fullmatch(r"[+-]?\d+", text)


def _fractions(values: list[Any]) -> TableError:
    odd = next((v for v in values if not _WHOLE.fullmatch(str(v))), values[0])
    return TableError(
        f"expected whole numbers or text as labels, got {str(odd)!r}; name another "
        "column as --target, or put the values into classes."
    )


def _key(label: Any) -> str:
    """The same text for 1, 1.0 and "+1", and text as it is."""
    text = str(label)
    return str(_to_int(text)) if _WHOLE.fullmatch(text) else text
