"""Refuse what a solver cannot do, in one sentence that names both sides."""

from __future__ import annotations

from manykernels.solvers.problem import Problem


def require_hinge(problem: Problem, solver: str) -> None:
    """Solvers with compiled hinge loops take the multiclass hinge loss only."""
    if problem.loss.name != "hinge":
        raise ValueError(
            f"{solver} handles the hinge loss only, got the loss "
            f"{problem.loss.name!r}; choose another solver."
        )


def require_smooth_norm(problem: Problem, solver: str) -> None:
    """Mirror descent needs a strongly convex norm: p > 1."""
    if problem.norm.p <= 1.0:
        raise ValueError(
            f"{solver} needs 1 < p <= 2 because its step depends on p / (p - 1), got "
            f"p={problem.norm.p:g}; use p=1.05, or solver='auto' for exactly sparse "
            "weights."
        )
