"""Losses live in score space: value, gradient, curvature, conjugate."""

from manykernels.losses.base import Loss, ResidualDual, ResidualRows
from manykernels.losses.censored import CensoredEpsilonInsensitive
from manykernels.losses.classification import (
    MulticlassHinge,
    SmoothedHinge,
    Softmax,
    SquaredHinge,
)
from manykernels.losses.regression import EpsilonInsensitive, Huber, Squared

__all__ = [
    "CensoredEpsilonInsensitive",
    "EpsilonInsensitive",
    "Huber",
    "Loss",
    "MulticlassHinge",
    "ResidualDual",
    "ResidualRows",
    "SmoothedHinge",
    "Softmax",
    "Squared",
    "SquaredHinge",
]
