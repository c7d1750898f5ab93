"""Reports to look at: one HTML file that needs nothing else."""

from manykernels.report.html.page import write_report

__all__ = ["write_report"]
