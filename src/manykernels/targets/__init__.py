"""Labels, values and times to predict: one class each, from y to problem and score."""

from manykernels.targets.base import Targets, read_weights
from manykernels.targets.labels import Labels
from manykernels.targets.times import Times, concordance_index
from manykernels.targets.values import Values

__all__ = [
    "Labels",
    "Targets",
    "Times",
    "Values",
    "concordance_index",
    "read_weights",
]
