"""Where kernel values live: linear maps with one block per kernel."""

from manykernels.banks.base import Bank
from manykernels.banks.blocks import (
    BlockBank,
    FeatureBlock,
    SparseGramBlock,
)
from manykernels.banks.build import build_bank
from manykernels.banks.gram import GramBank
from manykernels.banks.gramfile import GramFileError
from manykernels.banks.ondemand import OnDemandBank
from manykernels.banks.storage import Storage
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
