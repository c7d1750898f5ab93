"""Many targets with weights of their own, on a device: products for all at a time.

A Cholesky factor for every target would take hundreds of times as long as a product of
a kernel with all the coefficients. Conjugate gradients need a few dozen of these.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from manykernels.banks.device.kernels import EVERY, DeviceKernels
from manykernels.base.arrays import Array, Index
from manykernels.device import HOST, DeviceArray, quotient
from manykernels.norms.group import p_norms
from manykernels.solvers.loop import Callback, Iterate
from manykernels.solvers.problem import Expansion, Problem
from manykernels.solvers.regression.targets import Start, TargetsInStep
from manykernels.solvers.weight_newton import WeightSteps, with_secant

CG_STEPS = 500  # products at most for one solution
INNER_SHARE = 0.05  # part of the tolerance that a solution may leave unsolved
BEND_STEPS = 40  # products at most for second derivatives,
BEND_RESIDUAL = 0.1  # whose error is the square of that
LASTING = 6  # sweeps after which second derivatives are computed anew
FEW_TARGETS = 200  # whose weights the processor finds sooner
MANY_SYSTEMS = 512  # side by side: more are not faster
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
    of a sample of the rows, from which the first weights come, serve as well, and what
    the gradients of later sweeps tell is added to them.
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
        n_blocks, n_targets = kernels.n_blocks, problem.n_outputs
        many = n_targets > FEW_TARGETS
        self.newton = WeightSteps(
            problem.norm, start.weights, self.device if many else HOST
        )
        self.learns = problem.norm.p < 2.0 and n_blocks > 1
        self.curvature = start.curvature
        self.age = 0  # sweeps since the second derivatives were computed
        self.earlier: tuple[Array, Array] | None = None  # weights, ||theta_f||^2
        # A row per target: what belongs to some of them lies together.
        self.target = np.ascontiguousarray(problem.target.T)
        self.known = np.zeros((n_targets, problem.n_rows))  # the last solutions
        numbers = 8 * problem.n_rows * (ARRAYS + 2 * n_blocks)
        self.chunk = max(1, kernels.room // numbers)

    def _sweep(self, which: Index) -> None:
        """Solve and certify some targets, and move their weights."""
        fresh = self.learns and (self.curvature is None or self.age >= LASTING)
        self.age = 1 if fresh else self.age + 1
        values, squares, bends = [], [], list[Array]()
        for start in range(0, len(which), self.chunk):
            part = which[start : start + self.chunk]
            sums, bend = self._solve(part, fresh)
            self.known[part] = sums.coef
            self._certify(part, sums)
            values.append(np.stack(sums.values(self.newton.trial[part])))
            squares.append(sums.squares)
            if bend is not None:
                bends.append(bend)
            if self.stopped:
                return
        lower, upper = np.concatenate(values, axis=1)
        found = np.concatenate(squares)
        bend = self._bend(which, found, np.concatenate(bends) if fresh else None)
        self.newton.advance(which, lower, upper, found, bend)

    def _bend(self, which: Index, squares: Array, fresh: Array | None) -> Array:
        """Second derivatives of some targets, (len(which), blocks, blocks)."""
        weights = self.newton.trial
        if self.curvature is None:
            shape = (len(weights), self.kernels.n_blocks, self.kernels.n_blocks)
            self.curvature = np.zeros(shape)
        if self.earlier is None:
            self.earlier = weights.copy(), np.full_like(weights, np.nan)
        before, seen = self.earlier
        if fresh is None:
            change = -0.5 * (squares - seen[which])
            step = weights[which] - before[which]
            fresh = with_secant(self.curvature[which], step, change)
        before[which], seen[which], self.curvature[which] = (
            *(weights[which], squares),
            fresh,
        )
        return fresh

    def _solve(self, which: Index, fresh: bool) -> tuple[Sums, Array | None]:
        device, dtype = self.device, self.kernels.dtype
        systems = Systems(self.kernels, self.newton.trial[which], self.problem.bound)
        coef = systems.solve(
            device.put(self.target[which], dtype).T,
            device.put(self.known[which], dtype).T,
            INNER_SHARE * self.ridge.tol,
        )
        blocks = self.kernels.block_scores(device.precisely(coef))
        bend = device.get(systems.bend(blocks)) if fresh else None
        return self._sums(which, device.precisely(coef), blocks), bend

    def _sums(self, which: Index, coef: DeviceArray, blocks: DeviceArray) -> Sums:
        """In float64, from the solutions and K_f a of shape (blocks, rows, targets)."""
        xp = self.device.xp
        target, bound, weights = (
            self.device.precisely(self.device.put(values))
            for values in (
                self.target[which],
                self.problem.bound[:, None],
                self.newton.trial[which].T[:, None, :],
            )
        )
        target = target.T
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
        lengths = p_norms(weights * norms, problem.norm.p)
        objectives = problem.reg * (0.5 * lengths**2 + sums.losses)
        for j, k in enumerate(which):
            coef = sums.coef[j][:, None]
            iterate = Iterate(
                objective=float(objectives[j]),
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
        xp, (n_blocks, n_rows, n_targets) = self.xp, blocks.shape
        size, columns = max(1, MANY_SYSTEMS // n_targets), []
        for start in range(0, n_blocks, size):
            some = blocks[start : min(start + size, n_blocks), ...]
            sides = xp.reshape(xp.permute_dims(some, (1, 0, 2)), (n_rows, -1))
            wide = copy(self)
            wide.weights = xp.concat([self.weights] * some.shape[0], axis=1)
            moves = wide._roughly(xp.astype(sides, self.weights.dtype, copy=False))
            moves = xp.reshape(self.device.precisely(moves), (n_rows, -1, n_targets))
            for g in range(some.shape[0]):
                columns.append(xp.sum(blocks * moves[:, g, :][None, ...], axis=1))
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
