"""Every refusal of every estimator is one sentence: expected, got, what to do.

The cases are generated: wrong data for each way of passing data, and wrong values for
every parameter that has a rule.
"""

import re
import warnings
from fractions import Fraction
from inspect import signature
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from manykernels.inputs.parameters import check_parameters
from tests.all_estimators import ESTIMATORS
from tests.files.test_all_estimators import CASES, NEW, TARGET, X, y

# Raw messages of Python, NumPy, SciPy, pandas and scikit-learn's internals.
RAW = re.compile(
    r"object is not|unsupported operand|has no attribute|could not convert|"
    r"inhomogeneous|out of bounds|index \d+|broadcast|unhashable|"
    r"not iterable|not subscriptable|has no len|must be real number, not|"
    r"invalid literal|cannot unpack|ambiguous|cast|NoneType|dtype\("
)
ON_ROWS = [n for n in ESTIMATORS if n not in ("SequenceLabeler", "DependencyParser")]
WEIGHTED = [
    n for n in ON_ROWS if "sample_weight" in signature(ESTIMATORS[n].fit).parameters
]
SCALED = ("PolynomialMKLClassifier", "PolynomialMKLRegressor")  # columns, whatever size
VALUES = {  # for a parameter of any kind
    "nan": np.nan,
    "inf": np.inf,
    "minus": -1,
    "zero": 0,
    "text": "no such word",
    "empty": "",
    "list": [],
    "pairs": {"a": 1},
    "none": None,
    "object": object(),
    "class": int,
    "yes": True,
    "tuple": (1, 2),
    "array": np.ones(2),
    "complex": 1j,
    "bytes": b"x",
    "huge": 10**400,
    "series": pd.Series([1.5]),
    "missing": pd.NA,
    "no dimension": np.array(1.5),
    "long": "word " * 1000,
    "range": range(3),
    "zero byte": "a\0b",
}


def require_sentence(message):
    """One sentence with advice, in our own words."""
    assert message and "\n" not in message, message
    assert message.endswith((".", "?")), message
    assert ". " not in message, f"more than one sentence: {message}"
    assert ";" in message, f"no advice: {message}"
    assert len(message) < 1000, f"too much: {message}"
    assert not RAW.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", message)), message


def frame(values=X):
    return pd.DataFrame(values, columns=list("abcd"))


def with_column(**columns):
    return frame().assign(**columns)


def changed(value, dtype=float):
    table = X.astype(dtype)
    table[3, 1] = value
    return table


RAGGED = [[1.0, 2.0], [3.0]] * 25
BAD_X = {
    "one dimension": X[:, 0],
    "three dimensions": X[:, :, None],
    "no dimension": np.float64(1.0),
    "no rows": X[:0],
    "no columns": X[:, :0],
    "one row": X[:1],
    "nan": changed(np.nan),
    "inf": changed(np.inf),
    "huge": changed(1e300),
    "text cell": changed("red", object),
    "none": None,
    "text": "table",
    "number": 3,
    "dict": {"a": 1},
    "ragged": RAGGED,
    "generator": (row for row in X),
    "complex": X + 1j,
    "dates": np.full(X.shape, np.datetime64("2020-01-01")),
    "objects": np.full(X.shape, object()),
    "text column": with_column(a="red"),
    "date column": with_column(b=pd.Timestamp("2020-01-01")),
    "missing cell": with_column(a=[None, *X[1:, 0]]),
    "sparse nan": sp.csr_array(changed(np.nan)),
    "set": {1, 2},
    "function": len,
}
BAD_Y = {
    "none": None,
    "too short": y[1:],
    "empty": [],
    "number": 3,
    "text": "labels",
    "two columns of text": np.full((len(X), 2), "a"),
    "nan": np.r_[np.nan, TARGET[1:]],
    "inf": np.r_[np.inf, TARGET[1:]],
    "dict": {"a": 1},
    "ragged": [[1], [1, 2]] * 25,
    "three dimensions": np.ones((len(X), 1, 1)),
    "complex": TARGET + 1j,
    "generator": (label for label in y),
    "missing": [*y[:-1].tolist(), None],
    "objects": [object()] * len(X),
}
BAD_WEIGHTS = {
    "negative": np.r_[-1.0, np.ones(len(X) - 1)],
    "zeros": np.zeros(len(X)),
    "too short": np.ones(3),
    "nan": np.r_[np.nan, np.ones(len(X) - 1)],
    "inf": np.r_[np.inf, np.ones(len(X) - 1)],
    "text": np.full(len(X), "a"),
    "two dimensions": np.ones((len(X), 2)),
    "dict": {"a": 1},
    "complex": np.ones(len(X)) * 1j,
}
BAD_NEW = {
    "fewer columns": NEW[:, :3],
    "more columns": np.hstack([NEW, NEW]),
    **{key: BAD_X[key] for key in ("one dimension", "nan", "text", "none", "ragged")},
    **{key: BAD_X[key] for key in ("dict", "complex", "objects", "three dimensions")},
}


def refusal(work):
    """The message of the error that comes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((ValueError, TypeError, MemoryError, OSError)) as caught:
            work()
    return str(caught.value)


def all_refused(cases, work, allowed=()):
    """Try every case; what is unclear or accepted is listed, all at once."""
    odd = []
    for key, value in cases.items():
        if key in allowed:
            continue
        try:
            require_sentence(refusal(lambda value=value: work(value)))
        except (AssertionError, BaseException) as error:  # pytest.fail among them
            if isinstance(error, KeyboardInterrupt):
                raise
            odd.append(f"{key}: {type(error).__name__}: {str(error)[:300]}")
    assert not odd, "\n".join(odd)


@pytest.mark.parametrize("name", ON_ROWS)
def test_tables(name):
    model, (_, target), _ = CASES[name]
    allowed = ["huge"] if name in SCALED else []
    all_refused(BAD_X, lambda value: clone(model).fit(value, target), allowed)


@pytest.mark.parametrize("name", ON_ROWS)
def test_targets(name):
    model, (table, _), _ = CASES[name]
    all_refused(BAD_Y, lambda value: clone(model).fit(table, value))


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights(name):
    model, data, _ = CASES[name]
    all_refused(BAD_WEIGHTS, lambda value: clone(model).fit(*data, sample_weight=value))


@pytest.mark.parametrize("name", ON_ROWS)
def test_new_rows(name):
    model, data, _ = CASES[name]
    fitted = clone(model).fit(*data)
    all_refused(BAD_NEW, fitted.predict)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parameters(name):
    """A rule takes a value or refuses it in a sentence that names the parameter."""
    rules, refused, odd = ESTIMATORS[name]._rules, 0, []
    assert set(rules) <= set(signature(ESTIMATORS[name]).parameters)
    for (parameter, rule), (key, value) in product(rules.items(), VALUES.items()):
        holder = SimpleNamespace(**{parameter: value})
        try:
            check_parameters(holder, {parameter: rule})
        except (ValueError, TypeError) as error:
            refused += 1
            try:
                require_sentence(str(error))
                assert re.search(rf"\b{parameter}\b|kernel", str(error)), str(error)
            except AssertionError as unclear:
                odd.append(f"{parameter}={key}: {str(unclear)[:200]}")
    assert not odd, "\n".join(odd)
    assert refused > 5 * len(rules)


OTHER = {key: VALUES[key] for key in ("minus", "pairs", "series", "missing", "range")}


@pytest.mark.parametrize("parameter", ["kernels", "storage", "memory_limit", "p", "C"])
@pytest.mark.parametrize("name", ["MKLClassifier", "MKLRegressor"])
def test_parameters_of_a_fit(name, parameter):
    model, data, _ = CASES[name]
    cases = {**OTHER, "text": "no such word", "long": "word " * 1000, "bytes": b"x"}
    if parameter != "kernels":
        cases |= {"nan": np.nan, "list": [], "complex": 1j}
    if parameter == "C":
        cases |= {"overflowing": 10**400, "inverse": 1e-320, "square": 1e200}
    fresh = clone(model)
    all_refused(cases, lambda v: fresh.set_params(**{parameter: v}).fit(*data))


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("MKLClassifier", "checkpoint"),
        ("MKLClassifier", "random_state"),
        ("MKLRegressor", "per_target_weights"),
        ("MKLClassifierCV", "n_jobs"),
        ("MKLClassifierCV", "scoring"),
        ("PolynomialMKLRegressor", "degree_weights"),
        ("SequenceLabeler", "cost"),
        ("SequenceLabeler", "random_state"),
        ("DependencyParser", "random_state"),
        ("DependencyParser", "templates"),
    ],
)
def test_parameters_that_only_a_fit_reads(name, parameter):
    model, data, _ = CASES[name]
    cases = {key: VALUES[key] for key in ("pairs", "series", "missing", "no dimension")}
    cases |= {"word": [["word"]], "fraction": Fraction(1, 3), "complex": 1j}
    fresh = clone(model)
    all_refused(cases, lambda v: fresh.set_params(**{parameter: v}).fit(*data))


def test_every_sort_of_number_is_a_number():
    model, data, _ = CASES["MKLClassifier"]
    for C in (Fraction(1, 3), np.float16(2.0), np.longdouble(2.0), 2**70, np.int8(3)):
        assert clone(model).set_params(C=C).fit(*data).score(*data) > 0.3


@pytest.mark.parametrize("name", ESTIMATORS)
def test_predictions_before_a_fit(name):
    model, _, new = CASES[name]
    with pytest.raises(NotFittedError) as caught:
        clone(model).predict(new)
    assert name in str(caught.value) and "fit" in str(caught.value)
