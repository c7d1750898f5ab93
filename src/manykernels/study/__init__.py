"""What may be believed of a fitted model: measured on rows it has not seen."""

from manykernels.study.importance import Importance, kernel_importance

__all__ = ["Importance", "kernel_importance"]
