"""Many targets with weights of their own, on a device: products for all at a time.

A Cholesky factor for every target would take hundreds of times as long as a product of
a kernel with all the coefficients. Conjugate gradients need a few dozen of these.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from manykernels.banks.device.kernels import EVERY, DeviceKernels
from manykernels.base.arrays import Array, Index
from manykernels.device import DeviceArray, quotient
from manykernels.norms.group import p_norms
from manykernels.solvers.loop import Callback, Iterate
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.regression.targets import Start, TargetsInStep
from manykernels.solvers.weight_newton import WeightSteps

CG_STEPS = 500  # products at most for one solution
INNER_SHARE = 0.05  # part of the tolerance that a solution may leave unsolved
BEND_STEPS = 40  # products at most for second derivatives,
BEND_RESIDUAL = 0.1  # whose error is the square of that
BORROWED = 3  # sweeps that may use the second derivatives of a sample
ARRAYS = 24  # of rows by targets that a sweep holds, beside two for every block
NOTHING = 1e-300


class Sums(NamedTuple):
    """What sweeps and certificates need of the solutions a of some targets."""

    coef: Array  # (targets, rows)
    squares: Array  # ||theta_f||^2, (targets, blocks)
    linear: Array  # <a, y>
    own: Array  # sum_i a_i^2 / b_i
    losses: Array  # sum_i b_i / 2 (s_i - y_i)^2

    def values(self, weights: Array) -> tuple[Array, Array]:
        """Dual and primal value under frozen weights."""
        half = 0.5 * np.sum(weights * self.squares, axis=1)
        return self.linear - half - 0.5 * self.own, half + self.losses


class DeviceTargets(TargetsInStep):
    """Solutions by conjugate gradients, all targets side by side.

    Weights take Newton's steps. The second derivatives cost a system per block: those
    of a sample of the rows, from which the first weights come, serve as well at first.
    """

    def __init__(
        self,
        problem: Problem,
        start: Start,
        ridge: Any,
        callback: Callback | None,
        kernels: DeviceKernels,
    ) -> None:
        super().__init__(problem, start, ridge, callback)
        self.problem = problem
        self.kernels = kernels
        self.device = kernels.device
        self.newton = WeightSteps(problem.norm, start.weights, self.device)
        n_blocks, n_targets = kernels.n_blocks, problem.n_outputs
        self.learns = problem.norm.p < 2.0 and n_blocks > 1
        self.borrowed = 0 if start.curvature is None else BORROWED
        self.bend: Array = np.zeros((n_targets, n_blocks, n_blocks))
        if start.curvature is not None:
            self.bend = start.curvature
        self.curvature = self.bend
        self.known = np.zeros((n_targets, problem.n_rows))  # the last solutions
        numbers = 8 * problem.n_rows * (ARRAYS + 2 * n_blocks)
        self.chunk = max(1, kernels.room // numbers)

    def _sweep(self, which: Index) -> None:
        """Solve and certify some targets, and move their weights."""
        fresh = self.learns and self.borrowed <= 0
        self.borrowed -= 1
        values, squares = [], []
        for start in range(0, len(which), self.chunk):
            part = which[start : start + self.chunk]
            sums = self._solve(part, fresh)
            self.known[part] = sums.coef
            self._certify(part, sums)
            values.append(np.stack(sums.values(self.newton.trial[part])))
            squares.append(sums.squares)
            if self.stopped:
                return
        lower, upper = np.concatenate(values, axis=1)
        bend = self.bend[which]
        self.newton.advance(which, lower, upper, np.concatenate(squares), bend)

    def _solve(self, which: Index, fresh: bool) -> Sums:
        device, dtype = self.device, self.kernels.dtype
        systems = Systems(self.kernels, self.newton.trial[which], self.problem.bound)
        target = self.problem.target[:, which]
        coef = systems.solve(
            device.put(target, dtype),
            device.put(self.known[which].T, dtype),
            INNER_SHARE * self.ridge.tol,
        )
        blocks = self.kernels.block_scores(device.precisely(coef))
        if fresh:
            self.bend[which] = device.get(systems.bend(blocks))
        return self._sums(which, device.precisely(coef), blocks)

    def _sums(self, which: Index, coef: DeviceArray, blocks: DeviceArray) -> Sums:
        """In float64, from the solutions and K_f a of shape (blocks, rows, targets)."""
        xp = self.device.xp
        target, bound, weights = (
            self.device.precisely(self.device.put(values))
            for values in (
                self.problem.target[:, which],
                self.problem.bound[:, None],
                self.newton.trial[which].T[:, None, :],
            )
        )
        missed = xp.sum(blocks * weights, axis=0) - target
        found = (
            coef.T,
            xp.sum(blocks * coef, axis=1).T,
            xp.sum(coef * target, axis=0),
            xp.sum(coef * coef / bound, axis=0),
            0.5 * xp.sum(bound * missed * missed, axis=0),
        )
        return Sums(*(np.asarray(self.device.get(one), np.float64) for one in found))

    def _certify(self, which: Index, sums: Sums) -> None:
        """Objective and the best dual value on the ray, of every target."""
        problem, weights = self.problem, self.newton.trial[which].copy()
        norms = np.sqrt(np.maximum(sums.squares, 0.0))
        cost = sums.own + p_norms(norms, problem.norm.q) ** 2
        bounds = 0.5 * problem.reg * np.square(sums.linear) / np.maximum(cost, NOTHING)
        losses = problem.reg * sums.losses
        for j, k in enumerate(which):
            coef = sums.coef[j][:, None]
            iterate = Iterate(
                objective=problem.primal_of(float(losses[j]), weights[j] * norms[j]),
                dual_bound=float(bounds[j]),
                updates=problem.n_rows,
                snapshot=partial(Expansion, coef, weights[j]),
                dual_snapshot=partial(np.asarray, coef),
            )
            self._record(k, iterate)


class Systems:
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
        """The matrix of every target times its column."""
        own, parts = columns / self.bound, []
        for part in self.kernels.parts(EVERY):
            total = self.device.pick(own, part)
            for f, tile in self.kernels.tiles(part, EVERY):
                total = total + (tile @ columns) * self.weights[f, ...]
            parts.append(total)
        return parts[0] if len(parts) == 1 else self.xp.concat(parts)

    def solve(self, sides: DeviceArray, start: DeviceArray, goal: float) -> DeviceArray:
        """Solutions whose frozen problems have a relative gap of at most `goal`.

        With the residual r it is sum_i b_i r_i^2 / <a, y>.
        """

        def done(coef: DeviceArray, rest: DeviceArray) -> DeviceArray:
            return self._dots(self.bound * rest, rest) <= goal * self._dots(coef, sides)

        return self._gradients(sides, start, done, CG_STEPS)

    def bend(self, blocks: DeviceArray) -> DeviceArray:
        """<K_f a, M^-1 K_g a> of all targets, from K_f a for every f."""
        xp, columns = self.xp, []
        for g in range(blocks.shape[0]):
            side = xp.astype(blocks[g, ...], self.weights.dtype, copy=False)
            moves = self.device.precisely(self._roughly(side))
            columns.append(xp.sum(blocks * moves, axis=1))
        found = xp.permute_dims(xp.stack(columns), (2, 0, 1))
        return 0.5 * (found + xp.matrix_transpose(found))

    def _roughly(self, sides: DeviceArray) -> DeviceArray:
        size = BEND_RESIDUAL**2 * self._dots(sides, sides)

        def done(coef: DeviceArray, rest: DeviceArray) -> DeviceArray:
            return self._dots(rest, rest) <= size

        return self._gradients(sides, self.xp.zeros_like(sides), done, BEND_STEPS)

    def _gradients(
        self, sides: DeviceArray, coef: DeviceArray, done: Any, steps: int
    ) -> DeviceArray:
        """Conjugate gradients for all columns, until all of them are done."""
        xp = self.xp
        rest = sides - self.times(coef)
        way, square = rest, self._dots(rest, rest)
        for _ in range(steps):
            if bool(xp.all(done(coef, rest) | (square == 0.0))):
                break
            image = self.times(way)
            length = quotient(xp, square, self._dots(way, image))
            coef = coef + length * way
            rest = rest - length * image
            last, square = square, self._dots(rest, rest)
            way = rest + quotient(xp, square, last) * way
        return coef

    def _dots(self, a: DeviceArray, b: DeviceArray) -> DeviceArray:
        return self.xp.sum(a * b, axis=0)
