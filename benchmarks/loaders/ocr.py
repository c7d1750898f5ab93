"""Handwritten words as sequences of letter images."""

from string import ascii_lowercase

import numpy as np
from sklearn.utils import Bunch

from loaders.files import read_arrays
from manykernels.datasets.download import DataFile, PathLike

OCR_LETTERS = DataFile("ocr_letters/ocr_letters.npz")


def load_ocr_letters(data_dir: PathLike | None = None) -> Bunch:
    """Load 6,877 handwritten words, 52,152 letters of 16 x 8 binary pixels.

    The first (capital) letter of each word is absent, as in the original.

    Parameters
    ----------
    data_dir : path, optional
        Folder of the data files (see `manykernels.datasets`).

    Returns
    -------
    Bunch
        ``data``: list with one (length, 128) float32 array per word; ``target``: list
        with one (length,) int64 array per word, 0 = a to 25 = z; ``fold`` (n_words,):
        cross-validation fold 0-9; ``target_names``, ``feature_names``, ``DESCR``.
    """
    names = ("pixels_packed", "labels", "word_ptr", "fold")
    stored = read_arrays(OCR_LETTERS, names, data_dir)
    pixels = np.unpackbits(stored["pixels_packed"], axis=1).astype(np.float32)
    starts = stored["word_ptr"][1:-1]
    return Bunch(
        data=np.split(pixels, starts),
        target=np.split(stored["labels"].astype(np.int64), starts),
        fold=stored["fold"].astype(np.int64),
        target_names=list(ascii_lowercase),
        feature_names=[f"pixel_{r}_{c}" for r in range(16) for c in range(8)],
        DESCR="Handwritten words of R. Kassel, cleaned by B. Taskar, 26 letters.",
    )
