"""The linear programs of LP-beta: how to mix scores of several classifiers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from manykernels.base.arrays import Array, Index

MISSED = 1e-9  # what rounding may miss a constraint by, where scores are at most one


class Mixture(NamedTuple):
    """Weights of the classifiers, and what the linear program reached with them."""

    weights: Array  # (classifiers,), or (classifiers, classes)
    margin: float  # rho
    objective: float  # what is minimized


def mix_scores(
    scores: Array, target: Index, weight: Array, nu: float, per_class: bool = False
) -> Mixture:
    r"""minimize :math:`-\rho + \frac1{\nu W} \sum_i c_i \xi_i` over weights.

    Subject to :math:`\sum_f b_{f y_i} s_{f i y_i} - \sum_f b_{f y} s_{f i y} \ge \rho -
    \xi_i` for every wrong class y, b and the slacks not negative, and weights of
    every class that sum to one. Classes share their weights unless `per_class`.

    Parameters
    ----------
    scores : array of shape (classifiers, rows, classes)
        Of rows that the classifiers have not seen.
    target : array of shape (rows,)
    weight : array of shape (rows,)
    nu : float in (0, 1]
        Share of the rows that may miss the margin, at most.
    per_class : bool

    Examples
    --------
    >>> good = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> mix_scores(np.stack([-good, good]), np.array([0, 1]), np.ones(2), 0.5).weights
    array([0., 1.])
    """
    n_kernels, _, n_classes = scores.shape
    pairs = _wrong_classes(target, n_classes)
    # Tolerances of the program are absolute.
    unit = float(np.abs(scores).max()) or 1.0
    scores = scores / unit
    leads = (_leads_per_class if per_class else _leads)(scores, target, *pairs)
    program = _Program(leads, pairs[0], weight, nu, leads.shape[1] // n_kernels)
    found = program.solve()
    weights = np.maximum(found[: leads.shape[1]], 0.0).reshape(n_kernels, -1)
    margin, objective = unit * found[-1], unit * float(program.costs @ found)
    return Mixture(weights if per_class else weights[:, 0], float(margin), objective)


class _Program:
    """The linear program, whose constraints are added where they are missed.

    Few of the wrong classes of a row ever come close to its own: most constraints
    never matter. Variables are the weights, a slack per row, and the margin.
    """

    def __init__(
        self, leads: sp.csr_array, rows: Index, weight: Array, nu: float, n_sets: int
    ) -> None:
        self.leads = leads  # (pairs, weights)
        self.rows = rows  # of every pair
        self.n_weights = leads.shape[1]
        slack_costs = weight / (nu * weight.sum())
        self.costs = np.concatenate([np.zeros(self.n_weights), slack_costs, [-1.0]])
        # Weights are listed classifier by classifier; those of a class sum to one.
        sums = sp.kron(np.ones((1, self.n_weights // n_sets)), sp.eye(n_sets))
        rest = sp.csr_array((n_sets, len(weight) + 1))
        self.sums = sp.hstack([sums, rest], format="csr")

    def solve(self) -> Array:
        """The optimal values of all the variables."""
        mean = np.full(self.n_weights, self.sums.shape[0] / self.n_weights)
        used = self._closest(self.leads @ mean)
        while True:
            found = self._solve_with(used)
            missed = self._missed(found)
            missed[used] = 0.0
            if missed.max(initial=0.0) <= MISSED:
                return found
            worst = self._closest(-missed)
            used = np.union1d(used, worst[missed[worst] > MISSED])

    def _closest(self, leads: Array) -> Index:
        """The pair with the smallest lead of every row."""
        order = np.lexsort([leads, self.rows])
        first = np.unique(self.rows[order], return_index=True)[1]
        return order[first]

    def _missed(self, found: Array) -> Array:
        """By how much every constraint is missed."""
        weights, slacks = found[: self.n_weights], found[self.n_weights : -1]
        return np.asarray(found[-1] - slacks[self.rows] - self.leads @ weights)

    def _solve_with(self, used: Index) -> Array:
        """The program with some of the constraints."""
        n_slacks = len(self.costs) - self.n_weights - 1
        places = (np.arange(len(used)), self.rows[used])
        slacks = sp.csr_array((np.ones(len(used)), places), (len(used), n_slacks))
        ones = sp.csr_array(np.ones((len(used), 1)))
        found = linprog(
            self.costs,
            A_ub=sp.hstack([-self.leads[used], -slacks, ones], format="csr"),
            b_ub=np.zeros(len(used)),
            A_eq=self.sums,
            b_eq=np.ones(self.sums.shape[0]),
            bounds=[(0.0, None)] * (self.n_weights + n_slacks) + [(None, None)],
            method="highs-ipm",
        )
        if found.x is None:
            raise ValueError(
                "the scores of the kernels must allow an optimal mixture, got a linear "
                f"program without one (status {found.status}); check the kernels, or "
                "use a larger nu."
            )
        return np.asarray(found.x)


def _wrong_classes(target: Index, n_classes: int) -> tuple[Index, Index]:
    """All pairs of a row and a class that is not its own."""
    rows, wrong = np.nonzero(np.arange(n_classes) != target[:, None])
    return rows, wrong


def _leads(scores: Array, target: Index, rows: Index, wrong: Index) -> sp.csr_array:
    """By how much every classifier prefers the own class, (pairs, classifiers)."""
    return sp.csr_array((scores[:, rows, target[rows]] - scores[:, rows, wrong]).T)


def _leads_per_class(
    scores: Array, target: Index, rows: Index, wrong: Index
) -> sp.csr_array:
    """The same with a column for every classifier and class."""
    n_kernels, _, n_classes = scores.shape
    pairs = np.arange(len(rows))
    parts = []
    for f in range(n_kernels):
        values = [scores[f, rows, target[rows]], -scores[f, rows, wrong]]
        places = (np.tile(pairs, 2), np.concatenate([target[rows], wrong]))
        shape = (len(rows), n_classes)
        parts.append(sp.csr_array((np.concatenate(values), places), shape))
    return sp.hstack(parts, format="csr")
