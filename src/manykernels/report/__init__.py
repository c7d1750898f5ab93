"""Pictures of fitted models, and reports of studies and models to look at."""

from manykernels.report.card import model_card
from manykernels.report.page import write_report
from manykernels.report.pictures import (
    plot_alignments,
    plot_convergence,
    plot_fit,
    plot_gap,
    plot_interactions,
    plot_model,
    plot_weights,
)

__all__ = [
    "model_card",
    "plot_alignments",
    "plot_convergence",
    "plot_fit",
    "plot_gap",
    "plot_interactions",
    "plot_model",
    "plot_weights",
    "write_report",
]
