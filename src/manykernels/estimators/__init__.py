"""Thin scikit-learn shells: validate, build a bank, solve, store."""

from manykernels.estimators.classifier import MKLClassifier
from manykernels.estimators.loading import load

__all__ = ["MKLClassifier", "load"]
