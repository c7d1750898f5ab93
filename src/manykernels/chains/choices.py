"""From a labeler's parameters to the objects that do the work."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from manykernels.chains.losses import CRF, ChainLoss, StructuredHinge
from manykernels.inputs.parameters import require_number
from manykernels.norms import regularizers as known
from manykernels.norms.regularizers import Regularizer

REGULARIZERS: dict[str, type] = {
    "sparse_mkl": known.SparseMKL,
    "group_lasso": known.GroupLasso,
    "squared_l2": known.SquaredL2,
    "elastic_net": known.ElasticNetMKL,
    "squared_p": known.SquaredPNorm,
    "power": known.PowerNorm,
    "sparse_group_lasso": known.SparseGroupLasso,
}
LOSSES = ("hinge", "crf")
TRANSITIONS = ("fixed", "learned", "none")


def choose_regularizer(regularizer: Any) -> Regularizer:
    """A regularizer by name, or as it is."""
    if isinstance(regularizer, str) and regularizer in REGULARIZERS:
        chosen: Regularizer = REGULARIZERS[regularizer]()
        return chosen
    if isinstance(regularizer, str | type) or not hasattr(regularizer, "terms"):
        raise ValueError(
            f"regularizer must be one of {', '.join(REGULARIZERS)} or a regularizer "
            f"object, got {regularizer!r}; choose one of these."
        )
    return regularizer  # type: ignore[no-any-return]


def choose_chain_loss(loss: Any, cost: Any, n_labels: int) -> ChainLoss:
    """A loss by name; only the hinge knows costs."""
    if loss not in LOSSES:
        raise ValueError(
            f"loss must be one of {', '.join(LOSSES)}, got {loss!r}; choose 'crf' for "
            "probabilities."
        )
    if loss == "crf":
        if cost is not None:
            raise ValueError(
                "cost belongs to loss='hinge', got it with loss='crf'; leave it out."
            )
        return CRF()
    hinge = StructuredHinge(None if cost is None else np.asarray(cost, np.float64))
    hinge.cost_table(n_labels)
    return hinge


def choose_transitions(transitions: Any) -> str:
    """How pairs of neighboring labels are treated."""
    if transitions not in TRANSITIONS:
        raise ValueError(
            f"transitions must be one of {', '.join(TRANSITIONS)}, got "
            f"{transitions!r}; choose 'fixed' if in doubt."
        )
    return str(transitions)


def choose_epochs(max_iter: Any) -> int:
    """Passes over the sequences."""
    whole = isinstance(max_iter, Integral) and not isinstance(max_iter, bool)
    if not (whole and max_iter >= 1):
        raise ValueError(
            f"max_iter must be a positive whole number, got {max_iter!r}; choose for "
            "instance 20."
        )
    return int(max_iter)


def choose_eta0(eta0: Any) -> float | str:
    """A positive number, or "auto"."""
    if isinstance(eta0, str):
        if eta0 != "auto":
            raise ValueError(
                f"eta0 must be a positive number or 'auto', got {eta0!r}; try 0.1."
            )
        return eta0
    return require_number("eta0", eta0, 0.0)
