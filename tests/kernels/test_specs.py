"""Kernel specifications: construction, display, equality, validation."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from manykernels import kernels as mk
from manykernels.kernels import (
    RBF,
    BSpline,
    ChiSquared,
    Custom,
    Distance,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    default_kernels,
)
from manykernels.kernels.grammar import as_kernels
from manykernels.kernels.kernel_set import KernelSet


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (RBF(0.5, columns="pixel*"), "RBF(gamma=0.5, columns='pixel*')"),
        (RBF(), "RBF()"),
        (Polynomial(degree=3), "Polynomial()"),
        (Polynomial(5), "Polynomial(degree=5)"),
        (Linear(columns=np.array([2, 1])), "Linear(columns=(2, 1))"),
        (Linear(name="a", center=True), "Linear(name='a', center=True)"),
        (Linear(normalize=None), "Linear(normalize=None)"),
        (RBF(np.float32(0.5), center=np.True_), "RBF(gamma=0.5, center=True)"),
        (
            RBF(0.5, approximate="nystroem", rank=np.int64(9)),
            "RBF(gamma=0.5, approximate='nystroem', rank=9)",
        ),
    ],
)
def test_repr_shows_what_differs_from_the_defaults(kernel, text):
    assert repr(kernel) == text


@pytest.mark.parametrize(
    ("kernel", "label"),
    [
        (RBF(0.5, columns="pixel*"), "rbf(gamma=0.5)@pixel*"),
        (RBF(), "rbf"),
        (Linear(name="mine", columns=3), "mine"),
        (Linear(columns=3, center=True), "linear(center=True)@3"),
        (Linear(columns=[0, 1, 2, 7]), "linear@0-2+7"),
        (Linear(columns=slice(0, 14)), "linear@0:14"),
        (Linear(columns=range(0, 20, 2)), "linear@0+2+4+6+8+10+12+14+16+18"),
        (Linear(columns=[True, False, True]), "linear@0+2"),
        (Custom(rbf_kernel), "rbf_kernel"),
        (Custom(partial(rbf_kernel, gamma=2), columns=1), "rbf_kernel@1"),
        (Precomputed(columns=2), "precomputed@2"),
        (
            RBF(0.5, approximate="nystroem", rank=9),
            "rbf(gamma=0.5, approximate=nystroem, rank=9)",
        ),
    ],
)
def test_labels(kernel, label):
    assert kernel.label == label


def test_repeated_labels_are_numbered():
    fitted = KernelSet.fit([RBF(), Linear(), RBF(), RBF()], np.eye(3))
    assert fitted.names == ["rbf", "linear", "rbf#2", "rbf#3"]


@pytest.mark.parametrize("columns", [None, 3, [0, 1], np.arange(3), "a*", slice(2)])
def test_equality_copies_and_clone(columns):
    kernel = RBF(0.5, columns=columns, name="n")
    assert kernel == RBF(0.5, columns=columns, name="n")
    assert kernel != RBF(0.6, columns=columns, name="n")
    assert copy.deepcopy(kernel) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert clone([kernel], safe=False) == [kernel]


def test_fitted_set_survives_pickle():
    X = np.random.default_rng(0).normal(size=(5, 2))
    fitted = KernelSet.fit([RBF(), Linear()], X)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.stack(), fitted.stack())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RBF(-1.0), "gamma of rbf must be a positive number.*got -1.0"),
        (lambda: RBF("scael"), "gamma of rbf must be .*'scale' or 'median'.*'scael'"),
        (lambda: RBF("-1*scale"), "gamma of rbf must be a positive number"),
        (lambda: RBF("x*scale"), "gamma of rbf must be a positive number"),
        (lambda: RBF("*scale"), "gamma of rbf must be a positive number"),
        (lambda: RBF(True), "gamma of rbf must be a positive number"),
        (lambda: RBF(None), "gamma of rbf must be a positive number"),
        (lambda: Laplacian(0), "gamma of laplacian must be a positive number"),
        (lambda: ChiSquared("scale"), "gamma of chi_squared must be .*'mean'"),
        (lambda: BSpline(np.inf), "width of bspline must be a positive number"),
        (lambda: BSpline(degree=0), "degree of bspline must be a whole number"),
        (lambda: Distance(-2), "scale of distance must be a positive number"),
        (lambda: Polynomial(2.5), "degree of polynomial must be a whole number >= 1"),
        (lambda: Polynomial(0), "degree of polynomial must be a whole number >= 1"),
        (lambda: Polynomial(coef0=-1), "coef0 of polynomial must be a number >= 0"),
        (lambda: Linear(normalize="l2"), "normalize must be 'diagonal', 'trace'"),
        (lambda: Linear(center="yes"), "center must be True or False, got 'yes'"),
    ],
)
def test_parameter_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Linear(name=3), "name must be a string or None, got 3"),
        (lambda: Linear(columns=True), "columns must be indices.*got True"),
        (lambda: Linear(columns=1.5), "columns must be indices.*got an element 1.5"),
        (lambda: Linear(columns=[0.5]), "columns must be indices.*got an element 0.5"),
        (lambda: Custom("rbf"), "function of custom must be callable"),
        (lambda: Linear(0), "positional"),
    ],
)
def test_type_errors(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_as_kernels_accepts_every_description():
    assert as_kernels() == default_kernels() and len(default_kernels()) == 5
    assert as_kernels(RBF()) == [RBF()]
    assert as_kernels("linear; rbf:gamma=2") == [Linear(), RBF(2)]
    assert as_kernels(rbf_kernel) == [Custom(rbf_kernel)]
    mixed = as_kernels([Linear(), "rbf;cosine", rbf_kernel])
    assert mixed == [Linear(), RBF(), mk.Cosine(), Custom(rbf_kernel)]
    assert as_kernels("precomputed") == [Precomputed()]
    assert as_kernels((Linear(),)) == [Linear()]


def test_as_kernels_errors():
    with pytest.raises(ValueError, match="at least one kernel, got an empty list"):
        as_kernels([])
    with pytest.raises(TypeError, match=r"got the class RBF; write RBF\(\)"):
        as_kernels([RBF])
    with pytest.raises(TypeError, match="expected a kernel, a string or a callable"):
        as_kernels([3])


def test_set_errors():
    X = np.ones((3, 2))
    with pytest.raises(ValueError, match="either all on feature columns or all given"):
        KernelSet.fit([Linear(), Precomputed()], X)
    with pytest.raises(ValueError, match="got no kernel"):
        KernelSet.fit([], X)
    with pytest.raises(ValueError, match="dtype must be float32 or float64, got int"):
        KernelSet.fit([Linear()], X, dtype=int)
    with pytest.raises(ValueError, match="psd must be 'check', 'clip' or 'skip'"):
        KernelSet.fit([Linear()], X, psd="maybe")
    with pytest.raises(ValueError, match="got 3 dimensions; use Precomputed"):
        KernelSet.fit([Linear()], np.ones((3, 3, 2)))
    with pytest.raises(ValueError, match="expected 2 columns as in fit, got 3"):
        next(KernelSet.fit([Linear()], X).cross(np.ones((1, 3))))


@pytest.mark.parametrize("kernel", [ChiSquared(), mk.Intersection()])
def test_negative_values_are_refused(kernel):
    X = np.array([[1.0, -1.0], [2.0, 1.0]])
    message = f"'{kernel.kind}' needs values that are not negative, got -1"
    with pytest.raises(ValueError, match=message):
        KernelSet.fit([kernel], X)
    with pytest.raises(ValueError, match="needs values that are not negative"):
        next(KernelSet.fit([kernel], np.abs(X)).cross(X))
    chosen = type(kernel)(columns=0)
    assert KernelSet.fit([chosen], X).stack().shape == (1, 2, 2)


def test_vanishing_kernels_are_refused():
    X = np.array([[0.0, 1.0], [0.0, 2.0]])
    with pytest.raises(ValueError, match="'linear@0' must have k"):
        KernelSet.fit([Linear(columns=0)], X)
    with pytest.raises(ValueError, match="> 0 on .* row, got none after centering"):
        KernelSet.fit([mk.Constant(center=True)], X)
    with pytest.raises(ValueError, match="> 0 on .* row, got none after centering"):
        KernelSet.fit([RBF(columns=0, center=True)], X)
