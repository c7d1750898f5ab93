"""Compilation ahead of time: small fits that leave their loops in numba's cache."""

from __future__ import annotations

import numpy as np

from manykernels.mkl.choices import CLASS_LOSSES, VALUE_LOSSES
from manykernels.mkl.classifier import MKLClassifier
from manykernels.mkl.classifier_cv import MKLClassifierCV
from manykernels.mkl.regressor import MKLRegressor
from manykernels.mkl.regressor_cv import MKLRegressorCV
from manykernels.mkl.survival_estimator import MKLSurvival


def warm_up() -> None:
    """Compile the loops of the estimators on rows for this machine, now.

    The first fit after an installation compiles what it runs, for some seconds; the
    results stay on disk, for this user and this sort of processor. Call this where
    no user waits, for instance while an image of a container is built.

    Examples
    --------
    >>> import manykernels as mk
    >>> mk.warm_up()
    """
    places = np.arange(120, dtype=np.float64)
    X = np.column_stack([np.sin(places), np.cos(places)])
    y = (
        np.floor(3.0 * places / (2.0 * np.pi)) % 3.0
    )  # sectors: there is something to learn
    for loss in CLASS_LOSSES:
        MKLClassifier("rbf; linear", loss=loss, random_state=0).fit(X, y)
    MKLClassifier("rbf; linear", solver="obscure", random_state=0).fit(X, y)
    stack = np.stack([X @ X.T, (X @ X.T + 1.0) ** 2], axis=2)
    for given in (stack, stack.astype(np.float32)):
        MKLClassifier("precomputed", random_state=0).fit(given, y)
    MKLClassifierCV("rbf; linear", ps=1.5, Cs=1.0, cv=2, random_state=0).fit(X, y)
    for loss in VALUE_LOSSES:
        MKLRegressor("rbf; linear", loss=loss, random_state=0).fit(X, y)
    MKLRegressorCV("rbf; linear", ps=1.5, Cs=1.0, cv=2, random_state=0).fit(X, y)
    times = places + 1.0, y > 0.0
    MKLSurvival("rbf; linear", random_state=0).fit(X, times).score(X, times)
