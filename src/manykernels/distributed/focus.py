"""Rows whose features are held where not all can be: those that bend the losses."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from manykernels.base.arrays import Array
from manykernels.distributed.engine import Engine
from manykernels.distributed.near import NearRows, heights_by_output
from manykernels.distributed.rows import HeldRows, SourceRows
from manykernels.distributed.sums import Sums, add_sums, block_sums, no_sums
from manykernels.losses import Loss

logger = logging.getLogger(__name__)

FLAT_SHARE = 1.0  # of the mean curvature, which every row has at least
FILLED = 0.95  # of the room, in the mean: how many rows are drawn is left to chance
HALVINGS = 60  # of an interval for the rate


@dataclass
class Focus:
    """Rows drawn by the curvature of their losses, for products with it.

    Most rows of a good model are certain, and their losses are flat: row i is drawn
    with the probability p_i = min(1, rate * max(h_i, mean h)), and counts 1 / p_i
    times. A few percent of the rows then give nearly the products of all, none counts
    much more than it would in a plain sample, and Newton's method with them needs few
    passes over all rows.

    Parameters
    ----------
    engine : Engine
    sources : list of tasks
        All rows, as `SourceRows`.
    sample : list of tasks
        Of as many as may be held, drawn at random: for the first solution.
    loss : Loss
    near : HeldRows
        A sample of them, from which the rate is found.
    n_rows, room : int
        All rows, and those that may be held.
    n_shards : int
        In which they are held.
    seed : int

    Attributes
    ----------
    held : list of tasks
        Once they are drawn.
    near_held : NearRows or None
        Some of them here.
    """

    engine: Engine
    sources: Sequence[Any]
    sample: Sequence[Any]
    loss: Loss
    near: HeldRows
    n_rows: int
    room: int
    n_shards: int
    seed: int
    held: list[Any] = field(default_factory=list)
    near_held: NearRows | None = None

    def draw(self, w: Array) -> Sums:
        """Draw rows at w and hold them; the sums of all rows at w come with them."""
        began = time.perf_counter()
        rule = self._rule(w)
        parts = [
            self.engine.task(drawn_rows, source, self.loss, rule, self.seed)
            for source in self.sources
        ]
        edges = np.linspace(0, len(parts), self.n_shards + 1).astype(int)
        groups = [parts[a:b] for a, b in zip(edges, edges[1:], strict=False)]
        both = [self.engine.task(join_drawn, group) for group in groups if group]
        # Begun together, lest rows are read twice.
        halves = [self.engine.task(itemgetter(k), one) for k in (0, 1) for one in both]
        ready = self.engine.held(halves)
        self.held, sums = ready[: len(both)], ready[len(both) :]
        found: Sums = self.engine.total(sums, add_sums)
        counts = [self.engine.task(count_rows, rows) for rows in self.held]
        count = self.engine.total(counts, sum)
        self.near_held = NearRows(self._taken(count), 1.0)
        logger.info(
            "features of %d rows that bend most are held, drawn in %.1f s",
            count,
            time.perf_counter() - began,
        )
        return found

    def _taken(self, count: int) -> HeldRows:
        """Some of the rows held, here."""
        every = max(1, round(count / len(self.near.bound)))
        tasks = [self.engine.task(every_other, rows, every) for rows in self.held]
        return join_rows(self.engine.results(tasks))

    def _rule(self, w: Array) -> Any:
        """w, the least curvature of a row, and the rate that fills the room."""
        heights = row_heights(self.near.phi, self.near, self.loss, w)
        least = FLAT_SHARE * float(heights.mean())
        wanted = FILLED * self.room * len(heights) / self.n_rows
        low, high = 0.0, 1.0 / max(least, float(np.finfo(float).tiny))
        for _ in range(HALVINGS):
            rate = 0.5 * (low + high)
            many = chances(heights, least, rate).sum() > wanted
            low, high = (low, rate) if many else (rate, high)
        return self.engine.shared((w, least, low))


def row_heights(phi: Any, block: Any, loss: Loss, w: Array) -> Array:
    """The sum of the curvatures by output of every row, times b_i."""
    scores = np.asarray(phi @ w.astype(phi.dtype), np.float64)
    bend = loss.curvature(scores, block.target)
    heights = heights_by_output(bend, scores).sum(axis=1)
    return np.asarray(block.bound * np.maximum(heights, 0.0))


def chances(heights: Array, least: float, rate: float) -> Array:
    """The probability of every row to be drawn."""
    return np.minimum(1.0, rate * np.maximum(heights, least))


def drawn_rows(
    rows: SourceRows, loss: Loss, rule: Any, seed: int
) -> tuple[HeldRows, Sums]:
    """Rows of one shard with their features, the same ones whoever draws them.

    And the sums over all its rows.
    """
    w, least, rate = rule
    first = rows.pieces[0].number if rows.pieces else 0
    rng = np.random.default_rng([seed, first])
    found, sums = [no_rows(rows, w.shape[1])], [no_sums(w)]
    for block in rows.blocks():
        chance = chances(row_heights(block.phi, block, loss, w), least, rate)
        taken = np.flatnonzero(rng.random(len(chance)) < chance)
        bound = block.bound[taken] / chance[taken]
        found.append(HeldRows(block.phi[taken], block.target[taken], bound))
        sums.append(block_sums(block, loss, w))
    return join_rows(found), add_sums(sums)


def join_drawn(parts: Sequence[tuple[HeldRows, Sums]]) -> tuple[HeldRows, Sums]:
    """Some shards as one."""
    rows, sums = zip(*parts, strict=True)
    return join_rows(rows), add_sums(sums)


def no_rows(rows: SourceRows, n_outputs: int) -> HeldRows:
    """What an empty shard gives."""
    return HeldRows.of(SourceRows(rows.reader, [], rows.C), n_outputs)


def join_rows(parts: Sequence[HeldRows]) -> HeldRows:
    """Some shards as one."""
    full = [part for part in parts if len(part.bound)] or parts[:1]
    return HeldRows(
        np.concatenate([part.phi for part in full]),
        np.concatenate([part.target for part in full]),
        np.concatenate([part.bound for part in full]),
    )


def every_other(rows: HeldRows, step: int) -> HeldRows:
    """One of `step` rows, which stands for all of them."""
    part = slice(None, None, step)
    bound = rows.bound[part]
    left = float(rows.bound.sum()) / max(float(bound.sum()), 1e-300)
    return HeldRows(rows.phi[part], rows.target[part], left * bound)


def count_rows(rows: HeldRows) -> int:
    """How many there are."""
    return len(rows.bound)
