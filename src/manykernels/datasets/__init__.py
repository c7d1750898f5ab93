"""Loaders of data to try multiple kernel learning on.

Files are looked for in one folder: the loader's ``data_dir`` argument, else the
environment variable ``MANYKERNELS_DATA``, else the user's cache folder. A missing file
is downloaded into it from its public original.
"""

from manykernels.datasets.mnist import load_mnist
from manykernels.datasets.noisy_digits import load_noisy_digits
from manykernels.datasets.treebanks import load_ud_english_ewt

__all__ = ["load_mnist", "load_noisy_digits", "load_ud_english_ewt"]
