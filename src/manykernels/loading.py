"""Read any saved estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from manykernels.chains.files import restore_labeler
from manykernels.chains.labeler import SequenceLabeler
from manykernels.mkl.classifier import MKLClassifier
from manykernels.mkl.persistence import load_classifier
from manykernels.mkl.regressor import MKLRegressor
from manykernels.mkl.regressor_files import restore_regressor
from manykernels.products.estimators import (
    PolynomialMKLClassifier,
    PolynomialMKLRegressor,
)
from manykernels.products.files import restore_polynomial
from manykernels.trees.files import restore_parser
from manykernels.trees.parser import DependencyParser

ESTIMATORS: dict[str, type] = {
    "DependencyParser": DependencyParser,
    "MKLClassifier": MKLClassifier,
    "MKLRegressor": MKLRegressor,
    "PolynomialMKLClassifier": PolynomialMKLClassifier,
    "PolynomialMKLRegressor": PolynomialMKLRegressor,
    "SequenceLabeler": SequenceLabeler,
}
RESTORERS = {
    "DependencyParser": restore_parser,
    "MKLRegressor": restore_regressor,
    "PolynomialMKLClassifier": restore_polynomial,
    "PolynomialMKLRegressor": restore_polynomial,
    "SequenceLabeler": restore_labeler,
}


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
    return load_classifier(ESTIMATORS, path, functions, RESTORERS)
