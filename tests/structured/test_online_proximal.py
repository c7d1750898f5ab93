"""SPOM and the online proximal method: where they lead, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import manykernels as mk
from manykernels.banks import BlockBank, FeatureBlock, GramBank, SparseGramBlock
from manykernels.compare.spom import SPOM, chain_blocks, chain_problem
from manykernels.losses import Softmax, SquaredHinge
from manykernels.norms import (
    ElasticNetMKL,
    GroupLasso,
    PowerNorm,
    Regularizer,
    SparseGroupLasso,
    SparseMKL,
    SquaredL2,
    SquaredPNorm,
    SumOf,
)
from manykernels.solvers import InterruptedFitWarning
from manykernels.structured import ChainDecoder, OnlineProximal
from manykernels.structured.chain_blocks import ChainBlocks, ChainWeights
from manykernels.structured.chain_learning import ChainEpoch, ChainProblem, chain_terms
from manykernels.structured.structured_problem import CRF, StructuredHinge
from tests.oracles.optimum import minimum
from tests.oracles.toys import blobs, kernel_stack, make_problem, toy_problem


def words(
    seed: int = 0, n_chains: int = 12, n_labels: int = 3
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Chains in which label k is mostly followed by k + 1, with two feature blocks."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 5, size=n_chains)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    target = np.concatenate(
        [(rng.integers(n_labels) + np.arange(n)) % n_labels for n in lengths]
    )
    centers = rng.normal(size=(n_labels, 3))
    good = centers[target] + 0.7 * rng.normal(size=(len(target), 3))
    return starts, target, [good, rng.normal(size=(len(target), 3))]


def chains(
    regularizer: Regularizer,
    loss: Any = None,
    *,
    C: float = 1.0,
    kernels: bool = False,
    pairs: str = "fixed",
) -> ChainProblem:
    starts, target, features = words()
    blocks = ChainBlocks.of(features=features)
    if kernels:
        blocks = ChainBlocks.of([phi @ phi.T for phi in features])
    return ChainProblem(
        blocks,
        starts,
        target,
        3,
        loss or StructuredHinge(),
        chain_terms(regularizer, 2, pairs),
        C,
        np.ones(len(starts) - 1),
    )


def exact_optimum(problem: ChainProblem, features: list[np.ndarray]) -> float:
    """Every label sequence of every chain, in a general convex solver."""
    tables = [cp.Variable((phi.shape[1], 3)) for phi in features]
    pairs = cp.Variable((3, 3))
    losses = []
    for a, b in zip(problem.starts, problem.starts[1:], strict=False):
        unary = sum(phi[a:b] @ w for phi, w in zip(features, tables, strict=True))
        target = problem.target[a:b]

        def score(y: Any, unary: Any = unary) -> Any:
            steps = sum(pairs[j, k] for j, k in zip(y, y[1:], strict=False))
            return sum(unary[t, int(k)] for t, k in enumerate(y)) + steps

        margin = problem.loss.name != "crf"
        values = [
            score(y) - score(target) + margin * float(np.sum(np.array(y) != target))
            for y in product(range(3), repeat=b - a)
        ]
        stacked = cp.hstack(values)
        losses.append(cp.max(stacked) if margin else cp.log_sum_exp(stacked))
    norms = [cp.norm(w, "fro") for w in tables]
    omega = 0.5 * cp.square(sum(norms)) + 0.5 * cp.sum_squares(pairs)
    if problem.terms[0].kind == "squared_l2":
        omega = 0.5 * sum(cp.sum_squares(w) for w in (*tables, pairs))
    goal = problem.reg * omega + sum(losses) / len(losses)
    return minimum(goal)


@pytest.mark.parametrize("loss", [StructuredHinge(), CRF(0.0), CRF(0.1)])
@pytest.mark.parametrize("regularizer", [SparseMKL(), SquaredL2()])
def test_comes_close_to_the_optimum(loss: Any, regularizer: Regularizer) -> None:
    problem = chains(regularizer, loss)
    best = exact_optimum(problem, words()[2])
    # A hinge keeps its slope to the end and wants smaller steps.
    eta0 = 1.0 if problem.loss.name == "crf" else 0.1
    method = OnlineProximal(600, "sqrt", eta0, average=True, random_state=0)
    found = method.solve(problem)
    assert found.objective == pytest.approx(problem.objective(found.weights))
    assert best - 1e-6 <= found.objective <= 1.05 * best


def test_kernels_and_features_are_one_model() -> None:
    starts, target, features = words()
    results = []
    for kernels in (False, True):
        problem = chains(SparseMKL(), kernels=kernels)
        result = OnlineProximal(10, random_state=0, average=True).solve(problem)
        results.append((result, problem.blocks.unary(result.weights)))
    (one, left), (other, right) = results
    assert np.allclose(left, right)
    assert np.allclose(one.block_norms, other.block_norms)
    assert one.objective == pytest.approx(other.objective)
    found, _ = ChainDecoder(left, one.weights.pairs, starts).best()
    assert np.mean(found == target) > 0.8


def test_strong_steps_on_a_strongly_convex_problem() -> None:
    """1 / (sigma t) with the square absorbed: the last model is close."""
    problem = chains(SquaredL2())
    best = exact_optimum(problem, words()[2])
    method = OnlineProximal(400, "strong", random_state=0)
    assert method.solve(problem).objective <= 1.05 * best


def test_steps_by_name() -> None:
    problem = chains(SquaredL2())
    n = problem.n_examples
    first = {
        step: OnlineProximal(step=step, eta0=2.0).steps(problem, 4, n)
        for step in ("constant", "sqrt", "epoch", "strong")
    }
    assert np.all(first["constant"] == 2.0)
    assert first["sqrt"][0] == pytest.approx(2.0 / np.sqrt(n + 1))
    assert np.all(first["epoch"] == 1.0)
    assert first["strong"][1] == pytest.approx(1.0 / (problem.reg * (n + 2)))


@pytest.mark.parametrize(
    ("regularizer", "known"),
    [
        (SquaredL2(), 1.0),
        (ElasticNetMKL(0.3), 0.3),
        (SquaredPNorm(1.25), 0.25),
        (SumOf([SparseMKL(), SquaredL2()], [1.0, 0.5]), 0.5),
    ],
)
def test_strong_steps_take_what_is_known_of_the_regularizer(
    regularizer: Regularizer, known: float
) -> None:
    problem = chains(regularizer)
    steps = OnlineProximal(step="strong").steps(problem, 1, 0)
    assert steps[0] == pytest.approx(1.0 / (known * problem.reg))


@pytest.mark.parametrize(
    "regularizer", [SparseMKL(), GroupLasso(), PowerNorm(1.5), ElasticNetMKL(0.0)]
)
def test_strong_steps_need_strong_convexity(regularizer: Regularizer) -> None:
    with pytest.raises(ValueError, match="step='strong' needs a regularizer that is"):
        OnlineProximal(step="strong").solve(chains(regularizer))


def test_dual_averaging_has_no_strong_steps_and_no_entries() -> None:
    with pytest.raises(ValueError, match="needs a step with eta0"):
        OnlineProximal(step="strong", update="dual_averaging")
    with pytest.raises(ValueError, match="needs a regularizer of block norms"):
        OnlineProximal(update="dual_averaging").solve(chains(SparseGroupLasso()))


def test_dual_averaging_comes_close_to_the_optimum() -> None:
    problem = chains(SparseMKL())
    best = exact_optimum(problem, words()[2])
    method = OnlineProximal(
        300, "epoch", 0.3, average=True, update="dual_averaging", random_state=0
    )
    assert best - 1e-6 <= method.solve(problem).objective <= 1.05 * best


def test_automatic_step_is_the_best_of_those_tried() -> None:
    problem = chains(SparseMKL(), kernels=True)
    method = OnlineProximal(5, eta0="auto", random_state=1)
    chosen = method.best_step(problem, None, 7)
    tried = {
        eta0: OnlineProximal(5, eta0=eta0, random_state=7).solve(problem)
        for eta0 in (0.01, 0.1, 1.0, 10.0)
    }
    assert chosen == min(tried, key=lambda eta0: tried[eta0].objective)

    assert method.solve(problem).eta0 in tried


def test_same_seed_same_model_and_callbacks_stop() -> None:
    problem = chains(SparseMKL(), CRF())
    one = OnlineProximal(5, random_state=3).solve(problem)
    other = OnlineProximal(5, random_state=3).solve(problem)
    assert np.array_equal(one.weights.table, other.weights.table)
    assert [line.updates for line in one.history] == [
        line.updates for line in other.history
    ]
    stopped = OnlineProximal(5, random_state=3).solve(
        problem, callback=lambda line: line.epoch == 2
    )
    assert stopped.stopped
    assert len(stopped.history) == 2


def test_interrupted_fits_keep_the_model() -> None:
    def stop(line: ChainEpoch) -> None:
        if line.epoch == 3:
            raise KeyboardInterrupt

    problem = chains(SparseMKL())
    with pytest.warns(InterruptedFitWarning, match="after 3 epochs"):
        method = OnlineProximal(9, average=False, random_state=0)
        found = method.solve(problem, callback=stop)
    whole = replace(method, epochs=3).solve(problem)
    assert found.stopped
    assert np.array_equal(found.weights.table, whole.weights.table)


def test_label_pairs_may_compete_with_the_kernels() -> None:
    """Strong regularization: a learned pair block vanishes, a fixed one does not."""
    results = [
        OnlineProximal(30, random_state=0).solve(
            chains(GroupLasso(), C=0.02, pairs=pairs)
        )
        for pairs in ("fixed", "learned")
    ]
    assert results[0].block_norms[-1] > 0.0
    assert results[1].block_norms[-1] < results[0].block_norms[-1]


# --- as a solver of multiclass problems ---------------------------------------


@pytest.mark.parametrize("p", [1.0, 1.25, 2.0])
def test_multiclass_is_a_chain_of_length_one(p: float) -> None:
    problem = toy_problem(0, p=p)
    best = mk.solvers.DualAscent(tol=1e-4, random_state=0).solve(problem)
    result = SPOM(150, random_state=0).solve(problem)
    assert result.objective == pytest.approx(problem.objective(result.model))
    gap = problem.duality_gap(result.model, result.dual_coef)
    assert result.duality_gap <= gap + 1e-9
    assert result.objective >= best.objective - best.duality_gap
    assert result.objective <= 1.15 * best.objective


def test_certificate_bounds_the_distance_to_the_optimum() -> None:
    problem = toy_problem(1, p=1.25)
    best = mk.solvers.DualAscent(tol=1e-5, random_state=0).solve(problem)
    result = SPOM(30, average=True, random_state=0).solve(problem)
    assert result.objective - result.duality_gap <= best.objective + 1e-9


def test_stops_at_the_gap_and_starts_from_a_model() -> None:
    problem = toy_problem(2, p=1.5)
    whole = SPOM(200, tol=0.2, random_state=0).solve(problem)
    assert whole.converged
    assert len(whole.history) < 200
    again = SPOM(1, eta0=1e-6, random_state=0).solve(problem, whole.model)
    assert again.objective == pytest.approx(whole.objective, rel=0.02)


def test_softmax_is_the_crf_of_one_position() -> None:
    X, target = blobs(30, 3, 0)
    problem = make_problem(kernel_stack(X, 2, 0), target, loss=Softmax(), p=1.5)
    result = SPOM(100, random_state=0).solve(problem)
    assert result.duality_gap >= 0.0
    assert result.objective < 0.9 * problem.objective(problem.zero())


def test_losses_it_cannot_handle_and_checkpoints_are_refused() -> None:
    problem = replace(toy_problem(0), loss=SquaredHinge())
    with pytest.raises(ValueError, match="SPOM handles the losses hinge, log only"):
        SPOM().solve(problem)
    with pytest.raises(ValueError, match="no checkpoints"):
        SPOM().solve(toy_problem(0), checkpoint=object())  # type: ignore[arg-type]


def test_banks_of_other_sorts_give_the_same_model() -> None:
    X, target = blobs(20, 3, 0)
    stack = np.stack([X @ X.T, np.eye(20)], axis=1)
    gram = GramBank(stack)
    mixed = BlockBank([FeatureBlock(X), SparseGramBlock(sp.eye_array(20))])
    sparse = BlockBank(
        [SparseGramBlock(sp.csr_array(X @ X.T)), SparseGramBlock(sp.eye_array(20))]
    )
    results = [
        SPOM(5, eta0=0.1, random_state=0).solve(make_problem(bank, target))
        for bank in (gram, mixed, sparse)
    ]
    assert len(chain_blocks(sparse).sparse) == 2
    for other in results[1:]:
        assert other.objective == pytest.approx(results[0].objective, rel=1e-6)
        assert np.allclose(other.model.coef, results[0].model.coef)


def test_weighted_rows_count_more() -> None:
    problem = toy_problem(0, weighted=True)
    assert np.array_equal(chain_problem(problem).chain_weight, problem.sample_weight)
    result = SPOM(60, random_state=0).solve(problem)
    best = mk.solvers.DualAscent(tol=1e-4, random_state=0).solve(problem)
    assert result.objective <= 1.2 * best.objective


@pytest.mark.parametrize(
    "settings",
    [
        {"step": "fast"},
        {"eta0": "best"},
        {"eta0": -1.0},
        {"update": "newton"},
        {"average": "half"},
        {"epochs": 0},
    ],
)
def test_settings_without_a_meaning_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        OnlineProximal(**settings)


def test_entries_of_kernel_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="explicit features only"):
        chains(SparseGroupLasso(), kernels=True)


def test_zero_model_has_the_loss_of_all_labels() -> None:
    problem = chains(SparseMKL())
    zero = ChainWeights.zero(problem.blocks, 3)
    lengths = np.diff(problem.starts)
    assert problem.objective(zero) == pytest.approx(lengths.mean())
    assert chains(SparseMKL(), CRF()).objective(zero) == pytest.approx(
        np.log(3.0) * lengths.mean()
    )
