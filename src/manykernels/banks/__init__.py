"""Where kernel values live: linear maps with one block per kernel."""

from manykernels.banks.base import Bank, GramBank
from manykernels.banks.blocks import (
    BlockBank,
    FeatureBlock,
    SparseGramBlock,
)
from manykernels.banks.build import Storage, build_bank
from manykernels.banks.gramfile import GramFileError
from manykernels.banks.ondemand import OnDemandBank
from manykernels.banks.stored import StoredBank

__all__ = [
    "Bank",
    "BlockBank",
    "FeatureBlock",
    "GramBank",
    "GramFileError",
    "OnDemandBank",
    "SparseGramBlock",
    "Storage",
    "StoredBank",
    "build_bank",
]
