"""What a fitted labeler has learned, feature by feature and pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manykernels.base.arrays import Array
from manykernels.inputs.parameters import Whole
from manykernels.kernels import KernelSet
from manykernels.structured.sequence_model import SequenceModel

LINEAR = ("linear", "cosine")  # kernels whose features are the columns


class FeatureWeight(NamedTuple):
    """What a column adds to the score of a label."""

    feature: str
    weight: float


class Transition(NamedTuple):
    """What one label after another scores: always, or times a feature's value."""

    before: Any
    after: Any
    feature: str | None
    weight: float


class ReadableWeights:
    """What a fitted labeler says of features and transitions."""

    def strongest_features(self, n: int = 10) -> dict[Any, list[FeatureWeight]]:
        """For every label the features that speak most for it, or against it.

        These are the largest of :meth:`feature_weights`, by size.

        Returns
        -------
        dict from label to list of FeatureWeight(feature, weight)
        """
        Whole(example=10).check("n", n)
        weights, labels = self.feature_weights(), _labels(self)
        return strongest_per_label(weights, _column_names(self), labels, n)

    def strongest_transitions(self, n: int = 10) -> list[Transition]:
        """Pairs of neighboring labels that score most, or least.

        Returns
        -------
        list of Transition(before, after, feature, weight)
            The feature, one of `edges`, times which the weight is added; None for the
            table `transitions_`, which holds always.
        """
        Whole(example=10).check("n", n)
        model = _fitted(self)
        weights, edges = model.weights, model.kernels.edges
        table, names = weights.pairs.reshape(1, -1), _column_names(self)
        if edges is not None:
            table = np.vstack([table, column_weights(edges, weights.edges)])
        return strongest_pairs(table, [None, *names], _labels(self), n)

    def feature_weights(self) -> Array:
        """What each column adds to each label's score, `(n_features_in_, n_labels)`.

        Needs linear kernels. Weights belong to columns as the kernels scale them: by
        default every row of a kernel has length 1, so that the only text of its group
        counts 1.
        """
        model = _fitted(self)
        require_linear([model.kernels.names[f] for f in model.kernels.kernel_at])
        assert model.kernels.explicit is not None  # there is no other sort
        return column_weights(model.kernels.explicit, model.weights.table)


def _fitted(labeler: Any) -> SequenceModel:
    check_is_fitted(labeler, "classes_")
    model: SequenceModel = labeler._model
    return model


def _labels(labeler: Any) -> list[Any]:
    labels: list[Any] = labeler.classes_.tolist()
    return labels


def _column_names(labeler: Any) -> list[str]:
    if labeler._columns is not None:
        return list(labeler._columns.names)
    return [f"x{column}" for column in range(labeler.n_features_in_)]


def column_weights(kernels: KernelSet, table: Array) -> Array:
    """Weights of the columns of the data, (columns, outputs), summed over kernels.

    Kernels scale the rows they read, by default to length 1; a weight is the score per
    unit of the scaled column.
    """
    total = np.zeros((kernels.n_columns, table.shape[1]))
    parts = np.split(table, np.cumsum(kernels.n_feature_columns())[:-1])
    for group in kernels.groups:
        columns = np.arange(kernels.n_columns)[_columns(kernels, group)]
        for f in group.members:
            total[columns] += np.sqrt(kernels.scalings[f].factor) * parts[f]
    return total


def _columns(kernels: KernelSet, group: Any) -> Any:
    for f in group.members:
        kernel = kernels.kernels[f]
        if kernel.kind not in LINEAR or kernel.approximate is not None:
            require_linear([kernel.label])
    return group.columns


def require_linear(others: Sequence[str]) -> None:
    """Raise if there are kernels whose features are no columns."""
    if others:
        raise ValueError(
            "weights of features need linear kernels only, got "
            f"{others[0]!r}; see kernel_weights_, or fit with 'linear'."
        )


def strongest_per_label(
    weights: Array, names: Sequence[str], labels: Sequence[Any], n: int
) -> dict[Any, list[FeatureWeight]]:
    """For every label its n weights of the largest size, the largest first.

    Examples
    --------
    >>> table = np.array([[0.5, 0.0], [-2.0, 1.0]])
    >>> strongest_per_label(table, ["x", "y"], ["a", "b"], 2)["a"]
    [FeatureWeight(feature='y', weight=-2.0), FeatureWeight(feature='x', weight=0.5)]
    """
    found = {}
    for k, label in enumerate(labels):
        order = _strongest(weights[:, k], n)
        pairs = [FeatureWeight(names[i], float(weights[i, k])) for i in order]
        found[label] = pairs
    return found


def strongest_pairs(
    weights: Array, names: Sequence[str | None], labels: Sequence[Any], n: int
) -> list[Transition]:
    """The n weights of the largest size of (columns, labels * labels) ones.

    Examples
    --------
    >>> strongest_pairs(np.array([[0.0, 2.0, -3.0, 0.0]]), [None], ["a", "b"], 1)
    [Transition(before='b', after='a', feature=None, weight=-3.0)]
    """
    shape = (len(weights), len(labels), len(labels))
    places = np.unravel_index(_strongest(weights.ravel(), n), shape)
    return [
        Transition(
            labels[j], labels[k], names[i], float(weights.reshape(shape)[i, j, k])
        )
        for i, j, k in zip(*places, strict=True)
    ]


def _strongest(weights: Array, n: int) -> Any:
    """Places of the n largest sizes that are not zero."""
    sizes = np.abs(weights)
    n = min(n, int(np.count_nonzero(sizes)))
    few = np.argpartition(-sizes, n - 1)[:n] if n else np.empty(0, np.intp)
    return few[np.argsort(-sizes[few], kind="stable")]
