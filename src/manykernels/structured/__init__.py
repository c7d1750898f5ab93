"""Structured outputs: label sequences and dependency trees, one online learner."""

from manykernels.structured.conllu import (
    Sentence,
    format_conllu,
    parse_conllu,
    read_conllu,
    write_conllu,
)
from manykernels.structured.decoders import ChainDecoder, TreeDecoder
from manykernels.structured.labeler import SequenceLabeler
from manykernels.structured.online_proximal import OnlineProximal
from manykernels.structured.parser import DependencyParser
from manykernels.structured.sequence_scores import (
    are_chunks,
    chunk_f1,
    chunk_report,
    chunk_scorer,
    chunks,
    label_report,
    sequence_accuracy,
    token_accuracy,
)

__all__ = [
    "ChainDecoder",
    "DependencyParser",
    "OnlineProximal",
    "Sentence",
    "SequenceLabeler",
    "TreeDecoder",
    "are_chunks",
    "chunk_f1",
    "chunk_report",
    "chunk_scorer",
    "chunks",
    "format_conllu",
    "label_report",
    "parse_conllu",
    "read_conllu",
    "sequence_accuracy",
    "token_accuracy",
    "write_conllu",
]
