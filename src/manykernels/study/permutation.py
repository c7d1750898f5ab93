"""Could chance have done this: weights of the kernels against shuffled targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from manykernels.banks.alignment import centered_products, ratio
from manykernels.base.extras import require_library
from manykernels.base.quoted import quoted
from manykernels.inputs.data import TrainingValues
from manykernels.inputs.parameters import (
    Number,
    OneOf,
    Rules,
    Whole,
    Workers,
    draw_seed,
)
from manykernels.study.refits import Refits, kernel_shares, side_by_side_runs

REFITS = 200
TOL = 1e-3
TIE = 1e-9  # statistics closer than this to the observed one count as reaching it
RULES: Rules = {
    "n_permutations": Whole(example=REFITS),
    "tol": Number(0.0, 1.0),
    "n_jobs": Workers(optional=True),
    "verbose": Whole(low=0, example=1),
}


@dataclass(frozen=True)
class KernelTest:
    """Statistics of all kernels or groups, and what they are for shuffled targets.

    Attributes
    ----------
    names : list of str
        Of the kernels, or of their groups.
    statistic : array of shape (n,)
        With the targets as they are.
    null : array of shape (n_permutations, n)
        With shuffled targets.

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
        reached = self.null >= self.statistic - TIE
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
    groups: str | Sequence[str] | None = None,
    n_permutations: int = REFITS,
    tol: float = TOL,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    random_state: Any = None,
) -> KernelTest:
    r"""A p-value per kernel: :math:`(1 + \#\{T_f(y^\pi) \ge T_f(y)\}) / (1 + n)`.

    The null hypothesis is that targets have nothing to do with any of the rows. Then
    all orders of the targets are equally likely, so that :math:`T_f(y)` and the n
    shuffled :math:`T_f(y^\pi)` are exchangeable, and the p-value is at most a with a
    probability of at most a, whatever the kernels are. Every fit, that of the targets
    as they are included, has the same kernels, seed and start: T is a function of the
    order alone.

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
    groups : None, "view" or sequence of str
        Test sums over kernels: those of a view, or those with the same text.
    n_permutations : int, default=200
    tol : float, default=1e-3
        Relative gap of the fits. The p-values are valid with any.
    sample_weight : array of shape (n,), optional
        Weights are shuffled together with the targets.
    n_jobs : int, optional
        Fits at a time; they share the kernels.
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
    OneOf(*STATISTICS).check("statistic", statistic)
    given = {
        "n_permutations": n_permutations,
        "tol": tol,
        "n_jobs": n_jobs,
        "verbose": verbose,
    }
    for name, rule in RULES.items():
        if given[name] is not None:
            rule.check(name, given[name])
    seed = draw_seed(random_state)
    refits = Refits.of(estimator, X, y, sample_weight, tol, seed)
    names, member = kernel_groups(refits, groups)
    rng = np.random.default_rng(seed)
    orders = [np.arange(refits.n_rows)]
    orders += [rng.permutation(refits.n_rows) for _ in range(n_permutations)]
    work = STATISTICS[statistic](refits)
    found = side_by_side_runs(work, orders, n_jobs, verbose, "shuffled targets")
    values = np.stack(found) @ member
    return KernelTest(names, values[0], values[1:])


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


def kernel_groups(refits: Refits, groups: Any) -> tuple[list[str], np.ndarray]:
    """Names of the groups, and which kernel is in which, shape (kernels, groups)."""
    names = refits.names
    if groups is None:
        return names, np.eye(len(names))
    if isinstance(groups, str):
        OneOf("view", None).check("groups", groups)
        texts = _views(refits)
    else:
        texts = [str(text) for text in groups]
    if len(texts) != len(names):
        raise ValueError(
            f"groups must have a text for each of {len(names)} kernels, got "
            f"{len(texts)}; the kernels are {', '.join(names[:3])} and so on."
        )
    found = list(dict.fromkeys(texts))
    member = np.array([[text == one for one in found] for text in texts])
    return found, member.astype(float)


def _views(refits: Refits) -> list[str]:
    """The view, or the views, that every kernel reads."""
    reader, kernels = refits.estimator._reader, refits.data.kernels
    if reader is None:
        raise ValueError(
            "groups='view' needs X with several views, got one table or matrices; pass "
            "a dict of tables, or a text for every kernel."
        )
    ends = np.cumsum([len(own) for own in reader.columns])
    found = []
    for f, name in enumerate(kernels.names):
        group = kernels.group_of(f)
        if kernels.kernels[f].family == "constant":
            found.append(name)
            continue
        columns = np.arange(kernels.n_columns)[group.columns]  # type: ignore[union-attr]
        views = np.unique(np.searchsorted(ends, columns, side="right"))
        found.append("+".join(reader.names[v] for v in views))
    return found


def _weights(refits: Refits) -> Callable[[np.ndarray], np.ndarray]:
    return partial(_learned, refits)


def _learned(refits: Refits, order: np.ndarray) -> np.ndarray:
    """Weights with the targets in another order, from a start that knows nothing."""
    p, C = float(refits.estimator.p), float(refits.estimator.C)
    some = refits.with_targets_of(order)
    return kernel_shares(some.solve(p, C, some.zero(p, C)))


def _alignments(refits: Refits) -> Callable[[np.ndarray], np.ndarray]:
    """Alignments for any order: lengths do not depend on it."""
    bank, target = refits.data.bank, _numbers(refits)
    share = np.full(bank.n_rows, 1.0 / bank.n_rows)
    centered = target - share @ target
    lengths = np.sqrt(np.diag(centered_products(bank, share)))
    scale = lengths * float(np.linalg.norm(centered.T @ centered)) / bank.n_rows

    def aligned(order: np.ndarray) -> np.ndarray:
        return ratio(bank.square_norms(share[:, None] * centered[order]), scale)

    return aligned


def _numbers(refits: Refits) -> np.ndarray:
    """The targets as columns: one per class, or as they are."""
    rows = refits.data.rows
    if refits.labels is not None:
        return np.eye(len(rows.classes))[refits.labels]
    if isinstance(rows, TrainingValues):
        return rows.target
    raise ValueError(
        "statistic='alignment' needs labels or numbers, got times until an event for "
        f"{quoted(type(refits.estimator).__name__)}; choose 'weight'."
    )


STATISTICS: dict[str, Callable[[Refits], Callable[[np.ndarray], np.ndarray]]] = {
    "weight": _weights,
    "alignment": _alignments,
}
