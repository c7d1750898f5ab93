"""Thin scikit-learn shells: validate, build a bank, solve, store."""

from manykernels.estimators.classifier import MKLClassifier

__all__ = ["MKLClassifier"]
