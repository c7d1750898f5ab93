"""Sequences as users pass them: read once, laid end to end, tokens as columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Number
from typing import Any

import numpy as np
import scipy.sparse as sp

from manykernels.base.arrays import Array
from manykernels.base.quoted import quoted
from manykernels.base.stored import TEXTS, Count, Maybe, storable
from manykernels.structured.decoders import Labels

Token = Mapping[str, Any]


@dataclass(frozen=True)
class Positions:
    """All positions of all sequences as rows of one table."""

    table: Any  # array or CSR, (positions, columns)
    starts: Labels  # (sequences + 1,)

    @property
    def n_sequences(self) -> int:
        return len(self.starts) - 1

    def split(self, values: np.ndarray) -> list[np.ndarray]:
        """One array per sequence from one row per position."""
        return np.split(values, self.starts[1:-1]) if self.n_sequences else []


def read_sequences(
    X: Any,
    columns: TokenColumns | None,
    n_features: int | None,
    window: int | None = None,
) -> tuple[Positions, TokenColumns | None]:
    """Check sequences; in training (`n_features` None) find the columns of tokens."""
    sequences = _listed(X)
    lengths = [_length(sequence, n) for n, sequence in enumerate(sequences)]
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    # The first sequence decides; others of another sort are refused when read.
    if _has_tokens(sequences[0]) if sequences else columns is not None:
        table, columns = _token_table(sequences, columns, n_features, window)
    else:
        if window is not None:
            raise ValueError(
                f"window={window} needs sequences of token dicts, got arrays; leave it "
                "out, or join the columns of neighbors yourself."
            )
        if columns is not None:
            raise ValueError(
                "X must hold sequences of token dicts as in training, got arrays; "
                "pass tokens of the same sort."
            )
        table = _number_table(sequences, n_features)
    if n_features is not None and table.shape[1] != n_features:
        raise ValueError(
            f"X must hold sequences with {n_features} columns as in training, got "
            f"{table.shape[1]}; pass the same columns in the same order."
        )
    return Positions(table, starts), columns


def read_labels(y: Any, positions: Positions) -> np.ndarray:
    """All labels end to end; as many per sequence as it has positions."""
    if y is None:
        raise ValueError(
            "y must be passed, got None; give one sequence of labels per sequence of X."
        )
    given = list(y)
    lengths = np.diff(positions.starts)
    if len(given) != positions.n_sequences:
        raise ValueError(
            f"y must hold one sequence of labels per sequence of X, got {len(given)} "
            f"for {positions.n_sequences}; check that both come from the same data."
        )
    if not given:
        return np.empty(0)
    for n, (labels, wanted) in enumerate(zip(given, lengths, strict=True)):
        if isinstance(labels, str) or not hasattr(labels, "__len__"):
            raise ValueError(
                f"y must hold sequences of labels, got {labels!r} for sequence {n}; "
                "put the labels of a sequence into a list."
            )
        if len(labels) != wanted:
            raise ValueError(
                f"y must have one label per position, got {len(labels)} labels for "
                f"the {wanted} positions of sequence {n}; align them first."
            )
    return np.concatenate([_label_array(labels) for labels in given])


def require_labels(labels: np.ndarray) -> np.ndarray:
    """The different labels, of which there must be at least two."""
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(
            f"SequenceLabeler needs at least 2 labels, got {classes.tolist()}; check y."
        )
    return classes


def read_weights(sample_weight: Any, n_sequences: int) -> Array:
    """One number >= 0 per sequence; ones if not given."""
    if sample_weight is None:
        return np.ones(n_sequences)
    weight = np.asarray(sample_weight, dtype=np.float64)
    good = weight.shape == (n_sequences,) and np.isfinite(weight).all()
    if not good or np.any(weight < 0.0) or not weight.any():
        raise ValueError(
            f"sample_weight must be {n_sequences} numbers >= 0, one per sequence and "
            f"not all zero, got {sample_weight!r}; leave it out to count all alike."
        )
    return weight


def known_labels(labels: np.ndarray, classes: np.ndarray) -> Labels:
    """Index of each label among the classes, which must hold them all."""
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise ValueError(
            f"y must hold labels seen in training, got {unknown[:3].tolist()}; the "
            "known labels are in classes_, and partial_fit takes classes=... at its "
            "first call."
        )
    return np.searchsorted(classes, labels).astype(np.int64)


def _label_array(labels: Any) -> np.ndarray:
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(
            f"y must hold flat sequences of labels, got one of shape {array.shape}; "
            "give one label per position."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(
            "y must hold labels, got NaN or infinity among them; drop or label these "
            "positions."
        )
    return array


def _listed(X: Any) -> list[Any]:
    if isinstance(X, np.ndarray) and X.ndim == 2:
        raise ValueError(
            f"X must be a list of sequences, got one table of shape {X.shape}; put it "
            "into a list if it is one sequence."
        )
    if isinstance(X, str) or not hasattr(X, "__iter__"):
        raise ValueError(
            f"X must be a list of sequences, got {type(X).__name__}; each is an array "
            "of shape (length, features) or a list of token dicts."
        )
    return list(X)


def _length(sequence: Any, n: int) -> int:
    if sp.issparse(sequence):
        length = sequence.shape[0]
    elif hasattr(sequence, "__len__") and not isinstance(sequence, str | Mapping):
        length = len(sequence)
    else:
        raise ValueError(
            f"X must be a list of sequences, got {type(sequence).__name__} as sequence "
            f"{n}; each is an array of shape (length, features) or a list of dicts."
        )
    if length == 0:
        raise ValueError(
            f"X must hold sequences of at least one position, got an empty one at "
            f"{n}; drop it."
        )
    return int(length)


def _has_tokens(sequence: Any) -> bool:
    """Whether a token shows it: one without attributes may be any empty list."""
    return not sp.issparse(sequence) and any(
        isinstance(token, Mapping) or _is_texts(token) for token in sequence
    )


def _is_texts(token: Any) -> bool:
    """Whether a token is a list of attributes, as crfsuite takes them."""
    listed = isinstance(token, list | tuple | set)
    return listed and len(token) > 0 and all(isinstance(t, str) for t in token)


def _token_table(
    sequences: list[Any],
    columns: TokenColumns | None,
    n_features: int | None,
    window: int | None,
) -> tuple[Any, TokenColumns]:
    if columns is None and n_features is not None:
        raise ValueError(
            "X must hold arrays as in training, got token dicts; pass arrays of shape "
            "(length, features)."
        )
    tokens = [[_as_mapping(token, n) for token in s] for n, s in enumerate(sequences)]
    if columns is None:
        columns = TokenColumns.of(tokens, window)
    table = columns.table(tokens)
    _require_finite(table.data, "a token")
    return table, columns


def _as_mapping(token: Any, n: int) -> Token:
    if isinstance(token, Mapping):
        return token
    if isinstance(token, list | tuple | set) and all(isinstance(t, str) for t in token):
        return {name: 1.0 for name in token}
    raise ValueError(
        f"tokens must be dicts or lists of attribute names, got {token!r} in sequence "
        f"{n}; give all tokens the same form."
    )


def _number_table(sequences: list[Any], n_features: int | None) -> Any:
    if not sequences:
        if n_features is None:
            raise ValueError(
                "X must hold at least one sequence, got none; check the data."
            )
        return np.empty((0, n_features))
    sparse = [sp.issparse(sequence) for sequence in sequences]
    if any(sparse):
        table = sp.vstack([sp.csr_matrix(s) for s in sequences], format="csr")
        _require_finite(table.data, "a sequence")
        return table
    arrays = [_array(sequence, n) for n, sequence in enumerate(sequences)]
    widths = {array.shape[1] for array in arrays}
    if len(widths) > 1:
        raise ValueError(
            "X must hold sequences with the same number of columns, got "
            f"{sorted(widths)}; pad or select columns first."
        )
    for n, values in enumerate(arrays):
        _require_finite(values, f"sequence {n}")
    return np.concatenate(arrays)


def _array(sequence: Any, n: int) -> np.ndarray:
    try:
        array = np.asarray(sequence)
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 2:
        raise ValueError(
            "X must hold arrays of numbers of shape (length, features) or lists of "
            f"dicts, got {type(sequence).__name__} of {array.ndim} dimensions as "
            f"sequence {n}; reshape it."
        )
    return array


def _require_finite(values: np.ndarray, where: str) -> None:
    if not np.isfinite(values).all():
        kind = "NaN" if np.isnan(values).any() else "infinity"
        raise ValueError(
            f"X must hold finite numbers, got {kind} in {where}; fill or drop such "
            "values first."
        )


@storable(names=TEXTS, attributes=TEXTS, window=Maybe(Count()))
@dataclass(frozen=True)
class TokenColumns:
    """Columns of tokens given as dicts: a value's text becomes "name=value".

    Texts are indicators, numbers are values, and a list of texts is one indicator each;
    columns that training has not had are ignored.

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
        # A text that a list holds twice counts twice.
        table.sum_duplicates()
        return table

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    @cached_property
    def _texts(self) -> dict[str, dict[str, int]]:
        """Places by name and value, to find one without making its text."""
        texts: dict[str, dict[str, int]] = {}
        for place, column in enumerate(self.names):
            name, equals, value = column.partition("=")
            while equals:
                texts.setdefault(name, {})[value] = place
                more, equals, value = value.partition("=")
                name = f"{name}={more}"
        return texts


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
    shown = []
    for t in range(len(tokens)):
        token: dict[str, Any] = {"bias": 1.0}
        for s in range(max(t - window, 0), min(t + window + 1, len(tokens))):
            place = "" if s == t else f":{s - t:+d}"
            token.update({f"{name}{place}": v for name, v in tokens[s].items()})
        if t == 0:
            token["first"] = True
        if t == len(tokens) - 1:
            token["last"] = True
        shown.append(token)
    return shown
