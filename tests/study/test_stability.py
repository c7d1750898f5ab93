"""Selection on halves of the rows: which halves, which kernels, which bound."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

import manykernels as mk
from manykernels.banks.gram_bank import GramBank
from manykernels.study import WeightStability, weight_stability
from manykernels.study.refits import Refits, kernel_shares
from manykernels.study.stability import _halves
from tests.oracles.optimum import optimum_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 20))
Y = (X[:, 0] + X[:, 1] + X[:, 2] + 0.5 * RNG.normal(size=80) > 0).astype(int)
PAIRS = "; ".join(f"rbf@{2 * f}-{2 * f + 1}" for f in range(10))
MODEL = mk.MKLClassifier(PAIRS, p=1.0, random_state=0)


def refits(model=MODEL, y=Y, tol=1e-4, C=None):
    return Refits.of(model, X, y, None, tol, 0, C)


def test_halves_are_complementary_and_stratified():
    y = np.repeat([0, 1, 2], [41, 20, 19])
    whole, rng = refits(y=y), np.random.default_rng(0)
    counts = []
    for _ in range(20):
        halves = _halves(whole, rng)
        assert np.array_equal(np.sort(np.concatenate(halves)), np.arange(80))
        parts = np.array([np.bincount(y[half], minlength=3) for half in halves])
        assert np.abs(parts[0] - parts[1]).max() <= 2
        counts.append(np.bincount(halves[0], minlength=80))
    assert 0.3 < np.mean(counts, axis=0).mean() < 0.7
    assert np.mean(counts, axis=0).max() < 1.0  # no row is always in the first


def test_a_half_is_what_a_fit_on_its_rows_finds():
    # Widths and scaling that do not depend on the rows, so that a fit agrees.
    stack = np.stack([rbf_kernel(X[:, [f]], gamma=0.5) for f in range(6)], axis=-1)
    model = mk.MKLClassifier("precomputed", p=1.0, storage="float64", random_state=0)
    whole = Refits.of(model, stack, Y, None, 1e-6, 0)
    half = _halves(whole, np.random.default_rng(0))[0]
    found = kernel_shares(whole.take(half).solve(1.0, 1.0))
    alone = clone(model).set_params(tol=1e-6).fit(stack[np.ix_(half, half)], Y[half])
    np.testing.assert_allclose(found, alone.kernel_weights_, atol=2e-3)


def test_regression_halves_lose_their_own_mean():
    y = X[:, 0] + 5.0
    model = mk.MKLRegressor(PAIRS, p=1.5, random_state=0)
    part = Refits.of(model, X, y, None, 1e-6, 0).take(np.arange(30))
    np.testing.assert_allclose(part.data.targets.target[:, 0], y[:30] - y[:30].mean())
    plain = clone(model).set_params(fit_intercept=False)
    part = Refits.of(plain, X, y, None, 1e-6, 0).take(np.arange(30))
    np.testing.assert_allclose(part.data.targets.target[:, 0], y[:30])


def test_with_a_tiny_C_one_kernel_is_optimal_and_selected():
    # All rows are within the margin, so that the dual point is known: only the kernel
    # with the longest sum of the rows, signed by their labels, has a weight.
    found = weight_stability(MODEL, X, Y, Cs=[1e-3], n_pairs=4, random_state=0)
    whole = refits(C=1e-3)
    signs = 2.0 * Y - 1.0
    rng = np.random.default_rng(np.random.RandomState(0).randint(2**31 - 1))
    halves = [half for _ in range(4) for half in _halves(whole, rng)]
    stack = np.moveaxis(whole.data.bank.rows(np.arange(80)), 1, 0).astype(float)
    for half, weights in zip(halves, found.weights[:, 0, 0], strict=True):
        lengths = [signs[half] @ K[np.ix_(half, half)] @ signs[half] for K in stack]
        assert np.flatnonzero(weights).tolist() == [int(np.argmax(lengths))]


def test_kernels_that_are_not_selected_are_not_needed():
    # CVXPY: the optimum without them is that with all; each of the others is missed.
    part = refits(tol=1e-6).take(np.arange(0, 80, 4))
    model = part.solve(1.0, 1.0, sharp=True)
    chosen = kernel_shares(model) > 1e-3
    assert 1 < chosen.sum() < 10
    problem = part.data.problem(1.0, 1.0)
    best = optimum_of(problem)
    assert optimum_of(_only(problem, chosen)) == pytest.approx(best, rel=1e-4)
    for f in np.flatnonzero(kernel_shares(model) > 0.05):
        fewer = chosen.copy()
        fewer[f] = False
        assert optimum_of(_only(problem, fewer)) > best * (1.0 + 1e-4)


def _only(problem, chosen):
    bank = problem.bank
    stack = bank.rows(np.arange(bank.n_rows))[:, chosen]
    return replace(problem, bank=GramBank(np.ascontiguousarray(stack)))


@pytest.mark.parametrize("C", [0.01, 0.1])
def test_the_default_tolerance_selects_as_a_far_smaller_one(C):
    half = np.arange(0, 80, 2)
    usual = kernel_shares(refits(C=C).take(half).solve(1.0, C, sharp=True)) > 1e-3
    tight = kernel_shares(refits(tol=1e-8, C=C).take(half).solve(1.0, C)) > 1e-3
    assert np.array_equal(usual, tight)
    loose = kernel_shares(refits(tol=0.3, C=C).take(half).solve(1.0, C)) > 1e-3
    assert loose.sum() > usual.sum()  # what a rough fit keeps


def test_the_path_has_all_p_and_C_and_finds_the_kernels():
    found = weight_stability(
        MODEL, X, Y, Cs=[10.0, 0.1], ps=[1.0, 1.5], n_pairs=6, random_state=0
    )
    assert found.weights.shape == (12, 2, 2, 10) and found.Cs == [0.1, 10.0]
    np.testing.assert_allclose(found.weights.sum(axis=-1), 1.0)
    assert np.argmax(found.weights.mean(axis=(0, 1, 2))) == 0
    assert found.frequency[0, 0, 0] == 1.0 and (found.frequency[1] == 1.0).all()
    table = found.to_frame()
    assert len(table) == 40
    row = table[(table.kernel == "rbf@0-1") & (table.p == 1.5) & (table.C == 10.0)]
    assert row.mean_weight.item() == pytest.approx(found.weights[:, 1, 1, 0].mean())
    low, high = row.low_weight.item(), row.high_weight.item()
    assert low <= row.median_weight.item() <= high


def test_threads_and_seeds():
    runs = [
        weight_stability(MODEL, X, Y, n_pairs=3, n_jobs=n_jobs, random_state=seed)
        for n_jobs, seed in ((1, 0), (2, 0), (1, 1))
    ]
    assert np.array_equal(runs[0].weights, runs[1].weights)
    assert not np.array_equal(runs[0].weights, runs[2].weights)


def test_numbers_times_and_views():
    times = np.exp(X[:, 0]), RNG.random(80) < 0.7
    for model, y in (
        (mk.MKLRegressor(PAIRS, p=1.0), X[:, 0]),
        (mk.MKLSurvival(PAIRS, p=1.0), times),
    ):
        found = weight_stability(model, X, y, n_pairs=3, random_state=0)
        assert "rbf@0-1" in found.stable()
    views = {"a": X[:, :3], "b": X[:, 3:]}
    found = weight_stability(mk.MKLClassifier("rbf", p=1.0), views, Y, n_pairs=3)
    assert found.names == ["rbf@a", "rbf@b"]


def test_targets_apart():
    y = np.stack([X[:, 0], X[:, 4]], axis=1)
    model = mk.MKLRegressor(PAIRS, p=1.0, per_target_weights=True)
    found = weight_stability(model, X, y, n_pairs=2, random_state=0)
    np.testing.assert_allclose(found.weights.sum(axis=-1), 1.0)
    assert {"rbf@0-1", "rbf@4-5"} <= set(found.stable())


def test_the_bound_is_meinshausen_and_buehlmanns():
    # Two of ten kernels at each C, three in all: q is that of the whole path.
    weights = np.zeros((6, 1, 2, 10))
    weights[:, 0, 0, [0, 1]] = 0.5
    weights[:, 0, 1, [0, 2]] = 0.5
    found = WeightStability(list("abcdefghij"), [1.0], [0.1, 1.0], weights, 1e-3)
    assert found.false_selections(0.75) == pytest.approx(3**2 / (0.5 * 10))
    assert found.false_selections(1.0) == pytest.approx(0.9)
    assert found.stable() == ["a", "b", "c"]
    with pytest.raises(ValueError, match=r"often must be a number in \(0.5, 1\]"):
        found.stable(0.5)


def test_the_bound_holds_where_nothing_can_be_learned():
    # Noise of equal kind, so the assumption holds: fewer false ones than the bound.
    counts, bounds = [], []
    for seed in range(8):
        noise = np.random.default_rng(seed)
        table, labels = noise.normal(size=(60, 20)), noise.permutation(60) % 2
        found = weight_stability(
            MODEL, table, labels, Cs=[0.05], n_pairs=10, random_state=seed
        )
        counts.append(len(found.stable(0.8)))
        bounds.append(found.false_selections(0.8))
    assert np.mean(counts) <= np.mean(bounds)


def test_the_estimator_is_left_alone():
    model = clone(MODEL)
    weight_stability(model, X, Y, n_pairs=1, Cs=[0.1, 1.0], random_state=0)
    assert not hasattr(model, "kernel_weights_")
    assert model.get_params() == MODEL.get_params()


def test_fits_that_do_not_end_say_so():
    model = clone(MODEL).set_params(max_iter=1)
    with pytest.warns(ConvergenceWarning):
        weight_stability(model, X, Y, Cs=[100.0], n_pairs=1, random_state=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_pairs": 0}, "n_pairs must be a positive whole number"),
        ({"threshold": -1.0}, "threshold must be a number in"),
        ({"Cs": [0.0]}, "C must be a number in"),
        ({"ps": [3.0]}, "p must be a number in"),
        ({"tol": 0.0}, "tol must be a number in"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        weight_stability(MODEL, X, Y, **options)


def test_wrong_estimators_and_too_few_rows():
    with pytest.raises(TypeError, match="estimator must be an MKLClassifier"):
        weight_stability(mk.MKLClassifierCV(PAIRS), X, Y)
    with pytest.raises(ValueError, match="halves need at least 4 rows"):
        weight_stability(MODEL, X[:3], [0, 1, 0])
    with pytest.raises(ValueError, match="halves need rows of at least 2 classes"):
        weight_stability(MODEL, X[:9], [0] * 8 + [1], random_state=0)


@pytest.mark.parametrize("nugget", [None, "shared"])
def test_importances_are_those_of_the_other_half(nugget):
    """As `kernel_importance` finds them for fits on the halves of given kernels."""
    stack = np.stack([rbf_kernel(X[:, :3]), rbf_kernel(X[:, 3:])], axis=-1)
    for kind, y in ((mk.MKLClassifier, Y), (mk.MKLRegressor, X[:, 0])):
        model = kind("precomputed", C=1.0, tol=1e-4, nugget=nugget, random_state=0)
        found = weight_stability(model, stack, y, n_pairs=1, random_state=0)
        assert found.importances.shape == found.weights.shape
        np.testing.assert_allclose(found.importances.sum(axis=-1), 1.0)
        assert np.all(found.importances[..., 0] > 0.7)
        if nugget:
            assert not found.importances[..., 2].any()
            continue
        rng = np.random.default_rng(np.random.RandomState(0).randint(2**31 - 1))
        whole = Refits.of(model, stack, y, None, 1e-4, 0)
        for half, other, line in zip(
            halves := _halves(whole, rng), halves[::-1], found.importances, strict=True
        ):
            model.set_params(tol=1e-5).fit(stack[np.ix_(half, half)], y[half])
            new = stack[np.ix_(other, half)]
            expected = mk.kernel_importance(model, new, y[other])
            np.testing.assert_allclose(line[0, 0], expected.share, atol=0.02)
    frame = found.to_frame()
    assert (frame["low_importance"] <= frame["high_importance"]).all()
