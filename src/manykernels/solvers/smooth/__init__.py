"""Truncated Newton for smooth losses."""

from manykernels.solvers.smooth.truncated_newton import TruncatedNewton

__all__ = [
    "TruncatedNewton",
]
