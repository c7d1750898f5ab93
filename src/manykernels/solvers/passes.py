"""Passes of mirror descent, one rule after the other: OBSCURE and Pegasos."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from manykernels.hot.mirror import MirrorRule
from manykernels.solvers.loop import Iterate
from manykernels.solvers.mirror import MirrorDescent
from manykernels.solvers.state import Remembers, State


class Passes(Remembers):
    """Some passes under each rule of a list, in random order.

    Parameters
    ----------
    descent : MirrorDescent
    rng : Generator
    stages : list of (int, callable)
        Passes at most, and the rule as a function of the radius
        sqrt(2 objective / reg) at the stage's beginning. An online stage ends with a
        pass without an update, as another one would change nothing.
    """

    remembered = ("stage", "done", "radius", "rng")

    def __init__(
        self,
        descent: MirrorDescent,
        rng: np.random.Generator,
        stages: list[tuple[int, Callable[[float], MirrorRule]]],
    ) -> None:
        self.descent = descent
        self.rng = rng
        self.stages = stages
        self.stage = 0
        self.done = 0  # passes of this stage
        self.radius: float | None = None

    def iterates(self) -> Iterator[Iterate]:
        """One iterate a pass."""
        while self.stage < len(self.stages):
            most, rule_for = self.stages[self.stage]
            if self.done == most:
                self.stage, self.done, self.radius = self.stage + 1, 0, None
                continue
            if self.radius is None:
                self.radius = self._radius()
            order = self.rng.permutation(self.descent.problem.n_rows)
            rule = rule_for(self.radius)
            updates = self.descent.run_pass(rule, order)
            self.done = most if rule.online and updates == 0 else self.done + 1
            yield self.descent.iterate(updates)

    def _radius(self) -> float:
        """An upper bound on the norm of the optimum."""
        problem = self.descent.problem
        return float(np.sqrt(2.0 * self.descent.objective() / problem.reg))

    def state(self) -> State:
        """The search between two passes."""
        return super().state() | {"descent": self.descent.stored()}

    def restore(self, state: State) -> None:
        """Go on from an earlier state."""
        super().restore(state)
        self.descent.restore(state["descent"])
