"""One way in and out of a file for every estimator.

An estimator's file holds its parameters, as plain data, and the fitted attributes that
its class declares. What follows from these is not in the file but computed again, and
what does not fit together is refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manykernels.base.quoted import quoted, quoted_error
from manykernels.base.stored import Fields, Maybe, check_fields
from manykernels.files.container import (
    Arrays,
    Limit,
    ModelFileError,
    read_container,
    write_container,
)
from manykernels.files.plain import Functions, from_plain, to_plain

# Rooms of the classes that a file may name; the last is imported when one does.
ROOMS = ("mkl", "products", "structured", "compare")
# Code, paths and devices of this machine, which a file can neither hold nor set.
NEVER = ("callback", "checkpoint", "device")
KERNELS = ("kernels", "base_kernels")
ALWAYS_SHOWN = ("p", "C", "loss", "solver", "tol", "storage")  # even if default
SITE = "https://manykernels.github.io/manykernels/"


class Documented:
    """Mixin: scikit-learn's diagram of an estimator links to its page of the reference.

    Examples
    --------
    >>> import manykernels as mk
    >>> mk.MKLClassifier()._get_doc_link()
    'https://manykernels.github.io/.../api/generated/manykernels.MKLClassifier.html'
    """

    _doc_link_module = "manykernels"

    @property
    def _doc_link_template(self) -> str:
        """The whole address, without a field for scikit-learn to fill in."""
        name = type(self).__name__
        room = ".".join(type(self).__module__.split(".")[:2])
        public = import_module("manykernels").__all__
        home = "manykernels" if name in public else room
        return f"{SITE}api/generated/{home}.{name}.html"


class Saved(Documented):
    """Mixin: `save` for estimators, and what `load` needs to know about them.

    A subclass declares its fitted attributes in `_stored`; those that need not be there
    have the rule `Maybe`. `_restored` computes the others and checks all of them.
    """

    input_kind: ClassVar[str] = "rows"  # or "sequences", "sentences"
    _rules: ClassVar[Mapping[str, Any]] = {}  # for parameters, as `fit` checks them
    _stored: ClassVar[Fields]
    _required: ClassVar[tuple[str, ...]] = ()  # parameters that must not be left out

    def save(self, path: Any) -> None:
        """Write the fitted model to a file that holds data only, never code.

        `manykernels.load` reads it: an estimator of the same class with the same
        predictions to the bit. Training kernels are not kept, nor any rows where the
        model needs none. What is computed when it is first asked for, such as the
        temperature of probabilities, is computed now. The file appears whole or not at
        all, with the permissions that `open` would give it, and where a link points to.
        Callbacks, paths, devices, and objects from elsewhere such as splitters, scorers
        and random states are not saved: these parameters have their defaults
        afterwards.

        Parameters
        ----------
        path : str or path
        """
        self._require_fitted()
        self._require_allowed()
        arrays: Arrays = []
        content = {
            "estimator": type(self).__name__,
            "parameters": self._plain_parameters(arrays),
            "fitted": {
                name: to_plain(value, arrays)
                for name, value in self._fitted_values().items()
            },
        }
        write_container(path, content, arrays)

    def summary(self) -> dict[str, Any]:
        """Return facts of the fitted model by name, as `inspect` shows them."""
        self._require_fitted()
        name, settings = type(self).__name__, self._shown_settings()
        return {"estimator": name, "settings": settings, **self._facts()}

    def _facts(self) -> dict[str, Any]:
        """Return the part of `summary` that only this class has."""
        return {}

    @classmethod
    def _needed(cls) -> list[str]:
        return [k for k, rule in cls._stored.items() if not isinstance(rule, Maybe)]

    def _require_fitted(self) -> None:
        check_is_fitted(self, self._needed())

    def _require_allowed(self) -> None:
        """Raise if a parameter was changed after the fit to what `fit` would refuse."""
        for name, rule in self._rules.items():
            value = getattr(self, name)
            is_word = isinstance(value, str) and value in rule.words
            if not (is_word or (value is None and rule.optional)):
                rule.check(name, value)

    def _fitted_values(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in self._stored if name in vars(self)}

    def _fitted_kernels(self) -> Any:
        """Fitted kernels, for a file that cannot hold the parameter."""
        raise TypeError(
            "expected kernels that are data to save, got functions; name them."
        )

    def _restored(self) -> None:
        """Compute what follows from the stored attributes; raise if these disagree."""
        raise ValueError(f"{type(self).__name__} cannot be restored")

    def _plain_parameters(self, arrays: Arrays) -> dict[str, Any]:
        me: Any = self
        found = {}
        for name, value in me.get_params(deep=False).items():
            if name in NEVER:
                continue
            n_arrays = len(arrays)  # of a value that fails halfway, all are dropped
            try:
                found[name] = to_plain(value, arrays)
            except TypeError:
                del arrays[n_arrays:]
                if name in KERNELS:
                    found[name] = to_plain(self._fitted_kernels(), arrays)
                elif name in self._required:
                    raise
        return found

    def _shown_settings(self) -> dict[str, Any]:
        """The main parameters, and those that were changed."""
        me: Any = self
        defaults = type(me)().get_params(deep=False)
        return {
            name: value if _is_plain(value) else repr(value)
            for name, value in me.get_params(deep=False).items()
            if name not in (*NEVER, *KERNELS)
            and (name in ALWAYS_SHOWN or not _equal(value, defaults[name]))
        }


def load(
    path: Any, functions: Functions | None = None, memory_limit: Limit = None
) -> Any:
    """The estimator that `save` wrote; its predictions are the same to the bit.

    Nothing from the file is run. A file that is truncated, changed, foreign or of
    another version raises one ModelFileError. Its checksum shows that it is whole, not
    who wrote it.

    Parameters
    ----------
    path : str or path
    functions : mapping of str to callable, optional
        Functions of custom kernels by name, which a file cannot hold.
    memory_limit : int, float or str, optional
        Bytes, or text such as "1GB", that the loading may take; a file that might need
        more is refused before it is read. By default four times its size and 100 MB.

    Examples
    --------
    >>> import tempfile, manykernels as mk
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"]
    >>> path = tempfile.mkdtemp() + "/model"
    >>> mk.MKLClassifier("rbf", random_state=0).fit(X, y).save(path)
    >>> mk.load(path).predict([[0.2]]).tolist()
    ['low']
    """
    _require_functions(functions)
    content, arrays = read_container(path, memory_limit)
    try:
        return _restore(content, arrays, functions)
    except ModelFileError:
        raise
    except Exception as error:
        raise ModelFileError(
            f"expected the content of a fitted model, but {os.fspath(path)!r} lacks or "
            f"mixes up parts ({quoted_error(error)}); copy the original again."
        ) from error


def _require_functions(functions: Any) -> None:
    known = functions is None or (
        isinstance(functions, Mapping) and all(map(callable, functions.values()))
    )
    if not known:
        raise TypeError(
            "functions must be the functions of custom kernels by name, got "
            f"{quoted(functions)}; pass for instance {{'my_kernel': my_kernel}}."
        )


def saved_classes(room: str) -> dict[str, type[Saved]]:
    """The public estimators of a room, by name."""
    public = vars(import_module(f"manykernels.{room}"))
    return {
        name: public[name]
        for name in public["__all__"]
        if isinstance(public[name], type) and issubclass(public[name], Saved)
    }


def _find_class(name: Any) -> Any:
    known: list[str] = []
    for classes in map(saved_classes, ROOMS):
        if isinstance(name, str) and name in classes:
            return classes[name]
        known += classes
    raise ModelFileError(
        f"expected a model of {', '.join(known)}, got {name!r}; load it with the "
        "manykernels that wrote it."
    )


def _restore(content: Any, arrays: Arrays, functions: Functions | None) -> Any:
    name = content["estimator"]
    cls = _find_class(name)
    parameters = _read(content["parameters"], arrays, functions)
    _require_known(parameters, set(cls._get_param_names()) - set(NEVER))
    estimator = cls(**parameters)
    # A file may be forged: everything in it is checked as if a user had passed it.
    estimator._require_allowed()
    fitted = _read(content["fitted"], arrays, functions)
    _require_known(fitted, set(cls._stored))
    if missing := sorted(set(cls._needed()) - set(fitted)):
        raise ValueError(f"it lacks {', '.join(missing)}")
    rules = {key: rule for key, rule in cls._stored.items() if key in fitted}
    check_fields(name, rules, fitted)
    vars(estimator).update(fitted)
    with np.errstate(all="ignore"):
        estimator._restored()
    return estimator


def _read(plain: Any, arrays: Arrays, functions: Functions | None) -> dict[str, Any]:
    return {key: from_plain(value, arrays, functions) for key, value in plain.items()}


def _require_known(found: Mapping[str, Any], known: set[str]) -> None:
    if odd := sorted(set(found) - known):
        raise ValueError(f"it does not know {', '.join(odd)}")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _equal(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(np.all(value == default))


def by_weight(names: Sequence[str], weights: Any) -> list[dict[str, Any]]:
    """Kernels of a summary by falling weights.

    Examples
    --------
    >>> by_weight(["a", "b"], np.array([0.25, 0.75]))[0]
    {'name': 'b', 'weight': 0.75}
    """
    order = np.argsort(-np.asarray(weights), kind="stable")
    return [{"name": names[f], "weight": float(weights[f])} for f in order]


def certificate(estimator: Any, tol: float | None = None) -> dict[str, Any]:
    """Certificate of a summary; of several, that with the largest relative gap.

    `tol` is the estimator's own, unless its solver has one.
    """
    tol = float(estimator.tol if tol is None else tol)
    gaps = np.atleast_1d(estimator.duality_gap_)
    values = np.atleast_1d(estimator.objective_)
    with np.errstate(over="ignore"):  # of a forged file, where infinity is as good
        relative = np.divide(gaps, values, out=np.zeros(len(gaps)), where=values > 0.0)
    worst = int(np.argmax(relative))
    return {
        "objective": float(values[worst]),
        "duality_gap": float(gaps[worst]),
        "relative_gap": float(relative[worst]),
        "tol": tol,
        "reached": bool(relative[worst] <= tol),
    }
