"""Losses live in score space: value, gradient, curvature, conjugate."""

from manykernels.losses.base import Loss, ResidualDual
from manykernels.losses.classification import (
    MulticlassHinge,
    SmoothedHinge,
    Softmax,
    SquaredHinge,
)
from manykernels.losses.regression import EpsilonInsensitive, Huber, Squared

__all__ = [
    "EpsilonInsensitive",
    "Huber",
    "Loss",
    "MulticlassHinge",
    "ResidualDual",
    "SmoothedHinge",
    "Softmax",
    "Squared",
    "SquaredHinge",
]
