"""Structured outputs: label sequences and dependency trees, one online learner."""

from manykernels.structured.chain_decoder import (
    Marginals,
    cost_augmented,
    hamming_cost,
    k_best,
    log_partition,
    marginals,
    path_scores,
    viterbi,
)
from manykernels.structured.chain_losses import CRF, ChainLoss, StructuredHinge
from manykernels.structured.chunks import (
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
from manykernels.structured.conllu import (
    Sentence,
    format_conllu,
    parse_conllu,
    read_conllu,
    write_conllu,
)
from manykernels.structured.labeler import SequenceLabeler
from manykernels.structured.online_proximal import OnlineProximal
from manykernels.structured.parser import DependencyParser
from manykernels.structured.sequence_metrics import sequence_accuracy, token_accuracy
from manykernels.structured.tree_decoder import (
    TreeDistribution,
    best_tree,
    best_trees,
    tree_cost,
    tree_marginals,
)
from manykernels.structured.tree_learner import TreeLearning

__all__ = [
    "DependencyParser",
    "Sentence",
    "format_conllu",
    "parse_conllu",
    "read_conllu",
    "TreeDistribution",
    "TreeLearning",
    "best_tree",
    "best_trees",
    "tree_cost",
    "tree_marginals",
    "write_conllu",
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
