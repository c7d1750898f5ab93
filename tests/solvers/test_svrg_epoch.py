"""One epoch of SVRG: compiled loops, the plain loop, and the formula itself."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from manykernels.banks import BlockBank, FeatureBlock, GramBank
from manykernels.hot.svrg_epochs import EpochRule, Snapshot, Sum
from manykernels.solvers.svrg.epoch import (
    FeatureSource,
    KernelSource,
    importance,
    plain_steps,
    run_epoch,
)
from tests.oracles.smooth import LOSSES, smooth_problem
from tests.oracles.toys import blobs

N_ROWS, N_OUTPUTS = 15, 3
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


class Setting:
    """Blocks with a w0, a pull and different steps and lengths, all at random."""

    def __init__(self, loss, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        X, _ = blobs(N_ROWS, N_OUTPUTS, seed)
        self.features = [X[:, :2], X[:, 2:5], X[:, [0, 5]]]
        self.problem = smooth_problem(loss, seed, N_ROWS, 3, weighted=True)
        self.start = [rng.normal(size=(phi.shape[1], 3)) for phi in self.features]
        self.pull = [rng.normal(size=(phi.shape[1], 3)) for phi in self.features]
        self.own = np.array([0.05, 0.3, 0.02])  # reg / d_f
        step = np.array([0.04, 0.1, 0.07])
        self.rule = EpochRule(step, 1.0 - step * self.own, np.array([37, 20, 40]))
        self.order = rng.integers(N_ROWS, size=40)
        total = sum(phi @ w for phi, w in zip(self.features, self.start, strict=True))
        self.snapshot = Snapshot(
            self._scores(self.start),
            self._scores(self.pull),
            loss.gradient(total, self.problem.target),
        )

    def _scores(self, blocks: list[np.ndarray]) -> np.ndarray:
        parts = zip(self.features, blocks, strict=True)
        return np.ascontiguousarray([(phi @ w).T for phi, w in parts])

    def stack(self) -> np.ndarray:
        return np.stack([phi @ phi.T for phi in self.features], axis=1)

    def by_formula(self) -> list[np.ndarray]:
        """The paper's line 11, with the full gradient of the snapshot spelled out."""
        problem, rule = self.problem, self.rule
        w = [block.copy() for block in self.start]
        for t, i in enumerate(self.order):
            scores = sum(phi[i] @ b for phi, b in zip(self.features, w, strict=True))
            target = problem.target[i : i + 1]
            now = problem.loss.gradient(scores[None], target)[0]
            delta = importance(problem)[i] * (now - self.snapshot.gradient[i])
            for f, phi in enumerate(self.features):
                if t < rule.length[f]:
                    # The losses' gradient at the snapshot is -own * pull.
                    slope = self.own[f] * (w[f] - self.pull[f])
                    w[f] = w[f] - rule.step[f] * (slope + np.outer(phi[i], delta))
        return w

    def assembled(self, added: np.ndarray, decay: np.ndarray) -> list[np.ndarray]:
        return [
            a * w0 + (1.0 - a) * pull + phi.T @ coef.T
            for a, w0, pull, phi, coef in zip(
                decay, self.start, self.pull, self.features, added, strict=True
            )
        ]


def sources(setting: Setting) -> dict[str, object]:
    dense = BlockBank([FeatureBlock(phi) for phi in setting.features])
    sparse = BlockBank([FeatureBlock(sp.csr_array(phi)) for phi in setting.features])
    stack = setting.stack()
    chunked = KernelSource(lambda rows: stack[rows])
    chunked.chunk = 7
    return {
        "gram": KernelSource(stack),
        "chunks": chunked,
        "dense": FeatureSource(dense.features()),
        "sparse": FeatureSource(sparse.features()),
    }


@each_loss
@pytest.mark.parametrize("kind", ["gram", "chunks", "dense", "sparse"])
def test_compiled_epochs_are_the_formula(loss, kind: str) -> None:
    setting = Setting(loss)
    added, decay = run_epoch(
        sources(setting)[kind],
        setting.problem,
        setting.order,
        setting.rule,
        setting.snapshot,
    )
    expected = setting.by_formula()
    for block, wanted in zip(setting.assembled(added, decay), expected, strict=True):
        assert np.allclose(block, wanted, rtol=1e-9, atol=1e-11)


@each_loss
def test_the_plain_loop_is_the_compiled_one(loss) -> None:
    setting = Setting(loss, seed=1)
    stack = setting.stack()
    arguments = (setting.order, setting.rule, setting.snapshot)
    added, decay = run_epoch(KernelSource(stack), setting.problem, *arguments)
    sums = Sum(np.zeros_like(added), np.ones(3), np.ones(3), np.zeros(1, np.int64))
    plain_steps(stack, setting.order, *arguments, setting.problem, sums)
    assert np.allclose(sums.coef, added, rtol=1e-9, atol=1e-12)
    assert np.allclose(sums.decay, decay)


@pytest.mark.parametrize("sparse", [False, True])
def test_features_that_share_one_w_are_the_combined_kernel(sparse: bool) -> None:
    setting = Setting(LOSSES[0], seed=2)
    features = [sp.csr_array(phi) if sparse else phi for phi in setting.features]
    weights = np.array([0.2, 0.5, 0.1])
    combined = np.einsum("f,ifj->ij", weights, setting.stack())[:, None, :]
    rng = np.random.default_rng(3)
    snapshot = Snapshot(
        rng.normal(size=(1, 3, N_ROWS)),
        rng.normal(size=(1, 3, N_ROWS)),
        setting.snapshot.gradient,
    )
    rule = EpochRule(np.array([0.1]), np.array([0.99]), np.array([40]))
    bank = BlockBank([FeatureBlock(phi) for phi in features])
    both = [
        run_epoch(source, setting.problem, setting.order, rule, snapshot)
        for source in (
            FeatureSource(bank.features()).sharing(weights),
            KernelSource(combined),
        )
    ]
    assert np.allclose(both[0][0], both[1][0], rtol=1e-9, atol=1e-12)
    assert both[0][1] == pytest.approx(both[1][1])


@pytest.mark.parametrize("kind", ["gram", "dense", "sparse"])
def test_a_vanishing_scale_is_folded_away(kind: str) -> None:
    setting = Setting(LOSSES[3], seed=4)
    # Decays of 1e-30 a step: after some steps only folding keeps the sums finite.
    setting.own = np.full(3, 0.1)
    step = np.full(3, (1.0 - 1e-30) / 0.1)
    setting.rule = EpochRule(step, np.full(3, 1e-30), np.array([12, 9, 12]))
    setting.order = setting.order[:12]
    arguments = (setting.problem, setting.order, setting.rule, setting.snapshot)
    added, decay = run_epoch(sources(setting)[kind], *arguments)
    assert np.all(np.isfinite(added))
    assert np.all(decay < 1e-200)


def test_single_precision_rows_are_read_as_they_are() -> None:
    setting = Setting(LOSSES[0], seed=5)
    arguments = (setting.problem, setting.order, setting.rule, setting.snapshot)
    single = setting.stack().astype(np.float32)
    added, _ = run_epoch(KernelSource(single), *arguments)
    exact, _ = run_epoch(KernelSource(single.astype(np.float64)), *arguments)
    assert np.allclose(added, exact, rtol=1e-4, atol=1e-6)
    assert GramBank(single).dtype == np.float32
