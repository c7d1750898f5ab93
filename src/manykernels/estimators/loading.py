"""Read any saved estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from manykernels.estimators.classifier import MKLClassifier
from manykernels.estimators.online import OnlinePast
from manykernels.estimators.persistence import load_classifier

ESTIMATORS = {"MKLClassifier": MKLClassifier}


def load(path: Any, functions: Mapping[str, Callable[..., Any]] | None = None) -> Any:
    """The estimator that `save` wrote; its predictions are the same to the bit.

    Nothing from the file is run. A file that is truncated, changed, foreign or of
    another version raises one ModelFileError.

    Parameters
    ----------
    path : str or path
    functions : mapping of str to callable, optional
        Functions of custom kernels by name, which a file cannot hold.

    Examples
    --------
    >>> import tempfile, manykernels as mk
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"]
    >>> path = tempfile.mkdtemp() + "/model"
    >>> mk.MKLClassifier("rbf", random_state=0).fit(X, y).save(path)
    >>> mk.load(path).predict([[0.2]]).tolist()
    ['low']
    """
    return load_classifier(ESTIMATORS, OnlinePast, path, functions)
