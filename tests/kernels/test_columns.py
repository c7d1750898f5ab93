"""Column choices on every sort of table."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.compose import make_column_selector

from manykernels.kernels import (
    RBF,
    BSpline,
    Constant,
    Cosine,
    Custom,
    Intersection,
    Laplacian,
    Linear,
    Polynomial,
    parse_kernel,
)
from manykernels.kernels.columns import exact, matching, select_columns
from manykernels.kernels.grammar import format_kernel
from manykernels.kernels.kernel_set import KernelSet

NAMES = ["age", "pixel0", "pixel1", "weight"]
VALUES = np.random.default_rng(0).gamma(1.0, size=(6, 4))
FRAMES = [pd.DataFrame(VALUES, columns=NAMES), pl.DataFrame(VALUES, schema=NAMES)]
TABLES = [VALUES, sp.csr_matrix(VALUES), sp.csc_array(VALUES), *FRAMES]

CHOICES = [
    (None, [0, 1, 2, 3]),
    (2, [2]),
    (-1, [3]),
    ([2, 0], [2, 0]),
    (np.array([1, 3]), [1, 3]),
    (slice(1, 3), [1, 2]),
    (slice(None, None, 2), [0, 2]),
    (slice(None, None, -1), [3, 2, 1, 0]),
    ([True, False, False, True], [0, 3]),
    (np.array([False, True, True, False]), [1, 2]),
    (lambda X: [1], [1]),
    (range(2), [0, 1]),
]
NAMED = [
    ("age", [0]),
    ("pixel*", [1, 2]),
    ("*e*", [0, 1, 2, 3]),
    (["weight", "pixel*"], [3, 1, 2]),
    (["age", 2], [0, 2]),
    (slice("pixel0", "weight"), [1, 2, 3]),
    (lambda X: ["weight"], [3]),
]


def positions(index, n=4):
    return np.arange(n)[index].tolist()


@pytest.mark.parametrize("table", TABLES, ids=lambda t: type(t).__name__)
@pytest.mark.parametrize(("choice", "expected"), CHOICES)
def test_positions_on_every_table(table, choice, expected):
    assert positions(select_columns(choice, table)) == expected
    K = KernelSet.fit([Linear(columns=choice, normalize=None)], table).stack()[0]
    V = VALUES[:, expected]
    np.testing.assert_allclose(K, V @ V.T, rtol=1e-5)


@pytest.mark.parametrize("table", FRAMES, ids=lambda t: type(t).__module__)
@pytest.mark.parametrize(("choice", "expected"), NAMED)
def test_names_of_frames(table, choice, expected):
    assert positions(select_columns(choice, table)) == expected
    fitted = KernelSet.fit([RBF(0.5, columns=choice)], table)
    (_, block), *_ = fitted.cross(table)
    plain = KernelSet.fit([RBF(0.5, columns=expected)], VALUES)
    np.testing.assert_allclose(block, plain.stack(), atol=1e-6)


@pytest.mark.parametrize(("choice", "expected"), NAMED)
def test_names_given_for_an_array(choice, expected):
    assert positions(select_columns(choice, VALUES, NAMES)) == expected


def test_sklearn_selector_and_text_columns():
    frame = FRAMES[0].assign(city="x")
    numeric = make_column_selector(dtype_include=float)
    assert positions(select_columns(numeric, frame), 5) == [0, 1, 2, 3]
    fitted = KernelSet.fit([RBF(columns=numeric)], frame)
    assert fitted.stack().shape == (1, 6, 6)
    assert fitted.kernels[0].columns == (0, 1, 2, 3)
    assert fitted.names == ["rbf@make_column_selector"]
    with pytest.raises(ValueError, match="kernel columns must hold numbers, got .*'x'"):
        KernelSet.fit([RBF(columns="city")], frame)


TOKENS = ["w[0]=a", "w[0]=*", "w[0]=?", "w0=a", "back\\slash"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("w[0]=*", [0, 1, 2]),  # whatever names there are, and no character classes
        ("w[0]=?", [0, 1, 2]),
        (r"w[0]=\*", [1]),
        (r"w[0]=\?", [2]),
        ("*=a", [0, 3]),
        ("back\\slash", [4]),
        ("back\\\\slash", [4]),
        ("back\\*", []),  # an escaped star is a star
    ],
)
def test_a_pattern_is_a_pattern_always(pattern, expected):
    assert matching(pattern, TOKENS) == expected


@pytest.mark.parametrize("name", TOKENS)
def test_exact_names_match_themselves_only_also_as_text(name):
    place = TOKENS.index(name)
    assert matching(exact(name), TOKENS) == [place]
    kernel = RBF(columns=exact(name))
    assert parse_kernel(format_kernel(kernel)) == kernel


def test_texts_write_special_characters_of_names_as_codes():
    assert parse_kernel("linear@w[0]=%2A").columns == r"w[0]=\*"
    assert parse_kernel("linear@%2B1%3Aword=*").columns == "+1:word=*"
    with pytest.raises(ValueError, match="'\\+' inside a name as %2B"):
        parse_kernel("linear@+1:word=*")
    with pytest.raises(ValueError, match="':' inside a name is written %3A"):
        select_columns(parse_kernel("linear@w:a").columns, np.ones((1, 5)), TOKENS)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("pixle0", "'pixle0' is not among the columns of X; .* is 'pixel0'"),
        ("zip*", "'zip\\*' is not among the columns"),
        (4, "column index must be between -4 and 3, got 4; X has 4 columns"),
        ([0, -5], "column index must be between -4 and 3, got -5"),
        ([True, False], r"one entry per column \(4\), got 2"),
        ([False] * 4, "at least one column, got none"),
        ([], "at least one column, got none"),
        (slice(3, 3), "at least one column, got none"),
    ],
)
def test_errors(choice, message):
    with pytest.raises(ValueError, match=message):
        select_columns(choice, FRAMES[0])


def test_names_without_names():
    with pytest.raises(ValueError, match="'age' is a name but X has no column names"):
        select_columns("age", VALUES)


def test_mixed_and_callable_type_errors():
    with pytest.raises(TypeError, match="all indices and names or all booleans"):
        select_columns([True, 1, "age"], FRAMES[0])
    with pytest.raises(TypeError, match="selector must return names or indices"):
        select_columns(lambda X: len, VALUES)


@pytest.mark.parametrize("kernel", [Laplacian(), Intersection(), Custom(np.dot)])
def test_sparse_is_refused_by_name(kernel):
    message = f"'{kernel.label}' needs a dense table, got a sparse one; call .toarray"
    with pytest.raises(TypeError, match=message):
        KernelSet.fit([kernel], sp.csr_matrix(VALUES))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_equals_dense(dtype):
    X = VALUES * (VALUES > 1)
    X[0, 0] = 1.0
    kernels = [
        Linear(),
        Polynomial(2),
        RBF(),
        RBF("median"),
        Cosine(center=True),
        BSpline(2.0),
        Constant(),
    ]
    dense = KernelSet.fit(kernels, X, dtype=dtype)
    sparse = KernelSet.fit(kernels, sp.csr_matrix(X), dtype=dtype)
    np.testing.assert_allclose(sparse.stack(), dense.stack(), atol=1e-6)
    (_, block), *_ = sparse.take([1, 2]).cross(sp.coo_matrix(X))
    np.testing.assert_allclose(block, dense.stack()[:, :, [1, 2]], atol=1e-6)


def test_a_slice_from_an_index_to_a_name_is_refused():
    with pytest.raises(TypeError, match="from name to name .* got 0 to 'b'; use"):
        select_columns(slice(0, "b"), np.zeros((2, 3)), ["a", "b", "c"])
