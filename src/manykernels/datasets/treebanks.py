"""Treebanks of Universal Dependencies."""

from __future__ import annotations

from sklearn.utils import Bunch

from manykernels.datasets.download import DataFile, PathLike, locate
from manykernels.structured.conllu import read_conllu

EWT_URL = (
    "https://raw.githubusercontent.com/UniversalDependencies/UD_English-EWT/r2.16/"
)
EWT_SHA256 = {
    "train": "3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b",
    "dev": "531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6",
    "test": "e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd",
}
UD_ENGLISH_EWT = {
    part: DataFile(
        f"ud_english_ewt/en_ewt-ud-{part}.conllu.gz",
        (f"{EWT_URL}en_ewt-ud-{part}.conllu",),
        sha256=sha256,
    )
    for part, sha256 in EWT_SHA256.items()
}


def load_ud_english_ewt(data_dir: PathLike | None = None) -> Bunch:
    """Load the English Web Treebank of Universal Dependencies, release 2.16.

    Parameters
    ----------
    data_dir : path, optional
        Folder of the data files (see :mod:`manykernels.datasets`).

    Returns
    -------
    Bunch
        ``train`` (12,544), ``dev`` (2,001) and ``test`` (2,077): lists of `Sentence`;
        ``DESCR``.

    Examples
    --------
    >>> from manykernels.datasets import load_ud_english_ewt
    >>> sum(map(len, load_ud_english_ewt().test))  # doctest: +SKIP
    25094
    """
    parts = {
        part: read_conllu(locate(file, data_dir))
        for part, file in UD_ENGLISH_EWT.items()
    }
    return Bunch(
        **parts,
        DESCR="Universal Dependencies English Web Treebank 2.16, CC BY-SA 4.0.",
    )
