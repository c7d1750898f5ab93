"""Could chance have done this: weights of the kernels against shuffled targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from manykernels.banks import Bank
from manykernels.banks.centered_alignment import centered_products, ratio
from manykernels.base.imports import require_library
from manykernels.base.quoted import quoted
from manykernels.inputs.parameters import OneOf, Rules, Whole, check_values, draw_seed
from manykernels.study.kernel_parts import KernelParts
from manykernels.study.refits import (
    REFIT_RULES,
    ParallelRuns,
    Refits,
    kernel_shares,
)
from manykernels.targets import Values

# Blocks whose rows are shuffled, or no block for the targets; and the order.
Shuffle = tuple[np.ndarray, np.ndarray]
Statistic = Callable[[Shuffle], np.ndarray]  # one number for every kernel
TIED_STATISTIC_TOL = 1e-9  # rounding of statistics that are equal
PERMUTATION_RULES: Rules = {**REFIT_RULES, "n_permutations": Whole(example=200)}


@dataclass(frozen=True)
class KernelTest:
    """Statistics of all kernels or groups, and what they are after shuffling.

    Attributes
    ----------
    names : list of str
        Of the kernels, or of their groups.
    statistic : array of shape (n,)
        With everything as it is.
    null : array of shape (n_permutations, n)
        With shuffled targets, or with the rows of the kernel or group shuffled.

    Examples
    --------
    >>> null = np.array([[0.2, 0.8], [0.4, 0.6], [0.3, 0.7]])
    >>> found = KernelTest(["a", "b"], np.array([0.7, 0.3]), null)
    >>> found.p_values.tolist(), found.adjusted.tolist()
    ([0.25, 1.0], [0.5, 1.0])
    """

    names: list[str]
    statistic: np.ndarray
    null: np.ndarray

    @property
    def p_values(self) -> np.ndarray:
        """(1 + shuffled statistics that reach the observed one) / (1 + all of them)."""
        # The observed order is one of all orders: it counts as one that reaches it.
        reached = self.null >= self.statistic - TIED_STATISTIC_TOL
        return np.asarray((1.0 + reached.sum(axis=0)) / (1.0 + len(self.null)))

    @property
    def adjusted(self) -> np.ndarray:
        """Benjamini and Hochberg's p-values.

        Of the kernels with an adjusted p-value up to a, a share of at most a is
        expected to be false, if tests are independent or positively dependent.
        """
        return adjusted_p_values(self.p_values)

    def to_frame(self) -> Any:
        """A data frame with a row for every kernel or group."""
        pandas = require_library("pandas", "cli")
        return pandas.DataFrame(
            {
                "kernel": self.names,
                "statistic": self.statistic,
                "null_mean": self.null.mean(axis=0),
                "null_high": np.percentile(self.null, 95.0, axis=0),
                "p_value": self.p_values,
                "adjusted_p_value": self.adjusted,
            }
        )


def permutation_test(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    statistic: str = "weight",
    shuffle: str = "target",
    groups: str | Sequence[str] | None = None,
    n_permutations: int = 200,
    tol: float = 1e-3,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    random_state: Any = None,
) -> KernelTest:
    r"""A p-value per kernel: :math:`(1 + \#\{T_f^\pi \ge T_f\}) / (1 + n)`.

    The null hypothesis is that targets have nothing to do with any of the rows, or with
    `shuffle="view"` that the rows of this one kernel or view have nothing to do with
    the targets and the other views. Then all orders are equally likely, so that
    :math:`T_f` and the n shuffled :math:`T_f^\pi` are exchangeable, and the p-value is
    at most a with a probability of at most a, whatever the kernels are. Every fit, that
    of the rows as they are included, has the same kernels, seed and start: T is a
    function of the order alone.

    A small p-value says that this kernel has more of the statistic than with targets
    that mean nothing. Weights have a sum of one, so a useless kernel next to a useful
    one usually has less weight than under shuffling. How much a kernel adds to the
    others is another question.

    Parameters
    ----------
    estimator : MKLClassifier, MKLRegressor or MKLSurvival
        Not changed. With p = 1 many weights are zero, and p-values of these are 1.
    X, y : as in its fit
    statistic : {"weight", "alignment"}, default="weight"
        The share of the kernel in the learned weights, or its centered alignment with
        the targets, which looks at every kernel alone and needs no fit. The latter
        counts all rows alike, and is not for times until an event.
    shuffle : {"target", "view"}, default="target"
        Targets against all rows, in `n_permutations` fits for all kernels together; or
        the rows of one kernel or group at a time, all else in place, in as many fits
        for each of them. Rows that lack a view keep to themselves.
    groups : None, "view" or sequence of str
        Test sums over kernels: those of a view (or else on the same columns), or those
        with the same text. Kernels of one group are shuffled together.
    n_permutations : int, default=200
    tol : float, default=1e-3
        Relative gap of the fits. The p-values are valid with any.
    sample_weight : array of shape (n,), optional
        Weights are shuffled together with the targets.
    n_jobs : int, optional
        Fits at a time.
    verbose : int, default=0
        1 says on standard error how far it is.
    random_state : int, RandomState or None

    Returns
    -------
    KernelTest

    References
    ----------
    Phipson and Smyth (2010), Permutation p-values should never be zero. Benjamini and
    Hochberg (1995), Controlling the false discovery rate.

    Examples
    --------
    >>> from manykernels import MKLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 6))
    >>> y = X[:, 0] + X[:, 1] > 0
    >>> model = MKLClassifier("rbf@0-1; rbf@2-3; rbf@4-5")
    >>> found = permutation_test(model, X, y, n_permutations=39, random_state=0)
    >>> found.p_values.tolist()
    [0.025, 1.0, 1.0]
    """
    OneOf("weight", "alignment").check("statistic", statistic)
    OneOf("target", "view").check("shuffle", shuffle)
    given = {"n_permutations": n_permutations, "tol": tol}
    check_values({**given, "n_jobs": n_jobs, "verbose": verbose}, PERMUTATION_RULES)
    seed = draw_seed(random_state)
    refits = Refits.of(estimator, X, y, sample_weight, tol, seed)
    parts = parts_to_test(refits, groups)
    rng = np.random.default_rng(seed)
    if shuffle == "target":
        items = _shuffled_targets(refits, n_permutations, rng)
    else:
        items = _shuffled_parts(refits, parts, n_permutations, rng)
    work = _weights if statistic == "weight" else _alignments
    runs = ParallelRuns(n_jobs, verbose, refits.data.bank.nbytes)
    values = np.stack(runs.of(work(refits), items, f"shuffled {shuffle}s"))
    values = parts.sum(values, axis=1)
    if shuffle == "view":  # each part has runs of its own, and only these count for it
        own = values.reshape(len(parts.names), 1 + n_permutations, -1)
        values = np.stack([own[k, :, k] for k in range(len(own))], axis=1)
    # The first run has everything in its place.
    return KernelTest(parts.names, values[0], values[1:])


def _shuffled_targets(
    refits: Refits, n_permutations: int, rng: np.random.Generator
) -> list[Shuffle]:
    no_blocks = np.zeros(len(refits.names), dtype=bool)
    every = np.arange(refits.n_rows)
    orders = [every, *(rng.permutation(every) for _ in range(n_permutations))]
    return [(no_blocks, order) for order in orders]


def _shuffled_parts(
    refits: Refits, parts: KernelParts, n_permutations: int, rng: np.random.Generator
) -> list[Shuffle]:
    # Rows without a view have a diagonal of zero; they are exchanged with their like,
    # or else a shuffled view would also move what is missing.
    present = refits.data.bank.diagonals() > 0.0
    _, pattern = np.unique(present, axis=0, return_inverse=True)
    items = []
    for k in range(len(parts.names)):
        orders = [_within(pattern, rng) for _ in range(n_permutations)]
        for order in [np.arange(refits.n_rows), *orders]:
            items.append((parts.position == k, order))
    return items


def _within(pattern: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random order in which a row takes the place of one with the same pattern."""
    order = np.empty(len(pattern), dtype=np.intp)
    random = rng.permutation(len(pattern))
    shuffled = random[np.argsort(pattern[random], kind="stable")]
    order[np.argsort(pattern, kind="stable")] = shuffled
    return order


def adjusted_p_values(p_values: np.ndarray) -> np.ndarray:
    """min over larger p of p n / rank: Benjamini and Hochberg's step-up rule.

    Examples
    --------
    >>> adjusted_p_values(np.array([0.01, 0.5, 0.02])).tolist()
    [0.03, 0.5, 0.03]
    """
    n = len(p_values)
    order = np.argsort(p_values)[::-1]
    raised = p_values[order] * n / np.arange(n, 0, -1)
    out = np.empty(n)
    out[order] = np.minimum(1.0, np.minimum.accumulate(raised))
    return out


def parts_to_test(refits: Refits, groups: Any) -> KernelParts:
    """Which kernels are tested together."""
    names = refits.names
    if groups is None:
        return KernelParts(names, np.arange(len(names)))
    if isinstance(groups, str):
        OneOf("view", None).check("groups", groups)
        return KernelParts.of_names(refits.views)
    texts = [str(text) for text in groups]
    if len(texts) != len(names):
        raise ValueError(
            f"groups must have a text for each of {len(names)} kernels, got "
            f"{len(texts)}; the kernels are {', '.join(names[:3])} and so on."
        )
    return KernelParts.of_names(texts)


def _weights(refits: Refits) -> Statistic:
    return partial(_weights_after, refits)


def _weights_after(refits: Refits, item: Shuffle) -> np.ndarray:
    p, C = float(refits.estimator.p), float(refits.estimator.C)
    blocks, order = item
    if blocks.any():
        shuffled = refits.with_shuffled(blocks, order)
    else:
        shuffled = refits.with_targets_of(order)
    # The same start for every order: exchangeable targets stay exchangeable.
    return kernel_shares(shuffled.solve(p, C, shuffled.zero(p, C)))


def _alignments(refits: Refits) -> Statistic:
    # Lengths do not depend on the order. Each kernel is looked at alone, so its rows
    # may as well stay in place while the targets move.
    bank, target = refits.data.bank, _numbers(refits)
    share = np.full(bank.n_rows, 1.0 / bank.n_rows)
    centered = target - share @ target
    lengths = np.sqrt(np.diag(centered_products(bank, share)))
    scale = lengths * float(np.linalg.norm(centered.T @ centered)) / bank.n_rows
    return partial(_aligned, bank, share[:, None] * centered, scale)


def _aligned(
    bank: Bank, target: np.ndarray, scale: np.ndarray, item: Shuffle
) -> np.ndarray:
    return ratio(bank.square_norms(target[item[1]]), scale)


def _numbers(refits: Refits) -> np.ndarray:
    """The targets as columns: one per class, or as they are."""
    targets: Any = refits.data.targets
    if refits.labels is not None:
        return np.eye(len(targets.classes))[refits.labels]
    if isinstance(targets, Values):
        return targets.target
    raise ValueError(
        "statistic='alignment' needs labels or numbers, got times until an event for "
        f"{quoted(type(refits.estimator).__name__)}; choose 'weight'."
    )
