"""Label sequences: decoder, losses, the online proximal method, the labeler."""

from manykernels.chains.decoder import (
    Marginals,
    cost_augmented,
    hamming_cost,
    log_partition,
    marginals,
    path_scores,
    viterbi,
)
from manykernels.chains.labeler import SequenceLabeler
from manykernels.chains.losses import CRF, ChainLoss, StructuredHinge
from manykernels.chains.online_proximal import OnlineProximal

__all__ = [
    "CRF",
    "ChainLoss",
    "Marginals",
    "OnlineProximal",
    "SequenceLabeler",
    "StructuredHinge",
    "cost_augmented",
    "hamming_cost",
    "log_partition",
    "marginals",
    "path_scores",
    "viterbi",
]
