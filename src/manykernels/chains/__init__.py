"""Label sequences: decoder, losses, the online proximal method, labeler, chunks."""

from manykernels.chains.chunks import (
    Chunk,
    Counts,
    Report,
    are_chunks,
    chunk_f1,
    chunk_report,
    chunk_scorer,
    chunks,
    label_report,
)
from manykernels.chains.decoder import (
    Marginals,
    cost_augmented,
    hamming_cost,
    k_best,
    log_partition,
    marginals,
    path_scores,
    viterbi,
)
from manykernels.chains.labeler import SequenceLabeler
from manykernels.chains.losses import CRF, ChainLoss, StructuredHinge
from manykernels.chains.metrics import sequence_accuracy, token_accuracy
from manykernels.chains.online_proximal import OnlineProximal

__all__ = [
    "CRF",
    "ChainLoss",
    "Chunk",
    "Counts",
    "Marginals",
    "OnlineProximal",
    "Report",
    "SequenceLabeler",
    "StructuredHinge",
    "are_chunks",
    "chunk_f1",
    "chunk_report",
    "chunk_scorer",
    "chunks",
    "cost_augmented",
    "hamming_cost",
    "k_best",
    "label_report",
    "log_partition",
    "marginals",
    "path_scores",
    "sequence_accuracy",
    "token_accuracy",
    "viterbi",
]
