"""Loaders for the data sets that only benchmarks read.

Files lie where those of `manykernels.datasets` lie: in the folder ``data_dir``, else in
that of the environment variable ``MANYKERNELS_DATA``, else in the user's cache folder.
A file that is missing is downloaded if there is a public original.
"""

from loaders.multiview import load_multiview
from loaders.ocr import load_ocr_letters
from loaders.uci import load_uci
from loaders.views import load_flowers17, load_mfeat, load_tcga_breast

__all__ = [
    "load_flowers17",
    "load_mfeat",
    "load_multiview",
    "load_ocr_letters",
    "load_tcga_breast",
    "load_uci",
]
