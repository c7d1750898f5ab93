"""CUDA code, compiled when first needed: dual ascent of the hinge loss in blocks."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils import cpp_extension

# Rows of a block for at most so many outputs: the registers of a thread hold no more.
BLOCK_ROWS_BY_OUTPUTS = {16: 1024, 32: 512, 64: 256}
BLOCK_SHARE = 0.6  # of the block's largest violation: rows with smaller ones wait
BLOCK_STEPS = 1024  # of one block at most
BLOCKS_PER_CHECK = 12  # before the gap is computed
MAX_CHECKS = 80
AT_BOUND_RTOL = 1e-6  # of float32: a row this close to its bound is set to it
UPDATE_THREADS = 64  # per block of the update of scores
# Multiples of the model among which the best primal value is sought.
RESCALINGS = np.concatenate(
    [[0.0], np.geomspace(0.5, 2.0, 31), np.linspace(0.98, 1.05, 36)]
)

logger = logging.getLogger(__name__)


@contextmanager
def _no_tools_needed() -> Iterator[None]:
    """Skip PyTorch's search for CUDA's headers, which these sources do not include."""
    home, cpp_extension.CUDA_HOME = cpp_extension.CUDA_HOME, "/"
    try:
        yield
    finally:
        cpp_extension.CUDA_HOME = home


@cache
def cuda_kernel(file: str, name: str, place: Any, **constants: int) -> Any | None:
    """A kernel of one of the files in this folder; None where it cannot be compiled.

    PyTorch brings NVIDIA's run-time compiler along: no other tools are needed.
    """
    compile_kernel = getattr(torch.cuda, "_compile_kernel", None)
    if compile_kernel is None or torch.version.hip:
        return None
    source = (files("manykernels.device") / file).read_text()
    lines = [f"#define {key} {value}" for key, value in constants.items()]
    try:
        with torch.cuda.device(place), _no_tools_needed():
            return compile_kernel("\n".join([*lines, source]), name)
    except (OSError, RuntimeError) as error:
        logger.info(
            "%s is not compiled here (%s): plain code runs instead", name, error
        )
        return None


@contextmanager
def no_collection() -> Iterator[None]:
    """No garbage is collected inside.

    It may hold code that another library, such as CuPy, has on the card: to unload that
    would break a recording.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class CudaHinge:
    """The frozen problem's coefficients and scores on the device, block by block.

    Parameters
    ----------
    matrix : tensor of shape (rows, rows), float32
        The combined kernel; read anew in every block, so that it may change.
    target, bound : array of shape (rows,)
    n_outputs : int
    """

    def __init__(
        self,
        matrix: Any,
        target: NDArray[np.intp],
        bound: NDArray[np.float64],
        n_outputs: int,
    ) -> None:
        self.matrix = matrix
        self.n_rows, self.n_outputs = len(target), n_outputs
        self.block = next(
            BLOCK_ROWS_BY_OUTPUTS[most]
            for most in BLOCK_ROWS_BY_OUTPUTS
            if n_outputs <= most
        )
        self.size = min(self.block, self.n_rows)
        self.solve, self.update, self.gather = self._compiled()
        self.limits = target, bound
        self._allocate(target, bound)

    @staticmethod
    def of(
        matrix: Any,
        target: NDArray[np.intp],
        bound: NDArray[np.float64],
        n_outputs: int,
    ) -> CudaHinge | None:
        """None where there are too many outputs, or nothing compiles."""
        if matrix.dtype != torch.float32 or n_outputs > max(BLOCK_ROWS_BY_OUTPUTS):
            return None
        hinge = CudaHinge(matrix, target, bound, n_outputs)
        compiled = hinge.solve, hinge.update, hinge.gather
        return None if None in compiled else hinge

    def _compiled(self) -> list[Any]:
        constants = {"OUTPUTS": self.n_outputs, "BLOCK": self.block}
        names = ("solve_block", "update_scores", "gather_square")
        place = self.matrix.device
        return [cuda_kernel("hinge.cu", name, place, **constants) for name in names]

    def _allocate(self, target: Any, bound: Any) -> None:
        """Arrays at fixed places: a recorded sequence of blocks refers to them."""
        place, n, m = self.matrix.device, self.n_rows, self.n_outputs
        new = {"device": place, "dtype": torch.float32}
        whole = {"device": place, "dtype": torch.int32}
        self.target = torch.as_tensor(np.asarray(target, np.int32), device=place)
        self.bound = torch.as_tensor(np.asarray(bound, np.float32), device=place)
        self.coef = torch.empty((n, m), **new)
        self.scores = torch.empty((m, n), **new)
        self.violations = torch.empty(n, **new)
        self.square = torch.empty((self.block, self.block), **new)
        self.index = torch.empty(self.size, device=place, dtype=torch.int64)
        self.changes = torch.empty((self.block, m), **new)
        self.moved = torch.zeros(self.block, **whole)
        self.count = torch.zeros(1, **whole)
        self.steps = torch.zeros(1, **whole)
        self.gap = torch.empty(1, device=place, dtype=torch.float64)
        self.rescalings = torch.as_tensor(RESCALINGS, device=place)
        self.wide_bound = self.bound.double()
        self.true_output = self.target.long()[:, None]
        self.recorded: Any = None

    def blocks(
        self, coef: NDArray[np.float64], scores: NDArray[np.float64], goal: float
    ) -> int:
        """Improve coef (rows, outputs) in place, from its scores (outputs, rows)."""
        place = self.matrix.device
        with torch.cuda.device(place):
            self.coef.copy_(torch.from_numpy(coef))
            self.scores.copy_(torch.from_numpy(scores))
            self.count.zero_()
            self.steps.zero_()
            self._update()  # no row has moved: violations alone
            for _ in range(MAX_CHECKS):
                self._run_blocks()
                if self.gap.item() <= goal:
                    break
            coef[:] = _feasible(self.coef.cpu().numpy(), *self.limits)
            return int(self.steps.item())

    def _run_blocks(self) -> None:
        """Blocks, and the gap after the last: recorded once, then replayed."""
        if self.recorded is None:
            self._blocks()  # libraries prepare themselves before the recording
            self.recorded = torch.cuda.CUDAGraph()
            stream = torch.cuda.Stream(self.matrix.device)
            torch.cuda.synchronize()
            with torch.cuda.stream(stream), no_collection():
                self.recorded.capture_begin()
                self._blocks()
                self.recorded.capture_end()
            torch.cuda.current_stream().wait_stream(stream)
        else:
            self.recorded.replay()

    def _blocks(self) -> None:
        for _ in range(BLOCKS_PER_CHECK):
            worst = torch.topk(self.violations, self.size, sorted=False)
            self.index.copy_(worst.indices)
            self.gather(
                grid=(self.size, 1, 1),
                block=(256, 1, 1),
                args=[self.matrix, self.index, self.square, self.n_rows, self.size],
            )
            self.solve(
                grid=(1, 1, 1),
                block=(self.block, 1, 1),
                args=[
                    *(self.square, self.index, self.target, self.bound, self.coef),
                    *(self.scores, self.n_rows, self.size, BLOCK_SHARE, BLOCK_STEPS),
                    *(self.moved, self.changes, self.count, self.steps),
                ],
            )
            self._update()
        self._measure()

    def _update(self) -> None:
        self.update(
            grid=(-(-self.n_rows // UPDATE_THREADS), 1, 1),
            block=(UPDATE_THREADS, 1, 1),
            args=[
                *(self.matrix, self.moved, self.changes, self.count, self.target),
                *(self.bound, self.coef, self.scores, self.violations, self.n_rows),
            ],
        )

    def _measure(self) -> None:
        """The relative gap, with the best of some multiples of the model."""
        scores = self.scores.T.double()
        of_true = torch.gather(scores, 1, self.true_output)
        wrong = scores.scatter(1, self.true_output, -torch.inf)
        margins = of_true[:, 0] - wrong.amax(dim=1)
        coef = self.coef.double()
        linear = torch.gather(coef, 1, self.true_output).sum()
        quadratic = (coef * scores).sum()
        short = 1.0 - self.rescalings[:, None] * margins[None, :]
        losses = short.clamp_(min=0.0) @ self.wide_bound
        primal = (0.5 * self.rescalings**2 * quadratic + losses).amin()
        self.gap.copy_(((primal - linear + 0.5 * quadratic) / primal)[None])


def _feasible(
    coef: NDArray[np.float32], target: NDArray[np.intp], bound: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Coefficients in float64 that keep their bounds, with rows that sum to zero."""
    rows = np.arange(len(target))
    wrong = np.minimum(coef.astype(np.float64), 0.0)
    wrong[rows, target] = 0.0
    total = -wrong.sum(axis=1)
    at_bound = total > (1.0 - AT_BOUND_RTOL) * bound
    wrong[at_bound] *= (bound / np.maximum(total, 1e-300))[at_bound, None]
    wrong[rows, target] = -wrong.sum(axis=1)
    return wrong
