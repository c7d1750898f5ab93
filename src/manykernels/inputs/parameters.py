"""Parameters: each estimator declares what it takes, one function checks them all."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

APPROXIMATION = r"(nystroem|random_features)(?::([1-9][0-9]{0,8}))?"


@dataclass(frozen=True, kw_only=True)
class Rule(ABC):
    """What a parameter may be; None and a word are allowed without a check."""

    optional: bool = False  # None is allowed, too
    word: str | None = None  # and so is this text

    @abstractmethod
    def check(self, name: str, value: Any) -> None:
        """Raise unless a value, neither that None nor that word, is allowed."""

    @property
    def exemptions(self) -> str:
        """The end of a list of what is allowed."""
        return " or None" * self.optional + (f" or {self.word!r}" if self.word else "")


Rules: TypeAlias = Mapping[str, Rule]


@dataclass(frozen=True)
class Number(Rule):
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

    def check(self, name: str, value: Any) -> None:
        """Raise unless it is such a number."""
        good = isinstance(value, Real) and not isinstance(value, bool)
        if good:
            above = value >= self.low if self.low_ok else value > self.low
            good = above and value <= self.high and np.isfinite(value)
        if not good:
            start = "[" if self.low_ok else "("
            end = "inf)" if np.isinf(self.high) else f"{self.high:g}]"
            raise ValueError(
                f"{name} must be a number in {start}{self.low:g}, {end}"
                f"{self.exemptions}, got {value!r}; choose one in that range."
            )


@dataclass(frozen=True)
class Whole(Rule):
    """A whole number of at least `low`.

    Examples
    --------
    >>> Whole(optional=True).check("max_iter", 0)
    Traceback (most recent call last):
    ValueError: max_iter must be a positive whole number or None, got 0; choose for
    instance 100.
    """

    low: int = 1
    example: int = 100

    def check(self, name: str, value: Any) -> None:
        """Raise unless it is such a number."""
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not (whole and value >= self.low):
            kind = {0: "non-negative ", 1: "positive "}.get(self.low, "")
            least = "" if kind else f" of at least {self.low}"
            raise ValueError(
                f"{name} must be a {kind}whole number{least}"
                f"{self.exemptions}, got {value!r}; choose for instance {self.example}."
            )


class OneOf(Rule):
    """One of the words (or None among them), or an object that has a method.

    The error ends with the `hint`, where there is one.

    Examples
    --------
    >>> OneOf("check", "clip").check("psd", "maybe")
    Traceback (most recent call last):
    ValueError: psd must be 'check' or 'clip', got 'maybe'; choose one of these.
    """

    def __init__(
        self, *words: str | None, method: str | None = None, hint: str = ""
    ) -> None:
        self.words, self.method, self.hint = words, method, hint

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
                f"{name} must be {text}, got {value!r}; choose one of these{self.hint}."
            )


@dataclass(frozen=True)
class Flag(Rule):
    """True or False.

    Examples
    --------
    >>> Flag(word="auto").check("standardize", "yes")
    Traceback (most recent call last):
    ValueError: standardize must be True or False or 'auto', got 'yes'; choose one of
    these.
    """

    def check(self, name: str, value: Any) -> None:
        """Raise unless it is one of the two."""
        if not isinstance(value, bool | np.bool_):
            raise ValueError(
                f"{name} must be True or False{self.exemptions}, "
                f"got {value!r}; choose one of these."
            )


class Function(Rule):
    """A function of one line of a history."""

    def check(self, name: str, value: Any) -> None:
        """Raise unless it can be called."""
        if not callable(value):
            raise TypeError(
                f"{name} must be a function of one line of the history, got {value!r}; "
                "pass the function itself or None."
            )


@dataclass(frozen=True)
class ReadBy(Rule):
    """Whatever a function reads; its error says what it expects."""

    read: Callable[[Any], object]

    def check(self, name: str, value: Any) -> None:
        """Raise what the function raises."""
        self.read(value)


def check_parameters(estimator: Any, rules: Rules) -> None:
    """Raise where a parameter of an estimator is not what its rule allows."""
    for name, rule in rules.items():
        value = getattr(estimator, name)
        is_word = isinstance(value, str) and value == rule.word
        if not (is_word or (value is None and rule.optional)):
            rule.check(name, value)


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
    try:
        generator = check_random_state(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "random_state must be None, a whole number from 0 to 2**32 - 1 or a "
            f"np.random.RandomState, got {random_state!r}; choose for instance 0."
        ) from error
    return int(generator.randint(np.iinfo(np.int32).max))
