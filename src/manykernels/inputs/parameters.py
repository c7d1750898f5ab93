"""Parameters: each estimator declares what it takes, one function checks them all."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol, TypeAlias

import numpy as np
from sklearn.utils import check_random_state


class Rule(Protocol):
    """What a parameter may be."""

    def check(self, name: str, value: Any) -> None:
        """Raise a ValueError unless the value is allowed."""


APPROXIMATION = r"(nystroem|random_features)(?::([1-9][0-9]{0,8}))?"
Rules: TypeAlias = Mapping[str, Rule]


@dataclass(frozen=True)
class Number:
    """A finite number in (low, high], or [low, high] if `low_ok`.

    Examples
    --------
    >>> Number(0.0).check("C", 10)
    >>> Number(0.0).check("C", -1)
    Traceback (most recent call last):
    ValueError: C must be a number in (0, inf), got -1; choose one in that range.
    """

    low: float = 0.0
    high: float = np.inf
    low_ok: bool = False
    optional: bool = False  # None is allowed, too
    word: str | None = None  # and so is this text

    def check(self, name: str, value: Any) -> None:
        """Raise unless it is such a number."""
        if _is_exempt(value, self.optional, self.word):
            return
        good = isinstance(value, Real) and not isinstance(value, bool)
        if good:
            above = value >= self.low if self.low_ok else value > self.low
            good = above and value <= self.high and np.isfinite(value)
        if not good:
            start = "[" if self.low_ok else "("
            end = "inf)" if np.isinf(self.high) else f"{self.high:g}]"
            raise ValueError(
                f"{name} must be a number in {start}{self.low:g}, {end}"
                f"{_exemptions(self.optional, self.word)}, got {value!r}; choose one "
                "in that range."
            )


@dataclass(frozen=True)
class Whole:
    """A whole number of at least `low`.

    Examples
    --------
    >>> Whole(optional=True).check("max_iter", 0)
    Traceback (most recent call last):
    ValueError: max_iter must be a positive whole number or None, got 0; choose for
    instance 100.
    """

    low: int = 1
    optional: bool = False
    example: int = 100

    def check(self, name: str, value: Any) -> None:
        """Raise unless it is such a number."""
        if value is None and self.optional:
            return
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not (whole and value >= self.low):
            kind = {0: "non-negative ", 1: "positive "}.get(self.low, "")
            least = "" if kind else f" of at least {self.low}"
            raise ValueError(
                f"{name} must be a {kind}whole number{least}"
                f"{' or None' * self.optional}, got {value!r}; choose for instance "
                f"{self.example}."
            )


class OneOf:
    """One of the words (or None among them), or an object that has a method.

    Examples
    --------
    >>> OneOf("check", "clip").check("psd", "maybe")
    Traceback (most recent call last):
    ValueError: psd must be 'check' or 'clip', got 'maybe'; choose one of these.
    """

    def __init__(self, *words: str | None, method: str | None = None) -> None:
        self.words, self.method = words, method

    def check(self, name: str, value: Any) -> None:
        """Raise unless it is one of them."""
        if value is None or isinstance(value, str):
            good = value in self.words
        else:
            known = self.method is not None and not isinstance(value, type)
            good = known and hasattr(value, str(self.method))
        if not good:
            also = [] if self.method is None else [f"a {name} object"]
            listed = [*map(repr, self.words), *also]
            text = " or ".join(filter(None, [", ".join(listed[:-1]), listed[-1]]))
            raise ValueError(
                f"{name} must be {text}, got {value!r}; choose one of these."
            )


@dataclass(frozen=True)
class Flag:
    """True or False.

    Examples
    --------
    >>> Flag(word="auto").check("standardize", "yes")
    Traceback (most recent call last):
    ValueError: standardize must be True or False or 'auto', got 'yes'; choose one of
    these.
    """

    optional: bool = False
    word: str | None = None

    def check(self, name: str, value: Any) -> None:
        """Raise unless it is one of the two."""
        exempt = _is_exempt(value, self.optional, self.word)
        if not exempt and not isinstance(value, bool | np.bool_):
            raise ValueError(
                f"{name} must be True or False{_exemptions(self.optional, self.word)}, "
                f"got {value!r}; choose one of these."
            )


def _is_exempt(value: Any, optional: bool, word: str | None) -> bool:
    """Whether a value is None or the word that a rule allows besides."""
    if value is None:
        return optional
    return isinstance(value, str) and value == word


def _exemptions(optional: bool, word: str | None) -> str:
    return " or None" * optional + (f" or {word!r}" if word else "")


class Function:
    """A function, or None."""

    def check(self, name: str, value: Any) -> None:
        """Raise unless it can be called, or is None."""
        if value is not None and not callable(value):
            raise TypeError(
                f"{name} must be a function of one line of the history, got {value!r}; "
                "pass the function itself or None."
            )


@dataclass(frozen=True)
class ReadBy:
    """Whatever a function reads; its error says what it expects."""

    read: Callable[[Any], object]

    def check(self, name: str, value: Any) -> None:
        """Raise what the function raises."""
        self.read(value)


def check_parameters(estimator: Any, rules: Rules) -> None:
    """Raise where a parameter of an estimator is not what its rule allows."""
    for name, rule in rules.items():
        rule.check(name, getattr(estimator, name))


def require_number(
    name: str, value: Any, low: float, high: float = np.inf, *, low_ok: bool = False
) -> float:
    """A finite number in (low, high], or [low, high] if `low_ok`.

    Examples
    --------
    >>> require_number("C", 10, 0.0)
    10.0
    """
    Number(low, high, low_ok).check(name, value)
    return float(value)


def read_approximation(text: Any) -> tuple[str | None, int | None]:
    """A way to approximate kernels, and the rank where the text names one.

    Examples
    --------
    >>> read_approximation("nystroem:500"), read_approximation(None)
    (('nystroem', 500), (None, None))
    """
    if text is None:
        return None, None
    found = re.fullmatch(APPROXIMATION, text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(
            "approximate must be 'nystroem', 'random_features', one of these with a "
            f"rank such as 'nystroem:500', or None, got {text!r}; choose one of these."
        )
    return found[1], int(found[2]) if found[2] else None


def choose_generator(random_state: Any) -> np.random.Generator:
    """A NumPy generator from what scikit-learn calls a random state."""
    return np.random.default_rng(draw_seed(random_state))


def draw_seed(random_state: Any) -> int:
    """A seed from what scikit-learn calls a random state; objects move on."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
