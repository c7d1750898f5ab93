"""Loaders for the data sets that multiple kernel learning is tried on.

Files are looked for in one folder: the loader's ``data_dir`` argument, else the
environment variable ``MANYKERNELS_DATA``, else the user's cache folder. A file
that is not there is downloaded into it when a public original exists.
"""

from manykernels.datasets.demo import load_noisy_digits
from manykernels.datasets.mnist import load_mnist
from manykernels.datasets.multiview import load_multiview
from manykernels.datasets.ocr import load_ocr_letters
from manykernels.datasets.treebanks import load_ud_english_ewt
from manykernels.datasets.uci import load_uci
from manykernels.datasets.views import load_flowers17, load_mfeat, load_tcga_breast

__all__ = [
    "load_flowers17",
    "load_mfeat",
    "load_mnist",
    "load_multiview",
    "load_noisy_digits",
    "load_ocr_letters",
    "load_tcga_breast",
    "load_uci",
    "load_ud_english_ewt",
]
