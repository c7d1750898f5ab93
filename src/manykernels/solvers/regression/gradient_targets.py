"""Many targets with weights of their own on a device: products for all at a time.

A Cholesky factor for every target would take hundreds of times as long as a product of
a kernel with all the coefficients. Conjugate gradients need a few dozen of these.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from manykernels.banks.device_kernels import EVERY, DeviceKernels
from manykernels.base.arrays import Array, Index
from manykernels.device import DeviceArray
from manykernels.norms.group import p_norms
from manykernels.solvers.conjugate_gradients import MAX_PRODUCTS, conjugate_gradients
from manykernels.solvers.loop import Iterate
from manykernels.solvers.problem import Expansion
from manykernels.solvers.regression.ridge_targets import TargetsInStep
from manykernels.solvers.weight_newton import WeightSteps, with_secant

UNSOLVED_TOL_SHARE = 0.05  # of the tolerance, that a solution may leave unsolved
# Second derivatives may be rough: their error is the square of the residual's.
MAX_CURVATURE_PRODUCTS, CURVATURE_RESIDUAL = 40, 0.1
# Sweeps after which second derivatives are computed anew. A secant update in between
# needs 1.5 to 2 times fewer products than computing them in every sweep.
CURVATURE_SWEEPS = 6


class TargetSums(NamedTuple):
    """What sweeps and certificates need of the solutions a of some targets."""

    coef: Array  # (targets, rows)
    squares: Array  # ||theta_f||^2, (targets, blocks)
    linear: Array  # <a, y>
    diagonal: Array  # sum_i a_i^2 / b_i
    losses: Array  # sum_i b_i / 2 (s_i - y_i)^2

    def values(self, weights: Array) -> tuple[Array, Array]:
        """Dual and primal value under frozen weights."""
        half = 0.5 * np.sum(weights * self.squares, axis=1)
        return self.linear - half - 0.5 * self.diagonal, half + self.losses


class GradientTargets(TargetsInStep):
    """Solutions by conjugate gradients, all targets side by side.

    Weights take Newton's steps. The second derivatives cost a system per block: those
    of a sample of the rows, from which the first weights come, serve as well, and are
    refined by the changes of the gradient.
    """

    def __init__(self, *parameters: Any) -> None:
        super().__init__(*parameters)
        problem, kernels = self.problem, self.problem.bank.on_device()
        assert kernels is not None
        self.kernels, self.device = kernels, kernels.device
        self.newton = WeightSteps(problem.norm, self.newton.trial, kernels.device)
        self.learns = problem.norm.p < 2.0 and kernels.n_blocks > 1
        self.age = 0  # sweeps since the second derivatives were computed
        weights = self.newton.trial
        shape = (*weights.shape, kernels.n_blocks)
        self.must_compute = self.curvature is None
        if self.curvature is None:
            self.curvature = np.zeros(shape)
        # Where the last gradients were computed: weights, and ||theta_f||^2.
        self.last_weights = weights.copy()
        self.last_squares = np.full_like(weights, np.nan)
        # A row per target: what belongs to some of them lies together.
        self.target = np.ascontiguousarray(problem.target.T)
        self.coef = np.zeros((problem.n_outputs, problem.n_rows))
        # A sweep holds 24 arrays of rows by targets, and eight for every block.
        numbers = 8 * problem.n_rows * (24 + 8 * kernels.n_blocks)
        self.chunk = max(1, kernels.bytes_free // numbers)

    def _sweep(self, which: Index) -> None:
        due = self.must_compute or self.age >= CURVATURE_SWEEPS
        fresh = self.learns and due
        self.age, self.must_compute = 1 if fresh else self.age + 1, False
        values, squares, curvature = [], [], []
        for start in range(0, len(which), self.chunk):
            part = which[start : start + self.chunk]
            sums, computed = self._solve(part, fresh)
            self.coef[part] = sums.coef
            self._certify(part, sums)
            values.append(np.stack(sums.values(self.newton.trial[part])))
            squares.append(sums.squares)
            curvature.append(
                self._refined(part, sums) if computed is None else computed
            )
            if self.stopped:
                return
        lower, upper = np.concatenate(values, axis=1)
        self.last_weights[which] = self.newton.trial[which]
        self.last_squares[which] = np.concatenate(squares)
        assert self.curvature is not None
        self.curvature[which] = np.concatenate(curvature)
        found = self.last_squares[which]
        self.newton.advance(which, lower, upper, found, self.curvature[which])

    def _refined(self, which: Index, sums: TargetSums) -> Array:
        """Second derivatives that agree with the last change of the gradient."""
        assert self.curvature is not None
        change = -0.5 * (sums.squares - self.last_squares[which])
        step = self.newton.trial[which] - self.last_weights[which]
        return with_secant(self.curvature[which], step, change)

    def _solve(self, which: Index, fresh: bool) -> tuple[TargetSums, Array | None]:
        """Solutions of some targets; second derivatives where they are wanted."""
        device, dtype = self.device, self.kernels.dtype
        system = TargetSystem(
            self.kernels, self.newton.trial[which], self.problem.bound
        )
        solution = system.solve(
            device.put(self.target[which], dtype).T,
            device.put(self.coef[which], dtype).T,
            UNSOLVED_TOL_SHARE * self.ridge.tol,
        )
        coef = device.precisely(solution)
        products = self.kernels.block_scores(coef)  # (blocks, rows, targets)
        curvature = device.get(system.curvature(products)) if fresh else None
        return self._sums(which, coef, products), curvature

    def _sums(
        self, which: Index, coef: DeviceArray, products: DeviceArray
    ) -> TargetSums:
        """In float64, from the solutions and K_f a."""
        xp = self.device.xp
        target, bound, weights = (
            self.device.precisely(self.device.put(values))
            for values in (
                self.target[which].T,
                self.problem.bound[:, None],
                self.newton.trial[which].T[:, None, :],
            )
        )
        missed = xp.sum(products * weights, axis=0) - target
        sums = (
            coef.T,
            xp.sum(products * coef, axis=1).T,
            xp.sum(coef * target, axis=0),
            xp.sum(coef * coef / bound, axis=0),
            0.5 * xp.sum(bound * missed * missed, axis=0),
        )
        return TargetSums(*(np.asarray(self.device.get(s), np.float64) for s in sums))

    def _certify(self, which: Index, sums: TargetSums) -> None:
        """Objective and the best dual value on the ray, of every target."""
        problem, weights = self.problem, self.newton.trial[which].copy()
        norms = np.sqrt(np.maximum(sums.squares, 0.0))
        cost = sums.diagonal + p_norms(norms, problem.norm.q) ** 2
        best_gain = np.zeros_like(cost)
        np.divide(np.square(sums.linear), cost, out=best_gain, where=cost > 0.0)
        lengths = p_norms(weights * norms, problem.norm.p)
        objectives = problem.reg * (0.5 * lengths**2 + sums.losses)
        for j, k in enumerate(which):
            coef = sums.coef[j][:, None]
            iterate = Iterate(
                objective=float(objectives[j]),
                dual_bound=0.5 * problem.reg * float(best_gain[j]),
                updates=problem.n_rows,
                snapshot=partial(Expansion, coef, weights[j]),
                dual_snapshot=partial(np.asarray, coef),
            )
            self._record(k, iterate)


class TargetSystem:
    """(sum_f d_tf K_f + diag(1 / b)) a_t = y_t for all targets t at the same time.

    Parameters
    ----------
    kernels : DeviceKernels
    weights : array of shape (targets, blocks)
    bound : array of shape (rows,)
        b.
    """

    def __init__(self, kernels: DeviceKernels, weights: Array, bound: Array) -> None:
        self.kernels = kernels
        self.device = kernels.device
        self.xp = kernels.device.xp
        self.weights = self.device.put(weights.T, kernels.dtype)
        self.bound = self.device.put(bound[:, None], kernels.dtype)

    def times(self, columns: DeviceArray) -> DeviceArray:
        """The matrix of every target times its columns, (rows, repeats x targets)."""
        diagonal, parts = columns / self.bound, []
        repeats = columns.shape[1] // self.weights.shape[1]
        weights = self.xp.concat([self.weights] * repeats, axis=1)
        for part in self.kernels.parts(EVERY):
            total = self.device.pick(diagonal, part)
            for f, tile in self.kernels.tiles(part, EVERY):
                total = total + (tile @ columns) * weights[f, ...]
            parts.append(total)
        return parts[0] if len(parts) == 1 else self.xp.concat(parts)

    def solve(self, sides: DeviceArray, start: DeviceArray, goal: float) -> DeviceArray:
        """Solutions whose frozen problems have a relative gap of at most `goal`.

        With the residual r it is sum_i b_i r_i^2 / <a, y>.
        """

        def done(added: DeviceArray, rest: DeviceArray, _square: Any) -> DeviceArray:
            gain = self._dots(start + added, sides)
            return self._dots(self.bound * rest, rest) <= goal * gain

        rest = sides - self.times(start)
        return start + self._solve(rest, done, MAX_PRODUCTS)

    def curvature(self, products: DeviceArray) -> DeviceArray:
        """<K_f a, M^-1 K_g a> of all targets, from K_f a for every f."""
        xp = self.xp
        by_row = xp.permute_dims(products, (1, 0, 2))
        sides = xp.reshape(by_row, (by_row.shape[0], -1))
        sides = xp.astype(sides, self.weights.dtype, copy=False)
        enough = CURVATURE_RESIDUAL**2 * self._dots(sides, sides)
        solution = self._solve(
            sides,
            lambda _solution, _rest, square: square <= enough,
            MAX_CURVATURE_PRODUCTS,
        )
        moves = xp.reshape(self.device.precisely(solution), by_row.shape)
        by_target = xp.permute_dims(products, (2, 0, 1))
        found = by_target @ xp.permute_dims(moves, (2, 0, 1))
        return 0.5 * (found + xp.matrix_transpose(found))

    def _solve(self, rest: DeviceArray, done: Any, max_products: int) -> DeviceArray:
        solution, _ = conjugate_gradients(
            lambda way, _: self.times(way),
            lambda rest: (rest, rest),
            rest,
            self._dots,
            done,
            max_products,
        )
        return solution

    def _dots(self, a: DeviceArray, b: DeviceArray) -> DeviceArray:
        return self.xp.sum(a * b, axis=0)
