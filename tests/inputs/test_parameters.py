"""Rules: what is allowed, what None and a word may stand for, and what errors say."""

from types import SimpleNamespace

import numpy as np
import pytest

from manykernels.inputs.parameters import (
    Flag,
    Function,
    Number,
    OneOf,
    ParameterRule,
    ReadBy,
    Whole,
    check_parameters,
    choose_generator,
    draw_seed,
    read_approximation,
)


class Thing:
    """An object with a method."""

    def solve(self) -> None:
        """Nothing to do."""


ALLOWED = [
    (Number(), 1),
    (Number(), np.float32(0.5)),
    (Number(0.0, 1.0), 1.0),
    (Number(low_ok=True), 0.0),
    (Number(optional=True), None),
    (Number(words=("auto",)), "auto"),
    (Whole(), np.int64(1)),
    (Whole(0), 0),
    (Whole(optional=True), None),
    (Flag(), np.True_),
    (Flag(words=("auto",)), "auto"),
    (OneOf("a", None), None),
    (OneOf("a", method="solve"), Thing()),
    (Function(), print),
    (Function(optional=True), None),
    (ReadBy(read_approximation), "nystroem:7"),
    (ReadBy(int, words=("many",)), "many"),
]
REFUSED = [
    (Number(), 0.0, r"in \(0, inf\), got 0.0; choose one in that range"),
    (Number(), True, "got True"),
    (Number(), np.nan, "got nan"),
    (Number(), np.inf, "got inf"),
    (Number(), None, "got None"),
    (Number(0.0, 1.0, low_ok=True), 1.5, r"in \[0, 1\], got 1.5"),
    (Number(optional=True), "auto", "or None, got 'auto'"),
    (Number(words=("auto",)), None, "or 'auto', got None"),
    (Whole(), 1.0, "a positive whole number, got 1.0; choose for instance 100"),
    (Whole(2, example=3), 1, "whole number of at least 2, got 1; .* instance 3"),
    (Whole(high=9), 10, "a positive whole number up to 9, got 10; choose for"),
    (Whole(high=9), 0, "a positive whole number, got 0; choose for"),
    (Whole(0), True, "non-negative whole number, got True"),
    (Flag(), 1, "True or False, got 1"),
    (OneOf("a", "b"), "c", "'a' or 'b', got 'c'; choose one of these.$"),
    (OneOf("a", hint=", or else"), "c", "choose one of these, or else.$"),
    (OneOf("a", method="solve"), Thing, "'a' or a setting object, got <class"),
    (OneOf("a"), np.zeros(2), "got array"),
    (Function(), None, "must be a function of one line of the history, got None"),
    (ReadBy(read_approximation), "fast", "'nystroem:500', or None, got 'fast'"),
]


@pytest.mark.parametrize(("rule", "value"), ALLOWED)
def test_what_a_rule_allows(rule: ParameterRule, value: object) -> None:
    check_parameters(SimpleNamespace(setting=value), {"setting": rule})


@pytest.mark.parametrize(("rule", "value", "message"), REFUSED)
def test_what_a_rule_refuses(rule: ParameterRule, value: object, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        check_parameters(SimpleNamespace(setting=value), {"setting": rule})


def test_seeds_are_drawn_as_in_scikit_learn() -> None:
    state = np.random.RandomState(3)
    assert draw_seed(3) == draw_seed(np.random.RandomState(3)) == draw_seed(state)
    assert draw_seed(state) != draw_seed(3)  # an object moves on
    assert choose_generator(3).integers(1000) == choose_generator(3).integers(1000)
