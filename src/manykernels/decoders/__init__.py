"""Best structures and marginals, from the scores of their parts."""

from manykernels.decoders.chain import (
    Marginals,
    cost_augmented,
    hamming_cost,
    log_partition,
    marginals,
    path_scores,
    viterbi,
)
from manykernels.decoders.tree import (
    TreeDistribution,
    best_tree,
    best_trees,
    tree_cost,
    tree_marginals,
)

__all__ = [
    "Marginals",
    "TreeDistribution",
    "best_tree",
    "best_trees",
    "cost_augmented",
    "hamming_cost",
    "log_partition",
    "marginals",
    "path_scores",
    "tree_cost",
    "tree_marginals",
    "viterbi",
]
