"""What a file may hold: classes that declare their fields one by one.

A file may be forged. A class that is read from one says beside its definition what
every field must be: its type, its shape, its range. Sizes have names, and the same name
means the same number within one object. Only then is the object made, and its own
`require_sound` has the last word.

Examples
--------
>>> from dataclasses import dataclass
>>> @storable(points=Floats("points", 2), weight=Floats("points", low=0.0))
... @dataclass
... class Cloud:
...     points: np.ndarray
...     weight: np.ndarray
>>> make_stored("Cloud", {"points": np.zeros((3, 2)), "weight": np.ones(4)})
Traceback (most recent call last):
ValueError: weight of Cloud must have shape (points=3,), got (4,)
>>> del STORABLE["Cloud"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol, TypeAlias, TypeVar, overload

import numpy as np
import scipy.sparse as sp

Sizes: TypeAlias = dict[str, int]
Size: TypeAlias = str | int | None  # named, fixed, or any
Class = TypeVar("Class")


class Stored(Protocol):
    """A rule for one value that comes out of a file."""

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        """Raise a ValueError unless the value is allowed; add the sizes it names."""


Fields: TypeAlias = Mapping[str, Stored]


@dataclass(frozen=True)
class Declared:
    """A class that files may hold, and the rules for its fields."""

    cls: Any
    rules: Fields

    @property
    def names(self) -> list[str]:
        """Its fields in a file, in order."""
        if self.rules:
            return list(self.rules)
        if is_dataclass(self.cls):
            return [field.name for field in fields(self.cls)]
        return list(self.cls._fields)


STORABLE: dict[str, Declared] = {}


@overload
def storable(cls: Class, /) -> Class: ...


@overload
def storable(**rules: Stored) -> Callable[[Class], Class]: ...


def storable(cls: Any = None, /, **rules: Stored) -> Any:
    """Class decorator: a dataclass or named tuple that files may hold.

    Rules name every field. Without rules the class checks its fields itself when it is
    made; the fields of a named tuple are then numbers. A class whose form in a file is
    another one has a method `to_stored`, which gives its fields by name, and a class
    method `from_stored`, which takes them.
    """

    def register(found: Any) -> Any:
        STORABLE[found.__name__] = Declared(found, rules)
        return found

    return register if cls is None else register(cls)


def make_stored(name: str, values: dict[str, Any]) -> Any:
    """The object of a storable class with these fields, which are checked first."""
    declared = STORABLE[name]
    if set(values) != set(declared.names):
        odd = ", ".join(sorted(set(values) ^ set(declared.names)))
        raise ValueError(f"{name} lacks or does not know the fields {odd}")
    if declared.rules:
        check_fields(name, declared.rules, values)
    elif not is_dataclass(declared.cls):
        for field, value in values.items():
            Maybe(Real(nan=True)).check(f"{field} of {name}", value, {})
    make = getattr(declared.cls, "from_stored", declared.cls)
    made = make(**values)
    if hasattr(made, "require_sound"):
        made.require_sound()
    return made


def check_fields(owner: str, rules: Fields, values: Mapping[str, Any]) -> None:
    """Raise a ValueError that names the first field that breaks its rule."""
    sizes: Sizes = {}
    for name, rule in rules.items():
        rule.check(f"{name} of {owner}", values[name], sizes)


def require_all(owner: str, checks: Mapping[str, Any]) -> None:
    """Raise a ValueError that names the parts which do not fit together."""
    wrong = [name for name, right in checks.items() if not right]
    if wrong:
        raise ValueError(f"parts of {owner} disagree: {', '.join(wrong)}")


# --- rules for arrays ---------------------------------------------------------------


class _Numbers:
    kinds: tuple[str, ...]
    what: str

    def __init__(
        self, *shape: Size, low: Any = None, below: Any = None, nan: bool = False
    ) -> None:
        self.shape, self.low, self.below, self.nan = shape, low, below, nan

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, np.ndarray) or value.dtype.name not in self.kinds:
            got = getattr(value, "dtype", type(value).__name__)
            raise ValueError(f"{name} must be an array of {self.what}, got {got}")
        require_shape(name, self.shape, value.shape, sizes)
        below = sizes[self.below] if isinstance(self.below, str) else self.below
        if not value.size or self.nan:
            return
        if not np.isfinite(value).all():
            raise ValueError(f"{name} must hold finite numbers, got others")
        if self.low is not None and value.min() < self.low:
            raise ValueError(f"{name} must not fall below {self.low}")
        if below is not None and value.max() >= below:
            raise ValueError(f"{name} must stay below {below}, got {value.max()}")


class Floats(_Numbers):
    """Finite numbers, of at least `low` and less than `below`; or any if `nan`."""

    kinds, what = ("float32", "float64"), "numbers"


class Halves(_Numbers):
    """Finite numbers in half precision."""

    kinds, what = ("float16",), "numbers in half precision"


class Bytes(_Numbers):
    """Eight bits each."""

    kinds, what = ("uint8",), "bytes"


class Wholes(_Numbers):
    """Whole numbers, of at least `low` and less than `below`, a number or a size."""

    kinds, what = ("int32", "int64"), "whole numbers"


class Table(Floats):
    """A dense or sparse table of finite numbers."""

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if not sp.issparse(value):
            super().check(name, value, sizes)
            return
        require_shape(name, self.shape, value.shape, sizes)
        Floats(None).check(name, value.data, sizes)


class ClassLabels:
    """Different labels in rising order: numbers, booleans or text, at least `least`."""

    def __init__(self, size: Size = None, least: int = 2) -> None:
        self.size, self.least = size, least

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, np.ndarray):
            raise ValueError(f"{name} must be an array, got {type(value).__name__}")
        require_shape(name, (self.size,), value.shape, sizes)
        if len(value) < self.least or not np.all(value[:-1] < value[1:]):
            raise ValueError(f"{name} must be {self.least} or more labels in order")


@dataclass(frozen=True)
class Names:
    """An array of texts, such as the names of columns."""

    size: Size = None

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        texts = isinstance(value, np.ndarray) and value.dtype == object
        if not texts or not all(isinstance(item, str) for item in value):
            raise ValueError(f"{name} must be texts, got {value!r:.50}")
        require_shape(name, (self.size,), value.shape, sizes)


def require_shape(
    name: str, wanted: tuple[Size, ...], found: tuple[int, ...], sizes: Sizes
) -> None:
    """Raise unless a shape is the wanted one; sizes met for the first time are kept."""
    known = [
        sizes.get(size, None) if isinstance(size, str) else size for size in wanted
    ]
    agree = all(k is None or k == n for k, n in zip(known, found, strict=False))
    if len(found) != len(wanted) or not agree:
        words = [
            f"{size}={k}" if isinstance(size, str) and k is not None else str(size)
            for size, k in zip(wanted, known, strict=True)
        ]
        shape = ", ".join(words) + "," * (len(words) == 1)
        raise ValueError(f"{name} must have shape ({shape}), got {found}")
    for size, n in zip(wanted, found, strict=True):
        if isinstance(size, str):
            sizes[size] = n


# --- rules for other values -----------------------------------------------------------


@dataclass(frozen=True)
class Real:
    """A finite number in [low, high], or (low, high] if `above`; NaN if allowed."""

    low: float = -np.inf
    high: float = np.inf
    above: bool = False
    nan: bool = False

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and self.nan and not np.isfinite(value):
            return
        good = number and np.isfinite(value) and self.low <= value <= self.high
        if not good or (self.above and value == self.low):
            raise ValueError(f"{name} must be a number in its range, got {value!r}")


@dataclass(frozen=True)
class Count:
    """A whole number of at least `low`, which may be the size of arrays."""

    low: int = 0
    size: str | None = None

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not (whole and self.low <= value < 2**62):
            raise ValueError(f"{name} must be a whole number, got {value!r}")
        if self.size is not None:
            require_shape(name, (self.size,), (value,), sizes)


class StoredWord:
    """One of some values, such as words, or True and False."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if not any(type(value) is type(one) and value == one for one in self.values):
            raise ValueError(f"{name} must be one of {self.values}, got {value!r}")


FLAG = StoredWord(True, False)


class Part:
    """An object of one of these classes."""

    def __init__(self, *classes: type) -> None:
        self.classes = classes

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, self.classes):
            names = " or ".join(cls.__name__ for cls in self.classes)
            raise ValueError(f"{name} must be {names}, got {type(value).__name__}")


@dataclass(frozen=True)
class ListOf:
    """A list of values that obey a rule, as long as a size says."""

    rule: Stored
    size: Size = None

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, list):
            raise ValueError(f"{name} must be a list, got {type(value).__name__}")
        require_shape(name, (self.size,), (len(value),), sizes)
        for k, item in enumerate(value):
            self.rule.check(f"item {k} in {name}", item, sizes)


class Maybe:
    """None, or what one of the rules allows."""

    def __init__(self, *rules: Stored) -> None:
        self.rules = rules

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if value is not None:
            Either(*self.rules).check(name, value, sizes)


class Either:
    """What one of the rules allows."""

    def __init__(self, *rules: Stored) -> None:
        self.rules = rules

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        for rule in self.rules[:-1]:
            try:
                rule.check(name, value, trial := dict(sizes))
            except ValueError:
                continue
            sizes.update(trial)
            return
        self.rules[-1].check(name, value, sizes)


class Columns:
    """A table as a dict of arrays or lists of one length, by their names."""

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        Part(dict).check(name, value, sizes)
        rows: Sizes = {}
        for key, column in value.items():
            Part(str).check(f"a key of {name}", key, sizes)
            Part(list, np.ndarray).check(f"{key} in {name}", column, sizes)
            require_shape(f"{key} in {name}", ("rows",), (len(column),), rows)


class Anything:
    """Any plain value; the code that uses it checks it."""

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        pass


TEXT, TEXTS = Part(str), ListOf(Part(str))
