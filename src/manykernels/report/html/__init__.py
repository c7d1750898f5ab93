"""Reports to look at: one HTML file that needs nothing else."""

from manykernels.report.html.card import model_card
from manykernels.report.html.page import write_report

__all__ = ["model_card", "write_report"]
