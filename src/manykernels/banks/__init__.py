"""Where kernel values live: linear maps with one block per kernel."""

from manykernels.banks.base import Bank
from manykernels.banks.blocks import (
    BlockBank,
    FeatureBlock,
    SparseGramBlock,
)
from manykernels.banks.build import build_bank
from manykernels.banks.gram_bank import GramBank, StoredBank
from manykernels.banks.gramfile import GramFileError
from manykernels.banks.ondemand import OnDemandBank
from manykernels.banks.storage import Storage

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
