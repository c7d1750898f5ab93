"""Tokens given as dicts, as columns of a table."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Number
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.quoted import quoted
from manykernels.base.stored import TEXTS, Count, Maybe, storable

Token = Mapping[str, Any]


@storable(names=TEXTS, attributes=TEXTS, window=Maybe(Count()))
@dataclass(frozen=True)
class TokenColumns:
    """Columns of tokens given as dicts: a value's text becomes "name=value".

    Texts are indicators, numbers are values, and a list of texts is one indicator each;
    what was not seen in training is ignored.

    Parameters
    ----------
    names : list of str
        Columns, sorted.
    attributes : list of str
        What the training tokens were described by, before any window, sorted.
    window : int, optional
        See :func:`with_neighbors`; None takes tokens as they are.

    Examples
    --------
    >>> columns = TokenColumns.of([[{"word": "a", "size": 2}, {"word": "b"}]])
    >>> columns.names, columns.table([[{"word": "b", "size": 3}]]).toarray().tolist()
    (['size', 'word=a', 'word=b'], [[3.0, 0.0, 1.0]])
    """

    names: list[str]
    attributes: list[str]
    window: int | None = None

    @classmethod
    def of(
        cls, sequences: Sequence[Sequence[Token]], window: int | None = None
    ) -> TokenColumns:
        """The columns of training sequences."""
        attributes = {
            str(name) for tokens in sequences for token in tokens for name in token
        }
        names: set[str] = set()
        for token in _all_tokens(sequences, window):
            for name, value in token.items():
                if type(value) is str:  # the usual case, a million times
                    names.add(f"{name}={value}")
                else:
                    names.update(column for column, _ in _entries(name, value))
        return cls(sorted(names), sorted(attributes), window)

    def table(self, sequences: Sequence[Sequence[Token]]) -> Any:
        """CSR of all tokens, one row each."""
        texts, places, ends = self._texts, array("i"), [0]
        numbers: dict[int, float] = {}  # entries that are not 1
        for token in _all_tokens(sequences, self.window):
            for name, value in token.items():
                if type(value) is str and name in texts:
                    place = texts[name].get(value)
                    if place is not None:
                        places.append(place)
                    continue
                for column, number in _entries(name, value):
                    place = self._places.get(column)
                    if place is not None:
                        numbers[len(places)] = number
                        places.append(place)
            ends.append(len(places))
        values = np.ones(len(places))
        values[list(numbers)] = list(numbers.values())
        shape = (len(ends) - 1, len(self.names))
        table = sp.csr_matrix((values, np.array(places), ends), shape=shape)
        table.sum_duplicates()
        return table

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    @cached_property
    def _texts(self) -> dict[str, dict[str, int]]:
        """Places by name and value: no text has to be made to look one up."""
        found: dict[str, dict[str, int]] = {}
        for place, column in enumerate(self.names):
            name, equals, value = column.partition("=")
            while equals:
                found.setdefault(name, {})[value] = place
                more, equals, value = value.partition("=")
                name = f"{name}={more}"
        return found


def _entries(name: Any, value: Any) -> Iterator[tuple[str, float]]:
    """Columns of one attribute, and the numbers in them."""
    if isinstance(value, str):
        yield f"{name}={value}", 1.0
    elif value is None:
        yield str(name), np.nan
    elif isinstance(value, Number | np.bool_):
        yield str(name), float(value)  # type: ignore[arg-type]
    elif isinstance(value, Iterable) and not isinstance(value, Mapping):
        for text in value:
            if not isinstance(text, str):
                _refuse(name, value)
            yield f"{name}={text}", 1.0
    else:
        _refuse(name, value)


def _refuse(name: Any, value: Any) -> None:
    raise TypeError(
        f"attributes of tokens must be texts, numbers or lists of texts, got {name!r}: "
        f"{quoted(value)}; write it as one of these."
    )


def _all_tokens(
    sequences: Sequence[Sequence[Token]], window: int | None
) -> Iterator[Token]:
    for tokens in sequences:
        yield from tokens if window is None else with_neighbors(tokens, window)


def with_neighbors(tokens: Sequence[Token], window: int) -> list[dict[str, Any]]:
    """Tokens that also show the attributes of `window` neighbors on each side.

    "name:-1" is the attribute of the token before. Each gets a "bias", the outermost
    "first" and "last".

    Examples
    --------
    >>> with_neighbors([{"word": "a"}, {"word": "b"}], 1)[0]
    {'bias': 1.0, 'word': 'a', 'word:+1': 'b', 'first': True}
    """
    found = []
    for t in range(len(tokens)):
        token: dict[str, Any] = {"bias": 1.0}
        for s in range(max(t - window, 0), min(t + window + 1, len(tokens))):
            place = "" if s == t else f":{s - t:+d}"
            token.update({f"{name}{place}": v for name, v in tokens[s].items()})
        if t == 0:
            token["first"] = True
        if t == len(tokens) - 1:
            token["last"] = True
        found.append(token)
    return found
