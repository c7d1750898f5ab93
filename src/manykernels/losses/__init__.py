"""Losses live in score space: value, gradient, conjugate, prediction."""

from manykernels.losses.base import Loss
from manykernels.losses.hinge import MulticlassHinge

__all__ = ["Loss", "MulticlassHinge"]
