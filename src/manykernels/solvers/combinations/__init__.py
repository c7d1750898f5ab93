"""Weights for a combination of kernels, found before any classifier is trained."""
