"""Dependency trees: sentences, decoder, templates, learning, the parser."""

from manykernels.trees.conllu import (
    Sentence,
    format_conllu,
    parse_conllu,
    read_conllu,
    write_conllu,
)
from manykernels.trees.decoder import (
    TreeDistribution,
    best_tree,
    best_trees,
    tree_cost,
    tree_marginals,
)
from manykernels.trees.learning import TreeLearning
from manykernels.trees.parser import DependencyParser

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
]
