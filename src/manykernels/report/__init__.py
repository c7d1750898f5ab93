"""Pictures of fitted models."""

from manykernels.report.interactions import plot_interactions
from manykernels.report.pictures import (
    plot_convergence,
    plot_fit,
    plot_gap,
    plot_weights,
)

__all__ = [
    "plot_convergence",
    "plot_fit",
    "plot_gap",
    "plot_interactions",
    "plot_weights",
]
