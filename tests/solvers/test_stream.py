"""The online stage in tiles: the same as one pass over a stored problem."""

import numpy as np
import pytest

from manykernels.banks import build_bank
from manykernels.hot.mirror_passes import MirrorRule
from manykernels.kernels import RBF, Linear
from manykernels.kernels.kernel_set import KernelSet
from manykernels.losses import MulticlassHinge
from manykernels.norms import LpGroupNorm
from manykernels.solvers import Obscure
from manykernels.solvers import online as module
from manykernels.solvers.mirror import MirrorDescent
from manykernels.solvers.online import Budget, Stream, cross_scores
from manykernels.solvers.problem import Problem

N_ROWS, N_CLASSES = 90, 3


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    y = rng.integers(N_CLASSES, size=N_ROWS)
    X = rng.normal(size=(N_ROWS, 4)) + y[:, None]
    specs = [RBF(0.5), RBF(0.1, columns=[0, 1]), Linear(columns=[2, 3])]
    return KernelSet.fit(specs, X, dtype=np.float64), y


def problem_of(rows, p):
    kernels, y = rows

    def problem(index):
        bank = build_bank(kernels.take(index), "on_demand")
        loss, norm = MulticlassHinge(), LpGroupNorm(p)
        return Problem(bank, y[index], N_CLASSES, loss, norm, 1.0, np.ones(len(index)))

    return problem


def empty(rows, p):
    theta, norms = np.zeros((0, N_CLASSES)), np.zeros(rows[0].n_kernels)
    return Stream(rows[0], LpGroupNorm(p), theta, norms)


@pytest.mark.parametrize("tile", [1, 16, 1000])
@pytest.mark.parametrize("p", [1.1, 2.0])
def test_tiles_make_the_steps_of_one_stored_pass(rows, p, tile, monkeypatch):
    monkeypatch.setattr(module, "ONLINE_TILE", tile)
    order = np.random.default_rng(0).permutation(N_ROWS)
    stream, make = empty(rows, p), problem_of(rows, p)
    tiles = list(stream.learn(order, make, np.ones(N_ROWS)))
    assert [n for n, _ in tiles[:-1]] == [tile] * (len(tiles) - 1)
    updates = sum(found for _, found in tiles)
    whole = MirrorDescent(make(np.arange(N_ROWS)))
    expected = whole.run_pass(
        MirrorRule(
            whole.problem.norm.q,
            whole.problem.reg,
            eta=Obscure.eta,
            online=True,
            enough=True,
        ),
        order,
    )
    assert 0 < updates == expected
    theta = np.zeros((N_ROWS, N_CLASSES))
    theta[stream.support] = stream.theta
    np.testing.assert_allclose(theta, whole.state.coef, atol=1e-12)
    np.testing.assert_allclose(
        stream.square_norms, whole.state.square_norms, rtol=1e-10
    )
    np.testing.assert_allclose(
        stream.scores(np.arange(N_ROWS)), whole.scores(), atol=1e-10
    )
    # Support rows stand in the order in which they were visited.
    visited = np.argsort(order)[stream.support]
    assert np.all(np.diff(visited) > 0)


@pytest.mark.parametrize("ahead", [0, 64 << 20])
def test_prediction_does_not_change_what_is_learned(rows, ahead, monkeypatch):
    """Scores are taken over from the prediction, or computed again if too large."""
    monkeypatch.setattr(module, "ONLINE_TILE", 8)
    monkeypatch.setattr(module, "AHEAD_BYTES", ahead)
    first, later = np.arange(30), np.arange(30, N_ROWS)
    streams = [empty(rows, 1.2) for _ in range(2)]
    for stream in streams:
        list(stream.learn(first, problem_of(rows, 1.2), np.ones(N_ROWS)))
    labels = streams[0].predict(later)
    np.testing.assert_array_equal(labels, streams[1].scores(later).argmax(axis=1))
    for stream in streams:
        list(stream.learn(later, problem_of(rows, 1.2), np.ones(N_ROWS)))
    np.testing.assert_array_equal(streams[0].support, streams[1].support)
    np.testing.assert_allclose(streams[0].square_norms, streams[1].square_norms)


@pytest.mark.parametrize("policy", ["smallest", "oldest", "project"])
def test_scores_are_those_of_the_kept_rows_after_a_removal(rows, policy, monkeypatch):
    """A removal in the middle of a pass makes the predicted scores worthless."""
    monkeypatch.setattr(module, "ONLINE_TILE", 4)
    stream, make = empty(rows, 1.2), problem_of(rows, 1.2)
    list(stream.learn(np.arange(5), make, np.ones(N_ROWS)))
    later = np.arange(5, N_ROWS)
    stream.predict(later)
    budget = Budget(6, policy)
    tile_scores = stream._tile_scores
    removals = 0

    def checked(tile, part):
        nonlocal removals
        found = tile_scores(tile, part)
        removals += stream._ahead is None
        exact = cross_scores(stream.kernels, tile, stream.support, stream.theta)
        np.testing.assert_allclose(found, exact, atol=1e-10)
        assert len(stream.support) <= budget.limit
        return found

    monkeypatch.setattr(stream, "_tile_scores", checked)
    list(stream.learn(later, make, np.ones(N_ROWS), budget))
    assert removals > 1


def test_cross_scores_are_products_with_the_kernels(rows):
    kernels, _ = rows
    rng = np.random.default_rng(5)
    these, support = np.array([4, 9, 2]), np.array([70, 11, 30, 31])
    coef = rng.normal(size=(4, N_CLASSES))
    found = cross_scores(kernels, these, support, coef)
    K = kernels.stack()[:, these][:, :, support]
    np.testing.assert_allclose(found, np.einsum("fij,jk->kfi", K, coef), atol=1e-12)
    assert not cross_scores(kernels, these, support[:0], coef[:0]).any()
