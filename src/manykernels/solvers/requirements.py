"""Refuse what a solver cannot do, in one sentence that names both sides."""

from __future__ import annotations

from manykernels.solvers.problem import Problem


def require_hinge(problem: Problem, solver: str) -> None:
    """Solvers with compiled hinge loops take the multiclass hinge loss only."""
    if not problem.loss.has_hinge_dual:
        raise ValueError(
            f"{solver} handles the hinge loss only, got the loss "
            f"{problem.loss.name!r}; choose solver='auto'."
        )


def require_smooth_norm(problem: Problem, solver: str) -> None:
    """Mirror descent needs a strongly convex norm: p > 1."""
    if problem.norm.p <= 1.0:
        raise ValueError(
            f"{solver} needs 1 < p <= 2 because its step depends on p / (p - 1), got "
            f"p={problem.norm.p:g}; use p=1.05, or solver='auto' for exactly sparse "
            "weights."
        )


def require_smooth_loss(problem: Problem, solver: str) -> None:
    """Newton's method and variance reduction need a gradient without jumps."""
    if problem.loss.smoothness is None:
        raise ValueError(
            f"{solver} needs a smooth loss such as 'log' or 'smoothed_hinge', got the "
            f"loss {problem.loss.name!r}; choose another loss or solver='auto'."
        )


def require_known_loss(problem: Problem, solver: str) -> None:
    """Losses with kinks need a solver of their own; smooth ones share one."""
    if problem.loss.smoothness is None:
        raise ValueError(
            f"{solver} handles smooth losses, the hinge loss and the "
            f"epsilon-insensitive loss, got the loss {problem.loss.name!r}, which has "
            "kinks of its own; choose one of these, or pass a solver object for it."
        )


def require_lasting_weights(problem: Problem, solver: str) -> None:
    """Steps in proportion to the kernel weights cannot revive a weight of zero."""
    if problem.norm.p <= 1.0:
        raise ValueError(
            f"{solver} needs 1 < p <= 2 because a weight of zero would stay zero, got "
            f"p={problem.norm.p:g}; use p=1.05, or solver='auto' for exactly sparse "
            "weights."
        )
