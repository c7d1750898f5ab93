"""A fit that fails or is interrupted leaves the estimator as it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Method = Callable[Concatenate[Any, Arguments], Result]


def whole_or_nothing(
    method: Method[Arguments, Result],
) -> Method[Arguments, Result]:
    """The same method; an error or Ctrl-C takes back all it did to the attributes.

    Examples
    --------
    >>> class Learner:
    ...     @whole_or_nothing
    ...     def fit(self, value):
    ...         self.n_features_in_ = value
    ...         raise ValueError("half done")
    >>> learner = Learner()
    >>> try:
    ...     learner.fit(3)
    ... except ValueError:
    ...     print(vars(learner))
    {}
    """

    @wraps(method)
    def run(self: Any, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        before = dict(vars(self))
        try:
            return method(self, *args, **options)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return run
