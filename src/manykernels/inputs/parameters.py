"""Parameters: each estimator declares what it takes, one function checks them all."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from manykernels.base.disk import file_name
from manykernels.base.quoted import quoted

LARGEST_PENALTY = 1e100  # a penalty is squared, inverted and multiplied by losses
APPROXIMATION = r"(nystroem|random_features)(?::([1-9][0-9]{0,8}))?"


@dataclass(frozen=True, kw_only=True)
class ParameterRule(ABC):
    """What a parameter may be; None and some words are allowed without a check."""

    optional: bool = False  # None is allowed, too
    words: tuple[str, ...] = ()  # and so are these texts

    @abstractmethod
    def check(self, name: str, value: Any) -> None:
        """Raise unless a value, neither that None nor such a word, is allowed."""

    def refusal(
        self,
        name: str,
        expected: str,
        value: Any,
        advice: str = "choose one of these",
    ) -> ValueError:
        """The error for a value: what was expected, what came, what to do."""
        words = "".join(f" or {word!r}" for word in self.words)
        expected = f"{expected}{' or None' * self.optional}{words}"
        return ValueError(f"{name} must be {expected}, got {quoted(value)}; {advice}.")


Rules: TypeAlias = Mapping[str, ParameterRule]


@dataclass(frozen=True)
class Number(ParameterRule):
    """A finite number in (low, high], or [low, high] if `low_ok`.

    Unless it is zero, it and its inverse must not exceed `largest`.

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
    largest: float = np.inf

    def check(self, name: str, value: Any) -> None:
        number, advice = _as_float(value), "choose one in that range"
        above = number >= self.low if self.low_ok else number > self.low
        if not (above and number <= self.high and np.isfinite(number)):
            start = "[" if self.low_ok else "("
            end = "inf)" if np.isinf(self.high) else f"{self.high:g}]"
            interval = f"a number in {start}{self.low:g}, {end}"
            raise self.refusal(name, interval, value, advice)
        if number != 0.0 and not 1.0 / self.largest <= abs(number) <= self.largest:
            raise ValueError(
                f"{name} must be between {1.0 / self.largest:g} and {self.largest:g}, "
                f"where its squares are numbers, too, got {quoted(value)}; {advice}."
            )


def _as_float(value: Any) -> float:
    """A real number as a float; NaN for everything else, and what overflows."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return float("nan")
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return float("nan")


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


@dataclass(frozen=True)
class Whole(ParameterRule):
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
    high: int | None = None

    def check(self, name: str, value: Any) -> None:
        whole = _is_whole(value)
        if not (whole and value >= self.low and value <= (self.high or value)):
            kind = {0: "non-negative ", 1: "positive "}.get(self.low, "")
            least = "" if kind else f" of at least {self.low}"
            least += f" up to {self.high}" if whole and value > self.low else ""
            advice = f"choose for instance {self.example}"
            raise self.refusal(name, f"a {kind}whole number{least}", value, advice)


class OneOf(ParameterRule):
    """One of the words (or None among them), or an object that has a method.

    The error ends with the `hint`, if any.

    Examples
    --------
    >>> OneOf("check", "clip").check("psd", "maybe")
    Traceback (most recent call last):
    ValueError: psd must be 'check' or 'clip', got 'maybe'; choose one of these.
    """

    def __init__(
        self, *words: str | None, method: str | None = None, hint: str = ""
    ) -> None:
        self.listed, self.method, self.hint = words, method, hint

    def check(self, name: str, value: Any) -> None:
        if value is None or isinstance(value, str):
            good = value in self.listed
        else:
            has_method = self.method is not None and hasattr(value, str(self.method))
            good = has_method and not isinstance(value, type)
        if not good:
            also = [] if self.method is None else [f"a {name} object"]
            listed = [*map(repr, self.listed), *also]
            text = " or ".join(filter(None, [", ".join(listed[:-1]), listed[-1]]))
            raise self.refusal(name, text, value, f"choose one of these{self.hint}")


@dataclass(frozen=True)
class Flag(ParameterRule):
    """True or False.

    Examples
    --------
    >>> Flag(words=("auto",)).check("standardize", "yes")
    Traceback (most recent call last):
    ValueError: standardize must be True or False or 'auto', got 'yes'; choose one of
    these.
    """

    def check(self, name: str, value: Any) -> None:
        if not isinstance(value, bool | np.bool_):
            raise self.refusal(name, "True or False", value)


class ClassWeights(ParameterRule):
    """The word "balanced", or a weight by class.

    Examples
    --------
    >>> ClassWeights().check("class_weight", "even")
    Traceback (most recent call last):
    ValueError: class_weight must be 'balanced', None or a dict of numbers by class, got
    'even'; choose one of these.
    """

    def check(self, name: str, value: Any) -> None:
        good = isinstance(value, str) and value == "balanced"
        if isinstance(value, Mapping):
            good = all(np.isfinite(_as_float(weight)) for weight in value.values())
        if not good:
            expected = "'balanced', None or a dict of numbers by class"
            raise ValueError(
                f"{name} must be {expected}, got {quoted(value)}; choose one of these."
            )


class FileName(ParameterRule):
    """The name of a file."""

    def check(self, name: str, value: Any) -> None:
        file_name(value, name)


class Precision(ParameterRule):
    """A name or type of NumPy for numbers of 32 or 64 bits.

    Examples
    --------
    >>> Precision().check("dtype", "float16")
    Traceback (most recent call last):
    ValueError: dtype must be 'float32' or 'float64', got 'float16'; choose one of
    these.
    """

    def check(self, name: str, value: Any) -> None:
        try:
            dtype = "" if value is None else np.dtype(value).name
        except (TypeError, ValueError):
            dtype = ""
        if dtype not in ("float32", "float64"):
            raise self.refusal(name, "'float32' or 'float64'", value)


class Workers(ParameterRule):
    """How many workers joblib takes: a number, or counted from all cores if negative.

    Examples
    --------
    >>> Workers().check("n_jobs", 0)
    Traceback (most recent call last):
    ValueError: n_jobs must be a whole number other than 0, up to 10000, got 0; choose
    1, or -1 for all cores.
    """

    most: ClassVar[int] = 10_000

    def check(self, name: str, value: Any) -> None:
        if not (_is_whole(value) and value != 0 and abs(value) <= self.most):
            expected = f"a whole number other than 0, up to {self.most}"
            raise self.refusal(name, expected, value, "choose 1, or -1 for all cores")


class Function(ParameterRule):
    """A function of one line of a history."""

    def check(self, name: str, value: Any) -> None:
        if not callable(value):
            raise TypeError(
                f"{name} must be a function of one line of the history, got "
                f"{quoted(value)}; pass the function itself or None."
            )


@dataclass(frozen=True)
class ReadBy(ParameterRule):
    """Whatever a function reads without an error."""

    read: Callable[[Any], object]

    def check(self, name: str, value: Any) -> None:
        self.read(value)


def check_parameters(estimator: Any, rules: Rules) -> None:
    """Raise where a parameter of an estimator is not what its rule allows."""
    for name, rule in rules.items():
        value = getattr(estimator, name)
        # Arrays and frames have no single truth value: only texts are compared.
        is_word = isinstance(value, str) and value in rule.words
        if not (is_word or (value is None and rule.optional)):
            rule.check(name, value)


def check_values(values: Mapping[str, Any], rules: Rules) -> None:
    """Raise where a value is not what the rule of its name allows.

    Examples
    --------
    >>> check_values({"n_pairs": 0}, {"n_pairs": Whole(example=50)})
    Traceback (most recent call last):
    ValueError: n_pairs must be a positive whole number, got 0; choose for instance 50.
    """
    check_parameters(SimpleNamespace(**values), rules)


# What every solver has that searches until a relative gap is reached.
SEARCH: Rules = {"tol": Number(low_ok=True), "max_iter": Whole(optional=True)}


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
    match = re.fullmatch(APPROXIMATION, text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            "approximate must be 'nystroem', 'random_features', one of these with a "
            f"rank such as 'nystroem:500', or None, got {quoted(text)}; choose one of "
            "these."
        )
    return match[1], int(match[2]) if match[2] else None


def choose_generator(random_state: Any) -> np.random.Generator:
    """A NumPy generator from what scikit-learn calls a random state."""
    return np.random.default_rng(draw_seed(random_state))


def draw_seed(random_state: Any, below: int = np.iinfo(np.int32).max) -> int:
    """A seed from what scikit-learn calls a random state; objects move on."""
    try:
        generator = check_random_state(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "random_state must be None, a whole number from 0 to 2**32 - 1 or a "
            f"np.random.RandomState, got {quoted(random_state)}; choose for instance 0."
        ) from error
    # An integer seed draws the same number in every fit, an object another one.
    return int(generator.randint(below))


def seeded(solver: Any, rng: np.random.Generator) -> Any:
    """A solver object that has no seed of its own takes the estimator's."""
    unseeded = is_dataclass(solver) and getattr(solver, "random_state", 0) is None
    return replace(solver, random_state=rng) if unseeded else solver  # type: ignore
