"""Kernels as text: reading, writing, round trips, errors."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manykernels import MKLClassifier
from manykernels.kernels import (
    RBF,
    BSpline,
    ChiSquared,
    Constant,
    Cosine,
    Custom,
    Distance,
    Intersection,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    format_kernel,
    parse_kernel,
)
from manykernels.kernels.base import unique_names
from manykernels.kernels.grammar import as_kernels

PAIRS = [
    ("linear", Linear()),
    ("rbf:gamma=0.5@pixel*", RBF(0.5, columns="pixel*")),
    ("rbf:gamma=0.1*scale", RBF("0.1*scale")),
    ("polynomial:degree=5,gamma=scale", Polynomial(5, gamma="scale")),
    ("linear@3", Linear(columns=3)),
    ("linear@-1", Linear(columns=-1)),
    ("linear@0-3", Linear(columns=[0, 1, 2, 3])),
    ("linear@0-2+7+age", Linear(columns=[0, 1, 2, 7, "age"])),
    ("linear@0:14", Linear(columns=slice(0, 14))),
    ("linear@::2", Linear(columns=slice(None, None, 2))),
    ("linear@a:c", Linear(columns=slice("a", "c"))),
    ("linear@petal length (cm)", Linear(columns="petal length (cm)")),
    ("rbf:normalize=none,center=true", RBF(normalize=None, center=True)),
    ("rbf:normalize=trace,name=my kernel", RBF(normalize="trace", name="my kernel")),
    ("precomputed:normalize=diagonal@2", Precomputed(normalize="diagonal", columns=2)),
    ("distance:scale=2*mean", Distance("2*mean")),
    (
        "rbf:gamma=0.1,approximate=nystroem,rank=300@0-13",
        RBF(0.1, columns=range(14), approximate="nystroem", rank=300),
    ),
    (
        "laplacian:approximate=random_features",
        Laplacian(approximate="random_features"),
    ),
    (
        "intersection:center=true,approximate=nystroem,rank=2",
        Intersection(center=True, approximate="nystroem", rank=2),
    ),
]
ROUND = [
    Linear(columns=[3]),
    Linear(columns="3"),
    Linear(columns="0-13"),
    Linear(columns=["a+b", "c@d", "e,f;g"]),
    Linear(columns=" padded "),
    Linear(columns="50%"),
    Linear(columns=[1, "x", 2]),
    Linear(columns=[5, 4, 3]),
    Linear(columns=[-2, -1, 0, 1]),
    Linear(name="a=1, b@2; 100%"),
    Linear(name="3"),
    Linear(name="none"),
    Cosine(),
    Laplacian("median"),
    ChiSquared(0.25),
    Intersection(columns="hist_*"),
    BSpline(1.5, degree=2),
    Constant(),
    Precomputed(),
]


@pytest.mark.parametrize(("text", "kernel"), PAIRS)
def test_parse(text, kernel):
    assert parse_kernel(text) == kernel
    assert parse_kernel(format_kernel(kernel)) == kernel


@pytest.mark.parametrize("kernel", ROUND, ids=repr)
def test_round_trip(kernel):
    assert parse_kernel(format_kernel(kernel)) == kernel


def test_aliases_case_and_spaces():
    assert parse_kernel(" RBF : gamma = 2 @ a* + 3 ") == RBF(2, columns=["a*", 3])
    assert parse_kernel("poly:degree=2") == Polynomial(2)
    assert parse_kernel("chi2") == ChiSquared()
    assert parse_kernel("gaussian") == RBF()


positive = st.floats(1e-300, 1e300, exclude_min=True)
columns = st.one_of(
    st.none(),
    st.integers(0, 999),
    st.lists(st.integers(0, 50), min_size=1, max_size=9),
    st.text(min_size=1, max_size=9),
)


@given(positive, st.integers(1, 99), st.floats(0, 1e9), columns, st.booleans())
def test_any_numbers_survive(gamma, degree, coef0, where, center):
    kernel = Polynomial(degree, gamma, coef0, columns=where, center=center)
    assert parse_kernel(format_kernel(kernel)) == kernel


widths = st.one_of(positive, st.just("scale"), st.just("0.1*scale"), st.just("median"))
names = st.text(min_size=1, max_size=9)
choices = st.one_of(
    columns.filter(lambda found: not isinstance(found, list) or len(found) > 1),
    st.lists(st.one_of(st.integers(-9, 99), names), min_size=2, max_size=9),
    st.builds(slice, st.none() | names | st.integers(-9, 9), st.none() | names),
)
built_in = st.one_of(
    st.builds(RBF, widths, columns=choices, center=st.booleans()),
    st.builds(Polynomial, st.integers(1, 9), positive, st.floats(0, 9)),
    st.builds(Linear, columns=choices, normalize=st.sampled_from(["trace", None])),
    st.builds(Laplacian, positive, approximate=st.just("nystroem"), rank=st.just(7)),
    st.builds(Distance, st.just("2*mean"), columns=st.integers(0, 9)),
)


@given(st.lists(built_in, min_size=1, max_size=4))
def test_names_are_kernels_again(kernels):
    """Copies have numbers in their names, which say nothing of the kernel."""
    named = unique_names([kernel.label for kernel in kernels * 2])
    assert len(set(named)) == len(named)
    assert as_kernels(named) == kernels * 2


def test_names_of_a_fitted_model_are_kernels_again():
    X = pd.DataFrame(
        np.random.default_rng(0).random((30, 3)), columns=["a", "b_1", "c"]
    )
    texts = ["rbf:gamma=0.1*scale@b_*", "rbf:gamma=0.1*scale@b_*", "linear"]
    model = MKLClassifier(texts, random_state=0).fit(X, np.arange(30) % 2)
    assert model.kernel_names_[0] == "rbf(gamma=0.1*scale)@b_*"
    again = MKLClassifier(model.kernel_names_, random_state=0).fit(X, np.arange(30) % 2)
    assert as_kernels(model.kernel_names_) == as_kernels(texts)
    np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rfb", "one of linear, polynomial, rbf.*got 'rfb'; did you mean 'rbf'"),
        ("zzz", "one of linear, .*precomputed, got 'zzz'; choose one of these"),
        ("", "kernel kind must be one of .*got ''"),
        ("rbf:gama=1", "parameters of rbf are gamma, name, normalize, center.*gama=1"),
        ("rbf:0.5", "written as name=value, got '0.5'"),
        ("linear:columns=3", "parameters of linear are name, normalize, center"),
        ("rbf:gamma=1,gamma=2", "got 'gamma' twice"),
        ("rbf:gamma=-1", "gamma of rbf must be a positive number"),
        ("rbf:gamma=1e999", "gamma of rbf must be a positive number"),
        ("rbf:gamma=__import__('os')", "gamma of rbf must be a positive number"),
        ("rbf:center=2", "center must be True or False, got 2"),
        ("rbf@", "columns must follow '@' and each '\\+'"),
        ("rbf@a+", "columns must follow '@' and each '\\+'"),
        ("rbf@5-2", "a range of columns must go upwards, got '5-2'.*write 2-5"),
        ("rbf@0:3:0", "a step other than 0, got '0:3:0'"),
        ("rbf@0:3:a", "a step other than 0, got '0:3:a'"),
        ("rbf(gamma=1", "kernel kind must be one of .*got 'rbf\\(gamma=1'"),
        ("rbf(1)", "written as name=value, got '1'"),
        ("rbf@0:3+5", "a slice of columns must stand alone"),
    ],
)
def test_errors(text, message):
    with pytest.raises(ValueError, match=message):
        parse_kernel(text)


def test_what_cannot_be_written():
    with pytest.raises(ValueError, match="only built-in kernels can be written"):
        format_kernel(Custom(max))
    with pytest.raises(ValueError, match="selector function cannot be written"):
        format_kernel(Linear(columns=len))
