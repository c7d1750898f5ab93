r"""Multiclass MKL with the hinge loss by an interior-point method: few rows, any scale.

With :math:`d_f = e_f^s, s = (2 - p) / p`, kernel weights become shares e of one, and
the problem with its dual is convex in e and concave in b:

.. math::
    \min_{e \ge 0, \sum e = 1}\ \max_{b \ge 0, \sum_k b_{ik} \le bound_i}
    \sum b - \tfrac12 \sum_f e_f^s \|\theta_f(b)\|^2

where b has one number per row and wrong output. Newton's method follows the points at
which every bound times its multiplier is the same number, as that number goes to zero
(Mehrotra, 1992). It minds neither scales nor singular kernels nor weights that react
abruptly, and each step costs the cube of the number of pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from manykernels.base.arrays import Array, Index
from manykernels.norms.group import LpGroupNorm
from manykernels.solvers.loop import relative_gap
from manykernels.solvers.working_set import WorkingSet, best_rescaling

MAX_PAIRS = 2000  # a step on so many takes about a second
FIRST_SLACK = 0.1  # of the largest violation: how far inside the multipliers start
ROOT_JITTERS = (
    0.0,
    1e-14,
    1e-12,
    1e-10,
)  # tried on a unit diagonal


class InteriorSolution(NamedTuple):
    """Coefficients and kernel weights, and the relative gap between their values."""

    coef: Array
    weights: Array
    gap: float


class Pairs:
    """Rows i with wrong outputs k: theta = sum over pairs of b (e_y - e_k) phi(x_i)."""

    def __init__(self, chosen: NDArray[np.bool_], target: Index) -> None:
        self.shape, self.target = chosen.shape, target
        self.row, self.wrong = np.nonzero(chosen)
        self.own = target[self.row]
        self.rows, self.place = np.unique(self.row, return_inverse=True)
        own, wrong = self.own, self.wrong
        self._signs = np.equal.outer(own, own) + np.equal.outer(wrong, wrong) * 1.0
        self._signs -= np.equal.outer(own, wrong) + np.equal.outer(wrong, own) * 1.0
        self._first, self._second = np.nonzero(np.equal.outer(self.place, self.place))

    def coef(self, values: Array) -> Array:
        """One row per row, one column per output; rows sum to zero."""
        coef = np.zeros(self.shape)
        coef[self.row, self.wrong] = -values
        coef[self.rows, self.target[self.rows]] = self.totals(values)
        return coef

    def totals(self, values: Array) -> Array:
        """Sums over the pairs of a row, for the rows that have any."""
        return np.bincount(self.place, values, len(self.rows)).astype(np.float64)

    def margins(self, scores: Array) -> Array:
        """Own score less the wrong one's, of scores (..., outputs, rows)."""
        return scores[..., self.own, self.row] - scores[..., self.wrong, self.row]

    def curvature(self, kernel: Array, diagonal: Array, shared: Array) -> Array:
        """The quadratic form of a kernel, plus a diagonal, plus 11' within each row."""
        matrix = kernel[np.ix_(self.row, self.row)] * self._signs
        matrix[self._first, self._second] += shared[self.place[self._first]]
        matrix[np.diag_indices_from(matrix)] += diagonal
        return matrix


def interior_point_work(work: WorkingSet) -> float:
    """Multiplications of the method on a working set, in the time of a sweep's.

    Some 25 steps; a matrix product does 8 multiplications in the time of one of a
    sweep, and a step's Python takes as long as 400,000 of them.
    """
    n_rows, n_outputs = work.coef.shape
    n_pairs = min(n_rows * (n_outputs - 1), MAX_PAIRS)
    step = n_pairs**3 / 3.0 + n_rows**2 * work.bank.n_blocks * (n_outputs + 1)
    return float(3.0 * step + 1e7)


def pairs_at_work(work: WorkingSet) -> Pairs | None:
    """All pairs, or those near the margin; None where they are too many."""
    chosen = np.arange(len(work.scores)) != work.target[:, None]
    if np.count_nonzero(chosen) > MAX_PAIRS:
        rows = np.arange(len(work.target))
        gaps = work.scores[work.target, rows][:, None] - work.scores.T
        chosen &= (work.coef != 0.0) | (gaps < 1.1)  # near the margin
    return Pairs(chosen, work.target) if np.count_nonzero(chosen) <= MAX_PAIRS else None


class InteriorPoint:
    """Bounded numbers x = (b, room of the rows, shares) and their multipliers y."""

    def __init__(self, work: WorkingSet, norm: LpGroupNorm, pairs: Pairs) -> None:
        self.work, self.norm, self.pairs = work, norm, pairs
        self.power = (2.0 - norm.p) / norm.p
        self.limit = work.bound[pairs.rows]
        self.cuts = np.cumsum([len(pairs.row), len(pairs.rows)])
        self._kernel = np.empty((len(work.target), len(work.target)))
        self._begin()

    def solve(self, goal: float) -> InteriorSolution:
        """The first iterate whose relative gap is at most `goal`, else the best."""
        # Where numbers leave the range of float64 the search ends.
        with np.errstate(all="ignore"):
            return self._solve(goal)

    def _solve(self, goal: float) -> InteriorSolution:
        best = self._solution()
        for _ in range(100):  # most need 10 to 40
            if best.gap <= goal:
                return self._without_idle(best, goal)
            if not self._step():
                break
            here = self._solution()
            best = here if here.gap < best.gap else best
        return best

    def _without_idle(self, found: InteriorSolution, goal: float) -> InteriorSolution:
        """Zero where the own margin would not miss the coefficient, if that will do.

        Inside the bounds no coefficient is zero, but few rows should be support.
        """
        b, low = (v[: self.cuts[0]] for v in (self.x, self.y))
        own = 2.0 * np.diagonal(self.kernel())[self.pairs.row]
        self.x[: self.cuts[0]] = np.where(own * b < low, 0.0, b)
        self._evaluate()
        sparse = self._solution()
        return sparse if sparse.gap <= 2.0 * goal else found

    def _begin(self) -> None:
        """Uniform shares; coefficients of the best length between 0 and the bounds."""
        pairs, n_blocks = self.pairs, self.work.bank.n_blocks
        b = 0.5 * (self.limit / np.bincount(pairs.place))[pairs.place]
        self.x = np.concatenate([b, self.limit, np.full(n_blocks, 1.0 / n_blocks)])
        self._evaluate()
        length = b.sum() / max(float(self.weights @ self.squares), np.finfo(float).tiny)
        b = min(1.0, length) * b
        self.x[: len(b)] = b
        self.x[len(b) : self.cuts[1]] -= pairs.totals(b)
        self._evaluate()
        losses = 1.0 - self.margins
        multiplier = np.zeros(len(pairs.rows))
        np.maximum.at(multiplier, pairs.place, losses)
        multiplier += FIRST_SLACK * np.abs(losses).max()
        spread = multiplier[pairs.place]
        of_pairs = np.maximum(spread - losses, FIRST_SLACK * spread)
        product = of_pairs @ b + multiplier @ self.x[len(b) : self.cuts[1]]
        slopes = 0.5 * self.power * self.weights * self.squares * n_blocks
        self.level = float(slopes.max()) + product * n_blocks / len(self.x)
        self.y = np.concatenate([of_pairs, multiplier, self.level - slopes])

    def _evaluate(self) -> None:
        """Scores, norms and margins at the present point."""
        b, _, shares = np.split(self.x, self.cuts)
        bank, self.coef = self.work.bank, self.pairs.coef(b)
        self.weights = shares**self.power
        copies = np.repeat(self.coef.T[None], bank.n_blocks, axis=0)
        self.products = bank.block_products(copies)  # (blocks, outputs, rows)
        squares = np.einsum("fkn,nk->f", self.products, self.coef)
        self.squares = np.maximum(squares, 0.0)
        self.scores = np.tensordot(self.weights, self.products, 1)
        self.margins = self.pairs.margins(self.scores)

    def _solution(self) -> InteriorSolution:
        work, theta = self.work, np.sqrt(self.squares)
        value = self.norm.value(self.weights * theta)
        rounding = work.rounding.on_margins(self.coef, self.weights)
        _, primal = best_rescaling(
            self.scores.T, work.target, work.bound, value, rounding
        )
        upper_norms = work.rounding.upper_norms(self.coef, theta)
        dual = float(self.x[: self.cuts[0]].sum()) - self.norm.dual_value(upper_norms)
        return InteriorSolution(self.coef, self.weights, relative_gap(primal, dual))

    def _step(self) -> bool:
        """One step of predictor and corrector; False where rounding forbids it."""
        try:
            system = NewtonSystem(self)
            products = self.x * self.y
            dx, dy = system.direction(-products)
            length = self._longest(dx, dy)
            after = (self.x + length * dx) @ (self.y + length * dy)
            share = max((after / products.sum()) ** 3, 1e-6)
            aim = share * products.mean() - products - dx * dy
            dx, dy = system.direction(aim)
        except np.linalg.LinAlgError:
            return False
        if not (np.isfinite(dx).all() and np.isfinite(dy).all()):
            return False
        length = 0.99 * self._longest(dx, dy)  # numbers stay positive
        self.x, self.y = self.x + length * dx, self.y + length * dy
        self.level += length * system.level
        self.x[self.cuts[1] :] /= self.x[self.cuts[1] :].sum()
        self._evaluate()
        return True

    def _longest(self, dx: Array, dy: Array) -> float:
        """The longest step up to 1 that leaves every number positive."""
        fall = max(np.max(-dx / self.x), np.max(-dy / self.y))
        return float(min(1.0, 1.0 / fall)) if fall > 0.0 else 1.0

    def kernel(self) -> Array:
        """The combined kernel of the present weights, in float64."""
        every = np.arange(self.work.bank.n_rows)
        return self.work.bank.combine(self.weights, every, self._kernel)


class NewtonSystem:
    """The linear equations of one step, factored once for both directions.

    Shares move in proportion to themselves, because they differ by many orders.
    """

    def __init__(self, point: InteriorPoint) -> None:
        self.point = point
        x_parts, y_parts = (np.split(v, point.cuts) for v in (point.x, point.y))
        (b, room, shares), (low, high, zero) = x_parts, y_parts
        pairs, s = point.pairs, point.power
        self.shares, self.level = shares, 0.0
        self.b_residual = 1.0 - point.margins + low - high[pairs.place]
        slopes = 0.5 * s * point.weights * point.squares
        self.e_residual = (point.level - zero) * shares - slopes
        self._factor(pairs.curvature(point.kernel(), low / b, high / room))
        self.mixed = (s * point.weights)[:, None] * pairs.margins(point.products)
        self.solved_mixed = self._solve(self.mixed.T)
        inner = self.mixed @ self.solved_mixed
        inner[np.diag_indices_from(inner)] += (1.0 - s) * slopes + zero * shares
        self.inner_scale = 1.0 / np.sqrt(np.diagonal(inner))
        self.inner = inner * np.multiply.outer(self.inner_scale, self.inner_scale)

    def direction(self, aim: Array) -> tuple[Array, Array]:
        """Changes of x and y after which their products have changed by `aim`."""
        point, pairs = self.point, self.point.pairs
        of_b, of_room, of_shares = np.split(aim / point.x, point.cuts)
        free = self._solve(self.b_residual + of_b - of_room[pairs.place])
        sides = self.shares * of_shares - self.e_residual + self.mixed @ free
        # The shares must go on summing to one.
        along = self._solve_inner(np.stack([sides, self.shares], axis=1))
        moved, leveled = self.shares @ along
        self.level = float(moved / leveled)
        relative = along @ np.array([1.0, -self.level])
        b_step = free - self.solved_mixed @ relative
        dx = np.concatenate([b_step, -pairs.totals(b_step), self.shares * relative])
        return dx, (aim - point.y * dx) / point.x

    def _factor(self, matrix: Array) -> None:
        """Cholesky's factor of the matrix with a unit diagonal."""
        self.scale = 1.0 / np.sqrt(np.diagonal(matrix))
        matrix *= np.multiply.outer(self.scale, self.scale)
        for extra in ROOT_JITTERS:
            try:
                ridge = extra * np.eye(len(matrix))
                self.root = cho_factor(matrix + ridge, lower=True, check_finite=False)
                return
            except np.linalg.LinAlgError:
                continue
        raise np.linalg.LinAlgError

    def _solve(self, sides: Array) -> Array:
        scaled = (sides.T * self.scale).T
        return np.asarray(
            (cho_solve(self.root, scaled, check_finite=False).T * self.scale).T
        )

    def _solve_inner(self, sides: Array) -> Array:
        scaled = self.inner_scale[:, None] * sides
        return (
            self.inner_scale[:, None]
            * np.linalg.lstsq(self.inner, scaled, rcond=None)[0]
        )
