"""Kernels of groups of columns: from a dict to a fitted and saved model."""

import copy
import io
import logging
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import manykernels as mk
from manykernels.kernels import RBF, Custom, Linear
from manykernels.kernels.kernel_set import KernelSet

NAMES = ["TP53", "VEGFA", "LDHA", "HLA-A*", "3"]
PATHWAYS = {
    "hypoxia": ["VEGFA", "LDHA", "VEGFA"],
    "immune": ["HLA-A*", "LDHA", "CD4"],
    "lost": ["ATM"],
}


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    return X, np.where(X[:, 1] * X[:, 2] > 0, "up", "down")


def test_names_become_positions_and_overlap(caplog):
    with caplog.at_level(logging.WARNING):
        found = mk.group_kernels(PATHWAYS, NAMES)
    assert [kernel.label for kernel in found] == ["rbf@hypoxia", "rbf@immune"]
    assert [kernel.columns for kernel in found] == [(1, 2), (3, 2)]
    assert found.groups == ["hypoxia", "immune"]
    assert found.unmatched == {"immune": ["CD4"], "lost": ["ATM"]}
    assert found.dropped == {"lost": 0}
    (line,) = caplog.messages
    assert "2 names are not among the columns: CD4, ATM" in line
    assert "1 of 3 groups with fewer than 1 columns are dropped: lost" in line


def test_nothing_is_said_where_nothing_is_left_out(caplog):
    found = mk.group_kernels({"first": [0, 1], "3": ["3"]}, NAMES)
    assert [kernel.columns for kernel in found] == [(0, 1), (4,)]
    assert not caplog.messages and not found.unmatched and not found.dropped


def test_small_groups_are_dropped():
    found = mk.group_kernels({"a": [0, 1], "b": [2, 2], "c": []}, min_size=2)
    assert found.groups == ["a"] and found.dropped == {"b": 1, "c": 0}


def test_several_kernels_for_every_group():
    templates = ["linear", RBF("0.25*median", center=True)]
    found = mk.group_kernels({"a": [0, 1], "b": [1, 2]}, kernels=templates)
    assert [kernel.label for kernel in found] == [
        "linear@a",
        "rbf(gamma=0.25*median, center=True)@a",
        "linear@b",
        "rbf(gamma=0.25*median, center=True)@b",
    ]
    assert isinstance(found[2], Linear) and found[3].center
    weights = found.group_weights([0.1, 0.2, 0.3, 0.4])
    assert list(weights) == ["b", "a"] and weights["b"] == pytest.approx(0.7)
    with pytest.raises(ValueError, match=r"each of the 4 kernels, got shape \(3,\)"):
        found.group_weights([1, 2, 3])


def test_values_are_those_of_kernels_on_the_columns(table):
    X, _ = table
    found = mk.group_kernels(PATHWAYS, NAMES, "rbf:gamma=median; linear")
    plain = [
        kernel
        for columns in ([1, 2], [3, 2])
        for kernel in (RBF("median", columns=columns), Linear(columns=columns))
    ]
    ours, theirs = KernelSet.fit(found, X), KernelSet.fit(plain, X)
    np.testing.assert_array_equal(ours.stack(), theirs.stack())
    assert ours.names == [kernel.label for kernel in found]


def test_data_frames_give_their_names(table):
    pd = pytest.importorskip("pandas")
    X, y = table
    frame = pd.DataFrame(X, columns=NAMES)
    by_position = mk.group_kernels(PATHWAYS, frame)
    assert by_position == mk.group_kernels(PATHWAYS, frame.columns)
    # Without columns, names are looked up by fit.
    by_name = mk.group_kernels({"hypoxia": ["VEGFA", "LDHA"], "all": NAMES})
    assert by_name[0].columns == ("VEGFA", "LDHA")
    model = mk.MKLClassifier(by_name, random_state=0).fit(frame, y)
    assert model.kernel_names_ == ["rbf@hypoxia", "rbf@all"]
    with pytest.raises(ValueError, match="'ATM' is not among the columns"):
        mk.MKLClassifier(mk.group_kernels({"lost": ["ATM"]})).fit(frame, y)


def test_models_are_saved_with_their_groups(table, tmp_path):
    X, y = table
    sets = mk.read_gmt(io.StringIO("hypoxia\t-\tVEGFA\tLDHA\nother\t-\tTP53\t3\n"))
    kernels = mk.group_kernels(sets, NAMES, "linear; rbf")
    model = mk.MKLClassifier(kernels, random_state=0).fit(X, y)
    assert model.kernel_names_ == [kernel.label for kernel in kernels]
    assert next(iter(kernels.group_weights(model.kernel_weights_))) == "hypoxia"
    model.save(tmp_path / "groups.model")
    loaded = mk.load(tmp_path / "groups.model")
    assert loaded.kernel_names_ == model.kernel_names_
    assert loaded.kernels == kernels  # the same specifications, in a plain list
    np.testing.assert_array_equal(
        loaded.decision_function(X), model.decision_function(X)
    )


def test_copies_keep_the_report(table):
    kernels = mk.group_kernels(PATHWAYS, NAMES)
    cloned = clone(mk.MKLClassifier(kernels)).kernels
    for other in (cloned, copy.copy(kernels), pickle.loads(pickle.dumps(kernels))):
        assert type(other) is type(kernels) and other == kernels
        assert other.groups == kernels.groups and other.dropped == kernels.dropped
        assert other.unmatched == kernels.unmatched
    assert repr(kernels) == "<GroupKernels: 2 kernels on 2 groups>"


def test_own_functions_are_kernels_of_groups(table):
    X, _ = table
    (kernel,) = mk.group_kernels({"a": [0, 2]}, kernels=lambda A, B: A @ B.T)
    assert isinstance(kernel, Custom) and kernel.columns == (0, 2)
    stack = KernelSet.fit([kernel], X, dtype=np.float64).stack()
    expected = KernelSet.fit([Linear(columns=[0, 2])], X, dtype=np.float64).stack()
    np.testing.assert_allclose(stack, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (({},), TypeError, "at least one group, got none"),
        (([["a"]],), TypeError, "dict from names to columns .* got list"),
        (({3: [0]},), TypeError, "names of groups must be texts, got 3"),
        (({" ": [0]},), TypeError, "names of groups must be texts"),
        (({"a": "TP53"},), TypeError, "group 'a' must be a list"),
        (({"a": 3},), TypeError, "group 'a' must be a list"),
        (({"a": [1.5]},), ValueError, "names or positions from 0, got 1.5"),
        (({"a": [True, False]},), ValueError, "positions from 0, got True"),
        (({"a": [-1]},), ValueError, "positions from 0, got -1"),
        (({"a": [5]}, NAMES), ValueError, "positions from 0 below 5, got 5"),
        (({"a": ["b"]}, ["b", "c", "b"]), ValueError, "'b' more than once"),
        (({"a": ["tp53"]}, NAMES), ValueError, "none of 1, and tp53 are not among"),
        (({"a": [0]}, NAMES, "rbf@0"), ValueError, "name none, got 'rbf@0'"),
        (({"a": [0]}, NAMES, "precomputed"), ValueError, "name none, got 'precomp"),
    ],
)
def test_what_is_no_group_is_refused(arguments, error, message):
    with pytest.raises(error, match=message) as caught:
        mk.group_kernels(*arguments)
    assert str(caught.value).endswith(".") and ";" in str(caught.value)


@pytest.mark.parametrize("size", [0, -1, 2.5, True, None])
def test_a_minimal_size_is_a_whole_number(size):
    with pytest.raises(ValueError, match="min_size must be a positive whole number"):
        mk.group_kernels({"a": [0]}, min_size=size)
