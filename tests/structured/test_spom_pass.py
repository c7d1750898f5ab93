"""The compiled pass against the plain one, for every sort of block and regularizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from manykernels.hot import chain as hot
from manykernels.norms import (
    ElasticNetMKL,
    GroupLasso,
    OverlappingGroups,
    PowerNorm,
    Regularizer,
    SparseGroupLasso,
    SparseMKL,
    SquaredL2,
    SquaredPNorm,
    SumOf,
)
from manykernels.norms.terms import Term
from manykernels.structured import ChainDecoder, OnlineProximal
from manykernels.structured.chain_blocks import ChainBlocks, ChainWeights
from manykernels.structured.chain_learning import (
    ChainDescent,
    ChainProblem,
    ChainProgress,
    chain_terms,
)
from manykernels.structured.structured_problem import CRF, StructuredHinge
from tests.oracles.naive_spom import NaiveSPOM

N_LABELS = 3
REGULARIZERS: list[Regularizer] = [
    SquaredL2(),
    GroupLasso(),
    SparseMKL(),
    SquaredPNorm(1.3),
    PowerNorm(1.5),
    PowerNorm(3.0),
    ElasticNetMKL(0.5),
    OverlappingGroups([(0, 1), (1, 2)]),
    SumOf([SparseMKL(), GroupLasso()], [1.0, 0.1]),
]
each_regularizer = pytest.mark.parametrize(
    "regularizer", REGULARIZERS, ids=lambda r: f"{type(r).__name__}"
)


def toy(seed: int = 0) -> dict[str, Any]:
    """Eight short chains with three blocks of features; the third is sparse noise."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, size=8)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    n = int(starts[-1])
    target = rng.integers(N_LABELS, size=n)
    first = np.eye(N_LABELS)[target] @ rng.normal(size=(N_LABELS, 4))
    noise = rng.normal(size=(n, 3)) * (rng.random((n, 3)) < 0.3)
    features = [first + 0.5 * rng.normal(size=(n, 4)), rng.normal(size=(n, 5)), noise]
    edges = [rng.normal(size=(n, 2)), noise]
    return {"starts": starts, "target": target, "features": features, "edges": edges}


def blocks_of(
    features: list[np.ndarray], sorts: str, edges: Sequence[np.ndarray] = ()
) -> ChainBlocks:
    """One letter per block: dense kernel, sparse kernel or explicit features."""
    dense = [f for f, sort in enumerate(sorts) if sort == "d"]
    sparse = [f for f, sort in enumerate(sorts) if sort == "s"]
    explicit = [f for f, sort in enumerate(sorts) if sort == "f"]
    n = len(features[0])
    stack = np.zeros((n, len(dense), n))
    for column, f in enumerate(dense):
        stack[:, column] = features[f] @ features[f].T
    matrices = [sp.csr_array(features[f] @ features[f].T) for f in sparse]
    return ChainBlocks(
        stack,
        matrices,
        [features[f] for f in explicit],
        dense + sparse,
        explicit,
        edges,
        [len(sorts) + f for f in range(len(edges))],
    )


def explicit(
    weights: ChainWeights, blocks: ChainBlocks, features: list[np.ndarray]
) -> list[np.ndarray]:
    """The model's blocks as vectors."""
    found: list[Any] = [None] * blocks.n_blocks
    for f, block in enumerate(blocks.kernel_block):
        found[block] = features[block].T @ weights.coef[f]
    for f, block in enumerate(blocks.feature_block):
        a, b = blocks.table_start[f : f + 2]
        found[block] = weights.table[a:b]
    for f, block in enumerate(blocks.edge_block):
        a, b = blocks.edge_start[f : f + 2]
        found[block] = weights.edges[a:b]
    return [*found, weights.pairs]


def problem_of(
    blocks: ChainBlocks,
    terms: tuple[Term, ...],
    loss: Any = None,
    C: float = 1.0,
    weight: np.ndarray | None = None,
    uses_pairs: bool = True,
) -> ChainProblem:
    """The problem on the toy's chains."""
    data, loss = toy(), loss or StructuredHinge()
    starts, target = data["starts"], data["target"]
    weight = np.ones(len(starts) - 1) if weight is None else weight
    return ChainProblem(
        blocks, starts, target, N_LABELS, loss, terms, C, weight, uses_pairs
    )


def steps_of(sums: bool = False, average: bool | str = True) -> OnlineProximal:
    update = "dual_averaging" if sums else "gradient"
    return OnlineProximal(update=update, average=average)


def run_both(
    regularizer: Regularizer,
    sorts: str,
    *,
    loss: str = "hinge",
    pairs: str = "fixed",
    epochs: int = 3,
    eta: float = 0.3,
    C: float = 1.0,
    weight: np.ndarray | None = None,
    uses_pairs: bool = True,
    averaged: bool = True,
    n_edges: int = 0,
    sums: bool = False,
) -> tuple[NaiveSPOM, ChainDescent, list[np.ndarray], ChainBlocks]:
    data = toy()
    edges = data["edges"][:n_edges]
    blocks = blocks_of(data["features"], sorts, edges)
    n_chains = len(data["starts"]) - 1
    terms = chain_terms(regularizer, blocks.n_blocks, pairs)
    kind = CRF(coarse=0.0) if loss == "crf" else StructuredHinge()
    problem = problem_of(blocks, terms, kind, C, weight, uses_pairs)
    fast = ChainDescent(problem, steps_of(sums, "tail" if sums else averaged))
    slow = NaiveSPOM(
        data["features"],
        data["starts"],
        data["target"],
        N_LABELS,
        terms,
        problem.reg,
        loss,
        fast.importance,
        uses_pairs,
        edges,
        sums,
    )
    rng = np.random.default_rng(1)
    for epoch in range(1, epochs + 1):
        order = rng.permutation(n_chains)
        steps = np.full(n_chains, eta / np.sqrt(epoch))
        fast.run_pass(order, steps, rng)
        for chain, step in zip(order, steps, strict=True):
            slow.visit(int(chain), float(step))
    return slow, fast, data["features"], blocks


def assert_same(
    slow: NaiveSPOM,
    fast: ChainDescent,
    features: list[np.ndarray],
    blocks: ChainBlocks,
    atol: float = 1e-9,
) -> None:
    for want, got in zip(
        slow.w, explicit(fast.weights(), blocks, features), strict=True
    ):
        assert np.allclose(want, got, atol=atol)
    norms = [np.linalg.norm(w) for w in slow.w]
    assert np.allclose(fast.block_norms(), norms, atol=1e-7)
    if fast.rule.averaged:
        mean = explicit(fast.progress().average, blocks, features)
        for want, got in zip(slow.average(), mean, strict=True):
            assert np.allclose(want, got, atol=atol)


@each_regularizer
@pytest.mark.parametrize("sorts", ["ddd", "fff", "dfs"])
def test_last_and_averaged_models(regularizer: Regularizer, sorts: str) -> None:
    assert_same(*run_both(regularizer, sorts))


@each_regularizer
def test_crf_models(regularizer: Regularizer) -> None:
    assert_same(*run_both(regularizer, "sdf", loss="crf", pairs="learned"))


@pytest.mark.parametrize("pairs", ["fixed", "learned"])
def test_sparse_group_lasso(pairs: str) -> None:
    assert_same(*run_both(SparseGroupLasso(0.5), "fff", pairs=pairs))


@each_regularizer
@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_edges(regularizer: Regularizer, loss: str) -> None:
    assert_same(*run_both(regularizer, "dfs", loss=loss, n_edges=2))


def test_edges_that_vanish_and_entries_of_edges() -> None:
    settings = {"C": 0.05, "epochs": 12, "eta": 0.5, "n_edges": 2}
    slow, *rest = run_both(GroupLasso(), "fff", **settings)
    zero = np.array(
        [[np.linalg.norm(w) == 0.0 for w in seen[3:5]] for seen in slow.seen]
    )
    assert np.sum(np.diff(zero.astype(int), axis=0) > 0) >= 1  # cleared
    assert_same(slow, *rest)
    assert_same(*run_both(SparseGroupLasso(0.5), "fff", n_edges=2))


def test_edges_without_transitions() -> None:
    slow, fast, *rest = run_both(SparseMKL(), "ddf", uses_pairs=False, n_edges=1)
    assert not np.any(fast.weights().pairs)
    assert_same(slow, fast, *rest)


@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_gradient_of_edges_by_finite_differences(loss: str) -> None:
    """The plain method's gradient, which the compiled one is compared with."""
    slow, *_, blocks = run_both(SquaredL2(), "fff", loss=loss, n_edges=2)
    kind = CRF(coarse=0.0) if loss == "crf" else StructuredHinge()
    chain = int(np.argmax(np.diff(slow.starts)))
    target = slow.target[slow.starts[chain] : slow.starts[chain + 1]]

    def value() -> float:
        decoder = ChainDecoder(*slow.scores(chain, slow.w))
        return float(kind.values(decoder, target)[0])

    for w, gradient in zip(slow.w[3:], slow.gradient(chain)[3:], strict=True):
        for place in np.ndindex(w.shape):
            old, values = w[place], []
            for change in (1e-6, -1e-6):
                w[place] = old + change
                values.append(value())
            w[place] = old
            assert gradient[place] == pytest.approx(
                (values[0] - values[1]) / 2e-6, abs=1e-5
            )


@each_regularizer
@pytest.mark.parametrize("sorts", ["ddd", "fff", "dfs"])
def test_dual_averaging(regularizer: Regularizer, sorts: str) -> None:
    slow, fast, features, blocks = run_both(regularizer, sorts, n_edges=1, sums=True)
    last = explicit(fast.weights(), blocks, features)
    for want, got in zip(slow.w, last, strict=True):
        assert np.allclose(want, got, atol=1e-9)
    mean = explicit(fast.progress().average, blocks, features)
    for f, (want, own, got) in enumerate(
        zip(slow.average(), slow.w, mean, strict=True)
    ):
        if f < 3 and sorts[f] != "f":
            continue  # coefficients are zero where nothing was, not the vectors
        assert np.allclose(want * (own != 0.0), got, atol=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_dual_averaging_drops_blocks(loss: str) -> None:
    settings: Any = {"C": 0.3, "epochs": 8, "loss": loss, "sums": True, "n_edges": 1}
    slow, fast, *_ = run_both(GroupLasso(), "dff", **settings)
    norms = [np.linalg.norm(w) for w in slow.w]
    assert 0.0 in norms[:4] and max(norms[:4]) > 0.0
    assert np.allclose(fast.block_norms(), norms, atol=1e-9)


def test_entries_may_come_after_other_terms() -> None:
    late = SumOf([SquaredL2(), SparseGroupLasso(0.5), ElasticNetMKL(0.2)])
    assert_same(*run_both(late, "fff"))


@pytest.mark.parametrize("sorts", ["ddd", "fff", "sss"])
@pytest.mark.parametrize("regularizer", [GroupLasso(), SparseMKL()])
def test_blocks_that_vanish_and_come_back(regularizer: Any, sorts: str) -> None:
    """Strong regularization: blocks are cleared and start again many times."""
    slow, fast, *rest = run_both(regularizer, sorts, C=0.05, epochs=12, eta=0.5)
    zero = [[np.linalg.norm(w) == 0.0 for w in seen] for seen in slow.seen]
    changes = np.diff(np.array(zero).astype(int), axis=0)
    assert np.sum(changes > 0) >= 3  # cleared
    assert np.sum(changes < 0) >= 3  # and again alive
    assert_same(slow, fast, *rest)


@pytest.mark.parametrize("sorts", ["ddd", "fff"])
def test_average_under_many_rescalings(sorts: str) -> None:
    """Scales fall by many orders of magnitude; the average must not lose digits."""
    slow, fast, *rest = run_both(SquaredL2(), sorts, C=0.02, epochs=40, eta=2.0)
    shrinkage = 8 * 40 * np.log1p(2.0 / np.sqrt(40) * fast.problem.reg)
    assert shrinkage > -5 * np.log(hot.SMALLEST_BLOCK_SCALE)
    assert_same(slow, fast, *rest)


def test_chain_weights_scale_the_losses() -> None:
    weight = np.random.default_rng(3).uniform(0.2, 3.0, 8)
    assert_same(*run_both(SparseMKL(), "dfs", weight=weight))


def test_without_pairs_positions_are_independent() -> None:
    slow, fast, *rest = run_both(SparseMKL(), "ddf", uses_pairs=False)
    assert not np.any(fast.weights().pairs)
    assert_same(slow, fast, *rest)


def test_no_average_is_kept_unless_asked() -> None:
    slow, fast, *rest = run_both(SparseMKL(), "dfs", averaged=False)
    assert fast.progress().total is None
    assert fast.state.kernels.total.size == 0
    assert_same(slow, fast, *rest)


def test_objective_from_the_cache_is_the_objective() -> None:
    _, fast, *_ = run_both(SparseMKL(), "dfs")
    assert fast.objective() == pytest.approx(fast.problem.objective(fast.weights()))


@pytest.mark.parametrize("sums", [False, True])
def test_a_pass_goes_on_where_another_ended(sums: bool) -> None:
    data = toy()
    blocks = blocks_of(data["features"], "dfs", data["edges"])
    terms = chain_terms(SparseMKL(), 5)
    problem = problem_of(blocks, terms)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(8) for _ in range(4)]
    method = steps_of(sums)
    whole = ChainDescent(problem, method)
    parts: ChainProgress | None = None
    for order in orders:
        whole.run_pass(order, np.full(8, 0.2), rng)
        part = ChainDescent(problem, method, parts)
        part.run_pass(order, np.full(8, 0.2), rng)
        parts = part.progress()
    one, other = whole.progress(), parts
    assert other is not None
    for a, b in ((one.last, other.last), (one.average, other.average)):
        for mine, its in zip(a.parts, b.parts, strict=True):
            assert np.allclose(mine, its)


def test_dual_averaging_goes_on_from_its_own_sums_only() -> None:
    _, fast, *_ = run_both(SparseMKL(), "dfs")
    with pytest.raises(ValueError, match="must go on from its own sums"):
        ChainDescent(fast.problem, steps_of(True), fast.progress())


def test_coarse_gradients_are_unbiased() -> None:
    """Rounded at random, the mean of many updates is the exact update."""
    data = toy()
    blocks = blocks_of(data["features"], "dff")
    weights = []
    for coarse in (0.0, 0.5):
        terms = chain_terms(SquaredL2(), 3)
        problem = problem_of(blocks, terms, CRF(coarse=coarse), 1e6)
        total = np.zeros((1, blocks.n_positions, N_LABELS))
        rng = np.random.default_rng(0)
        repeats = 1 if coarse == 0.0 else 4000
        for _ in range(repeats):
            descent = ChainDescent(problem, steps_of(average=False))
            descent.run_pass(np.array([2]), np.array([1.0]), rng)
            total += descent.weights().coef / repeats
        weights.append(total)
    assert np.any(weights[0])
    assert np.allclose(weights[0], weights[1], atol=0.04)


def test_single_precision_kernels_stay_close() -> None:
    data = toy()
    double = blocks_of(data["features"], "dds")
    single = ChainBlocks(
        double.dense.astype(np.float32),
        double.sparse,
        [],
        double.kernel_block,
        double.feature_block,
    )
    found = []
    for blocks in (double, single):
        problem = problem_of(blocks, chain_terms(SparseMKL(), 3))
        descent = ChainDescent(problem, steps_of())
        rng = np.random.default_rng(0)
        for _ in range(5):
            descent.run_pass(rng.permutation(8), np.full(8, 0.2), rng)
        found.append(descent)
    assert np.allclose(found[0].block_norms(), found[1].block_norms(), atol=1e-4)
    assert found[0].objective() == pytest.approx(found[1].objective(), rel=1e-4)
