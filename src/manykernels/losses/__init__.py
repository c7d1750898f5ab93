"""Losses live in score space: value, gradient, conjugate, prediction."""

from manykernels.losses.base import Loss
from manykernels.losses.hinge import MulticlassHinge
from manykernels.losses.residual import EpsilonInsensitive, Huber, Squared
from manykernels.losses.smoothed_hinge import SmoothedHinge
from manykernels.losses.softmax import Softmax
from manykernels.losses.squared_hinge import SquaredHinge

__all__ = [
    "EpsilonInsensitive",
    "Huber",
    "Loss",
    "MulticlassHinge",
    "SmoothedHinge",
    "Softmax",
    "Squared",
    "SquaredHinge",
]
